//! Reads files as a sequence of documents of bytes: text, JSON lines, Parquet, Arrow.
//!
//! A document is a file, a line of a JSONL file, a row of a columnar table, or a block between separators. A
//! byte-order mark at the start of a file is dropped; everything else is kept as it is. Files may be packed
//! (`packed`). A plain file that is one document comes in parts; of all other files, one document is in
//! memory at a time.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::columnar;
use super::json_line;
use super::packed::{self, Unpacked};
use super::splitting::{self, Delimiting, Piece};
use crate::digest;
use crate::error::{Error, Result};
use crate::files;

/// How files are divided into documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentFormat {
    /// Field of a JSON line, or column of a table, that holds the text.
    pub field: Option<String>,
    /// Line break or other separator between the documents of a plain file.
    pub separator: Option<String>,
    /// Where the documents of a plain file begin, if there is no separator.
    pub beginnings: Beginnings,
    /// Whether a file named `.json` is plain text; otherwise it is read as JSON lines if it begins with an
    /// object.
    pub plain: bool,
    /// Whether any bytes are text, except in JSON lines; otherwise a file must be UTF-8.
    pub any_bytes: bool,
}

/// Where the documents of a plain file begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Beginnings {
    /// A file is one document.
    #[default]
    Files,
    /// After blank lines, as in the files that BERT is trained on.
    BlankLines,
    /// At ` = Title = ` between blank lines, as in WikiText; ` = = Section = = ` is inside a document.
    Wikitext,
}

/// Field that is read if none is configured.
const FIELD: &str = "text";

/// Returns the SHA-256 of each file as it is on disk.
///
/// # Errors
/// If a file cannot be read.
pub fn digests(files: &[PathBuf]) -> Result<Vec<[u8; 32]>> {
    files.par_iter().map(|file| file_digest(file)).collect()
}

/// Returns the SHA-256 of a file as it is on disk.
fn file_digest(path: &Path) -> Result<[u8; 32]> {
    crate::files::require_regular(path)?;
    std::fs::File::open(path)
        .and_then(digest::sha256)
        .map(|(sum, _)| sum)
        .map_err(Error::io("read", path))
}

/// Calls `each` for the documents of files, in order; empty documents are skipped.
///
/// # Errors
/// If a file cannot be read, is not UTF-8 although it must be, or is not what its name says, or if `each`
/// fails.
pub fn each(
    files: &[PathBuf],
    reading: &DocumentFormat,
    mut each: impl FnMut(Vec<u8>) -> Result<()>,
) -> Result<()> {
    let mut whole = Vec::new();
    parts(files, reading, |part, ends| {
        join(&mut whole, part);
        match ends {
            true => each(std::mem::take(&mut whole)),
            false => Ok(()),
        }
    })
}

/// Appends a part to a document.
pub fn join(document: &mut Vec<u8>, mut part: Vec<u8>) {
    match document.is_empty() {
        true => *document = part,
        false => document.append(&mut part),
    }
}

/// Calls `each` for the parts of the documents of files, in order, and tells it whether the part ends its
/// document. Most documents are one part. Empty documents are skipped.
///
/// # Errors
/// As for [`each`].
pub fn parts(
    files: &[PathBuf],
    reading: &DocumentFormat,
    mut each: impl FnMut(Vec<u8>, bool) -> Result<()>,
) -> Result<()> {
    let mut open = false;
    let mut take = |part: Vec<u8>, ends: bool| {
        let nothing = part.is_empty() && !open;
        open = !ends && (open || !part.is_empty());
        match nothing {
            true => Ok(()),
            false => each(part, ends),
        }
    };
    files
        .iter()
        .try_for_each(|path| of_file(path, reading, &mut take))
}

type Each<'a> = &'a mut dyn FnMut(Vec<u8>, bool) -> Result<()>;

fn of_file(path: &Path, reading: &DocumentFormat, each: Each<'_>) -> Result<()> {
    if columnar::is_columnar(path) {
        return of_table(path, reading.field.as_deref().unwrap_or(FIELD), each);
    }
    let json = is_json_lines(path, reading)?;
    let cut = match (&reading.separator, reading.beginnings) {
        _ if json => Delimiting::Lines,
        (Some(separator), _) => Delimiting::Separator(separator.as_bytes()),
        (None, beginnings) => Delimiting::Beginnings(beginnings),
    };
    let field = reading.field.as_deref().unwrap_or(FIELD);
    pieces(path, &cut, |line, piece| {
        if piece.at == 0 && (json || !reading.any_bytes) {
            files::refuse_utf16(path.display(), &piece.bytes)?;
        }
        match json {
            true if piece.bytes.trim_ascii().is_empty() => Ok(()),
            true => each(json_line(&piece.bytes, field, path, line)?, true),
            false => {
                if !reading.any_bytes {
                    require_text(&piece, path)?;
                }
                each(piece.bytes, piece.ends)
            }
        }
    })
}

/// Calls `each` with the number, from 1, and the text of every line of a plain file, JSON line or row of a
/// table.
///
/// # Errors
/// As for [`each`].
pub fn lines(
    path: &Path,
    reading: &DocumentFormat,
    mut each: impl FnMut(u64, Vec<u8>) -> Result<()>,
) -> Result<()> {
    let field = reading.field.as_deref().unwrap_or(FIELD);
    if columnar::is_columnar(path) {
        return columnar::rows(path, &[(field, "field")], |row, mut cells| {
            let text = cells.pop().and_then(columnar::Cell::joined);
            text.map_or(Ok(()), |text| each(row, text.into_bytes()))
        });
    }
    let json = is_json_lines(path, reading)?;
    pieces(path, &Delimiting::Lines, |line, piece| match json {
        true if piece.bytes.trim_ascii().is_empty() => Ok(()),
        true => each(line, json_line(&piece.bytes, field, path, line)?),
        false => each(line, piece.bytes),
    })
}

/// Calls `each` for the pieces of a file, with their numbers from 1.
fn pieces(
    path: &Path,
    cut: &Delimiting<'_>,
    mut each: impl FnMut(u64, Piece) -> Result<()>,
) -> Result<()> {
    let mut number = 0;
    let mut content = BufReader::with_capacity(1 << 16, Unpacked::open(path)?);
    splitting::pieces(
        &mut content,
        cut,
        |piece| -> std::result::Result<(), ReadError> {
            number += 1;
            Ok(each(number, piece)?)
        },
    )
    .map_err(|stopped| match stopped {
        ReadError::Reading(e) => Unpacked::fault(path, e),
        ReadError::Error(e) => e,
    })
}

/// Whether every line of a file is an object with a text.
fn is_json_lines(path: &Path, reading: &DocumentFormat) -> Result<bool> {
    let name = packed::plain_name(path);
    Ok(reading.field.is_some()
        || is_lines(&name)
        || is_json(&name) && !reading.plain && reading.separator.is_none() && begins_lines(path)?)
}

/// Whether every line or row of a file is a document, judged by the file's name.
pub(in crate::data) fn has_rows(path: &Path) -> bool {
    columnar::is_columnar(path) || is_lines(&packed::plain_name(path))
}

fn is_lines(name: &str) -> bool {
    name.ends_with(".jsonl") || name.ends_with(".ndjson")
}

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "json")
}

/// Whether a `.json` file holds JSON lines, as some libraries write them under that name: it begins with an
/// object.
///
/// # Errors
/// If the file cannot be read or begins with an array.
fn begins_lines(path: &Path) -> Result<bool> {
    let mut content = BufReader::new(Unpacked::open(path)?);
    loop {
        let some = content.fill_buf().map_err(|e| Unpacked::fault(path, e))?;
        let (count, begins) = (
            some.len(),
            some.iter().copied().find(|byte| !is_before_json(*byte)),
        );
        match begins {
            Some(b'{') => return Ok(true),
            Some(b'[') => return Err(no_lines(path)),
            Some(_) => return Ok(false),
            None if count == 0 => return Ok(false),
            None => content.consume(count),
        }
    }
}

/// Whether a byte is white space or part of a byte-order mark.
fn is_before_json(byte: u8) -> bool {
    byte.is_ascii_whitespace() || [0xEF, 0xBB, 0xBF].contains(&byte)
}

fn no_lines(path: &Path) -> Error {
    Error::run(format!(
        "{} is a JSON array, but JSON is read as lines, one object per line; jq -c '.[]' FILE converts an array of objects, and \
         [data] documents = \"files\" reads the file as plain text",
        path.display()
    ))
}

/// The reason why reading the pieces of a file stops.
enum ReadError {
    Reading(std::io::Error),
    Error(Error),
}

impl From<std::io::Error> for ReadError {
    fn from(e: std::io::Error) -> Self {
        Self::Reading(e)
    }
}

impl From<Error> for ReadError {
    fn from(e: Error) -> Self {
        Self::Error(e)
    }
}

fn require_text(piece: &Piece, path: &Path) -> Result<()> {
    let Err(e) = std::str::from_utf8(&piece.bytes) else {
        return Ok(());
    };
    Err(Error::run(format!(
        "{} is not UTF-8 (byte {} of its text); convert it, or use [tokenizer] kind = \"byte\"",
        path.display(),
        piece.at + e.valid_up_to() as u64
    )))
}

/// Calls `each` for the rows of a table; a row without a text is not a document.
fn of_table(path: &Path, column: &str, each: Each<'_>) -> Result<()> {
    columnar::rows(path, &[(column, "field")], |_, mut cells| {
        let text = cells.pop().and_then(columnar::Cell::joined);
        text.map_or(Ok(()), |text| each(text.into_bytes(), true))
    })
}

/// Returns the text of a JSON line. JSON is UTF-8, whatever the tokenizer.
fn json_line(line: &[u8], field: &str, path: &Path, number: u64) -> Result<Vec<u8>> {
    let line = std::str::from_utf8(line)
        .map_err(|e| packed::not_text_at(path, number, e.valid_up_to()))?;
    let at = |why: String| Error::run(format!("{}:{number}: {why}", path.display()));
    let object = json_line::object(line).map_err(|why| match is_json(&packed::plain_name(path)) {
        true => at(format!(
            "{why}; JSON is read as lines, one object per line, but [data] documents = \"files\" reads the file as plain text"
        )),
        false => at(why),
    })?;
    match json_line::nested_field(&object, field) {
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        // As for a table row without a text: the same data set gives the same documents in either form.
        Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(parts)) if parts.iter().all(Value::is_string) => {
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            Ok(parts.join(" ").into_bytes())
        }
        Some(_) => Err(at(format!(
            "`{field}` is neither a string nor a list of strings"
        ))),
        None => {
            let missing = json_line::missing_field(&object, field);
            Err(at(format!("{missing}; set [data] field")))
        }
    }
}
