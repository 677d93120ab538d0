//! Qwen 2 and 2.5 (Yang et al. 2024): LLaMA with biases on queries, keys and values.

use super::layer_types::without_windows;
use super::llama::{self, table};
use super::{Family, HfShape, heads};
use crate::interop::HfConfig;
use serde_json::{Value, json};

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "qwen2",
    summary: "Qwen 2: LLaMA with biases on queries, keys and values",
    read,
    write,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    without_windows(hf);
    let mut config = llama::config(hf);
    let attention = heads(&mut config);
    attention.bias = true;
    attention.out_bias = Some(false);
    llama::shape(hf, config)
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "Qwen2ForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["attention_bias", "mlp_bias", "head_dim"] {
        keys.shift_remove(key);
    }
    written["use_sliding_window"] = json!(false);
    Some(written)
}
