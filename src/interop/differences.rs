//! Differences between two models: the keys in which their canonical forms differ.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::canonical::canonical;
use super::families::HfShape;

/// Keys of heads, and of tables that a run may lengthen.
const HEAD_KEYS: &[&str] = &[
    "max_len",
    "target_max_len",
    "pooler",
    "head_activation",
    "head_transform_bias",
    "head_transform",
    "head_bias",
    "head_scale",
    "head_softcap",
    "tie_embeddings",
    "mask_decoder",
    "segments",
    "vocabulary",
    "owners",
];

/// Keys whose values follow from the number of heads.
const HEAD_COUNT_KEYS: &[&str] = &["n_kv_heads", "d_head", "scale"];

/// Returns the `[model]` keys that say what a network computes, rather than how large its parameters are, and whose values
/// differ between the two models, as `attention.n_heads = 4 (2 here)`. Blocks with the same difference are listed once. Keys
/// of heads are left out.
///
/// If the stacks have different depths, only the layers that both have are compared.
pub fn computation_differences(ours: &HfShape, theirs: &HfShape) -> Vec<String> {
    layer_computation_differences(ours, theirs, &|_, _| None)
}

/// Chooses which layers of the other stack ours are compared with, given the two depths; the first ones if it returns `None`.
pub type ChosenLayers<'a> = &'a dyn Fn(usize, usize) -> Option<Vec<usize>>;

/// [`computation_differences`] of a model whose layers are initialised from chosen layers of the other model.
pub fn layer_computation_differences(
    ours: &HfShape,
    theirs: &HfShape,
    chosen: ChosenLayers,
) -> Vec<String> {
    let (ours, theirs) = common_layers(canonical(ours), canonical(theirs), chosen);
    // Parts of different kinds have different keys: only the difference in kind is reported.
    let comparable = |key: &str| {
        let kind = key.rsplit_once('.').map(|(part, _)| format!("{part}.kind"));
        kind.is_none_or(|kind| key == kind || ours.get(&kind) == theirs.get(&kind))
    };
    let further = theirs.keys().filter(|key| !ours.contains_key(*key));
    let differ = |key: &&String| ours.get(*key) != theirs.get(*key) && comparable(key);
    let keys: Vec<&String> = ours.keys().chain(further).filter(differ).collect();
    let name = |key: &str| {
        let key = key
            .trim_start_matches("model.")
            .trim_start_matches("blocks.");
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        key.trim_start_matches(digits).to_owned()
    };
    let heads = keys.iter().any(|key| key.ends_with("attention.n_heads"));
    let mut found: Vec<String> = Vec::new();
    for key in keys.into_iter().filter(|key| key.starts_with("model.")) {
        let name = name(key);
        let last = name.rsplit('.').next().unwrap_or_default();
        let of_head = name.split('.').any(|part| HEAD_KEYS.contains(&part));
        // These keys follow from the number of heads, whose difference is already reported.
        if of_head || heads && HEAD_COUNT_KEYS.contains(&last) {
            continue;
        }
        let shown = |value: Option<&Value>| value.map_or("none".into(), Value::to_string);
        let difference = format!(
            "{name} = {} ({} here)",
            shown(theirs.get(key)),
            shown(ours.get(key))
        );
        if !found.contains(&difference) {
            found.push(difference);
        }
    }
    found
}

/// The keys of two models, except for layers that one of them lacks; the other model's layers are renumbered as ours.
fn common_layers(
    mut ours: Map<String, Value>,
    theirs: Map<String, Value>,
    chosen: ChosenLayers,
) -> (Map<String, Value>, Map<String, Value>) {
    let (own, other) = (depths(&ours), depths(&theirs));
    let places: BTreeMap<String, Vec<usize>> = own
        .into_iter()
        .filter_map(|(stack, own)| {
            let other = *other.get(&stack)?;
            let first = || (0..own.min(other)).collect();
            Some((stack, chosen(own, other).unwrap_or_else(first)))
        })
        .collect();
    ours.retain(|key, _| {
        let found =
            split_layer_key(key).and_then(|(stack, layer, _)| Some((layer, places.get(stack)?)));
        found.is_none_or(|(layer, places)| layer < places.len())
    });
    let renumbered = theirs.into_iter().filter_map(|(key, value)| {
        let found = split_layer_key(&key).and_then(|place| Some((place, places.get(place.0)?)));
        let Some(((stack, layer, rest), places)) = found else {
            return Some((key, value));
        };
        let own = places.iter().position(|theirs| *theirs == layer)?;
        Some((format!("{stack}.{own}.{rest}"), value))
    });
    let theirs = renumbered.collect();
    (ours, theirs)
}

/// The number of layers in each stack.
fn depths(keys: &Map<String, Value>) -> BTreeMap<String, usize> {
    let mut depths = BTreeMap::new();
    for (stack, layer, _) in keys.keys().filter_map(|key| split_layer_key(key)) {
        let depth = depths.entry(stack.to_owned()).or_insert(0);
        *depth = (*depth).max(layer + 1);
    }
    depths
}

/// Splits the key of a layer into its stack, its number and the rest: `model.blocks.0`, 3, `attention.n_heads`.
fn split_layer_key(key: &str) -> Option<(&str, usize, &str)> {
    const BLOCKS: &str = "blocks.";
    let at = key.find(BLOCKS)? + BLOCKS.len();
    let (stack, rest) = key[at..].split_once('.')?;
    let (layer, rest) = rest.split_once('.')?;
    Some((&key[..at + stack.len()], layer.parse().ok()?, rest))
}

/// Whether a difference from [`differences`] is about this table or key of the model, in one block or in all.
pub(super) fn is_about(difference: &str, table: &str) -> bool {
    let key = difference.split(' ').next().unwrap_or_default();
    let key = split_layer_key(key).map_or(key, |(_, _, rest)| rest);
    let [key, table] = [key, table].map(|key| key.strip_prefix("model.").unwrap_or(key));
    let rest = key.strip_prefix(table);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Describes every key whose value differs between `ours` and `theirs`, or which only one of them has. `task` is the name
/// used for the kind of our task.
pub(super) fn differences(ours: &HfShape, theirs: &HfShape, task: &str) -> Vec<String> {
    let (ours, theirs) = (canonical(ours), canonical(theirs));
    let shown = |value: Option<&Value>| value.map_or("absent".into(), Value::to_string);
    let keys = ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
    keys.filter(|key| ours.get(*key) != theirs.get(*key))
        .map(|key| {
            let own = match key.as_str() {
                "task.kind" => format!("{task:?}"),
                _ => shown(ours.get(key)),
            };
            format!("{key} is {own} instead of {}", shown(theirs.get(key)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::common_layers;
    use serde_json::{Map, Value, json};

    /// The keys of one stack whose layers have these numbers of heads.
    fn keys(heads: &[u64]) -> Map<String, Value> {
        let key = |layer| format!("model.blocks.0.{layer}.attention.n_heads");
        let all = heads.iter().enumerate();
        let mut keys: Map<_, _> = all.map(|(layer, n)| (key(layer), json!(n))).collect();
        keys.insert("model.d_model".into(), json!(8));
        keys
    }

    #[test]
    fn layers_that_both_have_are_compared() {
        let common = |ours: &[u64], theirs: &[u64], chosen: Option<Vec<usize>>| {
            common_layers(keys(ours), keys(theirs), &|_, _| chosen.clone())
        };
        assert_eq!(
            common(&[1, 3], &[1, 2, 3, 4], Some(vec![0, 2])),
            (keys(&[1, 3]), keys(&[1, 3]))
        );
        assert_eq!(
            common(&[1, 3], &[1, 2, 3, 4], None),
            (keys(&[1, 3]), keys(&[1, 2]))
        );
        assert_eq!(common(&[1, 2, 3], &[1], None), (keys(&[1]), keys(&[1])));
    }
}
