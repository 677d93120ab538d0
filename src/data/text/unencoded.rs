//! Where the text stands that a tokenizer cannot encode: a character that the vocabulary of `kind = "char"` lacks.
//!
//! Documents are encoded in parts that know no file, so that the files are looked through once more, line by line, when
//! encoding has failed. The text to train on precedes what is held out of it, so that the first such line is the one.

use super::texts::Texts;
use crate::data::Split;
use crate::data::files::documents;
use crate::error::{Error, Result};
use crate::tokenizer::{Tokenizer, utf8};

/// How the message of a text that cannot be encoded begins where no file is named.
pub fn of(split: Split) -> String {
    format!("the {} text: ", split.name())
}

/// What stands behind the file and the line.
pub fn within(split: Split) -> String {
    format!("in the {} text, ", split.name())
}

/// The error of a text with the name of its split.
pub(super) fn told(error: Error, split: Split) -> Error {
    match error {
        Error::Run(message) => Error::Run(format!("{}{message}", of(split))),
        other => other,
    }
}

/// The error of a split with the file and the line that cannot be encoded, where one line cannot be alone.
pub(super) fn placed(
    error: Error,
    corpora: &[Texts],
    tokenizer: &Tokenizer,
    split: Split,
) -> Error {
    match &error {
        Error::Run(message) if message.starts_with(&of(split)) => {}
        // The error of a file names it.
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
                let within = within(split);
                Error::run(format!("{}:{line}: {within}{e}", file.display()))
            })
        });
        looked.err()
    });
    found.unwrap_or(error)
}
