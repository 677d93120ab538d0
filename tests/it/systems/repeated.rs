//! Groups of layers that a preset repeats to its end, of which a small system has only the first ones.

use serde_json::Value;
use std::collections::BTreeMap;

/// Number of layer groups in a list of leaves.
fn groups(leaves: &BTreeMap<String, Value>) -> usize {
    let number = |key: &String| {
        let key = key.strip_prefix("layers.")?;
        key.split('.').next()?.parse::<usize>().ok()
    };
    leaves
        .keys()
        .filter_map(number)
        .max()
        .map_or(0, |last| last + 1)
}

/// Whether a preset's key belongs to a group that `own` lacks and repeats the value of one of the groups that it has.
pub fn is(key: &str, preset: &BTreeMap<String, Value>, own: &BTreeMap<String, Value>) -> bool {
    let kept = groups(own);
    let again = || {
        let (number, rest) = key.strip_prefix("layers.")?.split_once('.')?;
        let group = number
            .parse::<usize>()
            .ok()
            .filter(|group| *group >= kept)?;
        let first = preset.get(&format!("layers.{}.{rest}", group.checked_rem(kept)?))?;
        Some(preset.get(key) == Some(first))
    };
    again() == Some(true)
}
