//! Distances of quantities from the golden ones.

use std::collections::BTreeMap;

use formwork::report::analyse::statistics::Interval;
use serde_json::Value;

/// Bound for quantities that scipy also computes in double precision.
const BOUND: f64 = 1e-9;

/// Returns 1, or less for samples whose values agree in more than six digits: reading a number may round its last bit, which
/// then is a visible part of the spread.
fn condition(case: &Value) -> f64 {
    let Some(values) = case["values"].as_array() else {
        return 1.0;
    };
    let values: Vec<f64> = values.iter().map(|v| v.as_f64().unwrap()).collect();
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let spread = values
        .iter()
        .fold(0.0f64, |m, v| m.max((v - values[0]).abs()));
    if largest > 0.0 && spread > 0.0 {
        (1e6 * spread / largest).min(1.0)
    } else {
        1.0
    }
}

/// The largest difference of each quantity over all cases.
#[derive(Default)]
pub struct Worst(BTreeMap<&'static str, (f64, String)>);

impl Worst {
    /// Compares a number; if one is missing, both must be. Differences are relative to `scale`, or to the expected number.
    pub fn number(
        &mut self,
        what: &'static str,
        case: &Value,
        got: Option<f64>,
        expected: &Value,
        scale: Option<f64>,
    ) {
        let name = case["name"].as_str().unwrap_or_default();
        assert_eq!(
            got.is_some(),
            expected.is_f64() || expected.is_number(),
            "{what} of {name}: {got:?} {expected}"
        );
        if let (Some(got), Some(expected)) = (got, expected.as_f64()) {
            let off = if got == expected {
                0.0
            } else {
                (got - expected).abs() / scale.unwrap_or(expected.abs()) * condition(case)
            };
            let worst = self.0.entry(what).or_default();
            if off.is_nan() || off >= worst.0 {
                *worst = (
                    off,
                    format!("{name}: {got} for {expected} {case}")
                        .chars()
                        .take(400)
                        .collect(),
                );
            }
        }
    }

    pub fn interval(
        &mut self,
        what: &'static str,
        case: &Value,
        got: Option<Interval>,
        low: &Value,
        high: &Value,
    ) {
        let scale = low
            .as_f64()
            .zip(high.as_f64())
            .map(|(l, h)| l.abs().max(h.abs()));
        self.number(what, case, got.map(|i| i.low), low, scale);
        self.number(what, case, got.map(|i| i.high), high, scale);
    }

    pub fn check(&self) {
        for (what, (off, case)) in &self.0 {
            eprintln!("{what:24} {off:.1e}");
            assert!(*off <= BOUND, "{what} is off by {off:e}: {case}");
        }
    }
}
