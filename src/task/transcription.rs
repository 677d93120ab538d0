//! Transcription of recordings: −log p(y_t | y_{<t}, recording), with label smoothing, over a transcript from its begin
//! token to its end token (Radford et al. 2022, section 2).
//!
//! All recordings have the same length; the silence that pads a shorter one is read like the rest.

use super::conditional_text::{ConditionalText, ConditionalTextConfig, ConditionalTextModel};
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, host};
use crate::data::ExampleForm;
use crate::data::batch::{Batch, SpeechBatch, SpokenBatch, TextBatch};
use crate::error::{Error, Result};
use crate::kernel::replay;
use crate::model::heads::VocabularyHead;
use crate::model::{BuildContext, ModelConfig, SpeechEncoderDecoder, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "transcription",
    summary: "texts of recordings, with an encoder-decoder that reads log-mel features",
    source: "Radford et al. 2022, Whisper",
    example: "{ kind = \"transcription\" }",
};

/// The loss is a mean over tokens.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_token_kind(KIND.kind);

/// Settings of transcription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranscriptionConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without it.
    /// Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
}

impl ConditionalTextConfig for TranscriptionConfig {
    type Network = SpeechEncoderDecoder;
    const KIND: Kind = KIND;
    const READS: ExampleForm = ExampleForm::Spoken;
    const USE: Use = Use::SpeechToText;
    const COMMAND: [&'static str; 2] = ["transcribe", "FILE.wav"];

    fn label_smoothing(&self) -> f64 {
        self.label_smoothing
    }

    fn network(&self, model: &ModelConfig, inputs: &BuildContext) -> Result<SpeechEncoderDecoder> {
        SpeechEncoderDecoder::new(model, inputs)
            .ok_or_else(|| Error::usage("[task] transcription needs recordings; the data has none"))
    }
}

/// An encoder-decoder that reads recordings, with its training objective.
pub type Transcription = ConditionalText<SpeechEncoderDecoder>;

impl Transcription {
    /// Converts recordings to the network's input `[rows, n_mels, frames]`.
    pub fn features(&self, speech: &SpeechBatch) -> Tensor<3> {
        features(speech, &self.device())
    }
}

/// Returns features `[rows, n_mels, frames]` as host data, ready for a device.
fn feature_data(speech: &SpeechBatch) -> TensorData {
    let shape = [speech.rows, speech.n_mels, speech.n_frames];
    TensorData::new(speech.features.clone(), shape)
}

fn features(speech: &SpeechBatch, device: &Device) -> Tensor<3> {
    replay::floats(feature_data(speech), device)
}

impl ConditionalTextModel for SpeechEncoderDecoder {
    type Rows = SpokenBatch;
    const PASS_PART: &'static str = "decoder";

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
        // Padding of transcripts is not scored, and no position before it attends to it.
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

    fn into_any(task: Transcription) -> AnyTask {
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
