//! Columns that show how fast arms learn.

use super::cells::{rate, share, share_with_interval, summary};
use super::{Cell, Sheet, cells_of_arms};
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::results::ArmResults;
use crate::report::render::terminal::number;

/// Adds the median of the final values, how fast the arms learn, and how often they diverge.
pub(super) fn learning(sheet: &mut Sheet, c: &Comparison) {
    if c.results.iter().any(|r| r.last.is_some_and(|s| s.n > 1)) {
        let median = |r: &ArmResults| {
            r.last.map_or_else(Cell::default, |s| Cell {
                text: number(s.median),
                value: Some(s.median),
            })
        };
        sheet.add(
            "median",
            "median of the final values",
            cells_of_arms(c, median),
        );
    }
    if let Some((low, high)) = c.yardstick.range {
        let hint = format!(
            "area under the curve from step {low} to {high}, the steps that all runs have, divided by its width"
        );
        sheet.add(
            "mean height",
            hint,
            cells_of_arms(c, |r| summary(r.learning.area.as_ref())),
        );
    }
    reach(sheet, c);
    if c.results.iter().any(|r| r.diverged.events > 0) {
        sheet.add(
            "diverged",
            "runs whose loss stopped being a number, with Wilson's interval",
            cells_of_arms(c, |r| share_with_interval(r.diverged)),
        );
    }
}

/// Adds the steps until the target value is first reached, and how many runs reach it.
pub(super) fn reach(sheet: &mut Sheet, c: &Comparison) {
    if let Some(target) = c.yardstick.target {
        let title = format!("steps to {}", number(target));
        let hint = "steps until the value is first reached, over the runs that did";
        sheet.add(
            title,
            hint,
            cells_of_arms(c, |r| rate(r.learning.reach.as_ref())),
        );
        sheet.add(
            "reached",
            "runs that reached it",
            cells_of_arms(c, |r| share(r.learning.reached)),
        );
    }
}
