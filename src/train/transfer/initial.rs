//! The weights that a run began from, as the run writes them down.

use serde::{Deserialize, Serialize};

/// The file that holds them, of a run that began from another one.
pub const INIT: &str = "init.json";

/// The keys of the first weights: a run that has begun took them, and one without a checkpoint is what they say.
const BEGINNING: [&str; 8] = [
    "init.from",
    "init.checkpoint",
    "init.layers",
    "init.new",
    "init.skip",
    "init.resample",
    "init.resample_antialias",
    "init.repeat",
];

/// Whether a key is one of those, of the whole model or of one of its networks.
pub fn begins(key: &str) -> bool {
    let of_part = ["init.image.", "init.text."];
    BEGINNING.contains(&key) || of_part.iter().any(|table| key.starts_with(table))
}

/// A checkpoint of another run, which a run began from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialCheckpoint {
    /// The key that names the run: `init.from`, `init.image.from` or `init.text.from`.
    pub key: String,
    /// The folder of the run; in the file it leads from the run's own folder where the experiment names a relative one.
    pub run: String,
    /// Whether the key names the runs of an arm, of which this is the one with the same seed.
    pub of_seed: bool,
    /// The checkpoint that was asked for: `best`, `latest` or a step.
    pub checkpoint: String,
    /// Its step.
    pub step: u64,
    /// SHA-256 of its file of weights, in hexadecimal.
    pub sha256: String,
    /// Whether these weights had adapters, which were merged into them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}
