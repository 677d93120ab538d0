//! Building blocks of transformers: norms, activations, feed-forward layers, attention, positions, embeddings.
//!
//! Each part consists of a config (plain data that rejects unknown keys) and a Burn module, and depends on no other part's
//! internals. No part does I/O or knows a loss. Families (norms, positions …) are enums that own the parameters and expose the
//! behaviour of their variant as one trait object.

pub mod attention;
pub mod bounds;
pub mod branches;
pub mod channel_norm;
pub mod convolution;
pub mod earlier;
pub mod embed;
pub mod feed_forward;
pub mod first_values;
pub mod init;
pub mod layer;
pub mod linear;
pub mod neighbours;
pub mod norm;
pub mod padding;
pub mod pass;
pub mod path;
pub mod position;
pub mod probe;
pub mod record;
pub mod recurrent;
pub mod role;
pub mod state;
pub mod token_shift;
pub mod vocabulary;

pub use crate::kind::Kind;
use role::Roles;

/// Roles of the parameters of all parts.
pub const ROLES: &[Roles] = &[
    attention::adaptive_span::ROLES,
    attention::differential::ROLES,
    attention::linformer::ROLES,
    attention::memory_compressed::ROLES,
    attention::multi_head::ROLES,
    channel_norm::ROLES,
    channel_norm::GROUPNORM_ROLES,
    convolution::ROLES,
    embed::ROLES,
    feed_forward::moe::ROLES,
    feed_forward::moe::experts::ROLES,
    linear::ROLES,
    norm::dynamic_tanh::ROLES,
    norm::layer::ROLES,
    norm::rms::ROLES,
    norm::scale::ROLES,
    position::axial::ROLES,
    position::disentangled::ROLES,
    position::fire::ROLES,
    position::kerple::LOG_ROLES,
    position::kerple::POWER_ROLES,
    position::learned::ROLES,
    position::learned_2d::ROLES,
    position::learned_per_layer::ROLES,
    position::relative_bias::ROLES,
    position::relative_bias_2d::ROLES,
    position::shaw::ROLES,
    position::transformer_xl::ROLES,
    recurrent::ROLES,
    recurrent::additive::ROLES,
    recurrent::gated_delta::ROLES,
    recurrent::gated_delta::DECAY_ROLES,
    recurrent::mamba::ROLES,
    recurrent::mamba2::ROLES,
    recurrent::rwkv::ROLES,
    recurrent::rwkv7::ROLES,
    token_shift::ROLES,
    vocabulary::adaptive_embedding::ROLES,
    vocabulary::adaptive_embedding::PROJECTION_ROLES,
    vocabulary::adaptive_head::ROLES,
];
