//! Inputs from files with texts about them: images with captions, recordings with transcripts.
//!
//! A table of such data names inputs and gives the texts about each. [`Described`] has what all such kinds
//! share: which files are tables, which files lie beside them, and how a text is cut to the context.
//! [`source`] yields each input with one of its texts.

pub(super) mod source;

use super::labelled::examples;
use super::parts::Parted;
use super::{PerSplit, Request, SearchPath, Split};
use crate::error::{Error, Result};
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// An input with the texts about it.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) file: PathBuf,
    /// File and line that name the input first, for messages.
    pub(super) place: String,
    pub(super) texts: Vec<String>,
}

/// A kind of data whose tables name inputs.
pub(super) trait Described: Parted {
    /// Name of the kind.
    const KIND: &'static str;
    /// Names of the inputs in messages, plural and singular. The plural is also the key of the folder that
    /// holds them.
    const INPUTS: [&'static str; 2];

    /// Returns the folder that holds the inputs; `None` for that of the table which names them.
    fn folder(&self) -> Option<&Path>;

    /// Returns the tables of inputs that a path stands for.
    ///
    /// # Errors
    /// If the path has none.
    fn tables(&self, places: &SearchPath, path: &Path) -> Result<Vec<PathBuf>>;

    /// Returns the inputs that a table names, which lie in `folder`.
    ///
    /// # Errors
    /// If the file cannot be read, an input does not exist, or a text is empty.
    fn of_table(&self, split: Split, path: &Path, folder: &Path) -> Result<Vec<Example>>;

    /// Checks that the keys of a new run have an effect on its tables.
    ///
    /// # Errors
    /// If a key has no effect on any of them.
    fn keys_have_effect(&self, _tables: &HashSet<PathBuf>) -> Result<()> {
        Ok(())
    }

    /// Returns all paths and the folder, with the keys that name them.
    fn keyed_paths(&self) -> Vec<(&'static str, &Path)> {
        let mut all = self.parts().paths();
        all.extend(self.folder().map(|folder| (Self::INPUTS[0], folder)));
        all
    }

    /// Returns the inputs of each split with their texts.
    ///
    /// # Errors
    /// If its files cannot be read, or a split has no inputs.
    fn examples(&self, request: &Request) -> Result<PerSplit<Vec<Example>>> {
        let folder = self.folder();
        let folder = folder.map(|f| request.places.resolve(f)).transpose()?;
        let parts = self.parts();
        let mut tables = HashSet::new();
        for (_, path) in parts.by_split() {
            tables.extend(self.tables(request.places, path)?);
        }
        // The keys of an existing run may be for other files than those that are evaluated.
        if request.run_shape.is_none() {
            self.keys_have_effect(&tables)?;
        }
        parts.read(request, Self::INPUTS, |split, path| {
            match tables.contains(path) {
                true => self.of_table(split, path, folder.as_deref().unwrap_or(folder_of(path))),
                false => Ok(Vec::new()),
            }
        })
    }

    /// Returns, for tables whose inputs lie beside them, the key whose default that folder is, the folder,
    /// and the inputs.
    ///
    /// # Errors
    /// If its tables cannot be read.
    fn inputs_beside_tables(
        &self,
        places: &SearchPath,
    ) -> Result<Vec<(&'static str, PathBuf, Vec<PathBuf>)>> {
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

    /// Returns the tokenizer of the run, or one built for the training texts.
    ///
    /// # Errors
    /// If the experiment has no tokenizer, or it cannot be built.
    fn tokenizer(&self, request: &Request, training: &[Example]) -> Result<Tokenizer> {
        let texts = training.iter().flat_map(|example| &example.texts);
        let texts = texts.map(String::as_str);
        // With a frame, whose end token ends a text.
        examples::tokenizer(Self::KIND, request, true, texts)
    }
}

fn folder_of(table: &Path) -> &Path {
    table.parent().unwrap_or(Path::new(""))
}

/// The fault of a context without room for a token between two special tokens.
pub(super) fn context_fault(context: usize) -> Option<String> {
    (context < 3).then(|| {
        format!(
            "[data] context = {context} is too short; the minimum is 3, a token between two special tokens"
        )
    })
}

/// The error of a vocabulary without a frame, between whose tokens `text` is generated.
pub(super) fn missing_frame_error(text: &str) -> Error {
    Error::usage(format!(
        "[tokenizer] the vocabulary has no special tokens for the ends of a text, which {text} needs: set a separate \
         tokenizer, and initialise the token embeddings anew if networks begin from other runs"
    ))
}

/// Returns a text to be generated with its special tokens, at most `context` tokens. A text that is cut has
/// no end token, so that the model does not learn that a text ends where it was cut.
pub(super) fn with_special_tokens(
    ids: &[i32],
    marks: &SpecialTokenLayout,
    context: usize,
) -> Vec<i32> {
    if ids.len() + marks.len(false) <= context {
        return marks.around(ids);
    }
    let mut all = [marks.before(), ids].concat();
    all.truncate(context);
    all
}

#[cfg(test)]
mod tests {
    use super::with_special_tokens;
    use crate::tokenizer::{SpecialTokenLayout, Tokenizer};

    #[test]
    fn a_text_that_is_cut_has_no_end() {
        let tokenizer = Tokenizer::of_words(&["a", "b"]).unwrap();
        let marks = SpecialTokenLayout::from(tokenizer.frame().unwrap());
        let [begin, end] = [marks.before()[0], marks.around(&[])[1]];
        assert_eq!(with_special_tokens(&[7, 8], &marks, 4), [begin, 7, 8, end]);
        assert_eq!(with_special_tokens(&[7, 8, 9], &marks, 4), [begin, 7, 8, 9]);
        assert_eq!(
            with_special_tokens(&[7, 8, 9, 5], &marks, 4),
            [begin, 7, 8, 9]
        );
    }
}
