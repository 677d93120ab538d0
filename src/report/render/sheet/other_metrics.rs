//! Which metrics beside the compared one have a column of the table.

use super::Detail;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::metrics::{decides, is_shown};

/// Columns of other metrics in the table of a terminal; more of them are not read column by column.
const MOST: usize = 10;

/// The metrics with columns, in their order. The one that decides which checkpoint is the best is always among them.
pub(super) fn shown(c: &Comparison, detail: Detail) -> Vec<&str> {
    let known = c.metrics.iter().map(String::as_str);
    let known: Vec<&str> = known.filter(|metric| is_shown(metric, &c.runs)).collect();
    if detail != Detail::Brief || known.len() <= MOST {
        return known;
    }
    let (decide, others): (Vec<&str>, Vec<&str>) = known
        .iter()
        .copied()
        .partition(|metric| decides(metric, &c.runs));
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

/// The metrics that the table of a terminal has no column for, and a page has.
pub fn without_columns(c: &Comparison) -> Vec<&str> {
    let brief = shown(c, Detail::Brief);
    let mut all = shown(c, Detail::Full);
    all.retain(|metric| !brief.contains(metric));
    all
}
