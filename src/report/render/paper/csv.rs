//! Writes `table.csv`, with a line per arm, and `runs.csv`, with a line per run: every number as it was computed, for scripts.
//!
//! A metric appears twice, at the last and at the best evaluation of the compared metric: `final_accuracy`, `best_accuracy`.
//! An unknown or non-finite number is an empty field. A text that a spreadsheet would take for a formula gets a leading
//! apostrophe, the spreadsheet convention; numbers stay as they are.

use crate::error::{Error, Result};
use crate::report::analyse::arms::{Arm, MissingCell};
use crate::report::analyse::cells::Cells;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::statistics::contrast::{Contrast, Verdict};
use crate::report::analyse::statistics::rates::Rate;
use crate::report::analyse::statistics::summary::Summary;
use crate::report::analyse::statistics::{Interval, LEVEL};
use crate::report::render::figure::compute::flops;
use std::borrow::Cow;

/// A line as (column, field) pairs. All lines of a file name the same columns.
type Line = Vec<(String, String)>;

/// Returns `table.csv`, with a line per arm.
///
/// # Errors
/// If the CSV writer fails, which does not happen in practice.
pub fn arms(c: &Comparison) -> Result<String> {
    write((0..c.arms.len()).map(|i| arm(c, i)).collect())
}

/// Returns `runs.csv`, with a line per run and per cell without a run, arm by arm.
///
/// # Errors
/// If the CSV writer fails, which does not happen in practice.
pub fn runs(c: &Comparison) -> Result<String> {
    let mut lines = Vec::new();
    for (i, arm) in c.arms.iter().enumerate() {
        lines.extend(arm.members.iter().map(|&m| run(c, i, Ok(m))));
        lines.extend(arm.absent.iter().map(|absent| run(c, i, Err(absent))));
    }
    write(lines)
}

fn write(lines: Vec<Line>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| Error::run(format!("a table cannot be written: {e}"));
    if let Some(first) = lines.first() {
        writer
            .write_record(
                first
                    .iter()
                    .map(|(column, _)| escape_formula(column).into_owned()),
            )
            .map_err(failed)?;
    }
    for line in &lines {
        writer
            .write_record(
                line.iter()
                    .map(|(_, field)| escape_formula(field).into_owned()),
            )
            .map_err(failed)?;
    }
    let bytes = writer.into_inner().map_err(|e| Error::run(e.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a field that no spreadsheet evaluates. Names, keys and values may contain anything that their author wrote.
fn escape_formula(field: &str) -> Cow<'_, str> {
    let begins =
        field.trim_start().starts_with(['=', '+', '-', '@']) || field.starts_with(['\t', '\r']);
    match begins && field.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{field}")),
        false => Cow::Borrowed(field),
    }
}

/// Builder for the fields of a line, in order.
struct Fields(Line);

impl Fields {
    fn text(&mut self, column: impl Into<String>, text: impl Into<String>) {
        self.0.push((column.into(), text.into()));
    }

    fn count(&mut self, column: &str, n: usize) {
        self.text(column, n.to_string());
    }

    fn number(&mut self, column: impl Into<String>, x: Option<f64>) {
        let shown = x.filter(|x| x.is_finite()).map(|x| x.to_string());
        self.text(column, shown.unwrap_or_default());
    }

    fn interval(&mut self, column: &str, interval: Option<Interval>) {
        self.number(format!("{column}_low"), interval.map(|i| i.low));
        self.number(format!("{column}_high"), interval.map(|i| i.high));
    }

    fn summary(&mut self, column: &str, s: Option<&Summary>) {
        self.text(format!("{column}_n"), s.map_or(0, |s| s.n).to_string());
        self.number(format!("{column}_mean"), s.map(|s| s.mean));
        self.number(format!("{column}_sd"), s.and_then(|s| s.sd));
        self.number(format!("{column}_median"), s.map(|s| s.median));
        self.number(format!("{column}_min"), s.map(|s| s.min));
        self.number(format!("{column}_max"), s.map(|s| s.max));
        self.interval(column, s.and_then(|s| s.interval));
    }

    fn rate(&mut self, column: &str, rate: Rate) {
        self.count(column, rate.events);
        self.number(format!("{column}_rate"), rate.value());
        self.interval(column, rate.wilson(LEVEL));
    }

    fn contrast(&mut self, column: &str, gap: Option<&Contrast>) {
        let name = |part: &str| format!("{column}_{part}");
        self.number(column, gap.and_then(|g| g.difference));
        self.text(
            name("pairs"),
            gap.map_or(String::new(), |g| g.pairs.to_string()),
        );
        self.interval(column, gap.and_then(Contrast::interval));
        let bca = gap.and_then(|g| Some(g.bootstrap?.bca));
        self.interval(&name("bca"), bca);
        self.number(name("p"), gap.and_then(|g| g.p));
        self.number(name("p_holm"), gap.and_then(|g| g.p_holm));
        self.number(name("effect"), gap.and_then(Contrast::effect));
        let needed = match gap.map(|g| g.verdict) {
            Some(Verdict::NotSettled { needed }) => needed,
            _ => None,
        };
        self.number(name("seeds_needed"), needed.map(|n| n as f64));
        self.text(
            name("verdict"),
            gap.map_or(String::new(), |g| g.verdict.to_string()),
        );
    }

    fn settings(&mut self, c: &Comparison, arm: usize) {
        for d in &c.differing {
            self.text(&d.key, d.values[arm].clone().unwrap_or_default());
        }
    }
}

fn arm(c: &Comparison, i: usize) -> Line {
    let (arm, results) = (&c.arms[i], &c.results[i]);
    let mut fields = Fields(Vec::new());
    fields.text("arm", &arm.label);
    fields.settings(c, i);
    let cells = Cells::of([arm], &c.runs);
    fields.count("planned", cells.planned);
    fields.count("done", cells.done);
    fields.count("failed", cells.failed);
    fields.count("stopped", cells.stopped);
    fields.count("unfinished", cells.unfinished);
    fields.count("not_begun", cells.not_begun);
    if c.sweep.as_ref().is_some_and(|plan| plan.halving.is_some()) {
        let stopped = arm.rung.filter(|at| !at.passed);
        fields.number("stopped_at_rung", stopped.map(|at| at.number as f64));
        fields.number("stopped_at_step", stopped.map(|at| at.step as f64));
        fields.number("stopped_at_value", stopped.and_then(|at| at.value));
    }
    fields.rate("diverged", results.diverged);
    fields.number("params", arm.cost.map(|cost| cost.params as f64));
    fields.number("flops_per_item", arm.cost.map(|cost| cost.flops_per_item));
    fields.summary("final", results.last.as_ref());
    fields.contrast("final_difference", results.last_gap.as_ref());
    fields.summary("best", results.best.as_ref());
    fields.number("best_step", results.best_step);
    fields.contrast("best_difference", results.best_gap.as_ref());
    fields.summary("mean_height", results.learning.area.as_ref());
    fields.number("target", c.yardstick.target);
    fields.summary("steps_to_target", results.learning.reach.as_ref());
    fields.rate("reached", results.learning.reached);
    for metric in &c.metrics {
        fields.summary(&format!("final_{metric}"), results.last_metrics.get(metric));
        fields.summary(&format!("best_{metric}"), results.metrics.get(metric));
    }
    fields.number("items_per_s", results.items_per_s.map(|s| s.mean));
    fields.number("elapsed_s", results.elapsed_s.map(|s| s.mean));
    fields.0
}

/// Returns the line of a run (`Ok`, its index) or of a cell without a run (`Err`).
fn run(c: &Comparison, i: usize, which: std::result::Result<usize, &MissingCell>) -> Line {
    let arm: &Arm = &c.arms[i];
    let m = which.ok();
    let (run, outcome) = (m.map(|m| &c.runs[m]), m.map(|m| &c.outcomes[m]));
    let seed = match which {
        Ok(m) => c.runs[m].seed.clone().unwrap_or_default(),
        Err(absent) => absent.seed.to_string(),
    };
    let state = match which {
        Ok(m) => c.runs[m].state(),
        Err(absent) => absent.state(),
    };
    let mut fields = Fields(Vec::new());
    fields.text("arm", &arm.label);
    fields.text("seed", seed);
    fields.text("run", run.map_or("", |r| r.title.as_str()));
    fields.text("state", state);
    let counted = m.is_some_and(|m| arm.counted.contains(&m));
    fields.text("counted", counted.to_string());
    fields.number("step", run.map(|r| r.journal.last_step as f64));
    fields.number("steps", run.and_then(|r| r.steps).map(|n| n as f64));
    let last = outcome.and_then(|o| o.last);
    let best = outcome.and_then(|o| o.best);
    fields.number("final", last.map(|p| p.1));
    fields.number("best", best.map(|p| p.1));
    fields.number("best_step", best.and_then(|p| p.0).map(|s| s as f64));
    fields.number("mean_height", run.and_then(|r| c.yardstick.area(r)));
    fields.number("steps_to_target", run.and_then(|r| c.yardstick.reach(r)));
    for metric in &c.metrics {
        let last = outcome.and_then(|o| o.last_metrics.get(metric));
        let best = outcome.and_then(|o| o.metrics.get(metric));
        fields.number(format!("final_{metric}"), last.copied());
        fields.number(format!("best_{metric}"), best.copied());
    }
    fields.number("items", run.and_then(|r| r.items()));
    fields.number("flops", m.and_then(|m| flops(c, i, m)));
    fields.number("items_per_s", run.and_then(|r| r.items_per_s()));
    fields.number("elapsed_s", run.and_then(|r| r.elapsed_s()));
    fields.settings(c, i);
    fields.0
}

#[cfg(test)]
mod tests {
    use super::escape_formula;

    #[test]
    fn formulas_are_texts_and_numbers_are_numbers() {
        for formula in [
            "=cmd|' /C calc'!A0",
            "+1+1",
            "-2+3",
            "@SUM(A1)",
            " =1",
            "\t=1",
            "-",
        ] {
            assert_eq!(escape_formula(formula), format!("'{formula}"));
        }
        for plain in ["", "-1.5", "+3", "-1e-5", "pre, rotary", "a=b", "0.1 + x"] {
            assert_eq!(escape_formula(plain), plain);
        }
    }
}
