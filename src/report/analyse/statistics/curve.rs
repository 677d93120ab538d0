//! Learning speed from a metric's curve: the area under it, and the steps until it first reaches a value.
//!
//! A curve is a list of (step, value) in rising order of steps, with straight lines between points. It ends before its
//! first value that is not finite: only what a run did before it diverged counts. A point whose step is not above the
//! previous one is skipped.

use super::Direction;

/// Returns the points of a curve that count, as described in the module documentation.
fn valid_points(curve: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(curve.len());
    for &(step, value) in curve.iter().take_while(|(_, value)| value.is_finite()) {
        let step = step as f64;
        if points.last().is_none_or(|&(last, _)| step > last) {
            points.push((step, value));
        }
    }
    points
}

/// Returns the range of steps that all curves cover, from the latest first point to the earliest last point. `None`
/// without curves, if a curve has no point, or if the curves share at most a single step.
pub fn common_range<'a>(curves: impl IntoIterator<Item = &'a [(u64, f64)]>) -> Option<(f64, f64)> {
    let mut range: Option<(f64, f64)> = None;
    for curve in curves {
        let points = valid_points(curve);
        let (first, last) = (points.first()?.0, points.last()?.0);
        range = Some(match range {
            Some((low, high)) => (low.max(first), high.min(last)),
            None => (first, last),
        });
    }
    range.filter(|(low, high)| low < high)
}

/// Returns the area under the curve from step `low` to step `high` by the trapezoidal rule, divided by high - low: the
/// mean value of the metric over these steps. Compare curves over a range that both cover ([`common_range`]); otherwise
/// a longer run looks better.
///
/// Returns `None` unless the curve covers the range and low < high, and if the area overflows.
pub fn mean_height(curve: &[(u64, f64)], (low, high): (f64, f64)) -> Option<f64> {
    let points = valid_points(curve);
    let covered = points.first()?.0 <= low && low < high && high <= points.last()?.0;
    if !covered {
        return None;
    }
    let mut mean = 0.0;
    for pair in points.windows(2) {
        let (from, to) = (pair[0].0.max(low), pair[1].0.min(high));
        if from < to {
            let height = f64::midpoint(value_at(pair, from), value_at(pair, to));
            mean += height * ((to - from) / (high - low));
        }
    }
    mean.is_finite().then_some(mean)
}

/// Returns the step, interpolated linearly, at which the curve is first at least as good as `target`. This is the first
/// point's step if the curve starts that good, and `None` if it never gets there.
pub fn steps_to_reach(curve: &[(u64, f64)], target: f64, better: Direction) -> Option<f64> {
    let points = valid_points(curve);
    let hit = points.iter().position(|p| better.reaches(p.1, target))?;
    let (step, value) = points[hit];
    let Some(&(before, worse)) = hit.checked_sub(1).and_then(|i| points.get(i)) else {
        return Some(step);
    };
    // Halved values, because the distance between two finite values may overflow and that between their halves cannot.
    let share = (target / 2.0 - worse / 2.0) / (value / 2.0 - worse / 2.0);
    let share = if share.is_finite() { share } else { 1.0 };
    Some(before + share.clamp(0.0, 1.0) * (step - before))
}

/// Returns the value at `step` on the line through two points.
fn value_at(pair: &[(f64, f64)], step: f64) -> f64 {
    let ((s0, v0), (s1, v1)) = (pair[0], pair[1]);
    let share = (step - s0) / (s1 - s0);
    v0 * (1.0 - share) + v1 * share
}
