//! The bookkeeping of a run beside weights and moments.
//!
//! Order of the data, windows, dropout and learning rate are functions of the step, so the step number
//! brings all of them back. The rest is bookkeeping that journal lines and decisions depend on; doubles
//! are written as text that reads back to the same bits.

use crate::one_table::is_usual;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where a run stands.
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
    /// Evaluations since then.
    pub evaluations_without_improvement: u64,
    /// Whether the part of the validation split that evaluations read (`eval_batches`) is drawn at random. Runs of earlier
    /// versions read its first batches, and continue with them.
    #[serde(skip_serializing_if = "is_usual")]
    pub drawn_part: bool,
    /// Whether the evaluation of this step was broken off: it comes before the next step.
    pub evaluation_due: bool,
    /// Whether no checkpoint was due at this step: it is there for a run that is resumed, and goes when the next one comes.
    #[serde(skip_serializing_if = "is_usual")]
    pub interim: bool,
    /// Sums of the journal line that is not written yet.
    pub window: Window,
    /// Running mean of the loss, that spikes are measured by; the journal's, not the model's.
    #[serde(with = "exact_option", skip_serializing_if = "Option::is_none")]
    pub mean_loss: Option<f64>,
    /// Steps left out because their loss was not a number or a spike.
    pub skipped_steps: u64,
    /// Those left out since the last one that was taken.
    pub skipped_in_a_row: u64,
    /// Length of metrics.jsonl.
    pub journal_bytes: u64,
    /// Length of samples.jsonl.
    pub samples_bytes: u64,
    /// Length of diagnostics.jsonl.
    #[serde(skip_serializing_if = "is_usual")]
    pub diagnostics_bytes: u64,
    /// Seconds spent so far, in all processes.
    #[serde(with = "exact")]
    pub elapsed_s: f64,
    /// The keys of the experiment that may change on the way, as they were for the steps up to here, as TOML has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The keys that changed on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<KeyChange>,
}

/// A key of the experiment that has had another value since a step at which the run was resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyChange {
    /// The last step with the old value.
    pub step: u64,
    /// Dotted.
    pub key: String,
    /// The value until then, as TOML has it; none for a key that was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl State {
    /// Takes the experiment's keys for the steps to come, and writes down those that differ from the ones until now.
    /// The first step has nothing before it. Whether evaluations are compared by another value from here on: a best one of
    /// those so far is then forgotten.
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
        let (step, alike) = (self.step, compared(&before) == compared(&self.settings));
        !alike && self.forget_best(step)
    }

    /// Forgets the best evaluation where it is one of the steps until `step`, which later ones do not compare with. Whether it was.
    pub fn forget_best(&mut self, step: u64) -> bool {
        let forgotten = self.best.take_if(|best| best.step <= step).is_some();
        if forgotten {
            self.evaluations_without_improvement = 0;
        }
        forgotten
    }
}

/// The settings that say by which value evaluations are compared: the metric, and how much of the split they read for it.
fn compared(settings: &BTreeMap<String, String>) -> [Option<&String>; 3] {
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
    /// Optimizer steps done then.
    pub step: u64,
    /// Its loss, over the items that all evaluations read.
    #[serde(with = "exact")]
    pub value: f64,
}

/// Sums since the last training line of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Steps.
    pub steps: u64,
    /// Σ loss × weight.
    #[serde(with = "exact")]
    pub loss: f64,
    /// Σ weight: scored tokens.
    #[serde(with = "exact")]
    pub weight: f64,
    /// Σ norm of the gradient.
    #[serde(with = "exact")]
    pub grad_norm: f64,
    /// Losses that layers added, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub added: BTreeMap<String, AddedSum>,
}

/// Sum of a loss that layers added.
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
