//! Qwen 2 and 2.5 (Yang et al. 2024): LLaMA with biases on queries, keys and values.

use super::llama::{self, table};
use super::{Family, HfShape, layer_types, multi_head_mut};
use crate::interop::HfConfig;
use serde_json::Value;

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "qwen2",
    summary: "Qwen 2: LLaMA with biases on queries, keys and values",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    llama::require_no_biases(hf, &["mlp_bias"]);
    let mut config = llama::config(hf);
    let attention = multi_head_mut(&mut config);
    attention.bias = true;
    attention.out_bias = Some(false);
    layer_types::set_qwen_windows(hf, &mut config);
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "Qwen2ForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["attention_bias", "mlp_bias"] {
        keys.shift_remove(key);
    }
    llama::remove_default_head_dim(&mut written);
    let config = of.decoder_if_any()?;
    layer_types::add_windows(&mut written, &config.stack, &config.depth());
    Some(written)
}
