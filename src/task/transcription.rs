//! Texts of recordings: −log p(y_t | y_{<t}, recording), with label smoothing, of a transcript from the token that begins it to the
//! one that ends it (Radford et al. 2022, section 2).
//!
//! Recordings have one length; the silence behind a shorter one is read as the rest is.

use super::facts::TaskFacts;
use super::infer::Infers;
use super::measures::Measures;
use super::{AnyTask, Networks, Scored, Task, host};
use crate::data::batch::{Batch, SpeechBatch, SpokenBatch};
use crate::data::{DataSet, Gives};
use crate::error::{Error, Result};
use crate::evaluate::metric::{ACCURACY, Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel::{HeadLoss, replay};
use crate::model::{Demand, ModelConfig, ModelInputs, SpeechEncoderDecoder, Use};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use crate::stack::state::ModelState;
use burn::module::Module;
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

impl TaskFacts for TranscriptionConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn reads(&self) -> Gives {
        Gives::Spoken
    }

    fn demand(&self) -> Demand {
        Demand {
            smooths: self.label_smoothing != 0.0,
            ..Demand::of(Use::SpeechToText)
        }
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing);
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![PERPLEXITY, ACCURACY]
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork transcribe {run} FILE.wav"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &ModelInputs,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&Use::SpeechToText) {
            return Ok(None);
        }
        let network = SpeechEncoderDecoder::new(model, inputs);
        let network = network.ok_or_else(|| {
            Error::usage("[task] transcription writes texts of recordings; the data has none")
        })?;
        Ok(Some(AnyTask::Transcription(Transcription {
            model: network,
            seed: inputs.seed,
            label_smoothing: self.label_smoothing,
        })))
    }
}

/// An encoder-decoder that reads recordings, with its objective.
#[derive(Module, Debug)]
pub struct Transcription {
    /// The network.
    pub model: SpeechEncoderDecoder,
    seed: u64,
    label_smoothing: f64,
}

impl Transcription {
    /// The device of its parameters.
    pub fn device(&self) -> Device {
        self.model.embedding.device()
    }

    /// Recordings as the network reads them, `[rows, n_mels, frames]`.
    pub fn features(&self, speech: &SpeechBatch) -> Tensor<3> {
        replay::floats(feature_data(speech), &self.device())
    }

    /// The loss of transcripts of their recordings.
    fn loss(&self, spoken: &SpokenBatch, pass: &Pass) -> HeadLoss {
        let device = self.device();
        let source = self.model.encode(self.features(&spoken.speech), pass);
        let texts = &spoken.transcripts;
        let ids = host::matrix(&texts.inputs, texts.cols, &device);
        let hidden = self.model.decode(ids, &source, None, pass);
        let targets = host::vector(&texts.targets, &device);
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let head = self.model.vocabulary_head();
        head.loss(hidden, targets, smoothing, !pass.trains())
    }
}

/// Features on their way to a device.
fn feature_data(speech: &SpeechBatch) -> TensorData {
    let shape = [speech.rows, speech.n_mels, speech.n_frames];
    TensorData::new(speech.features.clone(), shape)
}

impl Task for Transcription {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let spoken = host::spoken(batch);
        let loss = self.loss(spoken, pass);
        host::written(loss, &spoken.transcripts.targets, batch, pass)
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let spoken = host::spoken(batch);
        // What fills transcripts up is not scored, and nothing before it sees it.
        Some(vec![
            feature_data(&spoken.speech),
            host::matrix_data(&spoken.transcripts.inputs, spoken.transcripts.cols),
            host::vector_data(&spoken.transcripts.targets),
        ])
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn sample(&self, batch: &Batch) -> Sample {
        let texts = &host::spoken(batch).transcripts;
        let lengths = texts.lengths.clone();
        let lengths = lengths.unwrap_or_else(|| vec![texts.cols; batch.rows]);
        Sample {
            within: "decoder",
            ..host::longest(lengths.into_iter())
        }
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            transcription: Some(self),
            infers: Some(self as &dyn Infers),
            ..Networks::default()
        }
    }
}
