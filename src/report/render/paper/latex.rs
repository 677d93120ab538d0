//! The table as LaTeX: a `table` environment with the rules of `booktabs`, which is all its preamble needs.

use super::caption;
use crate::report::analyse::comparison::Comparison;
use crate::report::analyse::metrics::more_is_better;
use crate::report::render::sheet::{Cell, Sheet, for_paper};
use crate::report::render::terminal::plain;

/// The table; the best mean is bold.
pub fn table(c: &Comparison) -> String {
    let sheet = for_paper(c);
    let best = sheet
        .columns
        .iter()
        .position(|(title, _)| title.starts_with("final "))
        .and_then(|column| Some((best_row(&sheet, column, c)?, column)));
    let kinds: String = (0..sheet.columns.len())
        .map(|i| if sheet.numeric(i) { 'r' } else { 'l' })
        .collect();
    let header: Vec<String> = sheet
        .columns
        .iter()
        .map(|(title, _)| escape(title))
        .collect();
    let mut text = format!(
        "% \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\n\\begin{{tabular}}{{{kinds}}}\n\\toprule\n{} \\\\\n\\midrule\n",
        header.join(" & ")
    );
    for (r, row) in sheet.rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(i, cell)| match best == Some((r, i)) {
                // \textbf leaves formulas as they are.
                true => format!("{{\\boldmath {}}}", shown(cell)),
                false => shown(cell),
            })
            .collect();
        text.push_str(&format!("{} \\\\\n", cells.join(" & ")));
    }
    text.push_str(&format!(
        "\\bottomrule\n\\end{{tabular}}\n\\caption{{{}}}\n\\label{{tab:{}}}\n\\end{{table}}\n",
        escape(&caption(c)),
        label(c)
    ));
    text
}

/// The row with the best mean, of several.
fn best_row(sheet: &Sheet, column: usize, c: &Comparison) -> Option<usize> {
    let sign = if more_is_better(&c.metric) { -1.0 } else { 1.0 };
    let values = sheet.rows.iter().enumerate();
    let values: Vec<(usize, f64)> = values
        .filter_map(|(r, row)| Some((r, sign * row[column].value?)))
        .collect();
    let best = values.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    (values.len() > 1).then_some(best.0)
}

/// A name that a reference may have.
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

/// A number, or several with their signs, in the type of formulas, where a minus is one.
fn number(text: &str) -> String {
    let sound = |c: char| c.is_ascii_digit() || " +-.,[]()±<e".contains(c);
    if !text.chars().all(sound) {
        return escape(text);
    }
    let mut formula = String::new();
    let characters: Vec<char> = text.chars().collect();
    for (i, &c) in characters.iter().enumerate() {
        match c {
            '±' => formula.push_str("\\pm"),
            // A comma between digits groups them, any other one separates.
            ',' if characters.get(i + 1).is_some_and(char::is_ascii_digit) => {
                formula.push_str("{,}")
            }
            '[' => formula.push_str("\\;["),
            'e' => formula.push_str("\\mathrm{e}"),
            c => formula.push(c),
        }
    }
    format!("${formula}$")
}

/// Text whose every character stands for itself.
pub fn escape(text: &str) -> String {
    let mut safe = String::new();
    for c in plain(text).chars() {
        match c {
            '\\' => safe.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => safe.extend(['\\', c]),
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '<' => safe.push_str("\\textless{}"),
            '>' => safe.push_str("\\textgreater{}"),
            '|' => safe.push_str("\\textbar{}"),
            '"' => safe.push_str("\\textquotedbl{}"),
            '±' => safe.push_str("$\\pm$"),
            'Δ' => safe.push_str("$\\Delta$"),
            '−' => safe.push_str("$-$"),
            '–' => safe.push_str("--"),
            '…' => safe.push_str("\\dots{}"),
            '\u{fffd}' => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_stands_for_itself() {
        assert_eq!(
            escape("a_b & 50% {x} ~ \\ # $5 ^ <1>"),
            "a\\_b \\& 50\\% \\{x\\} \\textasciitilde{} \\textbackslash{} \\# \\$5 \\textasciicircum{} \\textless{}1\\textgreater{}"
        );
        assert_eq!(number("1.513 ± 0.016"), "$1.513 \\pm 0.016$");
        assert_eq!(number("-0.03 [-0.06, -0.01]"), "$-0.03 \\;[-0.06, -0.01]$");
        assert_eq!(number("12,346"), "$12{,}346$");
        assert_eq!(number("3 min"), "3 min");
    }
}
