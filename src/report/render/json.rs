//! Renders a comparison as one JSON object, for scripts.
//!
//! `{"sweep","metric","split","baseline","cells","curve_steps","target","arms":[{"id","label","name","settings","seeds",
//! "params","flops_per_item","cells","rung","absent","runs","best","best_step","final","metrics","final_metrics",
//! "mean_height","steps_to_reach","reached","diverged","items_per_s","elapsed_s","difference"}],"differing":[…],"notes":[…]}`.
//! Means are `{"n","mean","sd","median","min","max","standard_error","interval"}`, differences from the first arm
//! `{"mean","pairs","interval","bootstrap","p","p_holm","effect","test","verdict"}`, and rates `{"events","n","interval"}`.
//! Unknown or non-finite values are null.

use serde_json::{Map, Value, json};

use crate::report::analyse::cells::Cells;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::statistics::LEVEL;
use crate::report::analyse::statistics::contrast::Contrast;
use crate::report::analyse::statistics::rates::Rate;
use crate::report::read::changes::Change;

/// Returns the whole comparison.
pub fn json(c: &Comparison) -> Value {
    let differing: Vec<&str> = c.differing.iter().map(|d| d.key.as_str()).collect();
    json!({
        "sweep": c.sweep.as_ref().map(|plan| &plan.name),
        "metric": c.metric,
        "split": c.split,
        "baseline": c.arms.first().map(|a| &a.id),
        "cells": Cells::of(&c.arms, &c.runs),
        "curve_steps": c.yardstick.range,
        "target": c.yardstick.target,
        "arms": (0..c.arms.len()).map(|i| arm(c, i)).collect::<Vec<Value>>(),
        "differing": differing,
        "notes": c.notes,
    })
}

fn arm(c: &Comparison, i: usize) -> Value {
    let (arm, results) = (&c.arms[i], &c.results[i]);
    let settings: Map<String, Value> = c
        .differing
        .iter()
        .map(|d| (d.key.clone(), json!(d.values[i])))
        .collect();
    let seeds: Vec<Value> = arm
        .members
        .iter()
        .map(|&m| seed(c.runs[m].seed.as_deref()))
        .collect();
    let absent = arm.absent.iter();
    let absent = absent.map(|a| json!({"seed": a.seed, "state": a.state()}));
    json!({
        "id": arm.id,
        "label": arm.label,
        "name": arm.name,
        "settings": settings,
        "seeds": seeds,
        "params": arm.cost.map(|cost| cost.params),
        "flops_per_item": arm.cost.map(|cost| cost.flops_per_item),
        "cells": Cells::of([arm], &c.runs),
        "rung": arm.rung.map(|at| {
            json!({"number": at.number, "step": at.step, "value": at.value, "passed": at.passed})
        }),
        "absent": absent.collect::<Vec<Value>>(),
        "runs": arm.members.iter().map(|&m| run(c, m)).collect::<Vec<Value>>(),
        "best": results.best,
        "best_step": results.best_step,
        "final": results.last,
        "metrics": results.metrics,
        "final_metrics": results.last_metrics,
        "mean_height": results.learning.area,
        "steps_to_reach": results.learning.reach,
        "reached": rate(results.learning.reached),
        "diverged": rate(results.diverged),
        "items_per_s": results.items_per_s,
        "elapsed_s": results.elapsed_s,
        "difference": {"best": gap(results.best_gap.as_ref()), "final": gap(results.last_gap.as_ref())},
    })
}

/// Returns a rate with Wilson's interval.
fn rate(rate: Rate) -> Value {
    json!({"events": rate.events, "n": rate.n, "interval": rate.wilson(LEVEL)})
}

/// Returns a difference with its interval, test and verdict.
fn gap(gap: Option<&Contrast>) -> Value {
    gap.map_or(Value::Null, |g| {
        json!({
            "mean": g.difference,
            "pairs": g.pairs,
            "interval": g.interval(),
            "bootstrap": g.bootstrap,
            "p": g.p,
            "p_holm": g.p_holm,
            "effect": g.effect(),
            "test": g.test,
            "verdict": g.verdict,
        })
    })
}

fn run(c: &Comparison, m: usize) -> Value {
    let (run, outcome) = (&c.runs[m], &c.outcomes[m]);
    let point = |p: Option<(Option<u64>, f64)>| {
        p.map(|(step, value)| json!({"step": step, "value": value}))
    };
    json!({
        "path": run.title,
        "name": run.name,
        "seed": seed(run.seed.as_deref()),
        "state": run.state(),
        "step": run.journal.last_step,
        "steps": run.steps,
        "best": point(outcome.best),
        "final": point(outcome.last),
        "mean_height": c.yardstick.area(run),
        "steps_to_reach": c.yardstick.reach(run),
        "metrics": outcome.metrics,
        "final_metrics": outcome.last_metrics,
        "part": run.journal.part_description(c.split),
        "best_is_of_part": outcome.best_is_partial,
        "final_is_of_part": outcome.last_is_partial,
        "scored_at": run.scored_at,
        "changes": run.changes.iter().map(change).collect::<Vec<Value>>(),
        "scores": run.scores,
        "items_per_s": run.items_per_s(),
        "elapsed_s": run.elapsed_s(),
    })
}

/// Returns a setting that changed during the run; `saved` is true once a checkpoint was saved with it.
fn change(c: &Change) -> Value {
    json!({"step": c.step, "key": c.key, "from": c.from, "to": c.to, "saved": c.saved})
}

/// Returns a seed as a number if it is one, and as a string otherwise.
fn seed(seed: Option<&str>) -> Value {
    match seed {
        Some(seed) => seed
            .parse::<i64>()
            .map_or_else(|_| json!(seed), |n| json!(n)),
        None => Value::Null,
    }
}
