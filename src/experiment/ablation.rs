//! `[ablation]`: what a sweep varies. Plain data; `crate::ablation` makes arms and cells of it.
//!
//! Arms are the product of three lists: the named `arms` (one without changes when there are none), the grid of the `axes`,
//! and the `random` draws; `halving` stops those that are behind on the way. Values are laid over the experiment as `--set`
//! would lay them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The settings that a sweep varies, its seeds, and what its arms have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AblationConfig {
    /// Runs of each arm: with the experiment's seed and those that follow it. Arms with the same seed have the same
    /// batches, masks and, where names and shapes agree, initial weights.
    #[schemars(range(min = 1, max = 10_000))]
    pub seeds: u64,
    /// The metric of the validation split that arms are compared by.
    pub metric: String,
    /// The name of the arm that the others are compared with; the first when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The quantity that is equal in all arms; the steps when absent.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<Matched>,
    /// How much every arm may spend; `train.steps` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetConfig>,
    /// Lists of values by dotted key; every combination is an arm.
    #[serde(skip_serializing_if = "Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub axes: Table,
    /// Arms with names, each of which sets several keys together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<ArmConfig>,
    /// Arms with values that are drawn. Source: Bergstra and Bengio 2012.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomConfig>,
    /// Stops the arms that are behind at rungs on the way, and trains the others on.
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
    /// Tokens or images: arms with other batches take other numbers of steps.
    Items,
    /// FLOPs of training: a larger model takes fewer steps.
    Flops,
    /// Wall-clock time, by a short measurement before the first cell.
    Time,
    /// Parameters, by the width of the feed-forward layers: `model.feed_forward.d_ff` of every arm but the baseline is the
    /// multiple of 8 that comes nearest, whatever the base says. An arm that sets it itself is refused.
    Parameters,
}

/// How much an arm may spend; one key.
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
    /// Minutes of training, by a short measurement before the first cell; evaluations apart.
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
    /// Its name.
    pub name: String,
    /// Values by dotted key; none for the experiment as it stands.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub set: Table,
}

/// Successive halving (Jamieson and Talwalkar 2016): all arms train to the step of the first rung and pause; the best of
/// them train on to the next rung, `eta` times as far, and so on to the last step. A rung is decided when all of its
/// arms have arrived, so that no result depends on which was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HalvingConfig {
    /// The step of the first rung, a multiple of `train.eval_every`: arms are compared by `metric` at that evaluation.
    #[schemars(range(min = 1))]
    pub first: u64,
    /// Of so many arms one goes on, and each rung is so many times as far as the one before.
    /// Source: Li et al. 2018, section 2.
    #[schemars(range(min = 2, max = 10_000))]
    #[serde(default = "eta")]
    pub eta: u64,
}

fn eta() -> u64 {
    3
}

/// Arms with values that are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomConfig {
    /// Draws. More of them leave the first ones as they were.
    #[schemars(range(min = 1, max = 10_000))]
    pub samples: u64,
    /// Seed of the draws; not that of the runs.
    #[serde(default)]
    pub seed: u64,
    /// The ranges of the values, by dotted key.
    pub ranges: BTreeMap<String, RangeConfig>,
}

/// The values that a key may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RangeConfig {
    /// A number between two, all equally likely.
    Uniform(Bounds),
    /// A number between two, its logarithm equally likely.
    Log(Bounds),
    /// A whole number between two, both included.
    Integer(IntegerBounds),
    /// One of a list.
    Choice(Choice),
}

impl RangeConfig {
    /// The fault of its keys, when there is one.
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

/// Two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// Two whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntegerBounds {
    /// The least.
    pub min: i64,
    /// The most.
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
