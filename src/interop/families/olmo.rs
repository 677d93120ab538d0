//! OLMo (Groeneveld et al. 2024, arXiv:2402.00838): LLaMA with layer norms without parameters, and clipped queries, keys and
//! values.

use super::llama;
use super::{Family, HfShape, multi_head_mut};
use crate::interop::HfConfig;
use crate::nn::norm::{LayerNormConfig, NormConfig};
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "olmo",
    summary: "OLMo: LLaMA with layer norms without parameters",
    read,
    write,
    table: llama::table,
    declined: None,
};

/// The epsilon of norms, which the class fixes.
const EPS: f64 = 1e-5;

fn read(hf: &HfConfig) -> HfShape {
    llama::require_no_biases(hf, &["mlp_bias"]);
    let mut config = llama::config(hf);
    config.stack.norm = NormConfig::Layer(LayerNormConfig {
        eps: EPS,
        bias: false,
        gain: false,
    });
    multi_head_mut(&mut config).clip = hf.clip("clip_qkv");
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "OlmoForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["mlp_bias", "rms_norm_eps"] {
        keys.shift_remove(key);
    }
    llama::remove_default_head_dim(&mut written);
    let attention = of.decoder_if_any()?.stack.attention.heads();
    written["clip_qkv"] = json!(attention.clip);
    Some(written)
}
