//! Selects the differing settings that have a column in the table, and those that only the page and JSON show.

use super::SETTINGS;
use crate::report::analyse::arms::Difference;
use crate::report::analyse::causes::causes;
use crate::report::analyse::comparison::Comparison;

/// Setting that is shown by the column of steps.
const STEPS: &str = "train.steps";

/// Where the table shows the value of a differing setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownIn {
    /// In a column for the setting.
    Column,
    /// In the names of the arms, or in the column of steps.
    Elsewhere,
    /// Nowhere in a table: no axis of the sweep sets it.
    Nowhere,
}

/// Returns the settings with columns, at most [`SETTINGS`].
pub(super) fn shown(c: &Comparison) -> Vec<&Difference> {
    let causes = causes(&c.differing).into_iter();
    let telling = causes.filter(|d| shown_in(c, &d.key) == ShownIn::Column);
    telling.take(SETTINGS).collect()
}

/// Returns the differing settings that a terminal's table does not show.
pub fn hidden_settings(c: &Comparison) -> Vec<&str> {
    let mut columns = 0;
    let mut keys = Vec::new();
    for difference in causes(&c.differing) {
        match shown_in(c, &difference.key) {
            ShownIn::Column if columns < SETTINGS => columns += 1,
            ShownIn::Column | ShownIn::Nowhere => keys.push(difference.key.as_str()),
            ShownIn::Elsewhere => {}
        }
    }
    keys
}

/// Returns where the table shows a setting. Runs given one by one have columns for everything that differs. The arms of a sweep
/// have columns for the keys that its axes set (an axis may be a table and set every key below it), unless the arms' names
/// contain them. Keys that merely follow from an axis are left to the page.
fn shown_in(c: &Comparison, key: &str) -> ShownIn {
    if key == STEPS {
        return ShownIn::Elsewhere;
    }
    let Some(plan) = &c.sweep else {
        return ShownIn::Column;
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
        return ShownIn::Nowhere;
    }
    match axes.all(named) {
        true => ShownIn::Elsewhere,
        false => ShownIn::Column,
    }
}
