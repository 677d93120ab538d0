//! Inputs of one form with texts about them, from files: images with captions, recordings with transcripts.
//!
//! A file of such data names inputs and says the texts about each. What all forms do alike stands here ([`Described`]): which files
//! those are, what lies beside them, and how a text is cut to the context; [`source`] gives inputs with one of their texts each.

pub(super) mod source;

use super::labelled::examples;
use super::parts::Parted;
use super::{PerSplit, Places, Request, Split};
use crate::error::{Error, Result};
use crate::tokenizer::{Edges, Tokenizer};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// An input with the texts about it.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) file: PathBuf,
    /// The file and the line that name it first, for messages.
    pub(super) place: String,
    pub(super) texts: Vec<String>,
}

/// A kind of data whose files name inputs of one form.
pub(super) trait Described: Parted {
    /// The kind.
    const KIND: &'static str;
    /// Inputs and one of them, as messages call them; the first is the key of the folder in which they lie, too.
    const INPUTS: [&'static str; 2];

    /// The folder in which the inputs lie; that of the file which names them when absent.
    fn folder(&self) -> Option<&Path>;

    /// The files that a path stands for which name inputs.
    ///
    /// # Errors
    /// A path that has none.
    fn tables(&self, places: &Places, path: &Path) -> Result<Vec<PathBuf>>;

    /// The inputs that such a file names, which lie in `folder`.
    ///
    /// # Errors
    /// A file that cannot be read, an input that is not there, an empty text.
    fn of_table(&self, split: Split, path: &Path, folder: &Path) -> Result<Vec<Example>>;

    /// An error for keys that have no effect on all such files of a new run.
    ///
    /// # Errors
    /// Such a key.
    fn keys_have_effect(&self, _tables: &HashSet<PathBuf>) -> Result<()> {
        Ok(())
    }

    /// All files and the folder, with the keys that name them.
    fn keyed_paths(&self) -> Vec<(&'static str, &Path)> {
        let mut all = self.parts().paths();
        all.extend(self.folder().map(|folder| (Self::INPUTS[0], folder)));
        all
    }

    /// The inputs of each split with their texts.
    ///
    /// # Errors
    /// Those of its files, a split without any input.
    fn examples(&self, request: &Request) -> Result<PerSplit<Vec<Example>>> {
        let folder = self.folder();
        let folder = folder.map(|f| request.places.resolve(f)).transpose()?;
        let parts = self.parts();
        let mut tables = HashSet::new();
        for (_, path) in parts.by_split() {
            tables.extend(self.tables(request.places, path)?);
        }
        // Keys of a run may be for other files than are evaluated.
        if request.run.is_none() {
            self.keys_have_effect(&tables)?;
        }
        parts.read(request, Self::INPUTS, |split, path| {
            match tables.contains(path) {
                true => self.of_table(split, path, folder.as_deref().unwrap_or(folder_of(path))),
                false => Ok(Vec::new()),
            }
        })
    }

    /// The folder of each file that names inputs, with those inputs where they lie beside it, under the key whose default it is.
    ///
    /// # Errors
    /// Those of its files.
    fn beside(&self, places: &Places) -> Result<Vec<(&'static str, PathBuf, Vec<PathBuf>)>> {
        let mut all = Vec::new();
        if self.folder().is_some() {
            return Ok(all);
        }
        for (split, path) in self.parts().by_split() {
            for table in self.tables(places, path)? {
                let folder = folder_of(&table);
                let examples = self.of_table(split, &table, folder)?.into_iter();
                let inputs = examples.map(|example| example.file).collect();
                all.push((Self::INPUTS[0], folder.to_path_buf(), inputs));
            }
        }
        Ok(all)
    }

    /// The tokenizer of the run, or one that is made for the texts of training.
    ///
    /// # Errors
    /// An experiment without a tokenizer, one that cannot be made.
    fn tokenizer(&self, request: &Request, training: &[Example]) -> Result<Tokenizer> {
        let texts = training.iter().flat_map(|example| &example.texts);
        let texts = texts.map(String::as_str);
        // With a frame, whose end stands for a text.
        examples::tokenizer(Self::KIND, request, true, texts)
    }
}

fn folder_of(table: &Path) -> &Path {
    table.parent().unwrap_or(Path::new(""))
}

/// The fault of a context without room for a token between two marks.
pub(super) fn context_fault(context: usize) -> Option<String> {
    (context < 3).then(|| {
        format!(
            "[data] context = {context} is too short; the least is 3, a token between two marks"
        )
    })
}

/// The error of a vocabulary without marks around a text, between which `text` is written.
pub(super) fn no_marks(text: &str) -> Error {
    Error::usage(format!(
        "[tokenizer] the vocabulary has no marks around a text, between which {text} is written: give a tokenizer of its \
         own, and let the tables of tokens begin anew where networks begin from other runs"
    ))
}

/// A text of these tokens that is to be written, in its marks: at most `context` tokens. One that is longer has no end: the model is
/// not to learn that a text ends where it was cut.
pub(super) fn marked(ids: &[i32], marks: &Edges, context: usize) -> Vec<i32> {
    if ids.len() + marks.len(false) <= context {
        return marks.around(ids);
    }
    let mut all = [marks.before(), ids].concat();
    all.truncate(context);
    all
}

#[cfg(test)]
mod tests {
    use super::marked;
    use crate::tokenizer::{Edges, Tokenizer};

    #[test]
    fn a_text_that_is_cut_has_no_end() {
        let tokenizer = Tokenizer::of_words(&["a", "b"]).unwrap();
        let marks = Edges::from(tokenizer.frame().unwrap());
        let [begin, end] = [marks.before()[0], marks.around(&[])[1]];
        assert_eq!(marked(&[7, 8], &marks, 4), [begin, 7, 8, end]);
        assert_eq!(marked(&[7, 8, 9], &marks, 4), [begin, 7, 8, 9]);
        assert_eq!(marked(&[7, 8, 9, 5], &marks, 4), [begin, 7, 8, 9]);
    }
}
