//! Results of a comparison: for each arm its best and final values over seeds, how fast it learns, its speed, how many
//! of its runs ended badly, and its difference from the first arm.
//!
//! "Best" is the best evaluation of a run, the one whose checkpoint is kept; it is a minimum (or maximum) over
//! evaluations and so slightly favours runs that were evaluated more often. "Final" is the last evaluation. A run whose
//! last loss is not finite has no final value and counts as diverged. Differences pair runs of the same seed, and
//! their p values are corrected together for all arms ([`crate::report::analyse::statistics::contrast`]).

use super::arms::{self, Arm, Difference};
use super::causes::causes;
use super::contrasts;
use super::learning::LearningReference;
use super::lengths;
use super::metrics::{self, more_is_better};
use super::missing;
use super::names;
use super::notes::notes;
use super::origins::ComparedRuns;
use super::pairs;
use super::results::{ArmResults, RunResult};
use super::selection::Selection;
use super::statistics::LEVEL;
use super::statistics::rates::Rate;
use super::statistics::summary::summarize;
use crate::error::{Error, Result};
use crate::report::read::journal::Point;
use crate::report::read::run::Run;
use crate::report::read::sweep::SweepPlan;
use std::collections::BTreeMap;

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Metric of the "best" and "final" columns, the differences and the curves. When absent, the sweep's metric or, without
    /// a sweep, `loss`.
    pub metric: Option<String>,
    /// Makes every run its own arm.
    pub each: bool,
    /// Target value for "steps to reach". When absent, the mean of the final values of the first arm's curves.
    pub reach: Option<f64>,
}

/// Runs, grouped and summarised.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The compared metric.
    pub metric: String,
    /// Split the metric is measured on: the first of `valid`, `test` and `train` that has it.
    pub split: &'static str,
    /// All runs, in the order given. For a sweep, the runs that were started, arm by arm.
    pub runs: Vec<Run>,
    /// Best and last value of each run.
    pub outcomes: Vec<RunResult>,
    /// Runs grouped by their settings, or by the sweep's plan.
    pub arms: Vec<Arm>,
    /// Results of each arm.
    pub results: Vec<ArmResults>,
    /// Common step range and target value that learning speed is measured with.
    pub yardstick: LearningReference,
    /// The settings in which arms differ.
    pub differing: Vec<Difference>,
    /// Value of [`Options::reach`]; when set, the tables show the steps to reach it.
    pub reach: Option<f64>,
    /// Other metrics of the evaluations, in the order they are shown.
    pub metrics: Vec<String>,
    /// Plan of the compared sweep, if the comparison is of a sweep.
    pub sweep: Option<SweepPlan>,
    /// Warnings about the numbers.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Returns the indices of the `n` arms with the best mean "best" value, in the table's order.
    pub fn best_arms(&self, n: usize) -> Vec<usize> {
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

    /// Returns the runs shown in an arm's curves.
    pub fn plotted_runs(&self, arm: usize) -> Vec<&Run> {
        let members = self.arms[arm].plotted().iter();
        members.map(|&m| &self.runs[m]).collect()
    }
}

/// Groups and summarises runs. At least one run must have the metric.
///
/// # Errors
/// If no run has the metric (the message suggests known ones), if [`Options::reach`] is not finite, if no run of a sweep was
/// started, or if `each` is given with a sweep.
pub fn compare(selection: impl Into<Selection>, options: &Options) -> Result<Comparison> {
    let Selection { runs, sweep } = selection.into();
    if let Some(value) = options.reach.filter(|value| !value.is_finite()) {
        return Err(Error::usage(format!(
            "--reach: {value} must be a finite number"
        )));
    }
    let (sweep, mut arms) = match sweep {
        Some((folder, arms)) => {
            arms::require_comparable(&folder, &runs, options.each)?;
            (Some(folder.plan), arms)
        }
        None => (None, arms::group(&runs, options.each)),
    };
    let planned = sweep.as_ref().map(|plan| plan.metric.as_str());
    let asked = options.metric.as_deref().or(planned).unwrap_or("loss");
    let (split, metric) = metrics::resolve(asked, &runs)?;
    let others = metrics::others(&metric, split, &runs);
    let outcomes: Vec<RunResult> = runs
        .iter()
        .map(|run| outcome(run, split, &metric, &others))
        .collect();
    let ends = arms
        .first()
        .map(|arm| final_values(arm, &runs, &outcomes, (split, &metric)));
    let baseline = ends.and_then(|ends| summarize(ends, LEVEL));
    let target = options.reach.or(baseline.map(|s| s.mean));
    let yardstick = LearningReference::over(&runs, &arms, (split, &metric), target);
    let mut results: Vec<ArmResults> = arms
        .iter()
        .map(|arm| results(arm, &runs, &outcomes, &others, &yardstick))
        .collect();
    let plan = sweep.as_ref();
    let compared = ComparedRuns::new(&runs, &arms, plan, split);
    let apart = contrasts::untested_reasons(compared, &metric);
    let against = |pick| contrasts::contrasts(compared, (&metric, &apart), &outcomes, pick);
    // Successive halving selected the remaining arms by their values, so their differences are not tested.
    let searched = plan.is_some_and(|plan| plan.halving.is_some());
    let (best, last) = match searched {
        true => (Vec::new(), Vec::new()),
        false => (
            against(|o| o.best.map(|b| b.1)),
            against(|o| o.last.map(|l| l.1)),
        ),
    };
    let not_first = results.iter_mut().skip(1);
    for (result, (best, last)) in not_first.zip(best.into_iter().zip(last)) {
        (result.best_gap, result.last_gap) = (Some(best), Some(last));
    }
    let differing = arms::differences(&runs, &arms, plan);
    names::name_arms(&mut arms, &causes(&differing), sweep.is_some());
    let steps = lengths::note(&arms, &runs, sweep.as_ref()).filter(|_| !searched);
    let compared = ComparedRuns::new(&runs, &arms, plan, split);
    let others_said = notes(compared, &results, (&metric, searched));
    let fewer = missing::notes(&runs, &arms, &outcomes, (split, &metric, &others));
    let paired = pairs::notes(compared, &outcomes, &results);
    Ok(Comparison {
        notes: [
            steps.into_iter().collect::<Vec<String>>(),
            others_said,
            fewer,
            paired,
        ]
        .concat(),
        differing,
        reach: options.reach,
        metric,
        split,
        runs,
        outcomes,
        arms,
        results,
        yardstick,
        metrics: others,
        sweep,
    })
}

/// Returns the last curve value of each counted run. Curves cover the part of a split that every evaluation reads; final values
/// may cover the whole split.
fn final_values<'a>(
    arm: &'a Arm,
    runs: &'a [Run],
    outcomes: &'a [RunResult],
    (split, metric): (&'a str, &'a str),
) -> impl Iterator<Item = f64> + 'a {
    arm.counted.iter().filter_map(move |&m| {
        let (_, last) = outcomes[m].last?;
        let end = runs[m].series(split, metric).last();
        Some(end.map_or(last, |point| point.value))
    })
}

fn outcome(run: &Run, split: &str, metric: &str, others: &[String]) -> RunResult {
    let series = run.series(split, metric);
    let scored = |m: &str| run.scores.get(split).and_then(|s| s.get(m)).copied();
    if series.is_empty() {
        let at = run.scored_at.get(split).copied();
        let value = scored(metric).map(|v| (at, v));
        let metrics: BTreeMap<String, f64> = others
            .iter()
            .filter_map(|m| Some((m.clone(), scored(m)?)))
            .collect();
        return RunResult {
            best: value,
            last: value,
            last_metrics: metrics.clone(),
            metrics,
            ..RunResult::default()
        };
    }
    let sign = if more_is_better(metric) { -1.0 } else { 1.0 };
    let sound = series.iter().filter(|p| p.value.is_finite());
    let best = sound.min_by(|a, b| (sign * a.value).total_cmp(&(sign * b.value)));
    let at = |m: &String, point: Option<Point>| {
        let series = run.series(split, m);
        let i = series.binary_search_by_key(&point?.step, |p| p.step).ok()?;
        Some((m.clone(), series[i].value)).filter(|(_, v)| v.is_finite())
    };
    let shown = |p: Point| (Some(p.step), p.value);
    // Evaluations are comparable on the part that all of them read; the last one may have read the whole split.
    let whole = run.journal.full_evaluation(split);
    let whole_value = |m: &str| whole.and_then(|whole| whole.values.get(m)).copied();
    let last = series.last().map(|p| Point {
        value: whole_value(metric).unwrap_or(p.value),
        ..*p
    });
    let last = last.filter(|p| p.value.is_finite() && run.diverged_at().is_none());
    let (best, of_part) = (best.copied(), run.journal.is_partial(split));
    let last_metric = |m: &String| {
        let (name, value) = at(m, last)?;
        Some((name, whole_value(m).unwrap_or(value)))
    };
    RunResult {
        best: best.map(shown),
        last: last.map(shown),
        metrics: others.iter().filter_map(|m| at(m, best)).collect(),
        last_metrics: others.iter().filter_map(last_metric).collect(),
        best_is_partial: of_part,
        last_is_partial: of_part && whole.is_none(),
    }
}

fn results(
    arm: &Arm,
    runs: &[Run],
    outcomes: &[RunResult],
    metrics: &[String],
    yardstick: &LearningReference,
) -> ArmResults {
    let members = || arm.counted.iter().map(|&m| &runs[m]);
    let reached = || arm.counted.iter().map(|&m| &outcomes[m]);
    let metric = |of: fn(&RunResult) -> &BTreeMap<String, f64>| {
        let each = metrics.iter().filter_map(move |m| {
            let values = arm.counted.iter().filter_map(|&i| of(&outcomes[i]).get(m));
            Some((m.clone(), summarize(values.copied(), LEVEL)?))
        });
        each.collect::<BTreeMap<_, _>>()
    };
    let begun: Vec<&Run> = arm.started_runs().map(|m| &runs[m]).collect();
    ArmResults {
        best: summarize(reached().filter_map(|o| Some(o.best?.1)), LEVEL),
        best_step: summarize(reached().filter_map(|o| Some(o.best?.0? as f64)), LEVEL)
            .map(|s| s.mean),
        last: summarize(reached().filter_map(|o| Some(o.last?.1)), LEVEL),
        metrics: metric(|o| &o.metrics),
        last_metrics: metric(|o| &o.last_metrics),
        last_marks: last_marks(arm, runs, outcomes),
        learning: yardstick.learning(members()),
        diverged: Rate {
            events: begun
                .iter()
                .filter(|run| run.diverged_at().is_some())
                .count(),
            n: begun.len(),
        },
        items_per_s: summarize(members().filter_map(Run::items_per_s), LEVEL),
        elapsed_s: summarize(members().filter_map(Run::elapsed_s), LEVEL),
        best_gap: None,
        last_gap: None,
    }
}

/// Returns the marks shown beside an arm's final values: `at 40` if a value is from an earlier step than its run has reached,
/// `part` if a value covers only part of the split.
fn last_marks(arm: &Arm, runs: &[Run], outcomes: &[RunResult]) -> Vec<String> {
    let steps = arm
        .counted
        .iter()
        .map(|&m| (m, outcomes[m].last.and_then(|l| l.0)));
    let part = arm.counted.iter().any(|&m| outcomes[m].last_is_partial);
    let at =
        earlier_step_mark(steps.filter_map(|(m, step)| Some((step?, runs[m].journal.last_step))));
    at.into_iter().chain(part.then(|| "part".into())).collect()
}

/// Returns `at 40` or `at 20–40` for pairs of (step of the value, last step of its run); `None` if every value is from its
/// run's last step.
pub fn earlier_step_mark(steps: impl Iterator<Item = (u64, u64)> + Clone) -> Option<String> {
    if steps.clone().all(|(step, last)| step >= last) {
        return None;
    }
    let steps = steps.map(|(step, _)| step);
    let (low, high) = (steps.clone().min()?, steps.max()?);
    Some(match low == high {
        true => format!("at {low}"),
        false => format!("at {low}–{high}"),
    })
}
