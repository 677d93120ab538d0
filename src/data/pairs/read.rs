//! Reads parallel texts from files: aligned lines, TSV, CSV, JSONL, plain or packed; Parquet and Arrow.
//!
//! A line ends only at a line feed: other characters that some libraries treat as line ends (U+2028, form
//! feed) occur inside sentences of real corpora. White space around a text is dropped.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::{Map, Value};

use super::{Field, quoted, tabs};
use crate::data::files::columnar::{self, Cell};
use crate::data::files::{json_line, packed};
use crate::error::{Error, Result};

/// Sources with their reference texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Texts to translate or summarise.
    pub sources: Vec<String>,
    /// References of each source, at least one.
    pub references: Vec<Vec<String>>,
    /// Place of each source, for texts that were read from files.
    places: Vec<Place>,
}

/// The file of a text, and its line or, in a columnar table, its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: Arc<Path>,
    line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Texts {
    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the texts with these numbers.
    #[must_use]
    pub fn select(&self, numbers: &[u64]) -> Self {
        let numbers: Vec<usize> = numbers.iter().map(|number| *number as usize).collect();
        self.at(&numbers)
    }

    /// Returns a source and its references.
    pub fn pair(&self, number: usize) -> (&str, &[String]) {
        (&self.sources[number], &self.references[number])
    }

    pub(in super::super) fn push(&mut self, source: String, references: Vec<String>) {
        self.sources.push(source);
        self.references.push(references);
    }

    /// Adds a pair from a file, without the white space around its texts.
    pub(super) fn push_at(
        &mut self,
        (file, line): (&Arc<Path>, u64),
        source: &str,
        references: &[&str],
    ) {
        self.push(
            trimmed(source),
            references.iter().map(|text| trimmed(text)).collect(),
        );
        self.places.push(Place {
            file: Arc::clone(file),
            line,
        });
    }

    fn append(&mut self, other: Self) {
        self.sources.extend(other.sources);
        self.references.extend(other.references);
        self.places.extend(other.places);
    }

    /// Returns the texts at these positions, in this order.
    pub(super) fn at(&self, places: &[usize]) -> Self {
        Self {
            sources: places.iter().map(|i| self.sources[*i].clone()).collect(),
            references: places.iter().map(|i| self.references[*i].clone()).collect(),
            places: places
                .iter()
                .filter_map(|i| self.places.get(*i))
                .cloned()
                .collect(),
        }
    }

    /// Returns the place of the source of an example that [`Self::examples`] returns.
    pub(super) fn place(&self, example: usize, all: bool) -> Option<&Place> {
        if !all {
            return self.places.get(example);
        }
        let mut before = 0;
        let number = self.references.iter().position(|references| {
            before += references.len();
            example < before
        });
        self.places.get(number?)
    }

    /// Returns pairs of a source and a target: the first target of each source, or all of them.
    pub(super) fn examples(&self, all: bool) -> Vec<(&str, &str)> {
        let each = self.sources.iter().zip(&self.references);
        each.flat_map(|(source, references)| {
            let count = if all { references.len() } else { 1 };
            let targets = references.iter().take(count);
            targets.map(move |target| (source.as_str(), target.as_str()))
        })
        .collect()
    }
}

/// The files of a split, as paths on disk.
#[derive(Clone, Debug, Default)]
pub(super) struct SplitFiles {
    pub source: Vec<PathBuf>,
    pub target: Vec<PathBuf>,
    pub both: Vec<PathBuf>,
}

/// Which columns of a table hold the two sides.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub source: Option<Field>,
    pub target: Option<Field>,
    /// Whether the first line names the columns.
    pub header: bool,
    /// Whether unexpected further columns are refused; runs of earlier versions ignored them.
    pub strict: bool,
}

impl Fields {
    /// Whether no key names the columns.
    pub(super) fn are_default(&self) -> bool {
        self.source.is_none() && self.target.is_none()
    }
}

/// Reads all pairs of some files, in order.
///
/// # Errors
/// If a file cannot be read, is not UTF-8 or is not what its name says, or aligned files differ in their
/// number of lines.
pub(super) fn read(files: &SplitFiles, fields: &Fields) -> Result<Texts> {
    let aligned: Vec<(&PathBuf, &PathBuf)> = files.source.iter().zip(&files.target).collect();
    let mut parts = aligned
        .par_iter()
        .map(|(source, target)| of_lines(source, target))
        .collect::<Result<Vec<_>>>()?;
    parts.extend(
        files
            .both
            .par_iter()
            .map(|path| of_table(path, fields))
            .collect::<Result<Vec<_>>>()?,
    );
    let mut all = Texts::default();
    for part in parts {
        all.append(part);
    }
    Ok(all)
}

fn of_lines(source: &Path, target: &Path) -> Result<Texts> {
    let (sources, targets) = (packed::text(source)?, packed::text(target)?);
    let (sources, targets) = (lines(&sources), lines(&targets));
    if sources.len() != targets.len() {
        return Err(Error::run(format!(
            "{} has {} lines, but {} has {}; line n of one file must correspond to line n of the other",
            source.display(),
            sources.len(),
            target.display(),
            targets.len()
        )));
    }
    let mut texts = Texts::default();
    let file: Arc<Path> = source.into();
    for ((source, target), line) in sources.into_iter().zip(targets).zip(1..) {
        texts.push_at((&file, line), source, &[target]);
    }
    Ok(texts)
}

fn of_table(path: &Path, fields: &Fields) -> Result<Texts> {
    if columnar::is_columnar(path) {
        return of_columns(path, fields);
    }
    let content = packed::text(path)?;
    let name = packed::plain_name(path);
    if name.ends_with(".jsonl") || name.ends_with(".ndjson") {
        json_lines(&content, fields, path)
    } else if name.ends_with(".tsv") || name.ends_with(".txt") {
        tabs::read(&content, fields, path)
    } else if name.ends_with(".csv") {
        quoted::read(path, fields)
    } else {
        Err(Error::usage(format!(
            "[data] {}: a `path` of pairs must end in .tsv, .txt, .csv, .jsonl or .ndjson, with or without .gz or .zst, or in .parquet or .arrow; \
             for two files with corresponding lines, set `source` and `target`",
            path.display()
        )))
    }
}

/// Splits a text into lines; the last one may lack its line feed.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

/// Reads columns of texts or of lists of texts: a list in the source column is joined to one text, a list in
/// the target column holds references.
fn of_columns(path: &Path, fields: &Fields) -> Result<Texts> {
    let name = |field: &Option<Field>, default: &str| {
        field
            .as_ref()
            .map_or_else(|| default.to_owned(), Field::to_string)
    };
    let source = name(&fields.source, "source");
    let target = name(&fields.target, "target");
    let wanted = [
        (source.as_str(), "source_field"),
        (target.as_str(), "target_field"),
    ];
    let mut texts = Texts::default();
    let file: Arc<Path> = path.into();
    columnar::rows(path, &wanted, |row, mut cells| {
        let references = match cells.pop() {
            Some(Cell::Texts(all)) if !all.is_empty() => all,
            Some(Cell::Text(text)) => vec![text],
            _ => Vec::new(),
        };
        let text = cells.pop().and_then(Cell::joined);
        let (Some(text), false) = (text, references.is_empty()) else {
            return Err(Error::run(format!(
                "{}: row {row} lacks its source or its target",
                path.display()
            )));
        };
        let references: Vec<&str> = references.iter().map(String::as_str).collect();
        texts.push_at((&file, row), &text, &references);
        Ok(())
    })?;
    Ok(texts)
}

fn json_lines(content: &str, fields: &Fields, path: &Path) -> Result<Texts> {
    let name = |field: &Option<Field>, default: &str| {
        field
            .as_ref()
            .map_or_else(|| default.to_owned(), Field::to_string)
    };
    let (source, target) = (
        name(&fields.source, "source"),
        name(&fields.target, "target"),
    );
    let mut texts = Texts::default();
    let file: Arc<Path> = path.into();
    for (line, number) in lines(content).into_iter().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let at = |why: String| Error::run(format!("{}:{number}: {why}", path.display()));
        let object = json_line::object(line).map_err(at)?;
        let sources = strings(&object, &source, "source_field").map_err(at)?;
        let targets = strings(&object, &target, "target_field").map_err(at)?;
        texts.push_at((&file, number), &sources.join(" "), &targets);
    }
    Ok(texts)
}

/// Returns the string of a field, or the strings of its list; `a.b` is the field `b` of the object `a`.
fn strings<'a>(
    object: &'a Map<String, Value>,
    field: &str,
    key: &str,
) -> std::result::Result<Vec<&'a str>, String> {
    let wrong = || format!("`{field}` is neither a string nor a list of strings");
    match json_line::nested_field(object, field) {
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(parts)) if !parts.is_empty() => parts
            .iter()
            .map(|part| part.as_str().ok_or_else(wrong))
            .collect(),
        Some(Value::Array(_)) => Err(format!("`{field}` is an empty list")),
        Some(_) => Err(wrong()),
        None => Err(format!(
            "{}; set [data] {key}",
            json_line::missing_field(object, field)
        )),
    }
}
