//! Layers of different kinds in Hugging Face's form: a list with the kind of each layer.

use crate::interop::HfConfig;
use crate::model::DecoderConfig;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::sliding_window::SlidingWindowConfig;
use crate::nn::position::PositionConfig;
use crate::stack::{Depth, LayerGroup, StackConfig};
use serde_json::{Value, json};

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// Whether each of `layers` layers has a sliding window: by `layer_types`, or else by `usual` of its index, counted from 0.
pub(super) fn sliding(hf: &HfConfig, layers: usize, usual: impl Fn(usize) -> bool) -> Vec<bool> {
    let Some(list) = hf.get("layer_types") else {
        return (0..layers).map(usual).collect();
    };
    let of = |kind: &Value| match kind.as_str()? {
        SLIDING => Some(true),
        FULL => Some(false),
        _ => None,
    };
    let kinds: Option<Vec<bool>> = list
        .as_array()
        .and_then(|list| list.iter().map(of).collect());
    match kinds.filter(|kinds| kinds.len() == layers) {
        Some(kinds) => kinds,
        None => {
            hf.fault(format!(
                "`layer_types` must be a list of \"{FULL}\" and \"{SLIDING}\", one for each of the {layers} layers"
            ));
            vec![false; layers]
        }
    }
}

/// The window of a model that may have none: `sliding_window`, or the class's default `usual`, if `use_sliding_window` is
/// true. It is a fault if `layer_types` names sliding layers but there is no window.
pub(super) fn window_if_used(hf: &HfConfig, usual: Option<usize>) -> Option<usize> {
    let used = hf.flag("use_sliding_window", false) && !hf.is_null("sliding_window");
    let window = match used {
        true => hf.count_if_any(&["sliding_window"]).or(usual),
        false => None,
    };
    if window.is_none() {
        without_windows(hf);
    }
    window
}

/// Sets the windows of a Qwen model: on the layers that `layer_types` names, or on those from index `max_window_layers` on.
pub(super) fn set_qwen_windows(hf: &HfConfig, config: &mut DecoderConfig) {
    // The key has no effect if there are no windows.
    hf.get("max_window_layers");
    if let Some(window) = window_if_used(hf, Some(4096)) {
        let first = hf.typed("max_window_layers", "a number of layers", Value::as_u64);
        let first = usize::try_from(first.unwrap_or(28)).unwrap_or(usize::MAX);
        let sliding = sliding(hf, config.n_layers(), |layer| layer >= first);
        config.layers = windowed_groups(&mut config.stack, &sliding, window, None);
    }
}

/// Adds the keys of windows, for classes whose models need not have any.
pub(super) fn add_windows(keys: &mut Value, stack: &StackConfig, depth: &Depth) {
    let (types, window) = write_layer_types(stack, depth).unwrap_or_default();
    keys["use_sliding_window"] = json!(window.is_some());
    if window.is_some() {
        keys["sliding_window"] = json!(window);
        keys["layer_types"] = types;
    }
}

/// Reports a fault if layers have sliding windows but the window's size is missing or not enabled.
fn without_windows(hf: &HfConfig) {
    hf.get("sliding_window");
    let kinds = hf.typed("layer_types", "a list", Value::as_array);
    let other = kinds.and_then(|kinds| kinds.iter().find(|kind| *kind != FULL));
    if let Some(other) = other {
        hf.fault(format!(
            "`layer_types` has {other}; without `use_sliding_window` = true and a `sliding_window`, every layer must be \"{FULL}\""
        ));
    }
}

/// The `layer_types` of a stack, and the window of its first layer that has one; `None` if some layer has neither multi-head
/// attention nor a sliding window.
pub(super) fn write_layer_types(
    stack: &StackConfig,
    depth: &Depth,
) -> Option<(Value, Option<usize>)> {
    let of_block = |attention: Option<&AttentionConfig>| match attention? {
        AttentionConfig::MultiHead(_) => Some(None),
        AttentionConfig::SlidingWindow(c) => Some(Some(c.window)),
        _ => None,
    };
    let blocks = stack.blocks(depth);
    let windows: Option<Vec<_>> = blocks.map(|block| of_block(block.attention)).collect();
    let windows = windows?;
    let name = |window: &Option<usize>| window.map_or(FULL, |_| SLIDING);
    let names: Vec<&str> = windows.iter().map(name).collect();
    Some((json!(names), windows.into_iter().flatten().next()))
}

/// The layer groups of a stack whose `sliding` layers have a window of `window` keys on one side and, if given, the position
/// scheme `local` instead of the stack's. Empty if all layers are alike, which the stack itself expresses.
pub(super) fn windowed_groups(
    stack: &mut StackConfig,
    sliding: &[bool],
    window: usize,
    local: Option<PositionConfig>,
) -> Vec<LayerGroup> {
    let windowed = SlidingWindowConfig::with_window(stack.attention.heads(), window);
    let windowed = AttentionConfig::SlidingWindow(windowed);
    match (period(sliding), &local) {
        ([false], _) => Vec::new(),
        ([true], None) => {
            stack.attention = windowed;
            Vec::new()
        }
        _ => {
            let full = std::mem::take(&mut stack.attention);
            let feed_forward = std::mem::take(&mut stack.feed_forward);
            groups(sliding, |sliding| LayerGroup {
                attention: Some(if *sliding { &windowed } else { &full }.clone()),
                position: local.clone().filter(|_| *sliding),
                feed_forward: Some(feed_forward.clone()),
                ..LayerGroup::default()
            })
        }
    }
}

/// The shortest groups of blocks whose repetition gives a list of layers; equal neighbours are merged into one group.
pub(super) fn groups<T: PartialEq>(all: &[T], of: impl Fn(&T) -> LayerGroup) -> Vec<LayerGroup> {
    let alike = period(all).chunk_by(|a, b| a == b);
    let group = |run: &[T]| LayerGroup {
        repeat: run.len(),
        ..of(&run[0])
    };
    alike.map(group).collect()
}

/// The shortest prefix of a list whose repetition gives the list.
pub(super) fn period<T: PartialEq>(all: &[T]) -> &[T] {
    let repeats = |length: &usize| {
        all.len().is_multiple_of(*length) && all.chunks(*length).all(|part| *part == all[..*length])
    };
    let length = (1..=all.len()).find(repeats).unwrap_or(all.len());
    &all[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_layers_are_the_shortest_groups() {
        let repeats = |list: &[bool]| -> Vec<usize> {
            let groups = groups(list, |_| LayerGroup::default());
            groups.iter().map(|group| group.repeat).collect()
        };
        let five_and_one = [true, true, true, true, true, false];
        assert_eq!(repeats(&five_and_one.repeat(2)), [5, 1]);
        let cut = [&five_and_one[..], &[true, true]].concat();
        assert_eq!(repeats(&cut), [5, 1, 2]);
        assert_eq!(repeats(&[false; 4]), [1]);
        assert!(repeats(&[]).is_empty());
    }
}
