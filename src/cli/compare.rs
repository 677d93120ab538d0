//! `formwork compare RUN…`: compares the settings, results and speed of runs; can write an HTML page with curves.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;

use super::output;
use crate::error::Result;
use crate::files;
use crate::report::analyse::causes::causes;
use crate::report::analyse::cells::Cells;
use crate::report::analyse::comparison::{Comparison, Options, compare};
use crate::report::analyse::selection::Selection;
use crate::report::render::{html, json, sheet, terminal};

/// Which runs to compare and by which metric; shared by tables and reports.
#[derive(Args, Clone, Debug)]
pub struct ComparisonArgs {
    /// Run folders, or names of runs in `checkpoints/`; the first one's arm is the baseline. Or one sweep.
    #[arg(required = true, value_name = "SWEEP|RUN")]
    pub runs: Vec<PathBuf>,
    /// The metric to compare, such as `accuracy` or `bits_per_byte`; by default the sweep's, else `loss`.
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Add columns with the steps until the metric first reaches this value. Pages, JSON and CSV have them without the flag,
    /// for the value at the end of the baseline's curves.
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    pub reach: Option<f64>,
    /// Do not group runs that differ only in their seed.
    #[arg(long)]
    pub each: bool,
}

impl ComparisonArgs {
    /// Reads the runs and compares them.
    ///
    /// # Errors
    /// If runs cannot be read or compared.
    pub fn comparison(&self) -> Result<Comparison> {
        let options = Options {
            metric: self.metric.clone(),
            each: self.each,
            reach: self.reach,
        };
        compare(Selection::read(&self.runs)?, &options)
    }
}

/// Compare runs: differing settings, results over seeds, speed; curves with --html.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Also write one self-contained page, with curves to explore.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    wanted: ComparisonArgs,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Print all columns, however wide the terminal is.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub wide: bool,
}

/// Compares the runs and prints the result on standard output.
///
/// # Errors
/// If a run cannot be read, runs have nothing to compare, or a page or result cannot be written.
pub fn run(args: CompareArgs) -> Result<()> {
    if let Some(path) = &args.html {
        files::require_folder_of(path)?;
    }
    let comparison = args.wanted.comparison()?;
    if let Some(path) = &args.html {
        html::write(&comparison, path)?;
    }
    let mut text = if args.json {
        format!("{:#}\n", json::json(&comparison))
    } else if args.markdown {
        terminal::markdown(&sheet::sheet(&comparison).text(false))
    } else {
        let width = (!args.wide).then(terminal_width);
        view(&comparison, unicode(), width)
    };
    if let (Some(path), false) = (&args.html, args.json || args.markdown) {
        text.push_str(&format!("\npage: {}\n", path.display()));
    }
    output::line_part(text)
}

/// Renders table and notes as text, in ASCII unless `unicode`. If `width` is given, columns that do not fit are omitted and
/// named, and names and results are wrapped.
pub fn view(c: &Comparison, unicode: bool, width: Option<usize>) -> String {
    let mut text = format!("{}\n\n", headline(c));
    let sheet = sheet::sheet(c);
    let mut rows = sheet.text(true);
    if !unicode {
        // ASCII replacements are wider than the original characters.
        let cells = rows.iter_mut().flatten();
        cells.for_each(|cell| *cell = ascii(cell, self::unicode()));
    }
    let (rows, left) = match width {
        Some(width) => sheet.fit_columns(&rows, width),
        None => (rows, Vec::new()),
    };
    text.push_str(&terminal::table(&rows, width));
    if let (Some(width), false) = (width, left.is_empty()) {
        let columns = if left.len() == 1 { "column" } else { "columns" };
        let note = format!(
            "note: {} {columns} did not fit: {}; compare --wide and --json show all",
            left.len(),
            terminal::plain(&left.join(", "))
        );
        text.push_str(&terminal::wrapped(&note, width));
    }
    for note in &c.notes {
        text.push_str(&format!("note: {}\n", terminal::plain(note)));
    }
    let more = sheet::without_columns(c);
    if !more.is_empty() {
        let more = terminal::plain(&more.join(", "));
        text.push_str(&format!(
            "note: --html and --json also show {} {more}\n",
            c.split
        ));
    }
    let own = sheet::own_evaluations(c);
    if !own.is_empty() {
        let own = terminal::plain(&own.join(", "));
        text.push_str(&format!(
            "note: --html and --json also show the scores of {own}\n"
        ));
    }
    if unicode {
        text
    } else {
        ascii(&text, self::unicode())
    }
}

/// Returns `9 runs in 3 arms; 2 settings differ`; for a sweep, also the status of its cells.
pub fn headline(c: &Comparison) -> String {
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let followers = c.differing.len() - causes(&c.differing).len();
    let differ = match c.differing.len() - followers {
        0 => "no setting differs".into(),
        1 => "1 setting differs".into(),
        n => format!("{n} settings differ"),
    };
    let left_out = sheet::hidden_settings(c);
    let differ = match left_out.len() {
        0 => differ,
        n => format!(
            "{differ}, {n} of them not shown: {} (--html and --json show all)",
            terminal::plain(&joined_names(&left_out))
        ),
    };
    let arms = many(c.arms.len(), "arm");
    match &c.sweep {
        Some(plan) => {
            let cells = Cells::of(&c.arms, &c.runs);
            let planned = many(cells.planned, "cell");
            let name = terminal::plain(&plan.name);
            format!("{name}: {planned} in {arms} ({cells}); {differ}")
        }
        None => format!("{} in {arms}; {differ}", many(c.runs.len(), "run")),
    }
}

/// The names of keys, as many as fit into a line.
fn joined_names(keys: &[&str]) -> String {
    const NAMED: usize = 6;
    let shown = keys[..keys.len().min(NAMED)].join(", ");
    match keys.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The table width without a terminal.
const WIDTH: usize = 120;

/// Width of the terminal on standard output, 120 columns if it is not a terminal.
pub(super) fn terminal_width() -> usize {
    let terminal = terminal_size::terminal_size().filter(|_| io::stdout().is_terminal());
    terminal.map_or(WIDTH, |(width, _)| usize::from(width.0))
}

/// Whether standard output accepts UTF-8, according to LC_ALL, LC_CTYPE or LANG.
pub fn unicode() -> bool {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(variable)
        .unwrap_or_default()
        .to_lowercase();
    locale.is_empty() || locale.contains("utf-8") || locale.contains("utf8")
}

/// Replaces the program's own symbols by ASCII. Names of arms may contain any letters: they are kept if the terminal supports
/// them (`kept`), and escaped otherwise.
fn ascii(text: &str, kept: bool) -> String {
    text.chars()
        .map(|c| match c {
            '±' => "+-".into(),
            '–' => "-".into(),
            '…' => "...".into(),
            '→' => "->".into(),
            'Δ' => "d".into(),
            '━' => "=".into(),
            c if kept || c.is_ascii() => c.to_string(),
            c => c.escape_unicode().to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::ascii;

    #[test]
    fn names_keep_their_letters() {
        let text = "β 1.5 ± 0.1 – Δ";
        assert_eq!(ascii(text, true), "β 1.5 +- 0.1 - d");
        assert_eq!(ascii(text, false), "\\u{3b2} 1.5 +- 0.1 - d");
    }
}
