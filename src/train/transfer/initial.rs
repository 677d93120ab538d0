//! The initial weights of a run, as the run records them.

use serde::{Deserialize, Serialize};

/// File that records the checkpoints that a run began from.
pub const INIT: &str = "init.json";

/// The keys that determine the initial weights: a run with a checkpoint has already used them, and one without still
/// follows them.
const INITIAL_WEIGHT_KEYS: [&str; 8] = [
    "init.from",
    "init.checkpoint",
    "init.layers",
    "init.new",
    "init.skip",
    "init.resample",
    "init.resample_antialias",
    "init.repeat",
];

/// Returns whether a key is one of those, for the whole model or one of its networks.
pub fn is_initial_weight_key(key: &str) -> bool {
    let of_part = ["init.image.", "init.text."];
    INITIAL_WEIGHT_KEYS.contains(&key) || of_part.iter().any(|table| key.starts_with(table))
}

/// A checkpoint of another run that a run began from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialCheckpoint {
    /// Key that names the run: `init.from`, `init.image.from` or `init.text.from`.
    pub key: String,
    /// Folder of the run; in the file it is relative to this run's folder if the experiment names a relative one.
    pub run: String,
    /// Whether the key names an arm of a sweep, of which this is the run with the same seed.
    pub of_seed: bool,
    /// Checkpoint that was requested: `best`, `latest` or a step.
    pub checkpoint: String,
    /// Step of the checkpoint.
    pub step: u64,
    /// SHA-256 of its weight file, in hexadecimal.
    pub sha256: String,
    /// Whether these weights had adapters, which were merged into them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}
