//! Qwen 3 (Yang et al. 2025): LLaMA with an RMS norm on each head's queries and keys.

use super::llama::{self, table};
use super::{Family, HfShape, layer_types, multi_head_mut};
use crate::interop::HfConfig;
use serde_json::Value;

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "qwen3",
    summary: "Qwen 3: LLaMA with normalised queries and keys",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    llama::require_no_biases(hf, &["mlp_bias"]);
    let mut config = llama::config(hf);
    let norm = config.stack.norm.clone();
    let attention = multi_head_mut(&mut config);
    attention.qk_norm = norm;
    attention.d_head = Some(hf.count(&["head_dim"], 128));
    layer_types::set_qwen_windows(hf, &mut config);
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "Qwen3ForCausalLM")?;
    written.as_object_mut()?.shift_remove("mlp_bias");
    let config = of.decoder_if_any()?;
    layer_types::add_windows(&mut written, &config.stack, &config.depth());
    Some(written)
}
