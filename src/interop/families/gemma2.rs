//! Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with norms before and after its layers, a sliding window in every
//! other layer, and soft caps on attention scores and logits.

use super::gemma::{self, Defaults};
use super::{Family, HfShape, layer_types};
use crate::interop::HfConfig;
use crate::interop::hf_rotary::WHOLE_HEADS;
use crate::model::DecoderConfig;
use crate::nn::norm::NormConfig;
use crate::nn::position::PositionConfig;
use crate::stack::NormPlacement;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "gemma2",
    summary: "Gemma 2: sandwich norms, sliding windows in every other layer, soft-capped scores",
    read,
    write,
    table: gemma::sandwiched,
    declined: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab: 256_000,
    width: 2304,
    layers: 26,
    heads: [8, 4],
    d_ff: 9216,
    context: 8192,
};

fn read(hf: &HfConfig) -> HfShape {
    let mut config = config(hf, &DEFAULTS, NormConfig::none(), [Some(30.0), Some(50.0)]);
    let context = hf.count(&["max_position_embeddings"], DEFAULTS.context);
    config.stack.position = PositionConfig::Rotary(hf.rotary(WHOLE_HEADS, context));
    let sliding = layer_types::sliding(hf, config.n_layers(), |layer| layer % 2 == 0);
    let window = window(hf);
    config.layers = layer_types::windowed_groups(&mut config.stack, &sliding, window, None);
    gemma::shape(hf, &DEFAULTS, config)
}

/// The config of Gemma 2 and 3: norms on both sides, the factor on attention scores, and the soft caps of logits (`head`)
/// and of attention (`scores`).
pub(super) fn config(
    hf: &HfConfig,
    usual: &Defaults,
    qk_norm: NormConfig,
    [head, scores]: [Option<f64>; 2],
) -> DecoderConfig {
    let activation = hf.activation("hidden_activation", "gelu_pytorch_tanh");
    // Files of the first versions also have this key; the class ignores it.
    hf.get("hidden_act");
    let mut config = gemma::config(hf, usual, activation);
    config.stack.norm_placement = NormPlacement::Sandwich;
    config.head_softcap = cap(hf, "final_logit_softcapping", head);
    let attention = super::multi_head_mut(&mut config);
    attention.softcap = cap(hf, "attn_logit_softcapping", scores);
    attention.scale = Some(1.0 / hf.real("query_pre_attn_scalar", 256.0).sqrt());
    attention.qk_norm = qk_norm;
    config
}

/// The number of keys that layers with a window attend to.
pub(super) fn window(hf: &HfConfig) -> usize {
    hf.count(&["sliding_window"], 4096)
}

/// The soft cap in a key; the default if the key is absent, and none if it is null.
fn cap(hf: &HfConfig, key: &str, usual: Option<f64>) -> Option<f64> {
    if hf.is_null(key) {
        return None;
    }
    match hf.get(key) {
        Some(_) => Some(hf.real(key, 1.0)),
        None => usual,
    }
}

fn write(of: &HfShape) -> Option<Value> {
    written(of, "Gemma2ForCausalLM")
}

/// The keys of Gemma 2 and 3, except for the latter's positions.
pub(super) fn written(of: &HfShape, class: &str) -> Option<Value> {
    let config = of.decoder_if_any()?;
    let heads = config.stack.attention_of(&config.depth()).heads();
    let (types, window) = layer_types::write_layer_types(&config.stack, &config.depth())?;
    let mut written = gemma::written(of, class, "hidden_activation")?;
    let scale = heads.scale?;
    let scalar = (1.0 / (scale * scale) * 1e6).round() / 1e6;
    written["query_pre_attn_scalar"] = match scalar.fract() == 0.0 {
        true => json!(scalar as u64),
        false => json!(scalar),
    };
    written["attn_logit_softcapping"] = json!(heads.softcap);
    written["final_logit_softcapping"] = json!(config.head_softcap);
    written["sliding_window"] = json!(window.unwrap_or(4096));
    written["layer_types"] = types;
    Some(written)
}
