//! `kind = "transcribed_speech"`: WAV and FLAC files with a transcript for each.
//!
//! A table names the files, like the `metadata.csv` or `metadata.jsonl` of Hugging Face's audiofolder, or
//! transcripts lie beside them as in LibriSpeech (Panayotov et al. 2015): `84-121123.trans.txt` with lines
//! like `84-121123-0000 GO DO YOU HEAR`, beside `84-121123-0000.flac`. The features of a recording are
//! computed at first use and stay in memory while there is room. Training leaves out recordings longer than
//! `seconds`, since the cut audio would not cover the transcript; evaluations cut them.
//!
//! With `transcripts = false` the files are recordings without transcripts, for pretraining; training cuts them, too.

mod cache;
mod length_filter;
mod read;
mod source;

use super::decode::is_recording;
use super::{SpeechAugmentConfig, Transcripts, framing, shape, shape_faults};
use crate::data::batch::SpeechShape;
use crate::data::captions::Captions;
use crate::data::described::{Described, Example, context_fault};
use crate::data::files::paths::Paths;
use crate::data::labelled::column::Column;
use crate::data::labelled::tables::{Format, Quoting};
use crate::data::parts::{Parted, parted};
use crate::data::{Data, DataSet, ExampleForm, Request, SearchPath, Shape, Split, View, split};
use crate::error::Result;
use crate::one_table::is_true;
use crate::tokenizer::{TokenFraming, Tokenizer, TokenizerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// `kind = "transcribed_speech"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranscribedSpeechConfig {
    /// A folder with a table of recordings and transcripts (`metadata.csv` or `metadata.jsonl`) or with LibriSpeech's `*.trans.txt` at
    /// any depth, one such file or a pattern, or a list of them: CSV, TSV and JSONL, plain or packed.
    pub path: Paths,
    /// Whether the recordings have transcripts. If false, `path` names WAV and FLAC files or folders of them, for `[task] kind =
    /// "contrastive_speech"`.
    #[serde(skip_serializing_if = "is_true")]
    pub transcripts: bool,
    /// Validation files.
    pub valid_path: Option<Paths>,
    /// Test files.
    pub test_path: Option<Paths>,
    /// Share of the recordings of `path` to validate on, drawn at random but always the same. Default 0.1
    /// without `valid_path`.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub valid_fraction: Option<f64>,
    /// Share of the recordings of `path` to test on.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub test_fraction: Option<f64>,
    /// Recordings to train on, drawn at random and the same for every seed. Default: all.
    pub train_items: Option<usize>,
    /// The folder that holds the recordings. Default: that of the file which names them.
    pub recordings: Option<PathBuf>,
    /// Format of the tables; also makes a file that `path` names a table if its ending tells nothing.
    /// Default: according to their file names.
    pub format: Option<Format>,
    /// Whether quotes around a column enclose it or belong to its text. Default: they enclose it in CSV.
    pub quoting: Option<Quoting>,
    /// The column with the names of recordings. Default: `file_name`, or `audio_filepath` or `path`.
    pub recording: Option<Column>,
    /// The column of transcripts. Default: `transcription`, or `text`, `sentence` or `transcript`.
    pub transcript: Option<Column>,
    /// Maximum length of a transcript in tokens, including its special tokens.
    pub context: usize,
    /// Number of mel bands: 80 in Whisper, 128 since its version large-v3; 0 for the raw samples, as wav2vec
    /// 2.0 reads them.
    #[schemars(range(max = 128))]
    pub n_mels: usize,
    /// Whether the samples of a recording are normalised to mean 0 and variance 1, with `n_mels = 0`.
    /// Default: they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize: Option<bool>,
    /// Length in seconds that recordings are padded or cut to; with `n_mels = 0` they are only cut.
    #[schemars(range(min = 0.1, max = 600))]
    pub seconds: f64,
    /// How training recordings are masked.
    pub augment: SpeechAugmentConfig,
}

impl Default for TranscribedSpeechConfig {
    fn default() -> Self {
        Self {
            path: Paths::default(),
            transcripts: true,
            valid_path: None,
            test_path: None,
            valid_fraction: None,
            test_fraction: None,
            train_items: None,
            recordings: None,
            format: None,
            quoting: None,
            recording: None,
            transcript: None,
            // As in Whisper's decoder.
            context: 448,
            n_mels: 80,
            normalize: None,
            seconds: 30.0,
            augment: SpeechAugmentConfig::default(),
        }
    }
}

parted!(TranscribedSpeechConfig);

impl TranscribedSpeechConfig {
    /// Returns the same configuration with every path replaced by `place(path)`.
    #[must_use]
    pub fn with_paths(&self, place: impl Fn(&Path) -> PathBuf) -> Self {
        Self {
            recordings: self.recordings.as_ref().map(|folder| place(folder)),
            ..self.placed(place)
        }
    }

    fn shape(&self) -> SpeechShape {
        shape(self.n_mels, self.seconds, self.normalize)
    }

    /// Returns a fault for each key of transcripts that is set although there are none.
    fn keys_of_transcripts(&self) -> Vec<String> {
        let given = [
            ("recordings", self.recordings.is_some()),
            ("format", self.format.is_some()),
            ("quoting", self.quoting.is_some()),
            ("recording", self.recording.is_some()),
            ("transcript", self.transcript.is_some()),
            ("context", self.context != Self::default().context),
        ];
        let given = given
            .iter()
            .filter(|(_, given)| *given && !self.transcripts);
        let fault = |(key, _): &(&str, bool)| {
            format!(
                "[data] {key} has no effect with transcripts = false: the files of path are the recordings; remove it"
            )
        };
        given.map(fault).collect()
    }
}

/// Returns the tokenizer of recordings without transcripts, which reads no text: special tokens and the separator of words.
fn blank_tokenizer() -> Result<Tokenizer> {
    let characters = TokenizerConfig::characters().with_frame(false);
    Tokenizer::build(&characters, &["|"])
}

impl DataSet for TranscribedSpeechConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.parts().faults(match self.transcripts {
            true => "a folder of recordings with their transcripts",
            false => "a folder of recordings",
        });
        faults.extend(self.keys_of_transcripts());
        faults.extend(context_fault(self.context));
        faults.extend(shape_faults(self.n_mels, self.seconds, self.normalize));
        faults.extend(self.augment.faults(self.n_mels));
        faults
    }

    fn new_run_faults(&self) -> Vec<String> {
        self.augment.new_run_faults()
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Spoken
    }

    fn speech(&self) -> Option<SpeechShape> {
        Some(self.shape())
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        self.parts().has(split)
    }

    fn examples_in(&self, _folder: &Path, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
        files.retain(|file| is_recording(file) || (self.transcripts && self.is_table(file, false)));
        files
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        self.keyed_paths()
    }

    fn referenced_files(
        &self,
        places: &SearchPath,
    ) -> Result<Vec<(&'static str, PathBuf, Vec<PathBuf>)>> {
        match self.transcripts {
            true => self.inputs_beside_tables(places),
            false => Ok(Vec::new()),
        }
    }

    fn needs_tokenizer(&self) -> bool {
        self.transcripts
    }

    fn has_transcripts(&self) -> bool {
        self.transcripts
    }

    fn framing(&self, view: &View) -> TokenFraming {
        framing(view)
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let mut examples = self.examples(request)?;
        let tokenizer = match (self.transcripts, &request.saved_tokenizers.text) {
            (true, _) => self.tokenizer(request, &examples.train)?,
            (false, Some(saved)) => saved.clone(),
            (false, None) => blank_tokenizer()?,
        };
        let transcripts = Transcripts::new(&tokenizer, request.view)?;
        let notes = match self.transcripts {
            true => self.fitted(&mut examples, request)?,
            false => Vec::new(),
        };
        if let Some(wanted) = self.train_items {
            split::limit(&mut examples.train, wanted, "recordings")?;
        }
        let shape = Shape {
            speech: Some(self.shape()),
            blank: transcripts.blank(),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        let source = |split: Split| {
            let of_split: &[Example] = examples.get(split);
            self.source(of_split, &tokenizer, &transcripts, split, request.seed)
        };
        let mut data = self.parts().data(shape, tokenizer.clone(), source)?;
        Captions::attach(&mut data, request, |split| {
            let examples = examples.get(split).iter();
            examples.map(|example| example.texts.clone()).collect()
        });
        data.notes = notes;
        Ok(data)
    }
}
