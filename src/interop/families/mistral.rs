//! Mistral (Jiang et al. 2023): LLaMA with grouped queries. In early releases every layer attends to a sliding window of
//! `sliding_window` keys, including the query's own position; later releases have no window.

use super::llama::{self, table};
use super::{Family, HfShape};
use crate::interop::HfConfig;
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::sliding_window::SlidingWindowConfig;
use serde_json::{Value, json};

/// This family's entry in the table of architectures.
pub const FAMILY: Family = Family {
    model_type: "mistral",
    summary: "Mistral: LLaMA with grouped queries, in early releases with a sliding window",
    read,
    write,
    table,
    declined: None,
};

fn read(hf: &HfConfig) -> HfShape {
    llama::require_no_biases(hf, &["attention_bias", "mlp_bias"]);
    llama::shape(hf, windowed(hf, llama::config(hf)))
}

/// Sets the file's sliding window on every layer, if it has one.
pub(super) fn windowed(hf: &HfConfig, mut config: DecoderConfig) -> DecoderConfig {
    if let Some(window) = hf.count_if_any(&["sliding_window"]) {
        let attention = &mut config.stack.attention;
        *attention = AttentionConfig::SlidingWindow(SlidingWindowConfig::with_window(
            attention.heads(),
            window,
        ));
    }
    config
}

fn write(of: &HfShape) -> Option<Value> {
    let mut written = llama::write_as(of, "MistralForCausalLM")?;
    let keys = written.as_object_mut()?;
    for key in ["attention_bias", "mlp_bias"] {
        keys.shift_remove(key);
    }
    written["sliding_window"] = json!(llama::window(of));
    Some(written)
}
