//! Renders the table as LaTeX: `table` environments with the rules of `booktabs`, which `graphicx` shrinks to the width of the
//! page if necessary. The preamble needs only these two packages. Columns beyond the width of a page go into further tables of
//! the same arms.

use super::caption;
use crate::report::analyse::comparison::Comparison;
use crate::report::render::sheet::{Cell, Sheet, paper_sheet, top_rows};
use unicode_width::UnicodeWidthStr;

mod escape;

use escape::{escape, number};

/// Maximum width of a table in characters that stays legible on a page: 345 pt hold 70 characters at 10 pt, so this is 7 pt type.
const PAGE: usize = 100;

/// Width in characters above which a text is broken into lines.
const MAX_TEXT: usize = 32;

/// Title of the column of p values, which stays in the same table as its difference.
const P_COLUMN: &str = "p";

/// Returns the tables. The best mean is bold, and so are all equal to it; none is bold if values are not comparable.
pub fn table(c: &Comparison) -> String {
    let sheet = paper_sheet(c);
    let column = sheet
        .columns
        .iter()
        .position(|(title, _)| title.starts_with("final "));
    let best = column.map(|column| (best_rows(&sheet, column, c), column));
    let name = label(c);
    let mut text = String::from("% \\usepackage{booktabs}\n% \\usepackage{graphicx}\n");
    for (i, columns) in column_groups(&sheet).iter().enumerate() {
        let (caption, label) = match i {
            0 => (escape(&caption(c)), name.clone()),
            _ => (
                format!("Further columns of Table~\\ref{{tab:{name}}}."),
                format!("{name}-{}", i + 1),
            ),
        };
        text.push_str(&format!(
            "\\begin{{table}}\n\\centering\n\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%\n\
             {}}}\n\\caption{{{caption}}}\n\\label{{tab:{label}}}\n\\end{{table}}\n",
            tabular(&sheet, columns, best.as_ref())
        ));
    }
    text
}

/// Returns a `tabular` of some of the columns.
fn tabular(sheet: &Sheet, columns: &[usize], best: Option<&(Vec<usize>, usize)>) -> String {
    let is_best = |row, column| best.is_some_and(|(rows, at)| *at == column && rows.contains(&row));
    let kinds: String = columns
        .iter()
        .map(|&i| match (is_long(sheet, i), sheet.numeric(i)) {
            (true, _) => "p{0.3\\linewidth}",
            (false, true) => "r",
            (false, false) => "l",
        })
        .collect();
    let header: Vec<String> = columns
        .iter()
        .map(|&i| escape(&sheet.columns[i].0))
        .collect();
    let mut text = format!(
        "\\begin{{tabular}}{{{kinds}}}\n\\toprule\n{} \\\\\n\\midrule\n",
        header.join(" & ")
    );
    for (r, row) in sheet.rows.iter().enumerate() {
        let cell = |&i: &usize| match (is_best(r, i), is_long(sheet, i)) {
            // \textbf would not make formulas bold.
            (true, _) => format!("{{\\boldmath {}}}", shown(&row[i])),
            // \raggedright redefines \\ to break lines within the cell; this restores it to end the row.
            (false, true) => format!("\\raggedright\\let\\\\\\tabularnewline {}", shown(&row[i])),
            (false, false) => shown(&row[i]),
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        text.push_str(&format!("{} \\\\\n", cells.join(" & ")));
    }
    text + "\\bottomrule\n\\end{tabular}"
}

/// Returns the columns of each table: as many as fit a page, with the first column repeated in each.
fn column_groups(sheet: &Sheet) -> Vec<Vec<usize>> {
    let width = |i: usize| {
        let cells = sheet.rows.iter().map(|row| row[i].text.width());
        let widest = cells.chain([sheet.columns[i].0.width()]).max();
        2 + match is_long(sheet, i) {
            true => MAX_TEXT,
            false => widest.unwrap_or(0),
        }
    };
    let mut parts = vec![vec![0]];
    let mut used = width(0);
    for (i, (title, _)) in sheet.columns.iter().enumerate().skip(1) {
        let alone = parts.last().is_some_and(|part| part.len() == 1);
        if used + width(i) > PAGE && !alone && title != P_COLUMN {
            parts.push(vec![0]);
            used = width(0);
        }
        used += width(i);
        if let Some(part) = parts.last_mut() {
            part.push(i);
        }
    }
    parts
}

/// Whether a column holds a text (not a number) that is longer than [`LONG`].
fn is_long(sheet: &Sheet, column: usize) -> bool {
    let mut cells = sheet.rows.iter().map(|row| &row[column]);
    cells.any(|cell| cell.value.is_none() && cell.text.width() > MAX_TEXT)
}

/// Returns the rows with the best mean; empty unless several rows have one.
fn best_rows(sheet: &Sheet, column: usize, c: &Comparison) -> Vec<usize> {
    let valued = sheet.rows.iter().filter(|row| row[column].value.is_some());
    match valued.count() {
        0 | 1 => Vec::new(),
        _ => top_rows(sheet, column, c),
    }
}

/// Returns a label that is valid in a LaTeX reference.
fn label(c: &Comparison) -> String {
    let name = c.sweep.as_ref().map_or("comparison", |plan| &plan.name);
    let letter = |ch: char| if ch.is_ascii_alphanumeric() { ch } else { '-' };
    name.chars().map(letter).collect()
}

fn shown(cell: &Cell) -> String {
    match (cell.text.is_empty(), cell.value) {
        (true, _) => "--".into(),
        (false, Some(_)) => number(&cell.text),
        (false, None) => escape(&cell.text),
    }
}
