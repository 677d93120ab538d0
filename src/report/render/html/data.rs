//! The page's data: mean curves of each arm, thinned so that the page opens at once for any number of runs.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::curves::{Band, curve};
use crate::report::analyse::metrics::more_is_better;
use crate::report::render::terminal::plain;

/// Metrics shown as curves although only training lines have them.
const TRAINING: [&str; 3] = ["grad_norm", "lr", "items_per_s"];
/// Number of arms shown when the page opens.
const SHOWN_ARMS: usize = 8;
/// Maximum number of points of all curves together, at about 20 bytes each.
const POINTS: usize = 250_000;

/// Returns the data that the page's script draws.
pub fn data(c: &Comparison, layers: &Value) -> Value {
    let arm = |i: usize| {
        let clock = curve(&c.plotted_runs(i), "train", "elapsed_s", 200);
        let clock: Vec<Value> = clock
            .iter()
            .map(|b| json!([b.step, rounded(b.mean)]))
            .collect();
        json!({"id": c.arms[i].id, "label": plain(&c.arms[i].name), "runs": c.arms[i].plotted().len(), "clock": clock})
    };
    let arms: Vec<Value> = (0..c.arms.len()).map(arm).collect();
    json!({"arms": arms, "series": series(c), "layers": layers, "more": more_is_better(&c.metric), "on": c.best_arms(SHOWN_ARMS)})
}

/// Returns `{metric: {split: [points of each arm]}}`, with points `[step, mean, sd, n]`. Splits with points at fewer than
/// two steps are left out.
pub fn series(c: &Comparison) -> Map<String, Value> {
    let metrics: Vec<&str> = std::iter::once(c.metric.as_str())
        .chain(c.metrics.iter().map(String::as_str))
        .chain(TRAINING)
        .collect();
    let limit = (POINTS / (2 * c.arms.len().max(1) * metrics.len())).clamp(16, 400);
    let point = |b: &Band| json!([b.step, rounded(b.mean), rounded(b.sd), b.n]);
    let mut series = Map::new();
    for metric in metrics {
        let mut splits = Map::new();
        for split in ["train", "valid", "test"] {
            let of_arm = |i: usize| curve(&c.plotted_runs(i), split, metric, limit);
            let arms: Vec<Vec<Value>> = (0..c.arms.len())
                .map(|i| of_arm(i).iter().map(point).collect())
                .collect();
            // A single step makes no curve; the tables show its values.
            let steps: BTreeSet<u64> = arms
                .iter()
                .flatten()
                .filter_map(|p| p[0].as_u64())
                .collect();
            if steps.len() > 1 {
                splits.insert(split.to_string(), json!(arms));
            }
        }
        if !splits.is_empty() && !series.contains_key(metric) {
            series.insert(metric.to_string(), Value::Object(splits));
        }
    }
    series
}

/// Rounds to six significant digits: more than a screen shows, in half the bytes.
pub fn rounded(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}
