//! How two models differ: in the keys of their canonical form.

use serde_json::Value;

use super::canonical::canonical;
use super::families::HfShape;

/// Keys of heads, and of tables that a run may lengthen.
const OF_HEADS: &[&str] = &[
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

/// What follows from the number of heads.
const OF_N_HEADS: &[&str] = &["n_kv_heads", "d_head", "scale"];

/// Keys of `[model]` that say what a network computes and not how large its parameters are, and that two models have other
/// values of: `attention.n_heads = 4 (2 here)`, of equal blocks once. Keys of heads are none of them.
pub fn other_computations(ours: &HfShape, theirs: &HfShape) -> Vec<String> {
    let (ours, theirs) = (canonical(ours), canonical(theirs));
    // Parts of other kinds have other keys: their kind is said alone.
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
        let of_head = name.split('.').any(|part| OF_HEADS.contains(&part));
        // The number of heads says these too.
        if of_head || heads && OF_N_HEADS.contains(&last) {
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

/// The keys of `ours` that `theirs` has another value of, and those that one of them lacks.
pub(super) fn differences(ours: &HfShape, theirs: &HfShape) -> Vec<String> {
    let (ours, theirs) = (canonical(ours), canonical(theirs));
    let shown = |value: Option<&Value>| value.map_or("absent".into(), Value::to_string);
    let keys = ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
    keys.filter(|key| ours.get(*key) != theirs.get(*key))
        .map(|key| {
            let (ours, theirs) = (shown(ours.get(key)), shown(theirs.get(key)));
            format!("{key} is {ours}, there {theirs}")
        })
        .collect()
}
