//! Finds the rows of a table with the best value, which are shown in bold: none if values are of different measures, several if
//! they are equal.

use super::Sheet;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::metrics::more_is_better;
use crate::report::analyse::statistics::contrast::{Reason, Verdict};

/// Relative rounding error of a mean over seeds.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Returns the rows with the best value of a column; empty for a single row, or if values are not comparable.
pub fn top_rows(sheet: &Sheet, column: usize, c: &Comparison) -> Vec<usize> {
    if sheet.rows.len() < 2 || are_incomparable(c) {
        return Vec::new();
    }
    let sign = if more_is_better(&c.metric) { -1.0 } else { 1.0 };
    let values = sheet.rows.iter().enumerate();
    let values: Vec<(usize, f64)> = values
        .filter_map(|(r, row)| Some((r, sign * row[column].value?)))
        .collect();
    let Some(best) = values.iter().map(|v| v.1).min_by(f64::total_cmp) else {
        return Vec::new();
    };
    let is_best = |value: f64| value - best <= ROUNDING * value.abs().max(best.abs());
    let rows = values.into_iter().filter(|(_, value)| is_best(*value));
    rows.map(|(row, _)| row).collect()
}

/// Whether some arm's values are not comparable with the first arm's, because of a different measure or different contents.
fn are_incomparable(c: &Comparison) -> bool {
    let reasons = [Reason::OtherMeasure, Reason::OtherContents];
    let gaps = c.results.iter().flat_map(|r| [&r.best_gap, &r.last_gap]);
    let mut verdicts = gaps.flatten().map(|gap| gap.verdict);
    verdicts.any(|verdict| reasons.map(Verdict::NotTested).contains(&verdict))
}
