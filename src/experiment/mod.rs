//! A TOML file becomes an experiment, and an experiment a run: read with the place of every key, laid over what it extends, checked;
//! then data, model and weights are assembled, trained, opened again for use, imported and exported.
//!
//! [`load`] stops at the first fault of form; [`check`] gives all faults of sense at once. Neither reads data or builds a model.

pub mod ablation;
pub mod assemble;
pub mod average;
pub mod check;
mod chunk_encoder;
pub mod cost;
pub mod counted;
pub mod data_files;
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
pub mod measure;
mod narrowed;
pub mod open;
pub mod parity;
pub mod predicted;
pub mod prerequisite;
pub mod rehearse;
pub mod replaced;
pub mod run;
pub mod saved;
pub mod schema;
pub mod slurm;
pub mod teacher;
pub mod training;
pub mod transfer;
pub mod tried;
pub mod zero_shot;

use crate::data::{DataConfig, Places};
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
pub use check::{check, check_with_prerequisites, located, measured};
pub use file::{annotated_toml, inline, key_of, resolved_toml, unset_comment};
pub use file::{load, load_text, load_with_runs};
use prerequisite::Prerequisite;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that a run is made from. A key that is not in the file has its type's default value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The run folder's name.
    pub name: String,
    /// Seed of everything random.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The network.
    pub model: ModelConfig,
    /// Text to token ids; none for data that brings its own alphabet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerConfig>,
    /// The run that weights are taken from, and which parameters are frozen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub init: TransferConfig,
    /// Adapters that learn in place of the weights; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
    /// The data.
    pub data: DataConfig,
    /// The objective.
    pub task: TaskConfig,
    /// How parameters follow their gradients.
    pub optimizer: OptimizerConfig,
    /// How the learning rate changes.
    #[serde(default)]
    pub schedule: ScheduleConfig,
    /// Steps, batch sizes, device, evaluations, checkpoints.
    pub train: TrainConfig,
    /// Measurements of the model beside its loss; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<DiagnosticsConfig>,
    /// Copies of the journals for other programs.
    #[serde(default, skip_serializing_if = "is_default_journal")]
    pub journal: JournalConfig,
    /// How a text is written for another one, and how that is measured.
    #[serde(default, skip_serializing_if = "is_default_decode")]
    pub decode: DecodeConfig,
    /// Bounds that `verify` holds results against, by metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect: BTreeMap<String, Expect>,
    /// The settings that a sweep varies; the experiment is then its base.
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
    /// The same with paths that mean the same from any folder, since a run is resumed from anywhere.
    ///
    /// # Errors
    /// A tokenizer's file that cannot be named from elsewhere.
    pub fn anchored(&self, places: &Places) -> Result<Self> {
        self.with_paths(|path| places.anchored(path))
    }

    /// The same with paths as a run in the folder `root` writes them down ([`Places::portable`]).
    ///
    /// # Errors
    /// As [`Experiment::anchored`].
    pub fn portable(&self, places: &Places, root: &Path) -> Result<Self> {
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

/// Bounds of a metric; every bound that is given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The largest value that will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The smallest value that will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The value, up to `tolerance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<f64>,
    /// Distance from `equals` that will do; 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
}

impl Expect {
    /// Whether `value` meets the expectation; NaN and infinities meet none.
    pub fn holds(&self, value: f64) -> bool {
        value.is_finite() && self.missed_by(value).is_empty()
    }

    /// The bounds that a number misses, in words: `at most 1.5`.
    pub fn missed_by(&self, value: f64) -> Vec<String> {
        let tolerance = self.tolerance.unwrap_or(0.0);
        let missed = self
            .bounds()
            .into_iter()
            .filter(|(words, bound)| match *words {
                MOST => value > *bound,
                LEAST => value < *bound,
                _ => (value - bound).abs() > tolerance,
            });
        missed
            .map(|(words, bound)| format!("{words} {bound}"))
            .collect()
    }

    /// The bounds that are given, in words.
    fn bounds(&self) -> Vec<(&'static str, f64)> {
        let all = [
            (MOST, self.at_most),
            (LEAST, self.at_least),
            ("equal to", self.equals),
        ];
        let given = all
            .into_iter()
            .filter_map(|(words, bound)| Some((words, bound?)));
        given.collect()
    }
}

const MOST: &str = "at most";
const LEAST: &str = "at least";

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = self.bounds().into_iter();
        let bounds = bounds.map(|(words, bound)| format!("{words} {bound}"));
        f.write_str(&bounds.collect::<Vec<_>>().join(", "))?;
        self.tolerance.map_or(Ok(()), |t| write!(f, " ± {t}"))
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file.
    File {
        /// As the user named it.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// A `--set`, as it was given.
    Set(String),
    /// A named model.
    Preset {
        /// Its name.
        name: String,
        /// The place where it is named.
        by: Box<Origin>,
    },
    /// The key is in none of them.
    #[default]
    Default,
}

/// An experiment and where each of its values was written.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The experiment.
    pub experiment: Experiment,
    /// The place of each key and table that was written, by its dotted name.
    pub origins: BTreeMap<String, Origin>,
    /// What was written there: strings, numbers, true and false, and lists of these.
    pub written: BTreeMap<String, toml::Value>,
    /// The keys of the files below that were taken out, in words, with both places.
    pub unset: Vec<String>,
    /// The text of the file.
    pub source: String,
    /// The file.
    pub path: PathBuf,
    /// The experiments that it names in the place of runs.
    pub prerequisites: Vec<Prerequisite>,
}

impl Loaded {
    /// Where the experiment's data is looked for.
    pub fn places(&self) -> Places {
        match self.path.parent() {
            Some(root) if self.path.ends_with(RESOLVED) => Places::of_run(root),
            folder => Places::new(folder).and_beside(self.extended()),
        }
    }

    /// The folders of the files that keys come from.
    fn extended(&self) -> impl Iterator<Item = PathBuf> {
        self.origins.values().filter_map(|origin| match origin {
            Origin::File { path, .. } => path.parent().map(Path::to_path_buf),
            Origin::Set(_) | Origin::Preset { .. } | Origin::Default => None,
        })
    }

    /// Where the value of a dotted key comes from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }
}
