//! Renders a comparison as one self-contained HTML page. The page makes no request (a content policy forbids it) and works
//! from a file, on a phone, by keyboard and in dark mode. The tables work without scripts.
//!
//! The bytes depend only on the run folders and on the paths they were given by.

use std::path::Path;

use super::figure::{self, Figure, FigureOptions};
use super::terminal::plain;
use crate::error::{Error, Result};
use crate::files;
use crate::report::analyse::causes::causes;
use crate::report::analyse::cells::Cells;
use crate::report::analyse::comparison::Comparison;

mod data;
mod layers;
mod tables;
pub mod watch;

use data::data;
pub use data::rounded;
use tables::{results, runs, samples, settings};

const STYLE: &str = include_str!("page.css");
/// Parts of the script in order: data, helpers, tables and theme first, then the drawing code.
const SCRIPTS: [&str; 8] = [
    include_str!("data.js"),
    include_str!("base.js"),
    include_str!("tables.js"),
    include_str!("theme.js"),
    include_str!("plot.js"),
    include_str!("curves.js"),
    include_str!("heat.js"),
    include_str!("layers.js"),
];

/// Writes the page. A regular file is replaced atomically, so that a reader never sees half of it.
///
/// # Errors
/// If the path does not name a file, if a figure cannot be drawn, or if the file cannot be written.
pub fn write(c: &Comparison, path: &Path) -> Result<()> {
    if path.file_name().is_none() {
        let shown = path.display();
        return Err(Error::usage(format!("--html: {shown} is not a file name")));
    }
    if path.is_dir() {
        return Err(Error::usage(format!(
            "--html: {} is a folder; name a file, for example {}",
            path.display(),
            path.join("compare.html").display()
        )));
    }
    let figures = figure::figures(c, FigureOptions::default())?;
    let text = page(c, &figures, path.parent())?;
    files::write_result(path, text.as_bytes())
}

/// Returns the page's text, with links to the runs relative to `folder`.
///
/// # Errors
/// If the diagnostics of a run cannot be read.
pub fn page(c: &Comparison, figures: &[Figure], folder: Option<&Path>) -> Result<String> {
    let title = title(c);
    let layers = layers::data(c)?;
    let data = data(c, &layers)
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let body = [
        header(c, &title),
        results(c),
        curves(c),
        other_figures(figures),
        settings(c),
        layers::section(&layers),
        runs(c, folder),
        samples(c),
    ]
    .concat();
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"generator\" content=\"formwork {version}\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\
         <footer>Made by <code>formwork</code> from the run folders; this file needs nothing else.</footer>\n</main>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escape(&title),
        script = SCRIPTS.concat(),
    ))
}

/// Escapes text for an element's content or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

fn title(c: &Comparison) -> String {
    if let Some(plan) = &c.sweep {
        return plan.name.clone();
    }
    let labels: Vec<&str> = c.arms.iter().map(|a| a.name.as_str()).collect();
    match labels.as_slice() {
        [one] => one.to_string(),
        [first, second] => format!("{first} and {second}"),
        [first, second, third] => format!("{first}, {second} and {third}"),
        [first, second, rest @ ..] => format!("{first}, {second} and {} more arms", rest.len()),
        [] => "no runs".into(),
    }
}

fn header(c: &Comparison, title: &str) -> String {
    let causes = causes(&c.differing);
    let differing: Vec<String> = causes
        .iter()
        .take(8)
        .map(|d| format!("<code>{}</code>", escape(&d.key)))
        .collect();
    let more = if causes.len() > 8 {
        format!(" and {} more", causes.len() - 8)
    } else {
        String::new()
    };
    let differ = if differing.is_empty() {
        "No setting differs.".into()
    } else {
        format!("What differs: {}{more}.", differing.join(", "))
    };
    let planned = Cells::of(&c.arms, &c.runs).planned;
    let arms = c.arms.len();
    let what = match c.sweep {
        Some(_) => "cell",
        None => "run",
    };
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let stand = match c.sweep {
        Some(_) => format!(" ({})", Cells::of(&c.arms, &c.runs)),
        None => String::new(),
    };
    let notes: String = c
        .notes
        .iter()
        .map(|n| format!("<li>{}</li>", escape(n)))
        .collect();
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("<ul class=\"notes\" aria-label=\"Notes\">{notes}</ul>\n")
    };
    format!(
        "<header><h1>{}</h1>\n<button type=\"button\" id=\"theme\" hidden>theme</button></header>\n\
         <p class=\"quiet\">{planned} {what}{} in {arms} arm{}{stand}. {differ}</p>\n{notes}",
        escape(title),
        plural(planned),
        plural(arms)
    )
}

fn curves(c: &Comparison) -> String {
    if data::series(c).is_empty() {
        return "<h2>Curves</h2>\n<p class=\"quiet\">No metric has been measured at two steps yet.</p>\n"
            .into();
    }
    let check = |id: &str, text: &str, on: bool| {
        format!(
            "<label><input type=\"checkbox\" id=\"{id}\"{}>{text}</label>",
            if on { " checked" } else { "" }
        )
    };
    let mut text =
        String::from("<h2 id=\"curves\">Curves</h2>\n<div class=\"card\"><div class=\"controls\">");
    text.push_str("<label>metric <select id=\"metric\"></select></label>");
    text.push_str("<label>over <select id=\"axis\"><option value=\"step\">steps</option><option value=\"time\">wall time</option></select></label>");
    text.push_str(&check("valid", "valid", true));
    text.push_str(&check("train", "train", true));
    text.push_str("<label>smoothing <input type=\"range\" id=\"smooth\" min=\"0\" max=\"0.98\" step=\"0.02\" value=\"0.8\"></label>");
    text.push_str(&check("band", "± sd", true));
    text.push_str(&check("logy", "log y", false));
    text.push_str(&check("logx", "log x", false));
    text.push_str(&check("settled", "fit without the start", true));
    text.push_str(
        "</div>\n<div class=\"plot\"><svg id=\"chart\" tabindex=\"0\" role=\"img\" aria-label=\"Curves\"></svg><div class=\"tip\" id=\"tip\" hidden></div></div>\n\
         <div class=\"hidden\" id=\"spoken\" aria-live=\"polite\"></div>\n\
         <div class=\"legend\" id=\"legend\" role=\"group\" aria-label=\"Arms in the curves\">\
         <button type=\"button\" id=\"every\">all</button><button type=\"button\" id=\"none\">none</button></div>\n\
         <noscript><p>The curves need JavaScript; the tables do not.</p></noscript></div>\n",
    );
    text
}

/// Returns the section of figures, without the curves, which the page shows interactively.
fn other_figures(figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures.iter().filter(|figure| figure.name != "curves") {
        text.push_str(&format!(
            "<figure class=\"{}\">{}<figcaption>{}</figcaption></figure>\n",
            figure.name,
            figure.svg,
            escape(&figure.caption)
        ));
    }
    match text.is_empty() {
        true => text,
        false => {
            format!("<h2 id=\"figures\">Figures</h2>\n<div class=\"figures\">\n{text}</div>\n")
        }
    }
}
