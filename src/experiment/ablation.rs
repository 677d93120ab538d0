//! `[ablation]`: what a sweep varies. These are plain data structures; `crate::ablation` expands them into arms and cells.
//!
//! The arms are the product of three lists: the named `arms` (a single unchanged arm if there are none), the grid of the
//! `axes`, and the `random` draws. `halving` stops the arms that fall behind at intermediate rungs. Values are merged into the
//! experiment in the same way as `--set` merges them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The settings that a sweep varies, its seeds, and the settings that all arms share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AblationConfig {
    /// Number of runs per arm, with consecutive seeds that start at the experiment's. Arms with the same seed have the same
    /// batches, masks and, where names and shapes agree, initial weights.
    #[schemars(range(min = 1, max = 10_000))]
    pub seeds: u64,
    /// The metric of the validation split by which arms are compared.
    pub metric: String,
    /// Name of the arm that the others are compared with; the first arm when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The quantity that is held equal in all arms; the steps when absent.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<Matched>,
    /// Training budget of every arm; `train.steps` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetConfig>,
    /// Lists of values by dotted key; every combination is an arm.
    #[serde(skip_serializing_if = "Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub axes: Table,
    /// Named arms, each of which sets several keys together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<ArmConfig>,
    /// Arms with randomly drawn values. Source: Bergstra and Bengio 2012.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomConfig>,
    /// Stops the arms that are behind at each rung, and trains the others on.
    /// Source: Jamieson and Talwalkar 2016, algorithm 1; Li et al. 2018, section 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halving: Option<HalvingConfig>,
}

impl Default for AblationConfig {
    fn default() -> Self {
        Self {
            seeds: 3,
            metric: "loss".into(),
            baseline: None,
            matched: None,
            budget: None,
            axes: Table::new(),
            arms: Vec::new(),
            random: None,
            halving: None,
        }
    }
}

/// The quantity that is held equal to the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    /// Tokens or images: arms with a different batch size take a different number of steps.
    Items,
    /// FLOPs of training: a larger model takes fewer steps.
    Flops,
    /// Wall-clock time, estimated by a short measurement before the first cell.
    Time,
    /// Parameters, adjusted by the width of the feed-forward layers: `model.feed_forward.d_ff` of every arm except the baseline
    /// is the multiple of 8 that comes closest, whatever the base says. An arm that sets the key itself is refused.
    Parameters,
}

/// Training budget of every arm; exactly one key is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetConfig {
    /// Optimizer steps.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Tokens or images.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// FLOPs of training.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<f64>,
    /// Minutes of training without evaluations, estimated by a short measurement before the first cell.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<f64>,
}

impl BudgetConfig {
    /// The keys that are set, with their values.
    pub fn given(&self) -> Vec<(&'static str, f64)> {
        let all = [
            ("steps", self.steps.map(|n| n as f64)),
            ("items", self.items.map(|n| n as f64)),
            ("flops", self.flops),
            ("minutes", self.minutes),
        ];
        all.into_iter().filter_map(|(k, v)| Some((k, v?))).collect()
    }
}

/// A named arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmConfig {
    /// Name of the arm.
    pub name: String,
    /// Values by dotted key; none for the unchanged experiment.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub set: Table,
}

/// Successive halving (Jamieson and Talwalkar 2016): all arms train to the step of the first rung and pause. The best of them
/// train on to the next rung, `eta` times as far, and so on to the last step. A rung is decided when all of its arms have
/// arrived, so the result does not depend on their speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HalvingConfig {
    /// The step of the first rung, a multiple of `train.eval_every`: arms are compared by `metric` at that evaluation.
    #[schemars(range(min = 1))]
    pub first: u64,
    /// Factor between rungs: one of `eta` arms goes on, and each rung is `eta` times as far as the one before.
    /// Source: Li et al. 2018, section 2.
    #[schemars(range(min = 2, max = 10_000))]
    #[serde(default = "eta")]
    pub eta: u64,
}

fn eta() -> u64 {
    3
}

/// Arms with randomly drawn values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomConfig {
    /// Number of draws. A larger number keeps the earlier draws as they are.
    #[schemars(range(min = 1, max = 10_000))]
    pub samples: u64,
    /// Seed of the draws, independent of the seeds of the runs.
    #[serde(default)]
    pub seed: u64,
    /// Range of each drawn value, by dotted key.
    pub ranges: BTreeMap<String, RangeConfig>,
}

/// The values that a key can take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RangeConfig {
    /// A real number, uniformly distributed between two bounds.
    Uniform(Bounds),
    /// A real number between two bounds whose logarithm is uniformly distributed.
    Log(Bounds),
    /// A whole number between two bounds, both included.
    Integer(IntegerBounds),
    /// One value of a list.
    Choice(Choice),
}

impl RangeConfig {
    /// Returns what is wrong with the range, if anything is.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Uniform(b) if b.min >= b.max => Some("min must be below max"),
            Self::Log(b) if b.min <= 0.0 || b.min >= b.max => {
                Some("min must be above 0 and below max")
            }
            Self::Integer(b) if b.min > b.max => Some("min must not be above max"),
            Self::Choice(c) if c.values.is_empty() => Some("values is empty"),
            Self::Uniform(_) | Self::Log(_) | Self::Integer(_) | Self::Choice(_) => None,
        }
    }
}

/// Lower and upper bound, real numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Lower bound.
    pub min: f64,
    /// Upper bound.
    pub max: f64,
}

/// Lower and upper bound, whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegerBounds {
    /// Lower bound.
    pub min: i64,
    /// Upper bound.
    pub max: i64,
}

/// A list of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The values.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<Value>,
}
