//! The table of a comparison, once, for the terminal, Markdown and HTML.

use crate::report::compare::{Comparison, LEVEL, Results, SHOWN};
use crate::report::run::Run;
use crate::report::statistics::compare::{Contrast, Verdict};
use crate::report::statistics::summary::{Summary, summarize};
use crate::report::terminal::{count, duration, mean_sd, number, p_value, shortened, signed};

/// Longest name or setting in a terminal cell, in columns.
const CELL: usize = 28;

/// Differing settings in the table; runs that differ in more are not read column by column.
pub const SETTINGS: usize = 8;

/// A cell: what is shown and what it sorts by.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Shown text; empty cells show `–`.
    pub text: String,
    /// The number behind it, for sorting; text is sorted as text.
    pub value: Option<f64>,
}

/// Columns with their titles.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Title and explanation of each column.
    pub columns: Vec<(String, String)>,
    /// One row for each arm.
    pub rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// Adds a column, unless all its cells are empty.
    fn add(&mut self, title: impl Into<String>, hint: impl Into<String>, cells: Vec<Cell>) {
        if cells.iter().all(|c| c.text.is_empty()) {
            return;
        }
        self.columns.push((title.into(), hint.into()));
        self.rows
            .iter_mut()
            .zip(cells)
            .for_each(|(row, cell)| row.push(cell));
    }

    /// Header and cells as text, long names shortened when `short`.
    pub fn text(&self, short: bool) -> Vec<Vec<String>> {
        let cell = |text: &str| match (text.is_empty(), short) {
            (true, _) => "–".to_string(),
            (false, true) => shortened(text, CELL),
            (false, false) => text.to_string(),
        };
        let header = self
            .columns
            .iter()
            .map(|(title, _)| title.clone())
            .collect();
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(|c| cell(&c.text)).collect());
        std::iter::once(header).chain(rows).collect()
    }
}

/// Builds the table: arm, differing settings, progress, results, differences from the first arm, speed.
pub fn sheet(c: &Comparison) -> Sheet {
    build(c, true)
}

/// The same without the settings, for a page that has a table of them.
pub fn without_settings(c: &Comparison) -> Sheet {
    build(c, false)
}

fn build(c: &Comparison, settings: bool) -> Sheet {
    let mut sheet = Sheet {
        columns: Vec::new(),
        rows: vec![Vec::new(); c.arms.len()],
    };
    let text = |text: &str| Cell {
        text: text.to_string(),
        value: None,
    };
    let runs = |members: &[usize]| members.iter().map(|&m| &c.runs[m]).collect::<Vec<&Run>>();
    sheet.add(
        "",
        "the arm's mark in the curves",
        c.arms.iter().map(|a| text(&a.id)).collect(),
    );
    sheet.add(
        "arm",
        "runs that differ only in their seed",
        c.arms.iter().map(|a| text(&a.label)).collect(),
    );
    let telling = c
        .differing
        .iter()
        .filter(|d| settings && d.key != "train.steps");
    for difference in telling.take(SETTINGS) {
        let cells = difference
            .values
            .iter()
            .map(|v| setting(v.as_deref()))
            .collect();
        sheet.add(&difference.short, &difference.key, cells);
    }
    if c.arms.iter().any(|a| a.members.len() > 1) {
        let cells = c.arms.iter().map(|a| seeds(&runs(&a.members))).collect();
        sheet.add("runs", "number of runs and their seeds", cells);
    }
    sheet.add(
        "steps",
        "optimizer steps done",
        c.arms.iter().map(|a| steps(&runs(&a.members))).collect(),
    );
    results(&mut sheet, c);
    let states = c.arms.iter().map(|a| state(&runs(&a.members)));
    if c.runs.iter().any(|run| run.state() != "done") {
        sheet.add("state", "how far the runs came", states.collect());
    }
    sheet
}

fn results(sheet: &mut Sheet, c: &Comparison) {
    let name = format!("{} {}", c.split, c.metric);
    let base = &c.arms[0].id;
    let each = |cell: &dyn Fn(&Results) -> Cell| c.results.iter().map(cell).collect::<Vec<Cell>>();
    sheet.add(
        format!("best {name}"),
        "mean ± sd over runs",
        each(&|r| summary(r.best.as_ref())),
    );
    let at = |step: f64| Cell {
        text: count(step.round() as u64),
        value: Some(step),
    };
    sheet.add(
        "at step",
        "step of the best value, mean over runs",
        each(&|r| r.best_step.map(at).unwrap_or_default()),
    );
    sheet.add(
        format!("final {name}"),
        "mean ± sd over runs",
        each(&|r| summary(r.last.as_ref())),
    );
    type Pick = fn(&Results) -> Option<&Contrast>;
    let gaps: [(&str, Pick); 2] = [
        ("best", |r| r.best_gap.as_ref()),
        ("final", |r| r.last_gap.as_ref()),
    ];
    for (which, pick) in gaps {
        let gap = format!(
            "{which} {name} minus that of arm {base}, with its t interval: paired where two seeds pair"
        );
        let p = format!("two-sided t test of Δ {which}, corrected for all arms (Holm 1979)");
        let title = format!("Δ {which} [95 %]");
        sheet.add(title, gap, each(&|r| difference(pick(r))));
        sheet.add("p", p, each(&|r| p_cell(pick(r))));
    }
    let last = |r: &Results| r.last_gap.clone();
    sheet.add(
        "effect",
        "Δ final in standard deviations of the differences, corrected for small samples (Hedges' g)",
        each(&|r| last(r).and_then(|g| g.effect()).map_or_else(Cell::default, effect)),
    );
    sheet.add(
        "verdict",
        "by p of Δ final at 0.05; how many seeds would settle what is open, if the effect is the seen one",
        each(&|r| last(r).map_or_else(Cell::default, |g| verdict(&g))),
    );
    for metric in c.metrics.iter().filter(|m| SHOWN.contains(&m.as_str())) {
        sheet.add(
            metric,
            format!("{} {metric} at the best step", c.split),
            each(&|r| summary(r.metrics.get(metric))),
        );
    }
    for (split, metric) in tested(c) {
        let score = |run: &Run| run.scores.get(split).and_then(|s| s.get(metric)).copied();
        let of_arm =
            |members: &[usize]| summarize(members.iter().filter_map(|&m| score(&c.runs[m])), LEVEL);
        let cells = c
            .arms
            .iter()
            .map(|a| summary(of_arm(&a.counted).as_ref()))
            .collect();
        sheet.add(format!("{split} {metric}"), "from scores.json", cells);
    }
    sheet.add(
        "items/s",
        "tokens or images a second, median over each run",
        each(&|r| rate(r.items_per_s.as_ref())),
    );
    sheet.add(
        "time",
        "wall time, mean over runs",
        each(&|r| time(r.elapsed_s.as_ref())),
    );
}

/// Scores on other splits than the compared one: (split, metric), the compared metric first.
fn tested(c: &Comparison) -> Vec<(&str, &str)> {
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

fn setting(value: Option<&str>) -> Cell {
    let text = value.unwrap_or_default();
    Cell {
        text: text.to_string(),
        value: text.parse().ok(),
    }
}

/// `3 (1, 2, 3)`: the number of runs and their seeds, or `8 (1 … 8)`.
fn seeds(runs: &[&Run]) -> Cell {
    let n = runs.len();
    let seeds: Vec<&str> = runs.iter().filter_map(|r| r.seed.as_deref()).collect();
    let list = match seeds.as_slice() {
        [] => String::new(),
        [first, .., last] if seeds.len() > 5 => format!(" ({first} … {last})"),
        few => format!(" ({})", few.join(", ")),
    };
    Cell {
        text: format!("{n}{list}"),
        value: Some(n as f64),
    }
}

fn steps(runs: &[&Run]) -> Cell {
    let done = || runs.iter().map(|r| r.journal.last_step);
    let (least, most) = (done().min().unwrap_or(0), done().max().unwrap_or(0));
    let text = if least == most {
        count(most)
    } else {
        format!("{}–{}", count(least), count(most))
    };
    Cell {
        text,
        value: Some(most as f64),
    }
}

/// The state of a single run, or how many runs of an arm are not done.
fn state(runs: &[&Run]) -> Cell {
    let open: Vec<String> = runs
        .iter()
        .map(|r| r.state())
        .filter(|s| s != "done")
        .collect();
    let text = match open.as_slice() {
        [] => "done".into(),
        [one] if runs.len() == 1 => one.clone(),
        some => {
            let diverged = some.iter().filter(|s| s.starts_with("diverged")).count();
            let parts = [(diverged, "diverged"), (some.len() - diverged, "not done")];
            let parts: Vec<String> = parts
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} of {} {what}", runs.len()))
                .collect();
            parts.join(", ")
        }
    };
    Cell { text, value: None }
}

fn summary(s: Option<&Summary>) -> Cell {
    s.map_or_else(Cell::default, |s| Cell {
        text: mean_sd(s.mean, s.sd),
        value: Some(s.mean),
    })
}

fn rate(s: Option<&Summary>) -> Cell {
    s.map_or_else(Cell::default, |s| Cell {
        text: number(s.mean),
        value: Some(s.mean),
    })
}

fn time(s: Option<&Summary>) -> Cell {
    s.map_or_else(Cell::default, |s| Cell {
        text: duration(s.mean),
        value: Some(s.mean),
    })
}

/// `-0.051 [-0.169, +0.067]`: the difference and its interval, in the decimals that two digits of the interval ask for.
fn difference(gap: Option<&Contrast>) -> Cell {
    let Some((gap, mean)) = gap.and_then(|g| Some((g, g.difference?))) else {
        return Cell::default();
    };
    let text = match gap.interval() {
        Some(i) if i.high > i.low => {
            let places = places((i.high - i.low) / 2.0);
            let (low, high) = (i.low, i.high);
            format!("{mean:+.places$} [{low:+.places$}, {high:+.places$}]")
        }
        _ => signed(mean),
    };
    Cell {
        text,
        value: Some(mean),
    }
}

fn effect(g: f64) -> Cell {
    Cell {
        text: format!("{g:+.2}"),
        value: Some(g),
    }
}

fn verdict(gap: &Contrast) -> Cell {
    let text = match gap.verdict {
        Verdict::Better => "better".into(),
        Verdict::Worse => "worse".into(),
        Verdict::NotSettled { needed: Some(n) } => format!("open: ~{n} seeds"),
        Verdict::NotSettled { needed: None } => "open: >1000 seeds".into(),
        Verdict::NotTested(_) => String::new(),
    };
    Cell { text, value: None }
}

/// Decimals that show two significant digits of a positive number, 3 to 8.
fn places(size: f64) -> usize {
    (1 - size.log10().floor() as i64).clamp(3, 8) as usize
}

fn p_cell(gap: Option<&Contrast>) -> Cell {
    let tested = gap.filter(|g| !matches!(g.verdict, Verdict::NotTested(_)));
    tested
        .and_then(|g| g.p_holm)
        .map_or_else(Cell::default, |p| Cell {
            text: p_value(p),
            value: Some(p),
        })
}
