//! Checks `[expect]` and `[train] best_by`: their metrics must be measured.

use super::Checker;
use crate::data::Split;
use crate::error::suggestion;
use crate::evaluate::metric::LOSS;
use crate::experiment::{Expect, Experiment};

pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let measured = measured_metrics(experiment);
    if let Some(metric) = &experiment.train.best_by {
        best_by(sense, metric, &measured);
    }
    for (metric, expect) in &experiment.expect {
        for rule in expectation_faults(metric, expect, &measured, experiment) {
            sense.fault(&[&format!("expect.{metric}")], rule);
        }
    }
}

/// Returns the names of the metrics of an evaluation.
pub fn measured_metrics(experiment: &Experiment) -> Vec<&'static str> {
    let task = &experiment.task;
    let of_task = task.facts().metrics(experiment.data.data_set());
    let named = std::iter::once(LOSS).chain(of_task).map(|m| m.name);
    let mut metrics: Vec<&str> = named.collect();
    // Generated texts are compared with those of the data.
    if task.compares_texts() {
        metrics.extend(experiment.decode.metric_names());
    }
    metrics
}

fn best_by(sense: &mut Checker, metric: &str, measured: &[&str]) {
    let train = &sense.loaded.experiment.train;
    if !measured.contains(&metric) {
        let near = suggestion(metric, measured.iter().copied());
        let rule = format!("best_by = \"{metric}\" is not measured{near}");
        sense.fault(&["train.best_by"], rule);
    } else if train.eval_batches.is_some() {
        sense.fault(
            &["train.best_by", "train.eval_batches"],
            "best_by compares whole splits; remove eval_batches",
        );
    } else if train.eval_every.is_none() {
        sense.fault(
            &["train.best_by"],
            "best_by has no effect without eval_every; add it or remove best_by",
        );
    }
}

fn expectation_faults(
    metric: &str,
    expect: &Expect,
    measured: &[&str],
    experiment: &Experiment,
) -> Vec<String> {
    let by_loss = experiment.train.best_by.is_none();
    let known = metric
        .strip_prefix("valid_")
        .is_some_and(|name| measured.contains(&name) || name == "best_loss" && by_loss);
    if !known {
        let all: Vec<String> = measured
            .iter()
            .copied()
            .chain(by_loss.then_some("best_loss"))
            .map(|name| format!("valid_{name}"))
            .collect();
        let near = suggestion(metric, all.iter().map(String::as_str));
        return vec![match near.is_empty() {
            true => format!("{metric} is not measured; there are: {}", all.join(", ")),
            false => format!("{metric} is not measured{near}"),
        }];
    }
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, rule: &str| {
        if wrong {
            faults.push(format!("{metric} {rule}"));
        }
    };
    fault(
        !experiment.data.data_set().has(Split::Valid),
        "is not measured: [data] has no validation split",
    );
    let Expect {
        at_most,
        at_least,
        equals,
        tolerance,
    } = *expect;
    let empty = at_most.or(at_least).or(equals).is_none();
    fault(empty, "expects nothing; set at_most, at_least or equals");
    let crossed = at_most.is_some_and(|most| at_least.is_some_and(|least| most < least));
    fault(
        crossed,
        "has at_most below at_least: no value satisfies both",
    );
    let reach = tolerance.unwrap_or(0.0).max(0.0);
    let beyond = equals.is_some_and(|value| {
        at_most.is_some_and(|most| value - reach > most)
            || at_least.is_some_and(|least| value + reach < least)
    });
    fault(
        beyond,
        "has an equals that its at_most or at_least excludes: no value satisfies both",
    );
    fault(
        tolerance.is_some() && equals.is_none(),
        "has a tolerance, which has no effect without equals",
    );
    fault(
        tolerance.is_some_and(|t| t < 0.0),
        "has a tolerance below 0",
    );
    faults
}
