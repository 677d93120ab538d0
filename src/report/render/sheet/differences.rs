//! Result columns: best and final values, their differences from the first arm, and the tests of these differences.

use super::cells::{bootstrapped, difference, effect, p_cell, summary, verdict, with_marks};
use super::{Cell, Detail, Sheet, cells_of_arms};
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::results::ArmResults;
use crate::report::analyse::statistics::contrast::Contrast;
use crate::report::render::terminal::count;

/// Adds the best values and their steps.
pub(super) fn add_best_values(sheet: &mut Sheet, c: &Comparison) {
    let best = cells_of_arms(c, |r| summary(r.best.as_ref()));
    let of_part = c.outcomes.iter().any(|o| o.best_is_partial);
    let part = if of_part { " (part)" } else { "" };
    let name = format!("best {} {}{part}", c.split, c.metric);
    sheet.add(name, "mean ± sd over runs", best);
    let at = |step: f64| Cell {
        text: count(step.round() as u64),
        value: Some(step),
    };
    sheet.add(
        "at step",
        "step of the best value, mean over runs",
        cells_of_arms(c, |r| r.best_step.map(at).unwrap_or_default()),
    );
}

/// Adds the final values.
pub(super) fn add_final_values(sheet: &mut Sheet, c: &Comparison) {
    let last = cells_of_arms(c, |r| with_marks(summary(r.last.as_ref()), &r.last_marks));
    let hint = "mean ± sd over runs, over the whole split at the last step unless stated otherwise";
    sheet.add(format!("final {} {}", c.split, c.metric), hint, last);
}

pub(super) type ContrastSelector = fn(&ArmResults) -> Option<&Contrast>;

/// Names of an arm's two differences, with the functions that select them.
pub(super) const GAPS: [(&str, ContrastSelector); 2] = [
    ("best", |r| r.best_gap.as_ref()),
    ("final", |r| r.last_gap.as_ref()),
];

/// Adds a difference from the first arm and its p value.
pub(super) fn add_difference(
    sheet: &mut Sheet,
    c: &Comparison,
    (which, pick): (&str, ContrastSelector),
) {
    let base = &c.arms[0].id;
    let gap = format!(
        "{which} {} {} minus that of arm {base}, with its t interval, which is not corrected for the number of arms: \
         paired where two seeds pair",
        c.split, c.metric
    );
    let p = format!("two-sided t test of Δ {which}, corrected for all tested arms (Holm 1979)");
    let title = format!("Δ {which} [95 %]");
    sheet.add(title, gap, cells_of_arms(c, |r| difference(pick(r))));
    sheet.add("p", p, cells_of_arms(c, |r| p_cell(pick(r))));
}

/// Adds the verdict on the difference of the final values and its effect size; with full detail also its bootstrap interval.
pub(super) fn add_tested_difference(sheet: &mut Sheet, c: &Comparison, detail: Detail) {
    let last = |r: &ArmResults| r.last_gap.clone();
    let says = |r: &ArmResults| last(r).map_or_else(Cell::default, |g| verdict(&g));
    let size = |r: &ArmResults| {
        let effect_size = last(r).and_then(|g| g.effect());
        effect_size.map_or_else(Cell::default, effect)
    };
    let verdict_hint = "by p of Δ final at 0.05; number of seeds that would settle an open difference with power 0.8 for the \
                        observed effect, at 0.05 over the number of tests; equal differences are not tested";
    let effect_hint = "Δ final in standard deviations, corrected for small samples: of the differences where seeds pair (Hedges' g_z), \
                       else of the arms (Hedges' g)";
    if detail == Detail::Full {
        sheet.add("verdict", verdict_hint, cells_of_arms(c, says));
        sheet.add("effect", effect_hint, cells_of_arms(c, size));
        sheet.add(
            "bootstrap [95 %]",
            "BCa bootstrap interval of Δ final over paired seeds; too short for few seeds",
            cells_of_arms(c, |r| bootstrapped(r.last_gap.as_ref())),
        );
    } else {
        sheet.add("effect", effect_hint, cells_of_arms(c, size));
        sheet.add("verdict", verdict_hint, cells_of_arms(c, says));
    }
}
