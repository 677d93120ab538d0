//! Writes a comparison as the files of a report, for a paper: tables in Markdown, LaTeX and CSV, a line for each run, the
//! whole comparison as JSON, figures as SVG and PNG, and the HTML page.
//!
//! The bytes depend only on the run folders, their names and the program's version, and not on time or hash map order.

use std::path::Path;

use rayon::prelude::*;

use super::figure::{self, FigureOptions};
use super::{html, json, sheet, terminal};
use crate::error::Result;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::statistics::contrast::{Contrast, POWER, Verdict};

mod csv;
mod latex;

/// Names of all figures; an earlier report in the same folder may have left some that the current one lacks.
const FIGURES: [&str; 5] = ["curves", "results", "differences", "compute", "grid"];

/// A file of a report.
#[derive(Clone, Debug)]
pub struct Document {
    /// File name in the report's folder.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Renders all files of a report that will be stored in `folder`.
///
/// # Errors
/// If a figure cannot be drawn, or the diagnostics of a run cannot be read.
pub fn documents(c: &Comparison, look: FigureOptions, folder: &Path) -> Result<Vec<Document>> {
    let figures = figure::figures(c, look)?;
    let page = html::page(c, &figures, Some(folder))?;
    let mut documents = vec![
        document("index.html", page),
        document("table.md", markdown(c)),
        document("table.tex", latex::table(c)),
        document("table.csv", csv::arms(c)?),
        document("runs.csv", csv::runs(c)?),
        document("summary.json", format!("{:#}\n", json::json(c))),
    ];
    let pictures: Vec<Vec<u8>> = figures
        .par_iter()
        .map(|figure| figure::png(&figure.svg))
        .collect::<Result<_>>()?;
    for (figure, png) in figures.into_iter().zip(pictures) {
        documents.push(document(&format!("{}.svg", figure.name), figure.svg));
        documents.push(Document {
            name: format!("{}.png", figure.name),
            bytes: png,
        });
    }
    Ok(documents)
}

/// Returns the names of figure files that an earlier report in the same folder may have written and this one does not.
pub fn superseded(documents: &[Document]) -> Vec<String> {
    let kinds = FIGURES
        .iter()
        .flat_map(|name| [format!("{name}.svg"), format!("{name}.png")]);
    kinds
        .filter(|name| documents.iter().all(|d| d.name != *name))
        .collect()
}

fn document(name: &str, text: String) -> Document {
    Document {
        name: name.into(),
        bytes: text.into_bytes(),
    }
}

/// Returns the paper's table in Markdown, with its caption and the notes of the comparison.
fn markdown(c: &Comparison) -> String {
    let mut text = terminal::markdown(&sheet::paper_sheet(c).text(false));
    text.push_str(&format!("\n{}\n", terminal::markdown_text(&caption(c))));
    for note in &c.notes {
        text.push_str(&format!("\n* {}", terminal::markdown_text(note)));
    }
    if !c.notes.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns the caption of the table, which explains its numbers.
fn caption(c: &Comparison) -> String {
    let what = format!("{} {}", c.split, c.metric.replace('_', " "));
    let several = c.results.iter().any(|r| r.last.is_some_and(|s| s.n > 1));
    let mut text = match several {
        true => format!("Final {what}, mean ± standard deviation over seeds."),
        false => format!("Final {what}."),
    };
    let all = || c.results.iter().filter_map(|r| r.last_gap.as_ref());
    let gaps = || all().filter(|gap| gap.difference.is_some());
    if gaps().next().is_some() {
        let baseline = terminal::plain(&c.arms[0].name);
        text.push_str(&format!(" Δ is the difference from {baseline}"));
        if gaps().any(|gap| gap.interval().is_some()) {
            text.push_str(" with its 95 % t interval, paired by seed where two seeds pair");
        }
        if gaps().any(|gap| gap.p.is_some()) {
            text.push_str("; p is two-sided and corrected for all tested arms (Holm 1979), the interval is not");
        }
        let measured = || gaps().filter(|gap| gap.effect().is_some());
        text.push_str(match (measured().any(|g| g.is_paired()), measured().any(|g| !g.is_paired())) {
            (true, false) => "; the effect is Hedges' g_z, in standard deviations of the differences of pairs.",
            (false, true) => "; the effect is Hedges' g.",
            (true, true) => "; the effect is Hedges' g_z where seeds pair, in standard deviations of their differences, and Hedges' g elsewhere.",
            (false, false) => ".",
        });
        let open = |gap: &Contrast| matches!(gap.verdict, Verdict::NotSettled { .. });
        let tests = gaps().filter(|gap| gap.p.is_some()).count();
        if gaps().any(open) {
            text.push_str(&format!(
                " Open: number of seeds with which a test at {} detects an effect of the observed size with probability {POWER}.",
                level(tests)
            ));
        }
    }
    text
}

/// Returns the level of the strictest of `tests` tests (Holm 1979): `0.05/3`.
fn level(tests: usize) -> String {
    match tests {
        0 | 1 => "0.05".into(),
        n => format!("0.05/{n}"),
    }
}
