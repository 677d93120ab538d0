//! Selects the metrics beside the compared one that have a column in the table.

use super::Detail;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::metrics::{is_shown, selects_best};

/// Maximum number of columns of other metrics in a terminal's table; more would not be read column by column.
const MOST: usize = 10;

/// Returns the metrics with columns, in order. The one that decides which checkpoint is the best is always among them.
pub(super) fn shown(c: &Comparison, detail: Detail) -> Vec<&str> {
    let known = c.metrics.iter().map(String::as_str);
    let known: Vec<&str> = known.filter(|metric| is_shown(metric, &c.runs)).collect();
    if detail != Detail::Brief || known.len() <= MOST {
        return known;
    }
    let (decide, others): (Vec<&str>, Vec<&str>) = known
        .iter()
        .copied()
        .partition(|metric| selects_best(metric, &c.runs));
    let room = MOST.saturating_sub(decide.len());
    let kept: Vec<&str> = decide
        .into_iter()
        .chain(others.into_iter().take(room))
        .collect();
    known
        .into_iter()
        .filter(|metric| kept.contains(metric))
        .collect()
}

/// Returns the metrics that have a column on the page but not in a terminal's table.
pub fn without_columns(c: &Comparison) -> Vec<&str> {
    let brief = shown(c, Detail::Brief);
    let mut all = shown(c, Detail::Full);
    all.retain(|metric| !brief.contains(metric));
    all
}
