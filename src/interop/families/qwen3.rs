//! Qwen 3 (Yang et al. 2025): LLaMA with an RMS norm on each head's queries and keys.

use super::llama::{self, table};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::nn::attention::AttentionConfig;

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "qwen3",
    summary: "Qwen 3: LLaMA with normalised queries and keys",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    hf.only("use_sliding_window", false);
    let mut shape = llama::read(hf);
    let AttentionConfig::MultiHead(attention) = &mut shape.config.stack.attention else {
        unreachable!("the family it builds on has multi-head attention")
    };
    attention.qk_norm = shape.config.stack.norm.clone();
    attention.d_head = Some(hf.count(&["head_dim"], 128));
    shape
}
