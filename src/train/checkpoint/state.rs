//! The bookkeeping of a run besides weights and moments.
//!
//! Data order, windows, dropout and learning rate are functions of the step, so the step number restores all of them.
//! The rest is bookkeeping that journal lines and decisions depend on; doubles are written as text that reads back to
//! the same bits.

use crate::one_table::is_usual;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// Optimizer steps done.
    pub step: u64,
    /// Tokens or images seen.
    pub items_seen: u64,
    /// The best evaluation so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// Number of evaluations since then.
    pub evaluations_without_improvement: u64,
    /// Whether the part of the validation split that evaluations read (`eval_batches`) is drawn at random. Runs of
    /// earlier versions read its first batches, and continue to do so.
    #[serde(skip_serializing_if = "is_usual")]
    pub drawn_part: bool,
    /// Whether the evaluation of this step was interrupted: it is repeated before the next step.
    pub evaluation_due: bool,
    /// Whether no checkpoint was due at this step: it exists only for resuming, and is deleted after the next one.
    #[serde(skip_serializing_if = "is_usual")]
    pub interim: bool,
    /// Sums for the journal line that is not written yet.
    pub window: Window,
    /// Running mean of the loss that spikes are measured against.
    #[serde(with = "exact_option", skip_serializing_if = "Option::is_none")]
    pub mean_loss: Option<f64>,
    /// Steps skipped because their loss was not finite or a spike.
    pub skipped_steps: u64,
    /// Steps skipped since the last one that was taken.
    pub skipped_in_a_row: u64,
    /// Length of metrics.jsonl in bytes.
    pub journal_bytes: u64,
    /// Length of samples.jsonl in bytes.
    pub samples_bytes: u64,
    /// Length of diagnostics.jsonl in bytes.
    #[serde(skip_serializing_if = "is_usual")]
    pub diagnostics_bytes: u64,
    /// Seconds spent so far, in all processes.
    #[serde(with = "exact")]
    pub elapsed_s: f64,
    /// Values of the experiment's keys that may change during the run, as used for the steps so far, in TOML.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Keys that changed during the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<KeyChange>,
}

/// A key of the experiment whose value changed when the run was resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyChange {
    /// The last step with the old value.
    pub step: u64,
    /// Dotted name of the key.
    pub key: String,
    /// The value until then, in TOML; `None` for a key that was not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value since then; `None` for a key that is not set any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl State {
    /// Sets the experiment's keys for the steps to come, and records those that differ from the earlier ones. Before
    /// the first step there is nothing to compare. Returns whether evaluations are compared by another value from now
    /// on, so that the best evaluation so far was forgotten.
    pub fn change_settings(&mut self, now: BTreeMap<String, String>) -> bool {
        let before = std::mem::replace(&mut self.settings, now);
        if self.step == 0 || before.is_empty() {
            return false;
        }
        let names: BTreeSet<&String> = before.keys().chain(self.settings.keys()).collect();
        for key in names {
            let (from, to) = (before.get(key).cloned(), self.settings.get(key).cloned());
            if from != to {
                self.changes.push(KeyChange {
                    step: self.step,
                    key: key.clone(),
                    from,
                    to,
                });
            }
        }
        let (step, alike) = (
            self.step,
            comparison_settings(&before) == comparison_settings(&self.settings),
        );
        !alike && self.forget_best(step)
    }

    /// Forgets the best evaluation if its step is at most `step`, since later ones are not comparable with it. Returns
    /// whether it was forgotten.
    pub fn forget_best(&mut self, step: u64) -> bool {
        let forgotten = self.best.take_if(|best| best.step <= step).is_some();
        if forgotten {
            self.evaluations_without_improvement = 0;
        }
        forgotten
    }
}

/// Returns the settings that determine how evaluations are compared: the metric, and how much of the split it is measured on.
fn comparison_settings(settings: &BTreeMap<String, String>) -> [Option<&String>; 3] {
    let of = |key: &str| settings.get(key);
    let metric = of("train.best_by").filter(|metric| *metric != "\"loss\"");
    let batches = of("train.eval_batches");
    let rows = of("train.eval_batch_size").or_else(|| of("train.micro_batch_size"));
    [metric, batches, rows.filter(|_| batches.is_some())]
}

/// The best evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Best {
    /// Optimizer steps done at that time.
    pub step: u64,
    /// Its loss, over the items that all evaluations read; or the value of the metric `best_by`, negated if higher is better.
    #[serde(with = "exact")]
    pub value: f64,
}

/// Sums since the last training line of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Number of steps.
    pub steps: u64,
    /// Σ loss × weight.
    #[serde(with = "exact")]
    pub loss: f64,
    /// Σ weight: scored tokens.
    #[serde(with = "exact")]
    pub weight: f64,
    /// Σ gradient norm.
    #[serde(with = "exact")]
    pub grad_norm: f64,
    /// Auxiliary losses of layers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub added: BTreeMap<String, AddedSum>,
}

/// Sum of an auxiliary loss of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AddedSum {
    /// Σ mean × weight.
    #[serde(with = "exact")]
    pub sum: f64,
    /// Σ weight: tokens, counted once for each layer.
    #[serde(with = "exact")]
    pub weight: f64,
}

/// Doubles as text: `serde_json` reads a number to the nearest double only with a feature that would be
/// switched on for every crate, and JSON has no NaN.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(x)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| D::Error::custom(format!("`{text}` is not a number")))
    }
}

mod exact_option {
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Exact(#[serde(with = "super::exact")] f64);

    // The signature is serde's.
    #[allow(clippy::ref_option)]
    pub fn serialize<S: Serializer>(x: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match x {
            Some(x) => super::exact::serialize(x, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Exact>::deserialize(d)?.map(|x| x.0))
    }
}
