//! Windows of Longformer and LED in Hugging Face's form: `attention_window` is the number of neighbours on both sides
//! together, one value or one per layer.

use crate::interop::HfConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::global_tokens::Global;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::attention::sliding_window::SlidingWindowConfig;
use crate::nn::feed_forward::FeedForwardConfig;
use crate::stack::{Depth, LayerGroup, StackConfig};
use serde_json::Value;

/// The number of keys on one side of a query, including its own, in each of `layers` layers.
pub(super) fn read(hf: &HfConfig, layers: usize) -> Vec<usize> {
    let whole = |value: &Value| value.as_u64().filter(|w| *w > 0 && w.is_multiple_of(2));
    let windows = match hf.get("attention_window") {
        None => Some(vec![512; layers]),
        Some(Value::Array(list)) => list.iter().map(whole).collect(),
        Some(one) => whole(one).map(|w| vec![w; layers]),
    };
    match windows.filter(|windows| windows.len() == layers) {
        Some(windows) => windows.into_iter().map(|w| w as usize / 2 + 1).collect(),
        None => {
            hf.fault(format!(
                "`attention_window` must be an even number above 0, or one for each of the {layers} layers"
            ));
            vec![1; layers]
        }
    }
}

/// Attention to `window` keys on each side and to global tokens.
pub(super) fn attention(heads: &MultiHeadConfig, window: usize) -> AttentionConfig {
    AttentionConfig::SlidingWindow(SlidingWindowConfig {
        global: Some(Global::Own),
        ..SlidingWindowConfig::with_window(heads.clone(), window)
    })
}

/// The layer groups with these windows; neighbours with equal windows form a group.
pub(super) fn groups(
    heads: &MultiHeadConfig,
    feed_forward: &FeedForwardConfig,
    windows: &[usize],
) -> Vec<LayerGroup> {
    let alike = windows.chunk_by(|a, b| a == b);
    let group = |run: &[usize]| LayerGroup {
        repeat: run.len(),
        attention: Some(attention(heads, run[0])),
        feed_forward: Some(feed_forward.clone()),
        ..LayerGroup::default()
    };
    alike.map(group).collect()
}

/// The `attention_window` of a stack; `None` if some layer does not have Longformer's attention.
pub(super) fn write_windows(stack: &StackConfig, depth: &Depth) -> Option<Vec<usize>> {
    let of_block = |attention: Option<&AttentionConfig>| match attention? {
        AttentionConfig::SlidingWindow(c)
            if c.global == Some(Global::Own) && c.dilation.is_none() && c.window > 1 =>
        {
            Some(2 * (c.window - 1))
        }
        _ => None,
    };
    stack
        .blocks(depth)
        .map(|block| of_block(block.attention))
        .collect()
}
