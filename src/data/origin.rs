//! What examples were read from, for lines that tell of each of them.

use std::path::Path;
use std::sync::Arc;

/// What an example was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its file.
    pub file: Arc<Path>,
    /// Its line there, or its row in a table of columns.
    pub line: Option<u64>,
    /// Its text, and the second one of a pair; none where it is no text, and of examples to train on, whose texts are not kept
    /// beside their tokens.
    pub texts: Vec<String>,
}

impl Origin {
    /// A file of its own.
    pub fn of_file(file: &Path) -> Self {
        Self {
            file: file.into(),
            line: None,
            texts: Vec::new(),
        }
    }

    /// A row of a table.
    pub fn of_row(file: &Arc<Path>, line: u64, texts: Vec<String>) -> Self {
        Self {
            file: Arc::clone(file),
            line: Some(line),
            texts,
        }
    }
}
