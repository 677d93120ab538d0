//! The table of a comparison, built once for the terminal, Markdown, LaTeX and HTML.

use super::terminal::{count, number, shortened};
use crate::report::analyse::arms::Arm;
use crate::report::analyse::comparison::{Comparison, earlier_step_mark};
use crate::report::analyse::lengths;
use crate::report::analyse::metrics::SPLITS;
use crate::report::analyse::results::ArmResults;
use crate::report::analyse::statistics::LEVEL;
use crate::report::analyse::statistics::summary::{Summary, summarize};
use crate::report::read::run::Run;
use std::collections::BTreeMap;

mod cells;
mod differences;
mod fit_width;
mod learning;
mod other_metrics;
mod settings;
mod tops;

pub use cells::with_marks;
use cells::{rate, seeds, setting, state, steps, summary, time};
use differences::{GAPS, add_best_values, add_difference, add_final_values, add_tested_difference};
use learning::learning;
pub use other_metrics::without_columns;
pub use settings::hidden_settings;
pub use tops::top_rows;

/// Maximum width of a text in a terminal cell, in columns; names of arms are never shortened.
const CELL: usize = 28;

/// Title of the column with the arms' names.
const ARM: &str = "arm";

/// Maximum number of differing settings with a column; more would not be read column by column.
pub const SETTINGS: usize = 8;

/// A cell: the shown text and the number to sort by.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Text to show; empty cells show `–`.
    pub text: String,
    /// Number behind the text, for sorting; `None` for cells that sort as text.
    pub value: Option<f64>,
}

/// Selects the other metrics of an arm, at the best or at the last evaluation.
type MetricSelector = fn(&ArmResults) -> &BTreeMap<String, Summary>;

/// The subject of a column. If a table is too wide, later variants are dropped first, but never [`ColumnRank::Name`] and
/// [`ColumnRank::Result`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ColumnRank {
    #[default]
    Name,
    Result,
    Difference,
    Setting,
    Progress,
    Best,
    Other,
    Speed,
}

/// A table: columns with titles, and rows of cells.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Title and explanation of each column.
    pub columns: Vec<(String, String)>,
    /// Rows of cells, one per arm (or per setting or run, in the page's other tables).
    pub rows: Vec<Vec<Cell>>,
    /// Rank of each column; empty for tables without ranks.
    ranks: Vec<ColumnRank>,
    /// Rank given to the columns that are added next.
    rank: ColumnRank,
}

impl Sheet {
    /// Builds a table of columns without ranks, which is never narrowed.
    pub fn of(columns: Vec<(String, String)>, rows: Vec<Vec<Cell>>) -> Self {
        Self {
            columns,
            rows,
            ..Self::default()
        }
    }

    /// Adds a column, unless all its cells are empty.
    fn add(&mut self, title: impl Into<String>, hint: impl Into<String>, cells: Vec<Cell>) {
        if cells.iter().all(|c| c.text.is_empty()) {
            return;
        }
        self.columns.push((title.into(), hint.into()));
        self.ranks.push(self.rank);
        self.rows
            .iter_mut()
            .zip(cells)
            .for_each(|(row, cell)| row.push(cell));
    }

    /// Whether every cell of a column is a number or empty.
    pub fn numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().map(|row| &row[column]);
        cells.all(|cell| cell.value.is_some() || cell.text.is_empty())
    }

    /// Returns header and cells as text. With `short`, long texts are shortened, except names of arms (what tells them apart may
    /// be anywhere in them) and numbers with their intervals.
    pub fn text(&self, short: bool) -> Vec<Vec<String>> {
        let cell = |(column, cell): (usize, &Cell)| match (cell.text.is_empty(), short) {
            (true, _) => "–".to_string(),
            (false, true) if self.columns[column].0 != ARM && cell.value.is_none() => {
                shortened(&cell.text, CELL)
            }
            (false, _) => cell.text.clone(),
        };
        let header = self
            .columns
            .iter()
            .map(|(title, _)| title.clone())
            .collect();
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().enumerate().map(cell).collect());
        std::iter::once(header).chain(rows).collect()
    }
}

/// The amount of detail in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The columns for a terminal: settings, best and final values, and the difference of the final ones.
    Brief,
    /// The columns for a paper: the arms, their final values and the differences.
    Paper,
    /// Everything except the settings, for a page that has a separate table of them.
    Full,
}

/// Builds the table for the terminal: arm, differing settings, progress, results, differences from the first arm, speed.
pub fn sheet(c: &Comparison) -> Sheet {
    build(c, Detail::Brief)
}

/// Builds the table for a paper.
pub fn paper_sheet(c: &Comparison) -> Sheet {
    build(c, Detail::Paper)
}

/// Builds the table with all columns except the settings.
pub fn without_settings(c: &Comparison) -> Sheet {
    build(c, Detail::Full)
}

fn build(c: &Comparison, detail: Detail) -> Sheet {
    let mut sheet = Sheet {
        rows: vec![Vec::new(); c.arms.len()],
        ..Sheet::default()
    };
    let text = |text: &str| Cell {
        text: text.to_string(),
        value: None,
    };
    let runs = |members: &[usize]| members.iter().map(|&m| &c.runs[m]).collect::<Vec<&Run>>();
    if detail != Detail::Paper {
        let marks = c.arms.iter().map(|a| text(&a.id)).collect();
        sheet.add("", "the arm's mark in the curves", marks);
    }
    sheet.add(
        ARM,
        "runs that differ only in their seed",
        c.arms.iter().map(|a| text(&a.name)).collect(),
    );
    if detail == Detail::Full {
        // The most wanted columns come first: the result, then the test of its difference.
        add_final_values(&mut sheet, c);
        add_difference(&mut sheet, c, GAPS[1]);
        add_tested_difference(&mut sheet, c, detail);
    }
    let told = match detail {
        Detail::Brief | Detail::Paper => settings::shown(c),
        Detail::Full => Vec::new(),
    };
    sheet.rank = ColumnRank::Setting;
    for difference in told {
        let cells = difference
            .values
            .iter()
            .map(|v| setting(v.as_deref()))
            .collect();
        sheet.add(&difference.short, &difference.key, cells);
    }
    sheet.rank = ColumnRank::Progress;
    let several = c.arms.iter().any(|a| a.members.len() > 1);
    if several && detail == Detail::Paper {
        let n = |r: &ArmResults| r.last.map_or(0, |s| s.n);
        let cells = cells_of_arms(c, |r| Cell {
            text: n(r).to_string(),
            value: Some(n(r) as f64),
        });
        sheet.add("n", "number of runs behind the final value", cells);
    } else if several {
        let cells = c.arms.iter().map(|a| seeds(&runs(&a.members))).collect();
        sheet.add("runs", "number of runs and their seeds", cells);
    }
    if detail != Detail::Paper || !lengths::are_equal(&c.arms, &c.runs) {
        let cells = c.arms.iter().map(|a| steps(&runs(&a.members)));
        sheet.add("steps", "optimizer steps done", cells.collect());
    }
    match detail {
        Detail::Full => {
            add_best_values(&mut sheet, c);
            add_difference(&mut sheet, c, GAPS[0]);
            learning(&mut sheet, c);
        }
        Detail::Brief | Detail::Paper => {
            if detail == Detail::Brief {
                sheet.rank = ColumnRank::Best;
                add_best_values(&mut sheet, c);
            }
            sheet.rank = ColumnRank::Result;
            add_final_values(&mut sheet, c);
            sheet.rank = ColumnRank::Difference;
            add_difference(&mut sheet, c, GAPS[1]);
            add_tested_difference(&mut sheet, c, detail);
            if c.reach.is_some() {
                learning::reach(&mut sheet, c);
            }
        }
    }
    sheet.rank = ColumnRank::Other;
    others(&mut sheet, c, detail);
    if detail != Detail::Paper {
        sheet.rank = ColumnRank::Speed;
        speed(&mut sheet, c);
    }
    sheet.rank = ColumnRank::Progress;
    rungs(&mut sheet, c);
    let states = c.arms.iter().map(|a| state(a, &c.runs));
    let whole = c.arms.iter().all(|a| a.absent.is_empty());
    if !whole || c.runs.iter().any(|run| run.state() != "done") {
        sheet.add("state", "how far the runs came", states.collect());
    }
    sheet
}

/// Adds the rungs at which successive halving stopped arms, and the arms' values there.
fn rungs(sheet: &mut Sheet, c: &Comparison) {
    let stopped = |arm: &Arm| arm.rung.filter(|at| !at.passed);
    let at = c.arms.iter().map(|arm| {
        stopped(arm).map_or_else(Cell::default, |at| Cell {
            text: format!("{} (step {})", at.number, count(at.step)),
            value: Some(at.number as f64),
        })
    });
    let hint = "the rung at which the arm was behind and stopped";
    sheet.add("stopped at rung", hint, at.collect());
    let there = c.arms.iter().map(|arm| {
        let value = stopped(arm).and_then(|at| at.value);
        value.map_or_else(Cell::default, |value| Cell {
            text: number(value),
            value: Some(value),
        })
    });
    let title = format!(
        "{} there",
        c.sweep.as_ref().map_or(&c.metric, |plan| &plan.metric)
    );
    sheet.add(title, "the value that it was ranked by", there.collect());
}

/// Returns one cell per arm, made from its results.
fn cells_of_arms(c: &Comparison, cell: impl Fn(&ArmResults) -> Cell) -> Vec<Cell> {
    c.results.iter().map(cell).collect()
}

/// Adds other metrics of the same checkpoints as the compared one, and scores on other splits.
fn others(sheet: &mut Sheet, c: &Comparison, detail: Detail) {
    for metric in other_metrics::shown(c, detail) {
        let (which, pick): (&str, MetricSelector) = match detail {
            Detail::Paper => ("final", |r| &r.last_metrics),
            Detail::Brief | Detail::Full => ("best", |r| &r.metrics),
        };
        sheet.add(
            format!("{metric} at {which}"),
            format!(
                "{} {metric} of the checkpoint of the {which} {}",
                c.split, c.metric
            ),
            cells_of_arms(c, |r| summary(pick(r).get(metric))),
        );
    }
    let usual = |split: &str| detail == Detail::Full || SPLITS.contains(&split);
    for (split, metric) in test_scores(c).into_iter().filter(|(split, _)| usual(split)) {
        let score = |run: &Run| run.scores.get(split).and_then(|s| s.get(metric)).copied();
        let of_arm =
            |members: &[usize]| summarize(members.iter().filter_map(|&m| score(&c.runs[m])), LEVEL);
        let cells = c.arms.iter().map(|arm| {
            let steps = arm.counted.iter().map(|&m| &c.runs[m]);
            let steps = steps.filter_map(|r| Some((*r.scored_at.get(split)?, r.journal.last_step)));
            let marks: Vec<String> = earlier_step_mark(steps).into_iter().collect();
            with_marks(summary(of_arm(&arm.counted).as_ref()), &marks)
        });
        let hint = "from scores.json; at the run's last step unless another step is given";
        sheet.add(format!("{split} {metric}"), hint, cells.collect());
    }
}

fn speed(sheet: &mut Sheet, c: &Comparison) {
    sheet.add(
        "items/s",
        "tokens or images a second, median over each run",
        cells_of_arms(c, |r| rate(r.items_per_s.as_ref())),
    );
    sheet.add(
        "time",
        "wall time, mean over runs",
        cells_of_arms(c, |r| time(r.elapsed_s.as_ref())),
    );
}

/// Returns the names of separate evaluations (`eval --context 8` keeps `valid@8`), whose scores only the page and JSON show.
pub fn own_evaluations(c: &Comparison) -> Vec<&str> {
    let mut names: Vec<&str> = test_scores(c).into_iter().map(|(split, _)| split).collect();
    names.retain(|split| !SPLITS.contains(split));
    names.dedup();
    names
}

/// Returns the scores on splits other than the compared one as (split, metric), within a split the compared metric first.
fn test_scores(c: &Comparison) -> Vec<(&str, &str)> {
    let scores = c
        .runs
        .iter()
        .flat_map(|r| &r.scores)
        .filter(|(split, _)| *split != c.split);
    let mut all: Vec<(&str, &str)> = scores
        .flat_map(|(s, m)| m.keys().map(move |m| (s.as_str(), m.as_str())))
        .collect();
    all.sort_by_key(|(split, metric)| (*split, *metric != c.metric, *metric));
    all.dedup();
    all
}
