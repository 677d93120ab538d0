//! The parts of a transformer: norms, activations, feed-forward layers, attention, positions, embeddings.
//!
//! A part is a config (plain data, strict), a Burn module, and nothing else's code. No part does I/O or
//! knows a loss. Families (norms, positions …) are enums that own the parameters and hand out one trait
//! object that acts.

pub mod attention;
pub mod channel_norm;
pub mod convolution;
pub mod embed;
pub mod feed_forward;
pub mod init;
pub mod layer;
pub mod linear;
pub mod norm;
pub mod pass;
pub mod path;
pub mod position;
pub mod probe;
pub mod recurrent;
pub mod state;

pub use crate::kind::Kind;
