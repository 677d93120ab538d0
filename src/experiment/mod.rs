//! Turns a TOML file into an experiment and an experiment into a run. The file is read with the location of every key, merged
//! over the files it extends, and checked; then data, model and weights are assembled, trained, reopened for use, imported and
//! exported.
//!
//! [`load`] stops at the first error of syntax or type; [`check`] reports all semantic errors at once. Neither reads data or
//! builds a model.

pub mod ablation;
pub mod assemble;
pub mod average;
pub mod check;
mod chunk_encoder;
pub mod cost;
pub mod data_files;
pub mod data_summary;
pub mod dropped_keys;
pub mod encode;
pub mod epochs;
pub mod example;
pub mod export;
mod file;
pub mod import;
pub mod infer;
pub mod initial;
pub mod judge;
pub mod lr_range;
pub mod open;
pub mod parity;
pub mod predicted;
pub mod preflight;
pub mod prerequisite;
mod preset_widths;
pub mod run;
pub mod run_contents;
pub mod schema;
pub mod slurm;
pub mod teacher;
pub mod temporary_keys;
pub mod text_scores;
pub mod training;
pub mod transfer;
pub mod zero_shot;

use crate::data::{DataConfig, SearchPath};
use crate::error::Result;
use crate::generate::DecodeConfig;
use crate::model::ModelConfig;
pub use crate::model::preset::parse_preset;
use crate::task::TaskConfig;
use crate::tokenizer::TokenizerConfig;
use crate::train::TrainConfig;
use crate::train::diagnostics::DiagnosticsConfig;
use crate::train::exporters::JournalConfig;
use crate::train::lora::LoraConfig;
use crate::train::optim::OptimizerConfig;
use crate::train::run_dir::RESOLVED;
use crate::train::schedule::ScheduleConfig;
use crate::train::transfer::TransferConfig;
pub use check::{check, check_with_prerequisites, locate_error, measured_metrics};
pub use file::{annotated_toml, inline, key_of, resolved_toml, unset_comment};
pub use file::{load, load_text, load_with_runs};
use prerequisite::Prerequisite;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Complete description of a run. A key that is not in the file has its type's default value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of the run folder.
    pub name: String,
    /// Seed of all random numbers.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The network.
    pub model: ModelConfig,
    /// The tokenizer, which turns text into token ids; none for data with its own alphabet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerConfig>,
    /// The run to take initial weights from, and the parameters to freeze.
    #[serde(default, skip_serializing_if = "is_default")]
    pub init: TransferConfig,
    /// Adapters that are trained in place of the weights; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// The data.
    pub data: DataConfig,
    /// The objective.
    pub task: TaskConfig,
    /// The update rule of the parameters.
    pub optimizer: OptimizerConfig,
    /// The learning rate schedule.
    #[serde(default)]
    pub schedule: ScheduleConfig,
    /// Steps, batch sizes, device, evaluations, checkpoints.
    pub train: TrainConfig,
    /// Measurements of the model in addition to its loss; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<DiagnosticsConfig>,
    /// Copies of the journals in formats of other programs.
    #[serde(default, skip_serializing_if = "is_default_journal")]
    pub journal: JournalConfig,
    /// How output texts are decoded, and how they are scored.
    #[serde(default, skip_serializing_if = "is_default_decode")]
    pub decode: DecodeConfig,
    /// Bounds that `verify` checks results against, by metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect: BTreeMap<String, Expect>,
    /// The settings that a sweep varies; the experiment is then its base configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ablation: Option<ablation::AblationConfig>,
}

fn is_default(init: &TransferConfig) -> bool {
    *init == TransferConfig::default()
}

fn is_default_decode(decode: &DecodeConfig) -> bool {
    *decode == DecodeConfig::default()
}

fn is_default_journal(journal: &JournalConfig) -> bool {
    *journal == JournalConfig::default()
}

/// nanoGPT's seed.
fn default_seed() -> u64 {
    1337
}

impl Experiment {
    /// Returns the experiment with absolute paths, since a run can be resumed from any folder.
    ///
    /// # Errors
    /// If the tokenizer's path cannot be made absolute.
    pub fn with_absolute_paths(&self, places: &SearchPath) -> Result<Self> {
        self.with_paths(|path| places.anchored(path))
    }

    /// Returns the experiment with paths as a run in the folder `root` records them ([`SearchPath::portable`]).
    ///
    /// # Errors
    /// As [`Experiment::with_absolute_paths`].
    pub fn with_portable_paths(&self, places: &SearchPath, root: &Path) -> Result<Self> {
        self.with_paths(|path| places.portable(path, root))
    }

    pub(crate) fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Result<Self> {
        let mut experiment = self.clone();
        experiment.data = experiment.data.with_paths(&place);
        experiment.init.from = self.init.from.as_deref().map(&place);
        let init = &mut experiment.init;
        for part in [&mut init.image, &mut init.text].into_iter().flatten() {
            part.from = place(&part.from);
        }
        experiment.task = experiment.task.with_paths(&place);
        if let Some(tokenizer) = &self.tokenizer {
            experiment.tokenizer = Some(tokenizer.with_path(|p| Ok(place(p)))?);
        }
        Ok(experiment)
    }
}

/// Bounds of a metric; every bound that is set must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The largest acceptable value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The smallest acceptable value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The expected value, up to `tolerance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<f64>,
    /// Largest acceptable distance from `equals`; 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
}

impl Expect {
    /// Whether `value` is within all bounds; NaN and infinities never are.
    pub fn holds(&self, value: f64) -> bool {
        value.is_finite() && self.missed_by(value).is_empty()
    }

    /// The bounds that a value misses, in words: `at most 1.5`.
    pub fn missed_by(&self, value: f64) -> Vec<String> {
        let tolerance = self.tolerance.unwrap_or(0.0);
        let missed = self
            .bounds()
            .into_iter()
            .filter(|(words, bound)| match *words {
                AT_MOST => value > *bound,
                AT_LEAST => value < *bound,
                _ => (value - bound).abs() > tolerance,
            });
        missed
            .map(|(words, bound)| format!("{words} {bound}"))
            .collect()
    }

    /// The bounds that are set, each as words and number.
    fn bounds(&self) -> Vec<(&'static str, f64)> {
        let all = [
            (AT_MOST, self.at_most),
            (AT_LEAST, self.at_least),
            ("equal to", self.equals),
        ];
        let given = all
            .into_iter()
            .filter_map(|(words, bound)| Some((words, bound?)));
        given.collect()
    }
}

const AT_MOST: &str = "at most";
const AT_LEAST: &str = "at least";

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = self.bounds().into_iter();
        let bounds = bounds.map(|(words, bound)| format!("{words} {bound}"));
        f.write_str(&bounds.collect::<Vec<_>>().join(", "))?;
        self.tolerance.map_or(Ok(()), |t| write!(f, " ± {t}"))
    }
}

/// Where the value of a key was set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file.
    File {
        /// Path of the file, as the user gave it.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    /// A `--set` argument, as it was given.
    Set(String),
    /// A model preset.
    Preset {
        /// Name of the preset.
        name: String,
        /// Where the preset is named.
        by: Box<Origin>,
    },
    /// The key was not set: the default holds.
    #[default]
    Default,
}

/// An experiment and where each of its values was set.
#[derive(Clone, Debug)]
pub struct LoadedExperiment {
    /// The experiment.
    pub experiment: Experiment,
    /// Origin of each key and table that was written, by its dotted name.
    pub origins: BTreeMap<String, Origin>,
    /// The value as written: strings, numbers, booleans, and lists of these.
    pub written_values: BTreeMap<String, toml::Value>,
    /// Messages about keys of extended files that were unset, each with both locations.
    pub unset_messages: Vec<String>,
    /// Text of the file.
    pub source: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Experiments that this one names where it needs a run's folder.
    pub prerequisites: Vec<Prerequisite>,
}

impl LoadedExperiment {
    /// The places where the experiment's data is searched for.
    pub fn places(&self) -> SearchPath {
        match self.path.parent() {
            Some(root) if self.path.ends_with(RESOLVED) => SearchPath::of_run(root),
            folder => SearchPath::new(folder).with_extended_folders(self.source_folders()),
        }
    }

    /// The folders of the files that keys come from.
    fn source_folders(&self) -> impl Iterator<Item = PathBuf> {
        self.origins.values().filter_map(|origin| match origin {
            Origin::File { path, .. } => path.parent().map(Path::to_path_buf),
            Origin::Set(_) | Origin::Preset { .. } | Origin::Default => None,
        })
    }

    /// Where the value of a dotted key was set.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }
}
