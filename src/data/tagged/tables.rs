//! Reads files of tagged sentences: CoNLL, CoNLL-U, JSON lines, Parquet and Arrow.
//!
//! CoNLL (Tjong Kim Sang and De Meulder 2003): a line is a word with its columns, separated by tabs, or by
//! blanks if a line has no tab. A blank line ends a sentence, and `-DOCSTART-` lines are skipped. CoNLL-U
//! (universaldependencies.org): lines that begin with `#` are comments, and lines of several words (`3-4`) or
//! of empty nodes (`3.1`) are skipped. Tables have two lists per row. The meaning of tags is handled
//! elsewhere.

use crate::data::files::columnar::{self, Cell, Features};
use crate::data::files::{json_line, packed};
use crate::data::labelled::column::Column;
use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Format of files of tagged sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One word with its columns per line, and an empty line after each sentence.
    Conll,
    /// CoNLL with the ten columns of Universal Dependencies.
    Conllu,
    /// One JSON object per line, with a list of words and one of tags.
    Jsonl,
}

/// The format of a file and its columns.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) format: Format,
    pub(super) word: Column,
    pub(super) tag: Column,
}

/// The words of a sentence, a tag for each, and the sentence's first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) words: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) line: u64,
}

impl Format {
    /// Returns the format for a file name; CoNLL if the name tells none.
    pub(super) fn of(path: &Path) -> Self {
        Self::named(path).unwrap_or(Self::Conll)
    }

    /// Whether a file's name tells a format.
    pub(super) fn is_named_by(path: &Path) -> bool {
        Self::named(path).is_some()
    }

    fn named(path: &Path) -> Option<Self> {
        let name = packed::plain_name(path);
        match name.rsplit_once('.')?.1 {
            "conll" => Some(Self::Conll),
            "conllu" => Some(Self::Conllu),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// Reads the sentences of a file, and the names that tag numbers stand for, if the file has them.
///
/// # Errors
/// If the file cannot be read, is not UTF-8 or has no sentences, a line lacks a column, or the lists of a row
/// differ in length.
pub(super) fn read(path: &Path, layout: &Layout) -> Result<(Vec<Sentence>, Option<Vec<String>>)> {
    let (sentences, names) = match columnar::is_columnar(path) {
        true => columns(path, layout)?,
        false => (lines(path, layout)?, None),
    };
    if sentences.is_empty() {
        return Err(Error::run(format!("{} has no sentences", path.display())));
    }
    Ok((sentences, names))
}

fn at(path: &Path, line: u64, why: &str) -> Error {
    Error::run(format!("{}:{line}: {why}", path.display()))
}

fn lines(path: &Path, layout: &Layout) -> Result<Vec<Sentence>> {
    let text = packed::text(path)?;
    let text = text.as_str();
    match (layout.format, &layout.word, &layout.tag) {
        (Format::Jsonl, Column::Name(word), Column::Name(tag)) => objects(text, [word, tag], path),
        (Format::Conll | Format::Conllu, Column::Number(word), Column::Number(tag)) => {
            let comments = layout.format == Format::Conllu;
            conll(text, [*word, *tag], comments, path)
        }
        (Format::Jsonl, word, tag) => Err(Error::usage(format!(
            "[data] word = {word}, tag = {tag}: the fields of JSON lines have names; use the names"
        ))),
        (Format::Conll | Format::Conllu, word, tag) => Err(Error::usage(format!(
            "[data] word = {word}, tag = {tag}: the columns of CoNLL files have numbers; use the numbers"
        ))),
    }
}

fn conll(text: &str, wanted: [usize; 2], universal: bool, path: &Path) -> Result<Vec<Sentence>> {
    let (mut all, mut sentence) = (Vec::new(), Sentence::default());
    let mut close = |sentence: &mut Sentence| {
        let sentence = std::mem::take(sentence);
        if !sentence.words.is_empty() {
            all.push(sentence);
        }
    };
    for (text, line) in text.lines().zip(1..) {
        if text.trim().is_empty() {
            close(&mut sentence);
            continue;
        }
        let fields: Vec<&str> = match text.contains('\t') {
            true => text
                .split('\t')
                .map(|field| field.trim_matches([' ', '\r']))
                .collect(),
            false => text
                .split([' ', '\r'])
                .filter(|field| !field.is_empty())
                .collect(),
        };
        let first = fields.first().copied().unwrap_or_default();
        let passed = universal && (first.starts_with('#') || first.contains(['-', '.']));
        if passed || first == "-DOCSTART-" {
            continue;
        }
        let column = |number: usize| match fields.get(number.saturating_sub(1)) {
            Some(&"") => Err(at(path, line, &format!("column {number} is empty"))),
            Some(field) => Ok((*field).to_owned()),
            None => {
                let has = fields.len();
                Err(at(
                    path,
                    line,
                    &format!("there is no column {number}: the line has {has}"),
                ))
            }
        };
        if sentence.words.is_empty() {
            sentence.line = line;
        }
        sentence.words.push(column(wanted[0])?);
        sentence.tags.push(column(wanted[1])?);
    }
    close(&mut sentence);
    Ok(all)
}

fn objects(text: &str, wanted: [&String; 2], path: &Path) -> Result<Vec<Sentence>> {
    let lines = text.lines().zip(1u64..);
    let lines = lines.filter(|(text, _)| !text.trim().is_empty());
    lines
        .map(|(text, line)| {
            let object = json_line::object(text).map_err(|why| at(path, line, &why))?;
            let list = |name: &String| {
                let Some(value) = json_line::nested_field(&object, name) else {
                    return Err(at(path, line, &json_line::missing_field(&object, name)));
                };
                let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let parts = parts.iter().map(|part| match part {
                    Value::String(text) => Some(text.clone()),
                    Value::Number(number) => Some(number.to_string()),
                    _ => None,
                });
                let parts = parts
                    .collect::<Option<Vec<_>>>()
                    .filter(|_| value.is_array());
                parts.ok_or_else(|| {
                    at(
                        path,
                        line,
                        &format!("`{name}` is not a list of texts or numbers"),
                    )
                })
            };
            Sentence::new(list(wanted[0])?, list(wanted[1])?, line, path)
        })
        // Rows of some tables are empty.
        .filter(|sentence| !matches!(sentence, Ok(one) if one.words.is_empty()))
        .collect()
}

fn columns(path: &Path, layout: &Layout) -> Result<(Vec<Sentence>, Option<Vec<String>>)> {
    let (Column::Name(word), Column::Name(tag)) = (&layout.word, &layout.tag) else {
        return Err(Error::usage(format!(
            "[data] word = {}, tag = {}: the columns of {} have names; use the names",
            layout.word,
            layout.tag,
            path.display()
        )));
    };
    let names = columnar::features(path)?.classes_of_lists(tag);
    let mut sentences = Vec::new();
    columnar::rows(path, &[(word, "word"), (tag, "tag")], |line, cells| {
        let lists = cells.into_iter().map(|cell| match cell {
            Cell::Texts(parts) => Ok(parts),
            Cell::Missing => Ok(Vec::new()),
            Cell::Text(_) => Err(at(
                path,
                line,
                "words and tags must be lists, but a column contains texts",
            )),
        });
        let mut lists = lists.collect::<Result<Vec<_>>>()?.into_iter();
        let mut next = || lists.next().unwrap_or_default();
        let sentence = Sentence::new(next(), next(), line, path)?;
        // Rows of some tables are empty.
        if !sentence.words.is_empty() {
            sentences.push(sentence);
        }
        Ok(())
    })?;
    Ok((sentences, names))
}

/// Replaces tag numbers by tag names.
///
/// # Errors
/// If a number stands for no tag.
pub(super) fn name(sentences: &mut [Sentence], names: &[String], path: &Path) -> Result<()> {
    for sentence in sentences {
        for tag in &mut sentence.tags {
            let name = Features::class(names, tag);
            *tag = name
                .map_err(|why| at(path, sentence.line, &why))?
                .to_owned();
        }
    }
    Ok(())
}

impl Sentence {
    fn new(words: Vec<String>, tags: Vec<String>, line: u64, path: &Path) -> Result<Self> {
        match words.len() == tags.len() {
            true => Ok(Self { words, tags, line }),
            false => {
                let (words, tags) = (words.len(), tags.len());
                Err(at(
                    path,
                    line,
                    &format!("the row has {words} words, but {tags} tags"),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, wanted: [usize; 2], universal: bool) -> Result<Vec<Sentence>> {
        conll(text, wanted, universal, Path::new("x"))
    }

    #[test]
    fn sentences_end_with_empty_lines() {
        let text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\t\nA B\tC O\n";
        let all = read("EU\tB-ORG\nrejects\tO\n\t\n#tag\tO\n", [1, 2], false).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].words.as_slice(), all[0].line),
            (&["EU".to_string(), "rejects".into()][..], 1)
        );
        assert_eq!((all[1].words[0].as_str(), all[1].line), ("#tag", 4));
        let fault = read(text, [1, 3], false).unwrap_err().to_string();
        assert_eq!(fault, "x:6: there is no column 3: the line has 2");
    }

    #[test]
    fn words_of_several_and_empty_nodes_are_passed_over() {
        let text =
            "# text = don't\n1-2\tdon't\t_\t_\n1\tdo\tdo\tAUX\n2\tn't\tnot\tPART\n2.1\tx\tx\tX\n";
        let all = read(text, [2, 4], true).unwrap();
        assert_eq!((all.len(), all[0].words.len()), (1, 2));
        assert_eq!(all[0].tags, ["AUX", "PART"]);
    }
}
