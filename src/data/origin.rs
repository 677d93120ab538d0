//! Where examples were read from, for output that lists each of them.

use std::path::Path;
use std::sync::Arc;

/// Where an example was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File of the example.
    pub file: Arc<Path>,
    /// Line in the file, or row in a columnar table; `None` if the file is the example.
    pub line: Option<u64>,
    /// Text of the example, and the second text of a pair. Empty if the example is not a text, and for
    /// training examples, whose texts are not kept beside their tokens.
    pub texts: Vec<String>,
}

impl Origin {
    /// Origin of an example that is a whole file.
    pub fn of_file(file: &Path) -> Self {
        Self {
            file: file.into(),
            line: None,
            texts: Vec::new(),
        }
    }

    /// Origin of an example that is a row of a table.
    pub fn of_row(file: &Arc<Path>, line: u64, texts: Vec<String>) -> Self {
        Self {
            file: Arc::clone(file),
            line: Some(line),
            texts,
        }
    }
}
