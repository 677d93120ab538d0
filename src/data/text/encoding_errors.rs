//! Locates text that a tokenizer cannot encode: a character that the vocabulary of `kind = "char"` lacks.
//!
//! Documents are encoded in parts that do not know their file. When encoding has failed, the files are
//! therefore searched once more, line by line. The training text comes before the text held out of it, so the
//! first such line is the right one.

use super::texts::TextCorpus;
use crate::data::Split;
use crate::data::files::documents;
use crate::error::{Error, Result};
use crate::tokenizer::{Tokenizer, utf8};

/// Returns the beginning of the message about text that cannot be encoded, if no file is named.
pub fn error_prefix(split: Split) -> String {
    format!("the {} text: ", split.name())
}

/// Returns the words of the message that follow the file and the line.
pub fn split_clause(split: Split) -> String {
    format!("in the {} text, ", split.name())
}

/// Adds the name of the split to the error of a text.
pub(super) fn with_split(error: Error, split: Split) -> Error {
    match error {
        Error::Run(message) => Error::Run(format!("{}{message}", error_prefix(split))),
        other => other,
    }
}

/// Adds to the error of a split the file and the line that cannot be encoded, if a single line is the cause.
pub(super) fn with_location(
    error: Error,
    corpora: &[TextCorpus],
    tokenizer: &Tokenizer,
    split: Split,
) -> Error {
    match &error {
        Error::Run(message) if message.starts_with(&error_prefix(split)) => {}
        // The error of a file already names it.
        _ => return error,
    }
    let mut files = corpora.iter().flat_map(|texts| {
        let (files, reading) = texts.files_of(split);
        files.into_iter().map(move |file| (file, reading))
    });
    let found = files.find_map(|(file, reading)| {
        let looked = documents::lines(&file, reading, |line, text| {
            let encoded: Result<_> = utf8(&text).and_then(|text| tokenizer.encode(text));
            encoded.map(drop).map_err(|e| {
                let within = split_clause(split);
                Error::run(format!("{}:{line}: {within}{e}", file.display()))
            })
        });
        looked.err()
    });
    found.unwrap_or(error)
}
