//! Which of the settings that differ have a column of the table, and which only a page and JSON tell.

use super::SETTINGS;
use crate::report::analyse::arms::Difference;
use crate::report::analyse::causes::causes;
use crate::report::analyse::comparison::Comparison;

/// The setting that has its own column in every table.
const STEPS: &str = "train.steps";

/// Where the value of a setting that differs can be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// In a column of its own.
    Column,
    /// In the names of the arms, or in the column of steps.
    Elsewhere,
    /// Nowhere in a table: no axis of the sweep sets it.
    Nowhere,
}

/// The settings with columns, [`SETTINGS`] at most.
pub(super) fn shown(c: &Comparison) -> Vec<&Difference> {
    let causes = causes(&c.differing).into_iter();
    let telling = causes.filter(|d| told(c, &d.key) == Told::Column);
    telling.take(SETTINGS).collect()
}

/// The settings that differ and can be read nowhere in the table of a terminal.
pub fn left_out(c: &Comparison) -> Vec<&str> {
    let mut columns = 0;
    let mut keys = Vec::new();
    for difference in causes(&c.differing) {
        match told(c, &difference.key) {
            Told::Column if columns < SETTINGS => columns += 1,
            Told::Column | Told::Nowhere => keys.push(difference.key.as_str()),
            Told::Elsewhere => {}
        }
    }
    keys
}

/// Runs that are named one by one have columns of all that differs. The arms of a sweep have columns of what its axes set
/// (an axis may be a table, and sets every key below it) unless their names say it; what follows from that is for the page.
fn told(c: &Comparison, key: &str) -> Told {
    if key == STEPS {
        return Told::Elsewhere;
    }
    let Some(plan) = &c.sweep else {
        return Told::Column;
    };
    let sets = |axis: &&String| {
        let below = key.strip_prefix(axis.as_str());
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let named = |axis: &String| {
        let named = format!("{}=", axis.rsplit('.').next().unwrap_or(axis));
        c.arms.iter().all(|arm| arm.label.contains(&named))
    };
    let mut axes = plan.axes.iter().filter(sets).peekable();
    if axes.peek().is_none() {
        return Told::Nowhere;
    }
    match axes.all(named) {
        true => Told::Elsewhere,
        false => Told::Column,
    }
}
