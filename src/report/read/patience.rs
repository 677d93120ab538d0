//! Whether early stopping ended a run. The scores of its end say so, and others than the run itself write such scores (`eval`):
//! its newest checkpoint says how many evaluations it has waited for.

use std::path::Path;

use serde_json::{Map, Value};

use crate::files;
use crate::train::checkpoint;
use crate::train::run_dir::steps_of;

/// Bytes of a checkpoint's state at most.
const MOST: u64 = 64 << 20;

/// The bookkeeping of the newest checkpoint of a run, with its step; none where there is no such file.
pub fn newest_state(run: &Path) -> Option<(u64, Map<String, Value>)> {
    let newest = checkpoint::steps(run).pop()?;
    let path = steps_of(run).join(checkpoint::name(newest));
    let (text, _) = files::read_plain(&path.join("state.json"), MOST).ok()?;
    Some((newest, serde_json::from_str(&text).unwrap_or_default()))
}

/// Whether a run has waited for as many evaluations as its patience allows. Where no checkpoint tells, its scores decide.
pub fn is_out(run: &Path, patience: u64) -> bool {
    let waited = newest_state(run).and_then(|(_, state)| {
        let waited = state.get("evaluations_without_improvement")?;
        waited.as_u64()
    });
    waited.is_none_or(|waited| waited >= patience)
}
