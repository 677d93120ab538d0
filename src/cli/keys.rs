//! `formwork list keys` and `formwork schema`: the keys of experiment files, derived from the types that read them.

mod places;

use super::output;
use crate::error::{Error, Result, nearest, suggestion};
use crate::experiment::schema::{Section, schema, sections};
use clap::Args;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// `formwork schema`.
#[derive(Args, Debug)]
pub struct SchemaArgs {}

/// Prints the JSON Schema of experiment files.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_schema(_: &SchemaArgs) -> Result<()> {
    let text = serde_json::to_string_pretty(&schema());
    output::line(text.map_err(|e| Error::run(format!("cannot write the schema: {e}")))?)
}

/// Returns the keys of the table at `path`, or the key at `path`; an overview of all tables without a path.
///
/// # Errors
/// If there is no such path; the error suggests the closest one.
pub fn text(path: Option<&str>) -> Result<String> {
    let all = sections();
    let Some(path) = path else {
        return Ok(overview(all));
    };
    let path = path.trim_matches(['[', ']']);
    // `schedule.kind` asks for the kinds of `schedule`, which are its sections.
    let has_kinds = |table: &&str| {
        let tables = places::tables(all, table);
        tables.iter().any(|(_, section)| section.kind.is_some())
    };
    let table = path.strip_suffix(".kind").filter(has_kinds);
    let path = table.unwrap_or(path);
    let mut found = places::tables(all, path);
    if found.is_empty() && !path.contains('.') {
        found = keys_named(all, path);
    } else if found.iter().all(|(title, _)| title != path) {
        // The key that holds a list of tables, or tables by name, comes before the tables.
        found = [key(all, path), found].concat();
    }
    if found.is_empty() {
        found = sections_of_kind(all, path);
    }
    if found.is_empty() {
        return Err(unknown(all, path));
    }
    Ok(render_kinds(&found))
}

/// The error about a path without a table or key: it names a key of another table, else the keys of the path's own table.
fn unknown(all: &[Section], path: &str) -> Error {
    // Each kind of a table has its own section, so names repeat.
    let names: BTreeSet<String> = all.iter().flat_map(names).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = other_tables_hint(path, &names)
        .or_else(|| own_table_hint(all, path))
        .unwrap_or_else(|| {
            let names = names.iter().filter(|name| !name.is_empty());
            suggestion(path, names.copied())
        });
    Error::usage(format!("no table or key is called `{path}`{near}"))
}

/// `; did you mean …?` with the closest key of the table that the path names, or a list of the keys of that table.
fn own_table_hint(all: &[Section], path: &str) -> Option<String> {
    let (table, key) = path.rsplit_once('.')?;
    let tables = places::tables(all, table);
    let kinds = tables.iter().any(|(_, section)| section.kind.is_some());
    let keys = tables.iter().flat_map(|(_, section)| &section.keys);
    let mut keys: BTreeSet<&str> = keys.map(|key| key.name.as_str()).collect();
    keys.extend(kinds.then_some("kind"));
    (!keys.is_empty()).then(|| match nearest(key, keys.iter().copied()) {
        Some(near) => format!("; did you mean `{}`?", dotted(table, near)),
        None => suggestion(key, keys.iter().copied()),
    })
}

/// Maximum number of names that a message lists.
const MOST_ELSEWHERE: usize = 6;

/// `; did you mean …?` with the keys of other tables that have the same last name: the closest one, or all if none is close.
fn other_tables_hint(path: &str, names: &[&str]) -> Option<String> {
    let (_, key) = path.rsplit_once('.')?;
    let same = names.iter().copied();
    let same = same.filter(|name| name.rsplit_once('.').is_some_and(|(_, last)| last == key));
    let mut same: Vec<&str> = same.collect();
    // The path may be the end of a longer one.
    let end = format!(".{path}");
    if same.iter().any(|name| name.ends_with(&end)) {
        same.retain(|name| name.ends_with(&end));
    }
    let near = nearest(path, same.iter().copied());
    let meant = near.map_or(same, |near| vec![near]);
    let shown: Vec<String> = meant.iter().map(|name| format!("`{name}`")).collect();
    match shown.as_slice() {
        [] => None,
        [only] => Some(format!("; did you mean {only}?")),
        all if all.len() <= MOST_ELSEWHERE => {
            Some(format!("; did you mean one of {}?", all.join(", ")))
        }
        all => Some(format!(
            "; keys of that name are {} and {} more",
            all[..MOST_ELSEWHERE].join(", "),
            all.len() - MOST_ELSEWHERE
        )),
    }
}

/// The keys of one kind of a table, for a path that ends with the kind: `data.labelled_text`.
fn sections_of_kind(all: &[Section], path: &str) -> Vec<(String, Section)> {
    let (table, kind) = path.rsplit_once('.').unwrap_or(("", path));
    let mut found = places::tables(all, table);
    found.retain(|(_, section)| section.kind.as_deref() == Some(kind));
    found
}

/// Renders tables with their titles; kinds with the same keys share a paragraph.
fn render_kinds(found: &[(String, Section)]) -> String {
    let mut paragraphs: Vec<(String, Vec<String>, &Section)> = Vec::new();
    for (path, section) in found {
        let kind = section.kind.clone();
        let same = paragraphs.iter_mut().find(|(title, _, other)| {
            title == path && other.keys == section.keys && !section.keys.is_empty()
        });
        match same {
            Some((_, kinds, _)) => kinds.extend(kind),
            None => paragraphs.push((path.clone(), kind.into_iter().collect(), section)),
        }
    }
    let mut text = String::new();
    for (path, kinds, section) in &paragraphs {
        table(&mut text, path, kinds, section);
    }
    text
}

/// The key of this name in all tables that have one, each with its dotted name.
fn keys_named(all: &[Section], name: &str) -> Vec<(String, Section)> {
    let own = |section: &Section| Section {
        keys: section
            .keys
            .iter()
            .filter(|key| key.name == name)
            .cloned()
            .collect(),
        ..section.clone()
    };
    let with = all
        .iter()
        .map(own)
        .filter(|section| !section.keys.is_empty());
    with.map(|section| (dotted(&section.path, name), section))
        .collect()
}

/// The dotted names of a table and its keys, in every place where the table can occur.
fn names(section: &Section) -> Vec<String> {
    let places = std::iter::once(&section.path).chain(&section.other_paths);
    let mut names = Vec::new();
    for place in places {
        names.push(place.clone());
        names.extend(section.keys.iter().map(|key| dotted(place, &key.name)));
    }
    names
}

fn dotted(table: &str, key: &str) -> String {
    match table {
        "" => key.into(),
        _ => format!("{table}.{key}"),
    }
}

/// The key at `path`, in each kind that has it.
fn key(all: &[Section], path: &str) -> Vec<(String, Section)> {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let with = places::tables(all, parent).into_iter();
    let with = with.map(|(_, section)| Section {
        keys: section
            .keys
            .iter()
            .filter(|key| key.name == name)
            .cloned()
            .collect(),
        ..section
    });
    let with = with.filter(|section| !section.keys.is_empty());
    with.map(|section| (path.to_string(), section)).collect()
}

/// Lists each table once, with its meaning.
fn overview(all: &[Section]) -> String {
    let mut text = String::new();
    let mut last = None;
    for section in all.iter().filter(|section| !section.path.is_empty()) {
        let meaning = match &section.kind {
            None => section.meaning.clone(),
            Some(_) if last == Some(&section.path) => continue,
            Some(_) => {
                let same = all.iter().filter(|other| other.path == section.path);
                let kinds: Vec<&str> = same.filter_map(|s| s.kind.as_deref()).collect();
                format!("kind: {}", kinds.join(", "))
            }
        };
        last = Some(&section.path);
        let _ = writeln!(text, "{:32}  {meaning}", section.path);
    }
    text
}

fn table(text: &mut String, path: &str, kinds: &[String], section: &Section) {
    if !text.is_empty() {
        text.push('\n');
    }
    let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
    let title = match kinds.is_empty() {
        false => format!("{path}  kind = {}", kinds.join(", ")),
        true => path.to_string(),
    };
    let _ = writeln!(text, "{title}");
    // The meaning of a section belongs to one kind, so a heading of several kinds shows none.
    if kinds.len() <= 1 {
        let _ = writeln!(text, "  {}", section.meaning);
    }
    for key in &section.keys {
        let default = match &key.default {
            Some(value) => format!(", default {value}"),
            None => String::new(),
        };
        let _ = writeln!(text, "\n  {}: {}{default}", key.name, key.wanted);
        if !key.meaning.is_empty() {
            let _ = writeln!(text, "      {}", key.meaning);
        }
        if let Some(source) = &key.source {
            let _ = writeln!(text, "      source: {source}");
        }
    }
}

/// Returns the reference of all keys as a Markdown page.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Every key\n\nMade by `formwork list keys --markdown` from the types that read experiment files. A table that has a \
         kind may be the kind's name alone: `norm = \"rms\"`. `formwork list keys model.attention` shows a part of it in the \
         terminal.\n",
    );
    let mut heading: Option<(String, Vec<String>)> = None;
    for section in sections() {
        let here = heading.as_ref().filter(|(path, _)| *path == section.path);
        let (is_new, stands_elsewhere) = match here {
            None => (true, false),
            Some((_, also)) => (false, *also != section.other_paths),
        };
        if is_new {
            let title = if section.path.is_empty() {
                "The file"
            } else {
                &section.path
            };
            let _ = write!(text, "\n## {title}\n");
            write_other_places(&mut text, &section.other_paths);
            heading = Some((section.path.clone(), section.other_paths.clone()));
        }
        if let Some(kind) = &section.kind {
            let _ = write!(text, "\n### `kind = \"{kind}\"`\n");
        }
        if stands_elsewhere {
            write_other_places(&mut text, &section.other_paths);
        }
        if !section.meaning.is_empty() {
            let _ = write!(text, "\n{}\n", cell(&section.meaning));
        }
        if !section.keys.is_empty() {
            text.push_str(
                "\n| key | value | default | meaning | source |\n|---|---|---|---|---|\n",
            );
        }
        for key in &section.keys {
            let default = key.default.as_ref().map(|d| format!("`{}`", cell(d)));
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} |",
                key.name,
                cell(&key.wanted),
                default.unwrap_or_default(),
                cell(&key.meaning),
                key.source.as_deref().map(cell).unwrap_or_default()
            );
        }
    }
    text
}

/// Writes the other places of a table, or of one kind of it.
fn write_other_places(text: &mut String, places: &[String]) {
    if !places.is_empty() {
        let places: Vec<String> = places.iter().map(|p| format!("`{p}`")).collect();
        let _ = write!(text, "\nAlso {}.\n", places.join(", "));
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
