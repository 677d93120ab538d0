//! [`DataSet`]: the properties and operations of every kind of `[data]`.

use std::path::{Path, PathBuf};

use super::files::discovery;
use super::form::ExampleForm;
use super::retrieval::{Chunking, DatabaseConfig};
use super::synthetic::problems::{self, Problems};
use super::{Data, SearchPath, Shape, SpeechShape, Split, Tokenizers, View};
use crate::error::Result;
use crate::tokenizer::{TokenFraming, TokenizerConfig};

/// The inputs of data preparation, apart from the configuration.
pub struct Request<'a> {
    /// The `[tokenizer]` section.
    pub tokenizer: Option<&'a TokenizerConfig>,
    /// The run's own tokenizers on resume or evaluation, or those of the run that a new one begins from; they
    /// are never retrained.
    pub saved_tokenizers: &'a Tokenizers,
    /// Shape of the run's data when it began, on resume or evaluation: classes keep their numbers and images
    /// their form and normalisation, even if the files have changed since.
    pub run_shape: Option<&'a Shape>,
    /// Folders in which files are looked up.
    pub places: &'a SearchPath,
    /// Seed of the experiment.
    pub seed: u64,
    /// How texts are read.
    pub view: &'a View,
    /// Whether answers are compared with each other; texts longer than the context are then left out instead
    /// of cut.
    pub compares_answers: bool,
    /// Chunking of the neighbours that the model reads beside texts, if it reads any.
    pub retrieval: Option<Chunking>,
}

impl Request<'_> {
    /// Whether the request is from a run of an earlier version, which read files without
    /// [`Shape::told_apart`].
    pub(super) fn is_from_earlier_version(&self) -> bool {
        self.run_shape.is_some_and(|run| !run.files_distinguished)
    }

    /// Returns those of the files under a key of `[data]` for which `keep` is true.
    ///
    /// # Errors
    /// If a folder cannot be read or holds no file, no file matches a pattern, or a folder holds files of
    /// several splits (which runs of earlier versions read as one).
    pub(super) fn files(
        &self,
        key: &str,
        paths: &[PathBuf],
        keep: impl Fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>> {
        if !self.is_from_earlier_version() {
            return discovery::files(key, paths, keep);
        }
        let mut all = discovery::expand(paths)?;
        all.retain(|file| keep(file));
        Ok(all)
    }
}

/// The fault of a kind of data without text, for a task that masks tokens.
pub(super) fn masking_unsupported() -> Vec<String> {
    vec![
        "[data] this kind has no text in which tokens can be masked; see formwork list data".into(),
    ]
}

/// The fault of a kind of data without pairs, for a task that encodes both texts of a pair separately.
pub(super) fn pairs_unsupported() -> Vec<String> {
    vec![
        "[data] this kind has no pairs of texts that can be encoded separately, and no captions; use kind = \"pairs\", or \
         \"captioned_images\" for images"
            .into(),
    ]
}

/// The fault of a kind of data without recordings, for a task that aligns texts with recordings.
pub(super) fn speech_unsupported() -> Vec<String> {
    vec!["[data] this kind has no recordings; use kind = \"transcribed_speech\" or \"dialled_digits\"".into()]
}

/// The properties of a kind of data, and its preparation.
pub trait DataSet {
    /// Returns all faults of its own keys that prevent reading, each with its remedy.
    fn faults(&self) -> Vec<String>;

    /// Returns the faults of keys without effect and of values that are probably mistakes. Only new runs are
    /// refused for them; an existing run with such keys can still be used and resumed.
    fn new_run_faults(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the form of its examples.
    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    /// Whether examples differ in length.
    fn has_lengths(&self) -> bool {
        self.example_form().has_lengths()
    }

    /// Returns the maximum length of an input in tokens; 0 for images.
    fn context(&self) -> usize;

    /// Returns the channels, height and width of its images, if its keys set them.
    fn image(&self) -> Option<[usize; 3]> {
        None
    }

    /// Returns the mel bands and frames of its recordings.
    fn speech(&self) -> Option<SpeechShape> {
        None
    }

    /// Returns the augmentations in use that mix the classes of two images: each key of `[data.augment]` with
    /// its value.
    fn mixing_augmentations(&self) -> Vec<(&'static str, f64)> {
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

    /// Returns the key that controls [`Self::hides_documents`], the value that hides them, and one that does
    /// not; `None` if the kind of data decides.
    fn hides_documents_key(&self) -> Option<[&'static str; 3]> {
        None
    }

    /// Whether the data has this split.
    fn has(&self, split: Split) -> bool;

    /// Returns its paths with the keys that name them.
    fn paths(&self) -> Vec<(&'static str, &Path)> {
        Vec::new()
    }

    /// Returns the files in a folder under one of its keys that may hold examples, judged by their names;
    /// other files there are not part of the data.
    fn examples_in(&self, _folder: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
        files
    }

    /// Returns the files that its files name, rather than a key: the key whose default they are, their
    /// folder, and the files.
    ///
    /// # Errors
    /// If a file cannot be read, or a file that it names does not exist.
    fn referenced_files(
        &self,
        _places: &SearchPath,
    ) -> Result<Vec<(&'static str, PathBuf, Vec<PathBuf>)>> {
        Ok(Vec::new())
    }

    /// Whether `[tokenizer]` turns it into tokens; otherwise it has its own tokens, or none.
    fn needs_tokenizer(&self) -> bool {
        false
    }

    /// Returns all faults of a `[tokenizer]` for this data.
    fn tokenizer_faults(&self, tokenizer: &TokenizerConfig) -> Vec<String> {
        tokenizer.faults()
    }

    /// Returns the length of the longest target in tokens, if its keys set it.
    fn longest_target(&self) -> Option<usize> {
        None
    }

    /// Whether tokens stand for text that people read.
    fn is_text(&self) -> bool {
        true
    }

    /// Whether both texts of a pair can be read separately.
    fn can_be_encoded_separately(&self) -> bool {
        false
    }

    /// Whether it can be read with tokens masked.
    fn can_be_masked(&self) -> bool {
        false
    }

    /// Whether each training example continues where the one before ended.
    fn is_contiguous(&self) -> bool {
        false
    }

    /// Returns the database in which neighbours of its texts are found, if it has one.
    fn retrieval(&self) -> Option<&DatabaseConfig> {
        None
    }

    /// Returns the number of tokens between the beginnings of two evaluation windows, if windows overlap.
    fn stride(&self) -> Option<usize> {
        None
    }

    /// Whether evaluation windows overlap.
    fn overlaps(&self) -> bool {
        self.stride().is_some()
    }

    /// Whether the text continues after an example's last target: examples are windows of longer texts.
    fn has_next_token(&self) -> bool {
        false
    }

    /// Whether sources have their own vocabulary, apart from that of the targets.
    fn separates_vocabularies(&self) -> bool {
        false
    }

    /// Whether recordings have transcripts.
    fn has_transcripts(&self) -> bool {
        true
    }

    /// Whether an example has two texts (segments 0 and 1).
    fn has_two_texts(&self) -> bool {
        false
    }

    /// Returns all faults of reading it in this view, each with its remedy.
    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Masked(view) if self.can_be_masked() => view.masking.faults(),
            View::Corrupted(view) if self.can_be_masked() => view.faults(self.context()),
            View::Masked(_) | View::Corrupted(_) => masking_unsupported(),
            View::EncodedSeparately if self.can_be_encoded_separately() => Vec::new(),
            View::EncodedSeparately => pairs_unsupported(),
            View::Ctc if self.example_form() == ExampleForm::Spoken => Vec::new(),
            View::Ctc => speech_unsupported(),
            View::Plain => Vec::new(),
        }
    }

    /// Whether a row has one right answer, so that exact-match accuracy is a metric.
    fn has_answers(&self) -> bool {
        false
    }

    /// Returns a text that a model trained on it can continue.
    fn prompt(&self) -> Option<String> {
        None
    }

    /// Returns which special tokens the model reads around a text.
    fn framing(&self, view: &View) -> TokenFraming {
        match view {
            View::Masked(view) if view.class_token_last => TokenFraming::TrailingClass,
            View::Masked(_) | View::EncodedSeparately => TokenFraming::Frame,
            View::Corrupted(view) => view.framing(),
            View::Plain | View::Ctc => TokenFraming::NoTokens,
        }
    }

    /// Reads or generates the data.
    ///
    /// # Errors
    /// If files are missing or unreadable, or a split is too short for one example.
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
