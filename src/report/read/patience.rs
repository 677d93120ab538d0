//! Determines whether early stopping ended a run. Final scores alone do not prove it, because `eval` writes such scores too; the
//! newest checkpoint records the number of evaluations without improvement.

use std::path::Path;

use serde_json::{Map, Value};

use crate::files;
use crate::train::checkpoint;
use crate::train::run_dir::checkpoints_folder;

/// Maximum size of a checkpoint's `state.json` in bytes.
const MOST: u64 = 64 << 20;

/// Returns the step and the `state.json` of a run's newest checkpoint; `None` if there is no such file.
pub fn newest_state(run: &Path) -> Option<(u64, Map<String, Value>)> {
    let newest = checkpoint::steps(run).pop()?;
    let path = checkpoints_folder(run).join(checkpoint::folder_name(newest));
    let (text, _) = files::read_plain(&path.join("state.json"), MOST).ok()?;
    Some((newest, serde_json::from_str(&text).unwrap_or_default()))
}

/// Whether a run has used up its patience. Without a checkpoint that records it, this is true and the scores decide.
pub fn is_used_up(run: &Path, patience: u64) -> bool {
    let waited = newest_state(run).and_then(|(_, state)| {
        let waited = state.get("evaluations_without_improvement")?;
        waited.as_u64()
    });
    waited.is_none_or(|waited| waited >= patience)
}
