//! Mistral (Jiang et al. 2023): LLaMA with grouped queries. In early releases every layer attends to a sliding window of
//! `sliding_window` keys, the query's own position among them; later ones have none.

use super::llama::{self, table};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::sliding_window::SlidingWindowConfig;

/// Its row of the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mistral",
    summary: "Mistral: LLaMA with grouped queries, in early releases over a sliding window",
    read,
    table,
};

fn read(hf: &HfConfig) -> HfShape {
    let mut shape = llama::read(hf);
    if let Some(window) = hf.count_if_any(&["sliding_window"]) {
        let attention = &mut shape.config.stack.attention;
        *attention =
            AttentionConfig::SlidingWindow(SlidingWindowConfig::of(attention.heads(), window));
    }
    shape
}
