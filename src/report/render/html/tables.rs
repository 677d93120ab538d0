//! The page's tables and samples: plain markup that a script makes sortable and that works without it.

use std::path::Path;

use super::escape;
use crate::report::analyse::arms::{Arm, Difference};
use crate::report::analyse::comparison::{Comparison, earlier_step_mark};
use crate::report::render::links::relative;
use crate::report::render::sheet::{Cell, Sheet, top_rows, with_marks, without_settings};
use crate::report::render::terminal::{count, duration, number};

/// Returns the section with the results of each arm.
pub fn results(c: &Comparison) -> String {
    let sheet = without_settings(c);
    let best = sheet
        .columns
        .iter()
        .position(|(title, _)| title.starts_with("best "));
    let top: Vec<(usize, usize)> = best
        .into_iter()
        .flat_map(|column| {
            top_rows(&sheet, column, c)
                .into_iter()
                .map(move |row| (row, column))
        })
        .collect();
    let searched = c.arms.iter().any(|arm| arm.rung.is_some());
    let explained = if searched {
        " Arms that were stopped at a rung have no final value; the best arm is bold."
    } else if !top.is_empty() {
        " Differences are from the first arm; the best arm is bold."
    } else if c.arms.len() > 1 {
        " Differences are from the first arm."
    } else {
        ""
    };
    format!(
        "<h2 id=\"results\">Results</h2>\n<p class=\"quiet\">Mean ± standard deviation over runs that differ only in their seed.{explained} \
         A column's title sorts by it.</p>\n{}",
        table(&sheet, "results", &top, true)
    )
}

/// Returns a sortable table in a scrolling frame. `top` highlights cells; `marks` colours the first column like the curves.
fn table(sheet: &Sheet, label: &str, top: &[(usize, usize)], marks: bool) -> String {
    linked_table(sheet, label, top, marks, &[])
}

/// Returns such a table in which the first cell of each row is a link, if the row has one.
fn linked_table(
    sheet: &Sheet,
    label: &str,
    top: &[(usize, usize)],
    marks: bool,
    links: &[Option<String>],
) -> String {
    let right = |column: usize| sheet.numeric(column);
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{label}\"><table aria-labelledby=\"{label}\">\n<thead><tr>"
    );
    for (i, (title, hint)) in sheet.columns.iter().enumerate() {
        let class = if right(i) { " class=\"number\"" } else { "" };
        let title = if title.is_empty() {
            "<span class=\"hidden\">mark</span>".into()
        } else {
            escape(title)
        };
        text.push_str(&format!(
            "<th scope=\"col\"{class} title=\"{}\"><button type=\"button\">{title}</button></th>",
            escape(hint)
        ));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for (r, row) in sheet.rows.iter().enumerate() {
        text.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let class = if right(i) { "number" } else { "" };
            let class = if top.contains(&(r, i)) {
                format!("{class} top")
            } else {
                class.to_string()
            };
            text.push_str(&table_cell(
                cell,
                class.trim(),
                (marks && i == 0).then_some(r),
                (i == 0).then(|| links.get(r).and_then(Option::as_deref)),
            ));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// Returns a cell. `heads` is `Some` for the first cell of a row and holds the row's link, if there is one.
fn table_cell(
    cell: &Cell,
    class: &str,
    mark: Option<usize>,
    heads: Option<Option<&str>>,
) -> String {
    let shown = match cell.text.is_empty() {
        true => "–".into(),
        false => escape(&cell.text),
    };
    let shown = match heads.flatten() {
        Some(link) => format!("<a href=\"{link}\">{shown}</a>"),
        None => shown,
    };
    let value = cell
        .value
        .map_or_else(|| escape(&cell.text), |v| v.to_string());
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    let style = mark.map_or_else(String::new, |arm| {
        format!(" style=\"color: var(--c{})\"", arm % 8)
    });
    let (open, close) = if heads.is_some() {
        ("th scope=\"row\"", "th")
    } else {
        ("td", "td")
    };
    format!("<{open}{class}{style} data-value=\"{value}\">{shown}</{close}>")
}

/// Returns the table of differing settings, keys by arms; empty if no setting differs.
pub fn settings(c: &Comparison) -> String {
    if c.differing.is_empty() {
        return String::new();
    }
    let cell = |text: &str| Cell {
        text: text.to_string(),
        value: text.parse().ok(),
    };
    let mut columns = vec![(
        "setting".to_string(),
        "dotted key of the resolved experiment".to_string(),
    )];
    columns.extend(c.arms.iter().map(|a| {
        (
            format!("{} {}", a.id, a.name),
            "value in this arm".to_string(),
        )
    }));
    let row = |d: &Difference| {
        std::iter::once(Cell {
            text: d.key.clone(),
            value: None,
        })
        .chain(
            d.values
                .iter()
                .map(|v| cell(v.as_deref().unwrap_or_default())),
        )
        .collect()
    };
    let rows: Vec<Vec<Cell>> = c.differing.iter().map(row).collect();
    format!(
        "<h2 id=\"settings\">Settings that differ</h2>\n{}",
        table(&Sheet::of(columns, rows), "settings", &[], false)
    )
}

/// Returns the table of all runs and all cells without a run, with links relative to `folder`.
pub fn runs(c: &Comparison, folder: Option<&Path>) -> String {
    let titles = [
        "run", "arm", "seed", "state", "best", "at step", "final", "items/s", "time",
    ];
    let columns = titles
        .iter()
        .map(|t| (t.to_string(), String::new()))
        .collect();
    let (mut rows, mut links) = (Vec::new(), Vec::new());
    for arm in &c.arms {
        for &m in &arm.members {
            rows.push(run(c, arm, m));
            links.push(folder.and_then(|from| relative(from, &c.runs[m].path)));
        }
        for absent in &arm.absent {
            let mut row = vec![Cell::default(); titles.len()];
            row[0] = text("–");
            row[1] = text(&format!("{} {}", arm.id, arm.name));
            row[2] = text(&absent.seed.to_string());
            row[3] = text(&absent.state());
            rows.push(row);
            links.push(None);
        }
    }
    let open = if rows.len() <= 12 { " open" } else { "" };
    let table = linked_table(&Sheet::of(columns, rows), "runs", &[], false, &links);
    format!("<details{open}><summary id=\"runs\">All runs</summary>\n{table}</details>\n")
}

fn text(text: &str) -> Cell {
    Cell {
        text: text.to_string(),
        value: text.parse().ok(),
    }
}

fn run(c: &Comparison, arm: &Arm, m: usize) -> Vec<Cell> {
    let (run, outcome) = (&c.runs[m], &c.outcomes[m]);
    let of = |value: Option<f64>, show: &dyn Fn(f64) -> String| {
        value.map_or_else(Cell::default, |v| Cell {
            text: show(v),
            value: Some(v),
        })
    };
    let step = outcome.best.and_then(|b| b.0).map(|s| s as f64);
    let at = outcome.last.and_then(|l| l.0);
    let at = earlier_step_mark(at.into_iter().map(|step| (step, run.journal.last_step)));
    let part = outcome.last_is_partial.then(|| "part".to_string());
    let marks: Vec<String> = at.into_iter().chain(part).collect();
    vec![
        Cell {
            text: run.title.clone(),
            value: None,
        },
        Cell {
            text: format!("{} {}", arm.id, arm.name),
            value: None,
        },
        text(run.seed.as_deref().unwrap_or_default()),
        text(&run.state()),
        of(outcome.best.map(|b| b.1), &number),
        of(step, &|s| count(s as u64)),
        with_marks(of(outcome.last.map(|l| l.1), &number), &marks),
        of(run.items_per_s(), &number),
        of(run.elapsed_s(), &duration),
    ]
}

/// Returns the newest samples of each arm, from its first run that has any.
pub fn samples(c: &Comparison) -> String {
    let sampled = |members: &[usize]| {
        members
            .iter()
            .map(|&m| &c.runs[m])
            .find(|r| !r.samples.is_empty())
    };
    let mut text = String::new();
    for (arm, run) in c
        .arms
        .iter()
        .filter_map(|a| Some((a, sampled(&a.members)?)))
    {
        text.push_str(&format!(
            "<details><summary>{} {}</summary>\n",
            escape(&arm.id),
            escape(&run.name)
        ));
        for sample in &run.samples {
            text.push_str("<blockquote>");
            for (key, value) in sample {
                let lines: Vec<String> = value
                    .lines()
                    .map(|line| escape(&line.replace('\t', "    ")))
                    .collect();
                text.push_str(&format!(
                    "<div class=\"quiet\">{}</div><pre>{}</pre>",
                    escape(key),
                    lines.join("\n")
                ));
            }
            text.push_str("</blockquote>\n");
        }
        text.push_str("</details>\n");
    }
    if text.is_empty() {
        text
    } else {
        format!("<h2>Samples</h2>\n{text}")
    }
}
