//! What a comparison finds: for each arm its best and final values over seeds, its speed, and its difference
//! from the first arm.
//!
//! "Best" is the best evaluation of a run, the one whose checkpoint is kept; it is a minimum (or maximum) over
//! evaluations and so slightly flattering to runs that were evaluated more often. "Final" is the last one. A run whose
//! last loss is not a number has no final value and counts as diverged. Differences pair runs of the same seed, and
//! their p values are corrected together for all arms ([`crate::report::statistics::compare`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result, suggestion};
use crate::report::arms::{self, Arm, Difference};
use crate::report::journal::Point;
use crate::report::notes::notes;
use crate::report::run::Run;
use crate::report::statistics::Direction;
use crate::report::statistics::compare::{Contrast, Plan, compare_arms};
use crate::report::statistics::summary::{Summary, summarize};

/// Metrics that stand in the table when evaluations have them, in this order.
pub const SHOWN: [&str; 17] = [
    "loss",
    "perplexity",
    "bits_per_byte",
    "accuracy",
    "exact_match",
    "top5_accuracy",
    "f1",
    "mcc",
    "bleu",
    "chrf",
    "ter",
    "rouge_1",
    "rouge_2",
    "rouge_l",
    "mlm_accuracy",
    "nsp_accuracy",
    "sop_accuracy",
];
/// Numbers of a journal line that measure the run, not the model.
const TIMING: [&str; 4] = ["elapsed_s", "items_per_s", "items", "memory_mb"];
/// What to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The metric of the columns "best" and "final", of the differences and of the curves.
    pub metric: String,
    /// Every run is an arm of its own.
    pub each: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            metric: "loss".into(),
            each: false,
        }
    }
}

/// Runs, grouped and summarised.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The compared metric.
    pub metric: String,
    /// The split it is measured on: `valid` where there is one, else `test` or `train`.
    pub split: &'static str,
    /// All runs, in the order given.
    pub runs: Vec<Run>,
    /// Best and last value of each run.
    pub outcomes: Vec<Outcome>,
    /// Runs grouped by their settings.
    pub arms: Vec<Arm>,
    /// What each arm reached.
    pub results: Vec<Results>,
    /// The settings in which arms differ.
    pub differing: Vec<Difference>,
    /// Other metrics of the evaluations, in the order they are shown.
    pub metrics: Vec<String>,
    /// What a reader should know before trusting the numbers.
    pub notes: Vec<String>,
}

/// The compared metric of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Best evaluation: step (none when it comes from `scores.json`) and value.
    pub best: Option<(Option<u64>, f64)>,
    /// Last evaluation, when it is a number.
    pub last: Option<(Option<u64>, f64)>,
    /// Other metrics at the best evaluation.
    pub metrics: BTreeMap<String, f64>,
}

/// What an arm reached over its seeds.
#[derive(Clone, Debug)]
pub struct Results {
    /// Best value.
    pub best: Option<Summary>,
    /// Step of the best value, the mean over runs.
    pub best_step: Option<f64>,
    /// Final value.
    pub last: Option<Summary>,
    /// Other metrics at the best evaluation.
    pub metrics: BTreeMap<String, Summary>,
    /// Items per second.
    pub items_per_s: Option<Summary>,
    /// Wall time in seconds.
    pub elapsed_s: Option<Summary>,
    /// Best value against the first arm's; none for the first arm.
    pub best_gap: Option<Contrast>,
    /// Final value against the first arm's.
    pub last_gap: Option<Contrast>,
}

/// The level of intervals of means and differences.
pub const LEVEL: f64 = 0.95;

/// Whether more of a metric is better; anything unknown is taken for a loss.
pub fn more_is_better(metric: &str) -> bool {
    const MORE: [&str; 13] = [
        "accuracy",
        "exact_match",
        "bleu",
        "chrf",
        "rouge_1",
        "rouge_2",
        "rouge_l",
        "mcc",
        "f1",
        "precision",
        "recall",
        "items_per_s",
        "mfu",
    ];
    MORE.iter()
        .any(|m| metric == *m || metric.ends_with(&format!("_{m}")))
}

impl Comparison {
    /// The best `n` arms by their best value, in the table's order.
    pub fn leading(&self, n: usize) -> Vec<usize> {
        let sign = if more_is_better(&self.metric) {
            -1.0
        } else {
            1.0
        };
        let key = |i: usize| {
            self.results[i]
                .best
                .map_or(f64::INFINITY, |s| sign * s.mean)
        };
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        order.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
        order.truncate(n);
        order.sort_unstable();
        order
    }
}

/// Groups and summarises runs. The metric must be one that some run has.
///
/// # Errors
/// A metric that no run has; the message names those that are there.
pub fn compare(runs: Vec<Run>, options: &Options) -> Result<Comparison> {
    let metric = &options.metric;
    let split = split_of(metric, &runs)?;
    let arms = arms::group(&runs, options.each);
    let differing = arms::differences(&runs, &arms);
    let metrics = other_metrics(metric, split, &runs);
    let outcomes: Vec<Outcome> = runs
        .iter()
        .map(|run| outcome(run, split, metric, &metrics))
        .collect();
    let mut results: Vec<Results> = arms
        .iter()
        .map(|arm| results(arm, &runs, &outcomes, &metrics))
        .collect();
    let against = |pick| contrasts(metric, &arms, &runs, &outcomes, pick);
    let best = against(|o| o.best.map(|b| b.1));
    let last = against(|o| o.last.map(|l| l.1));
    for (result, (best, last)) in results.iter_mut().skip(1).zip(best.into_iter().zip(last)) {
        (result.best_gap, result.last_gap) = (Some(best), Some(last));
    }
    let notes = notes(&runs, &arms, &results);
    Ok(Comparison {
        metric: metric.clone(),
        split,
        runs,
        outcomes,
        arms,
        results,
        differing,
        metrics,
        notes,
    })
}

/// The first split on which any run has the metric.
fn split_of(metric: &str, runs: &[Run]) -> Result<&'static str> {
    const SPLITS: [&str; 3] = ["valid", "test", "train"];
    let scored = |run: &Run, split: &str| {
        run.scores
            .get(split)
            .is_some_and(|s| s.contains_key(metric))
    };
    let has = |split: &&str| {
        runs.iter()
            .any(|r| !r.series(split, metric).is_empty() || scored(r, split))
    };
    match SPLITS.into_iter().find(|split| has(split)) {
        Some(split) => Ok(split),
        None if metric == "loss" => Ok("valid"),
        None => {
            let known: BTreeSet<&str> = runs
                .iter()
                .flat_map(|r| SPLITS.into_iter().flat_map(|s| r.journal.metrics(s)))
                .collect();
            Err(Error::usage(format!(
                "--metric: no run has `{metric}`{}",
                suggestion(metric, known)
            )))
        }
    }
}

/// The other metrics on the split: the usual ones first, then the rest by name.
fn other_metrics(metric: &str, split: &str, runs: &[Run]) -> Vec<String> {
    let journal = runs.iter().flat_map(|r| r.journal.metrics(split));
    let scores = runs
        .iter()
        .filter_map(|r| r.scores.get(split))
        .flat_map(|s| s.keys().map(String::as_str));
    let mut found: Vec<&str> = journal
        .chain(scores)
        .filter(|m| *m != metric && !TIMING.contains(m))
        .collect();
    found.sort_by_key(|m| (SHOWN.iter().position(|s| s == m).unwrap_or(SHOWN.len()), *m));
    found.dedup();
    found.into_iter().map(str::to_string).collect()
}

fn outcome(run: &Run, split: &str, metric: &str, others: &[String]) -> Outcome {
    let series = run.series(split, metric);
    let scored = |m: &str| run.scores.get(split).and_then(|s| s.get(m)).copied();
    if series.is_empty() {
        let value = scored(metric).map(|v| (None, v));
        let metrics = others
            .iter()
            .filter_map(|m| Some((m.clone(), scored(m)?)))
            .collect();
        return Outcome {
            best: value,
            last: value,
            metrics,
        };
    }
    let sign = if more_is_better(metric) { -1.0 } else { 1.0 };
    let sound = series.iter().filter(|p| p.value.is_finite());
    let best = sound.min_by(|a, b| (sign * a.value).total_cmp(&(sign * b.value)));
    let at = |m: &String| {
        let series = run.series(split, m);
        let i = series.binary_search_by_key(&best?.step, |p| p.step).ok()?;
        Some((m.clone(), series[i].value)).filter(|(_, v)| v.is_finite())
    };
    let shown = |p: &Point| (Some(p.step), p.value);
    let last = series
        .last()
        .filter(|p| p.value.is_finite() && run.diverged().is_none());
    Outcome {
        best: best.map(shown),
        last: last.map(shown),
        metrics: others.iter().filter_map(at).collect(),
    }
}

fn results(arm: &Arm, runs: &[Run], outcomes: &[Outcome], metrics: &[String]) -> Results {
    let members = || arm.counted.iter().map(|&m| &runs[m]);
    let reached = || arm.counted.iter().map(|&m| &outcomes[m]);
    let metric = |m: &String| {
        Some((
            m.clone(),
            summarize(reached().filter_map(|o| o.metrics.get(m).copied()), LEVEL)?,
        ))
    };
    Results {
        best: summarize(reached().filter_map(|o| Some(o.best?.1)), LEVEL),
        best_step: summarize(reached().filter_map(|o| Some(o.best?.0? as f64)), LEVEL)
            .map(|s| s.mean),
        last: summarize(reached().filter_map(|o| Some(o.last?.1)), LEVEL),
        metrics: metrics.iter().filter_map(metric).collect(),
        items_per_s: summarize(members().filter_map(Run::items_per_s), LEVEL),
        elapsed_s: summarize(members().filter_map(Run::elapsed_s), LEVEL),
        best_gap: None,
        last_gap: None,
    }
}

/// Every arm but the first against the first. A run without a seed pairs with none.
fn contrasts(
    metric: &str,
    arms: &[Arm],
    runs: &[Run],
    outcomes: &[Outcome],
    pick: fn(&Outcome) -> Option<f64>,
) -> Vec<Contrast> {
    let values = |arm: &Arm| -> Vec<(String, f64)> {
        let seed = |m: usize| match &runs[m].seed {
            Some(seed) => format!("seed {seed}"),
            None => format!("run {m}"),
        };
        let counted = arm.counted.iter();
        counted
            .filter_map(|&m| Some((seed(m), pick(&outcomes[m])?)))
            .collect()
    };
    let all: Vec<Vec<(String, f64)>> = arms.iter().map(values).collect();
    let [baseline, others @ ..] = all.as_slice() else {
        return Vec::new();
    };
    let others: Vec<&[(String, f64)]> = others.iter().map(Vec::as_slice).collect();
    let plan = Plan {
        alpha: 1.0 - LEVEL,
        better: match more_is_better(metric) {
            true => Direction::Higher,
            false => Direction::Lower,
        },
    };
    compare_arms(baseline, &others, plan)
}
