//! What a comparison finds: for each arm its best and final values over seeds, its speed, and its difference
//! from the first arm.
//!
//! "Best" is the best evaluation of a run, the one whose checkpoint is kept; it is a minimum (or maximum) over
//! evaluations and so slightly flattering to runs that were evaluated more often. "Final" is the last one. A run whose
//! last loss is not a number has no final value and counts as diverged. Differences pair runs of the same seed.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result, suggestion};
use crate::report::arms::{self, Arm, Difference};
use crate::report::journal::Point;
use crate::report::notes::notes;
use crate::report::run::Run;
use crate::report::statistics::{Paired, Summary, paired_t, summarize};

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
const TIMING: [&str; 3] = ["elapsed_s", "items_per_s", "items"];
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
    /// Best value minus the first arm's; none for the first arm.
    pub best_gap: Option<Gap>,
    /// Final value minus the first arm's.
    pub last_gap: Option<Gap>,
}

/// A difference from the first arm.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Over pairs of the same seed where there are two of them, else between the means.
    pub mean: f64,
    /// The paired t test, where two seeds pair.
    pub paired: Option<Paired>,
}

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
    for (arm, result) in arms.iter().zip(&mut results).skip(1) {
        let gap = |pick: fn(&Outcome) -> Option<f64>| gap(&arms[0], arm, &runs, &outcomes, pick);
        result.best_gap = gap(|o| o.best.map(|b| b.1));
        result.last_gap = gap(|o| o.last.map(|l| l.1));
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
            summarize(reached().filter_map(|o| o.metrics.get(m).copied()))?,
        ))
    };
    Results {
        best: summarize(reached().filter_map(|o| Some(o.best?.1))),
        best_step: summarize(reached().filter_map(|o| Some(o.best?.0? as f64))).map(|s| s.mean),
        last: summarize(reached().filter_map(|o| Some(o.last?.1))),
        metrics: metrics.iter().filter_map(metric).collect(),
        items_per_s: summarize(members().filter_map(Run::items_per_s)),
        elapsed_s: summarize(members().filter_map(Run::elapsed_s)),
        best_gap: None,
        last_gap: None,
    }
}

/// Pairs runs by seed; several runs of one seed count by their mean.
fn gap(
    base: &Arm,
    arm: &Arm,
    runs: &[Run],
    outcomes: &[Outcome],
    pick: fn(&Outcome) -> Option<f64>,
) -> Option<Gap> {
    let by_seed = |arm: &Arm| {
        let mut seeds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for &m in &arm.counted {
            if let (Some(seed), Some(value)) = (&runs[m].seed, pick(&outcomes[m])) {
                seeds.entry(seed.clone()).or_default().push(value);
            }
        }
        seeds
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (ours, theirs) = (by_seed(arm), by_seed(base));
    let pairs = ours
        .iter()
        .filter_map(|(seed, a)| Some(mean(a) - mean(theirs.get(seed)?)));
    let paired = paired_t(&pairs.collect::<Vec<f64>>());
    let value = |arm: &Arm| {
        summarize(arm.counted.iter().filter_map(|&m| pick(&outcomes[m]))).map(|s| s.mean)
    };
    let mean = match paired {
        Some(paired) => paired.mean,
        None => value(arm)? - value(base)?,
    };
    Some(Gap { mean, paired })
}
