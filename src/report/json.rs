//! A comparison as one JSON object, for scripts.
//!
//! `{"metric","split","baseline","arms":[{"id","label","settings","seeds","runs","best","final","metrics",
//! "items_per_s","elapsed_s","difference"}],"differing":[…],"notes":[…]}`; means come as `{"n","mean","sd","median","min",
//! "max","standard_error","interval"}`, differences from the first arm as `{"mean","pairs","interval","p","p_holm","effect",
//! "test","verdict"}`. What is unknown or not a number is null.

use serde_json::{Map, Value, json};

use crate::report::compare::Comparison;
use crate::report::statistics::compare::Contrast;

/// The whole comparison.
pub fn json(c: &Comparison) -> Value {
    let differing: Vec<&str> = c.differing.iter().map(|d| d.key.as_str()).collect();
    json!({
        "metric": c.metric,
        "split": c.split,
        "baseline": c.arms.first().map(|a| &a.id),
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
    json!({
        "id": arm.id,
        "label": arm.label,
        "settings": settings,
        "seeds": seeds,
        "runs": arm.members.iter().map(|&m| run(c, m)).collect::<Vec<Value>>(),
        "best": results.best,
        "best_step": results.best_step,
        "final": results.last,
        "metrics": results.metrics,
        "items_per_s": results.items_per_s,
        "elapsed_s": results.elapsed_s,
        "difference": {"best": gap(results.best_gap.as_ref()), "final": gap(results.last_gap.as_ref())},
    })
}

/// A difference with its interval, its test and what follows.
fn gap(gap: Option<&Contrast>) -> Value {
    gap.map_or(Value::Null, |g| {
        json!({
            "mean": g.difference,
            "pairs": g.pairs,
            "interval": g.interval(),
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
        "path": run.path,
        "name": run.name,
        "seed": seed(run.seed.as_deref()),
        "state": run.state(),
        "step": run.journal.last_step,
        "steps": run.steps,
        "best": point(outcome.best),
        "final": point(outcome.last),
        "metrics": outcome.metrics,
        "scores": run.scores,
        "items_per_s": run.items_per_s(),
        "elapsed_s": run.elapsed_s(),
    })
}

/// A seed as the number it is.
fn seed(seed: Option<&str>) -> Value {
    match seed {
        Some(seed) => seed
            .parse::<i64>()
            .map_or_else(|_| json!(seed), |n| json!(n)),
        None => Value::Null,
    }
}
