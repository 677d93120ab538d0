//! Qwen 2 and 2.5 (Yang et al. 2024): LLaMA with biases on queries, keys and values.

use super::llama::{self, table};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::nn::attention::AttentionConfig;

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "qwen2",
    summary: "Qwen 2: LLaMA with biases on queries, keys and values",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("use_sliding_window", false);
    let mut shape = llama::read(hf);
    let AttentionConfig::MultiHead(attention) = &mut shape.config.stack.attention else {
        unreachable!("the family it builds on has multi-head attention")
    };
    attention.bias = true;
    attention.out_bias = Some(false);
    shape
}
