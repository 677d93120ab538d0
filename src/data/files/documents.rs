//! Reading files, folders, JSON lines and gzip as documents of bytes.
//!
//! A document is a file, a line of a JSONL file, or a block between separators. A byte-order mark
//! at the start of a file is dropped; everything else is kept as it is. A file is gzipped when its
//! first bytes say so.

use std::io::Read;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest;
use crate::error::{Error, Result};

/// How files become documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The field of a JSON line that holds its text.
    pub field: Option<String>,
    /// A line break or mark between documents of a plain file.
    pub separator: Option<String>,
    /// Where documents of a plain file begin, when no mark separates them.
    pub beginnings: Beginnings,
    /// Any bytes are text; otherwise a file must be UTF-8.
    pub any_bytes: bool,
}

/// Where the documents of a plain file begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beginnings {
    /// A file is one document.
    #[default]
    Files,
    /// After blank lines, as in the files that BERT is made from.
    BlankLines,
    /// At ` = Title = ` between blank lines, as in WikiText; ` = = Section = = ` is inside a document.
    Wikitext,
}

/// The field read when none is configured.
const FIELD: &str = "text";

/// The files that paths stand for: a folder's files at any depth in the order of their paths,
/// hidden ones and linked folders left out.
///
/// # Errors
/// A folder that cannot be read or holds no file.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = all.len();
            walk(path, &mut all)?;
            if all.len() == before {
                return Err(Error::usage(format!(
                    "[data] the folder {} holds no file",
                    path.display()
                )));
            }
        } else {
            all.push(path.clone());
        }
    }
    Ok(all)
}

fn walk(folder: &Path, all: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries = std::fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|e| e.map(|e| e.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .map_err(Error::io("read", folder))?;
    entries.sort();
    for path in entries {
        let hidden = path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        // A linked folder may lead back here.
        if path.is_dir() && !path.is_symlink() {
            walk(&path, all)?;
        } else if path.is_file() {
            all.push(path);
        }
    }
    Ok(())
}

/// SHA-256 of each file as it lies on disk.
///
/// # Errors
/// A file that cannot be read.
pub fn digests(files: &[PathBuf]) -> Result<Vec<[u8; 32]>> {
    files.par_iter().map(|file| file_digest(file)).collect()
}

/// SHA-256 of a file as it lies on disk.
fn file_digest(path: &Path) -> Result<[u8; 32]> {
    crate::files::require_ordinary(path)?;
    std::fs::File::open(path)
        .and_then(digest::of)
        .map(|(sum, _)| sum)
        .map_err(Error::io("read", path))
}

/// A gzip is unpacked to so many times its size at most. Text packs 3 to 5 times, tables and logs that repeat themselves
/// a few tens of times; zeros 1000 times, so that ten megabytes of them fill a memory.
const MOST_UNPACKED: u64 = 100;
/// Unpacked bytes that any gzip may have.
const ALWAYS_UNPACKED: u64 = 64 << 20;

/// The content of a file, unpacked when it is gzipped.
///
/// # Errors
/// Unreadable, or a gzip that is cut short, damaged, or packed more tightly than data is.
pub fn content(path: &Path) -> Result<Vec<u8>> {
    let raw = crate::files::read(path)?;
    if !raw.starts_with(&[0x1F, 0x8B]) {
        return Ok(raw);
    }
    let size = raw.len() as u64;
    let most = size.saturating_mul(MOST_UNPACKED).max(ALWAYS_UNPACKED);
    let mut plain = Vec::with_capacity(raw.len().saturating_mul(4));
    flate2::read::MultiGzDecoder::new(raw.as_slice())
        .take(most.saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(|e| Error::run(format!("{} is a damaged gzip file: {e}", path.display())))?;
    if plain.len() as u64 > most {
        return Err(Error::run(format!(
            "{} has {size} bytes and unpacks to more than {most}, tighter than data packs; unpack it with gunzip to have \
             it read all the same",
            path.display()
        )));
    }
    Ok(plain)
}

/// The documents of files, in order; empty documents are left out.
///
/// # Errors
/// A file that cannot be read, is not UTF-8 where it must be, or is not JSON lines where it says so.
pub fn read(files: &[PathBuf], reading: &Reading) -> Result<Vec<Vec<u8>>> {
    let each = files
        .par_iter()
        .map(|path| of_file(path, reading))
        .collect::<Result<Vec<_>>>()?;
    let mut documents: Vec<Vec<u8>> = each.into_iter().flatten().collect();
    documents.retain(|d| !d.is_empty());
    Ok(documents)
}

fn of_file(path: &Path, reading: &Reading) -> Result<Vec<Vec<u8>>> {
    let mut text = content(path)?;
    if text.starts_with(b"\xEF\xBB\xBF") {
        text.drain(..3);
    }
    if let (false, Err(e)) = (reading.any_bytes, std::str::from_utf8(&text)) {
        return Err(Error::run(format!(
            "{} is not UTF-8 (byte {} of its text); convert it, or use [tokenizer] kind = \"byte\"",
            path.display(),
            e.valid_up_to()
        )));
    }
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if reading.field.is_some() || name.ends_with(".jsonl") || name.ends_with(".ndjson") {
        return json_lines(&text, reading.field.as_deref().unwrap_or(FIELD), path);
    }
    Ok(match (&reading.separator, reading.beginnings) {
        (Some(separator), _) => blocks(&text, separator.as_bytes()),
        (None, Beginnings::Files) => vec![text],
        (None, Beginnings::BlankLines) => {
            paragraphs(&text, |line, before, _| before && !is_blank(line))
        }
        (None, Beginnings::Wikitext) => paragraphs(&text, |line, before, after| {
            before && after && is_title(line)
        }),
    })
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// ` = Title = `, with one `=` on each side.
fn is_title(line: &[u8]) -> bool {
    let inside = line
        .trim_ascii()
        .strip_prefix(b"= ")
        .and_then(|l| l.strip_suffix(b" ="));
    inside.is_some_and(|title| !title.starts_with(b"=") && !title.ends_with(b"="))
}

/// Cuts before each line that begins a document; what it is asked also says whether the lines before and after are
/// blank. A stretch of blank lines is no document.
fn paragraphs(text: &[u8], begins: impl Fn(&[u8], bool, bool) -> bool) -> Vec<Vec<u8>> {
    let mut documents: Vec<Vec<u8>> = vec![Vec::new()];
    let mut lines = text.split_inclusive(|b| *b == b'\n').peekable();
    let mut before = true;
    while let Some(line) = lines.next() {
        let after = lines.peek().is_none_or(|line| is_blank(line));
        let same = |document: &&mut Vec<u8>| is_blank(document) || !begins(line, before, after);
        match documents.last_mut().filter(same) {
            Some(document) => document.extend_from_slice(line),
            None => documents.push(line.to_vec()),
        }
        before = is_blank(line);
    }
    documents.retain(|d| !is_blank(d));
    documents
}

fn json_lines(text: &[u8], field: &str, path: &Path) -> Result<Vec<Vec<u8>>> {
    let lines = text.split(|b| *b == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(number, line)| {
            let at = |why: String| Error::run(format!("{}:{}: {why}", path.display(), number + 1));
            let value: Value =
                serde_json::from_slice(line).map_err(|e| at(format!("not JSON: {e}")))?;
            let Some(object) = value.as_object() else {
                return Err(at("not a JSON object".into()));
            };
            match object.get(field) {
                Some(Value::String(text)) => Ok(text.clone().into_bytes()),
                Some(Value::Array(parts)) if parts.iter().all(Value::is_string) => {
                    let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
                    Ok(parts.join(" ").into_bytes())
                }
                Some(_) => Err(at(format!(
                    "`{field}` is neither a string nor a list of strings"
                ))),
                None => {
                    let keys = object.keys().map(String::as_str);
                    let hint = crate::error::suggestion(field, keys.clone());
                    Err(at(format!("no field `{field}`{hint}; set [data] field")))
                }
            }
        })
        .collect()
}

fn blocks(text: &[u8], separator: &[u8]) -> Vec<Vec<u8>> {
    let mut documents = Vec::new();
    let mut rest = text;
    while let Some(at) = find(rest, separator) {
        documents.push(rest[..at].to_vec());
        rest = &rest[at + separator.len()..];
    }
    documents.push(rest.to_vec());
    documents
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|b| *b == first) {
        if text[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}
