//! The page's tables and samples: plain markup that sorts by script and stands without.

use super::escape;
use crate::report::arms::Difference;
use crate::report::compare::{Comparison, more_is_better};
use crate::report::sheet::{Cell, Sheet, without_settings};
use crate::report::terminal::{count, duration, number};

/// What each arm reached.
pub fn results(c: &Comparison) -> String {
    let sheet = without_settings(c);
    let best = sheet
        .columns
        .iter()
        .position(|(title, _)| title.starts_with("best "));
    let values = || {
        best.into_iter().flat_map(|b| {
            sheet
                .rows
                .iter()
                .enumerate()
                .filter_map(move |(i, r)| Some((i, r[b].value?)))
        })
    };
    let sign = if more_is_better(&c.metric) { -1.0 } else { 1.0 };
    let top = values()
        .min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)))
        .map(|(row, _)| row);
    let top = if c.arms.len() > 1 {
        top.zip(best)
    } else {
        None
    };
    let explained = if c.arms.len() > 1 {
        " Differences are from the first arm; the best arm is bold."
    } else {
        ""
    };
    format!(
        "<h2 id=\"results\">Results</h2>\n<p class=\"quiet\">Mean ± standard deviation over runs that differ only in their seed.{explained} \
         A column's title sorts by it.</p>\n{}",
        table(&sheet, "results", top, true)
    )
}

/// A sortable table in a frame that scrolls; `top` marks one cell, `marks` colours the first column as the curves are.
fn table(sheet: &Sheet, label: &str, top: Option<(usize, usize)>, marks: bool) -> String {
    let right = |column: usize| {
        sheet
            .rows
            .iter()
            .all(|r| r[column].value.is_some() || r[column].text.is_empty())
    };
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
            let class = if top == Some((r, i)) {
                format!("{class} top")
            } else {
                class.to_string()
            };
            text.push_str(&table_cell(
                cell,
                class.trim(),
                i == 0,
                (marks && i == 0).then_some(r),
            ));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

fn table_cell(cell: &Cell, class: &str, heads: bool, mark: Option<usize>) -> String {
    let shown = if cell.text.is_empty() {
        "–".into()
    } else {
        escape(&cell.text)
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
    let (open, close) = if heads {
        ("th scope=\"row\"", "th")
    } else {
        ("td", "td")
    };
    format!("<{open}{class}{style} data-value=\"{value}\">{shown}</{close}>")
}

/// Keys by arms, full names; only when something differs.
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
            format!("{} {}", a.id, a.label),
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
        table(&Sheet { columns, rows }, "settings", None, false)
    )
}

/// Every run by itself.
pub fn runs(c: &Comparison) -> String {
    let titles = [
        "run", "arm", "seed", "state", "best", "at step", "final", "items/s", "time",
    ];
    let columns = titles
        .iter()
        .map(|t| (t.to_string(), String::new()))
        .collect();
    let of = |value: Option<f64>, show: &dyn Fn(f64) -> String| {
        value.map_or_else(Cell::default, |v| Cell {
            text: show(v),
            value: Some(v),
        })
    };
    let text = |text: &str| Cell {
        text: text.to_string(),
        value: text.parse().ok(),
    };
    let row = |arm: &str, m: usize| {
        let (run, outcome) = (&c.runs[m], &c.outcomes[m]);
        vec![
            Cell {
                text: run.path.display().to_string(),
                value: None,
            },
            Cell {
                text: arm.to_string(),
                value: None,
            },
            text(run.seed.as_deref().unwrap_or_default()),
            Cell {
                text: run.state(),
                value: None,
            },
            of(outcome.best.map(|b| b.1), &number),
            of(outcome.best.and_then(|b| b.0).map(|s| s as f64), &|s| {
                count(s as u64)
            }),
            of(outcome.last.map(|l| l.1), &number),
            of(run.items_per_s(), &number),
            of(run.elapsed_s(), &duration),
        ]
    };
    let rows = c
        .arms
        .iter()
        .flat_map(|a| a.members.iter().map(|&m| row(&a.id, m)))
        .collect();
    let open = if c.runs.len() <= 12 { " open" } else { "" };
    format!(
        "<details{open}><summary id=\"runs\">All runs</summary>\n{}</details>\n",
        table(&Sheet { columns, rows }, "runs", None, false)
    )
}

/// The newest samples of the first run of each arm that has any.
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
