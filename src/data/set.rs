//! What every kind of `[data]` says of itself and does: [`DataSet`].

use std::path::{Path, PathBuf};

use super::files::found;
use super::form::Gives;
use super::retrieval::{Chunking, DatabaseConfig};
use super::synthetic::problems::{self, Problems};
use super::{Data, Places, Shape, SpeechShape, Split, Tokenizers, View};
use crate::error::Result;
use crate::tokenizer::{Around, TokenizerConfig};

/// The inputs of preparation beside the configuration.
pub struct Request<'a> {
    /// `[tokenizer]`.
    pub tokenizer: Option<&'a TokenizerConfig>,
    /// The run's own tokenizers on resume or evaluation, or those of the run that a new one begins from: never trained again.
    pub saved: &'a Tokenizers,
    /// What the run's data was when it began, on resume or evaluation: its classes keep their numbers, its images their
    /// form and normalisation, whatever the files hold today.
    pub run: Option<&'a Shape>,
    /// Where files are looked for.
    pub places: &'a Places,
    /// The experiment's seed.
    pub seed: u64,
    /// How texts are read.
    pub view: &'a View,
    /// Whether answers are compared with others: texts that are longer than the context are left out, not cut.
    pub whole_answers: bool,
    /// The neighbours that the model reads beside texts, when it reads some.
    pub retrieval: Option<Chunking>,
}

impl Request<'_> {
    /// Whether it is of a run of an earlier version, which read files without [`Shape::told_apart`].
    pub(super) fn reads_as_before(&self) -> bool {
        self.run.is_some_and(|run| !run.told_apart)
    }

    /// The files that `keep` takes of those that paths under a key of `[data]` stand for.
    ///
    /// # Errors
    /// A folder that cannot be read or holds no file, a pattern that no file matches; a folder with the files of several
    /// splits, which runs of earlier versions read as one.
    pub(super) fn files(
        &self,
        key: &str,
        paths: &[PathBuf],
        keep: impl Fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>> {
        if !self.reads_as_before() {
            return found::files(key, paths, keep);
        }
        let mut all = found::listed(paths)?;
        all.retain(|file| keep(file));
        Ok(all)
    }
}

/// The fault of a kind of data that a task would mask.
pub(super) fn unmasked_faults() -> Vec<String> {
    vec![
        "[data] this kind has no text in which tokens could be masked; see formwork list data"
            .into(),
    ]
}

/// The fault of a kind of data for a task that reads both texts of a pair, each alone.
pub(super) fn unpaired_faults() -> Vec<String> {
    vec!["[data] this kind has no pairs of texts that are read alone, and no captions; use kind = \"pairs\", or \"captioned_images\" for images".into()]
}

/// The fault of a kind of data for a task that finds texts along recordings.
pub(super) fn unspoken_faults() -> Vec<String> {
    vec!["[data] this kind has no recordings; use kind = \"transcribed_speech\" or \"dialled_digits\"".into()]
}

/// The facts of a kind of data, and its preparation.
pub trait DataSet {
    /// All faults of its own keys that leave nothing to be read, each with its remedy.
    fn faults(&self) -> Vec<String>;

    /// Faults of keys without an effect and of values that were hardly meant, which a new run alone is refused for: a run that
    /// has such keys is used and resumed.
    fn new_run_faults(&self) -> Vec<String> {
        Vec::new()
    }

    /// The form of its examples.
    fn gives(&self) -> Gives {
        Gives::Text
    }

    /// Whether examples differ in length.
    fn has_lengths(&self) -> bool {
        self.gives().has_lengths()
    }

    /// Tokens of the longest input; 0 for images.
    fn context(&self) -> usize;

    /// Channels, height and width of its images, when its keys say them.
    fn image(&self) -> Option<[usize; 3]> {
        None
    }

    /// Mel bands and frames of its recordings.
    fn speech(&self) -> Option<SpeechShape> {
        None
    }

    /// The augmentations in use that mix the classes of two images: the key of `[data.augment]` with its value.
    fn mixed_classes(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Whether `[data.augment]` changes its images.
    fn is_augmented(&self) -> bool {
        false
    }

    /// Whether documents of one row are hidden from each other.
    fn hides_documents(&self) -> bool {
        false
    }

    /// The key that asks for that, its value that does, and one that does not; `None` where it belongs to the kind of data.
    fn hides_documents_by(&self) -> Option<[&'static str; 3]> {
        None
    }

    /// Whether it has such a split.
    fn has(&self, split: Split) -> bool;

    /// Its files, with the keys that name them.
    fn paths(&self) -> Vec<(&'static str, &Path)> {
        Vec::new()
    }

    /// Those of the files in a folder under one of its keys that may hold examples, by their names: what else lies there is no part of
    /// the data.
    fn examples_in(&self, _folder: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
        files
    }

    /// Files that stand in its files and under no key: the key whose default they are, their folder, and each of them.
    ///
    /// # Errors
    /// A file that cannot be read, one that it names and that is not there.
    fn named(&self, _places: &Places) -> Result<Vec<(&'static str, PathBuf, Vec<PathBuf>)>> {
        Ok(Vec::new())
    }

    /// Whether `[tokenizer]` turns it into tokens; otherwise it has tokens of its own, or none.
    fn needs_tokenizer(&self) -> bool {
        false
    }

    /// All faults of a `[tokenizer]` for it.
    fn tokenizer_faults(&self, tokenizer: &TokenizerConfig) -> Vec<String> {
        tokenizer.faults()
    }

    /// Tokens of the longest target, when its keys say so.
    fn longest_target(&self) -> Option<usize> {
        None
    }

    /// Whether tokens stand for text that a person reads.
    fn is_text(&self) -> bool {
        true
    }

    /// Whether both texts of a pair can be read, each alone.
    fn can_be_read_alone(&self) -> bool {
        false
    }

    /// Whether it can be read with tokens masked.
    fn can_be_masked(&self) -> bool {
        false
    }

    /// Whether each training example continues where the one before ended.
    fn goes_on(&self) -> bool {
        false
    }

    /// The database that neighbours of its texts are found in, when it has one.
    fn retrieval(&self) -> Option<&DatabaseConfig> {
        None
    }

    /// Tokens between the beginnings of two windows of an evaluation, where they overlap.
    fn stride(&self) -> Option<usize> {
        None
    }

    /// Whether windows of an evaluation overlap.
    fn overlaps(&self) -> bool {
        self.stride().is_some()
    }

    /// Whether the data continues after the last target of a text: its texts are windows of a longer one.
    fn is_cut(&self) -> bool {
        false
    }

    /// Whether sources have a vocabulary of their own.
    fn separates_vocabularies(&self) -> bool {
        false
    }

    /// Whether an example has two texts, segments 0 and 1.
    fn has_two_texts(&self) -> bool {
        false
    }

    /// All faults of a view of it, each with its remedy.
    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Masked(view) if self.can_be_masked() => view.masking.faults(),
            View::Corrupted(view) if self.can_be_masked() => view.faults(self.context()),
            View::Masked(_) | View::Corrupted(_) => unmasked_faults(),
            View::Alone if self.can_be_read_alone() => Vec::new(),
            View::Alone => unpaired_faults(),
            View::Aligned if self.gives() == Gives::Spoken => Vec::new(),
            View::Aligned => unspoken_faults(),
            View::AsItIs => Vec::new(),
        }
    }

    /// Whether a row has one right answer, so that the share of exact ones is a metric.
    fn has_answers(&self) -> bool {
        false
    }

    /// A text that a model trained on it can continue.
    fn prompt(&self) -> Option<String> {
        None
    }

    /// What the model reads around a text.
    fn around(&self, view: &View) -> Around {
        match view {
            View::Masked(view) if view.behind => Around::Behind,
            View::Masked(_) | View::Alone => Around::Frame,
            View::Corrupted(view) => view.around(),
            View::AsItIs | View::Aligned => Around::Nothing,
        }
    }

    /// Reads or generates it.
    ///
    /// # Errors
    /// Files that are missing or unreadable, a split too short for one example.
    fn prepare(&self, request: &Request) -> Result<Data>;
}

impl<P: Problems> DataSet for P {
    fn faults(&self) -> Vec<String> {
        Problems::faults(self)
    }

    fn context(&self) -> usize {
        problems::context(self)
    }

    fn has(&self, split: Split) -> bool {
        self.held_out().has(split)
    }

    fn has_answers(&self) -> bool {
        true
    }

    fn prompt(&self) -> Option<String> {
        Some(self.question())
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        problems::prepare(self, request.seed)
    }
}
