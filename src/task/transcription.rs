//! Texts of recordings: −log p(y_t | y_{<t}, recording), with label smoothing, of a transcript from the token that begins it to the
//! one that ends it (Radford et al. 2022, section 2).
//!
//! Recordings have one length; the silence behind a shorter one is read as the rest is.

use super::measures::Measures;
use super::text_about::{About, Describes, TextAbout};
use super::{AnyTask, Networks, host};
use crate::data::Gives;
use crate::data::batch::{Batch, SpeechBatch, SpokenBatch, TextBatch};
use crate::error::{Error, Result};
use crate::kernel::replay;
use crate::model::heads::VocabularyHead;
use crate::model::{ModelConfig, ModelInputs, SpeechEncoderDecoder, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "transcription",
    summary: "texts of recordings, with an encoder-decoder that reads log-mel features",
    source: "Radford et al. 2022, Whisper",
    example: "{ kind = \"transcription\" }",
};

/// Its loss is a mean over tokens.
pub const MEASURES: Measures = Measures::of_tokens(KIND.kind);

/// The knobs of transcription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranscriptionConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without it.
    /// Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
}

impl About for TranscriptionConfig {
    type Network = SpeechEncoderDecoder;
    const KIND: Kind = KIND;
    const READS: Gives = Gives::Spoken;
    const USE: Use = Use::SpeechToText;
    const COMMAND: [&'static str; 2] = ["transcribe", "FILE.wav"];

    fn label_smoothing(&self) -> f64 {
        self.label_smoothing
    }

    fn network(&self, model: &ModelConfig, inputs: &ModelInputs) -> Result<SpeechEncoderDecoder> {
        SpeechEncoderDecoder::new(model, inputs).ok_or_else(|| {
            Error::usage("[task] transcription writes texts of recordings; the data has none")
        })
    }
}

/// An encoder-decoder that reads recordings, with its objective.
pub type Transcription = TextAbout<SpeechEncoderDecoder>;

impl Transcription {
    /// Recordings as the network reads them, `[rows, n_mels, frames]`.
    pub fn features(&self, speech: &SpeechBatch) -> Tensor<3> {
        features(speech, &self.device())
    }
}

/// Features on their way to a device.
fn feature_data(speech: &SpeechBatch) -> TensorData {
    let shape = [speech.rows, speech.n_mels, speech.n_frames];
    TensorData::new(speech.features.clone(), shape)
}

fn features(speech: &SpeechBatch, device: &Device) -> Tensor<3> {
    replay::floats(feature_data(speech), device)
}

impl Describes for SpeechEncoderDecoder {
    type Rows = SpokenBatch;
    const WRITES_IN: &'static str = "decoder";

    fn device(&self) -> Device {
        self.embedding.device()
    }

    fn rows(batch: &Batch) -> &SpokenBatch {
        host::spoken(batch)
    }

    fn texts(rows: &SpokenBatch) -> &TextBatch {
        &rows.transcripts
    }

    fn inputs(rows: &SpokenBatch) -> TensorData {
        feature_data(&rows.speech)
    }

    fn reads_tokens_alone(_texts: &TextBatch) -> bool {
        // What fills transcripts up is not scored, and nothing before it sees it.
        true
    }

    fn hidden(&self, rows: &SpokenBatch, pass: &Pass) -> Tensor<3> {
        let device = self.embedding.device();
        let source = self.encode(features(&rows.speech, &device), pass);
        let texts = &rows.transcripts;
        let ids = host::matrix(&texts.inputs, texts.cols, &device);
        self.decode(ids, &source, None, pass)
    }

    fn head(&self) -> VocabularyHead<'_> {
        self.vocabulary_head()
    }

    fn any(task: Transcription) -> AnyTask {
        AnyTask::Transcription(task)
    }

    fn networks(task: &Transcription) -> Networks<'_> {
        Networks {
            transcription: Some(task),
            infers: Some(task),
            ..Networks::default()
        }
    }
}
