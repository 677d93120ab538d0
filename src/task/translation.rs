//! Translation, summarisation, any text to text with an encoder-decoder: −log p(y_t | y_{<t}, x), with label
//! smoothing (Vaswani et al. 2017, section 5.4).

use super::output::{StepOutput, Sum};
use super::{Task, host};
use crate::data::batch::{Batch, PairBatch};
use crate::kernel::HeadLoss;
use crate::model::EncoderDecoder;
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use burn::module::Module;
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "translation",
    summary: "text to text: an encoder-decoder, or a decoder that goes on after the source (prefix language model)",
    source: "Vaswani et al. 2017; Liu et al. 2018 (decoder-only); Raffel et al. 2019 (prefix)",
    example: "{ kind = \"translation\", label_smoothing = 0.1 }",
};

/// The knobs of translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without
    /// it.
    pub label_smoothing: f64,
    /// Whether a decoder sees all of the source from every position of it; a causal mask everywhere otherwise.
    /// For decoders only: an encoder always does.
    pub bidirectional_source: bool,
}

/// An encoder-decoder with its objective.
#[derive(Module, Debug)]
pub struct Translation {
    /// The network.
    pub model: EncoderDecoder,
    seed: u64,
    label_smoothing: f64,
}

impl Translation {
    /// `seed` draws dropout.
    pub fn new(model: EncoderDecoder, config: &TranslationConfig, seed: u64) -> Self {
        Self {
            model,
            seed,
            label_smoothing: config.label_smoothing,
        }
    }

    /// The loss of some pairs.
    fn loss(&self, pairs: &PairBatch, device: &Device, pass: &Pass) -> HeadLoss {
        let source = host::matrix(&pairs.source, pairs.source_cols, device);
        let filled = pairs.source_lengths.iter().any(|n| *n < pairs.source_cols);
        let lengths = filled.then(|| pairs.source_lengths.clone());
        let source = self.model.encode(source, lengths, pass);
        let inputs = host::matrix(&pairs.inputs, pairs.target_cols, device);
        let hidden = self.model.decode(inputs, &source, None, pass);
        let targets = host::vector(&pairs.targets, device);
        let smoothing = host::smoothing(self.label_smoothing, pass);
        self.model
            .vocabulary_head()
            .loss(hidden, targets, smoothing)
    }
}

/// Tokens of a batch, both sides, without what fills rows up.
pub(super) fn tokens(pairs: &PairBatch) -> u64 {
    let lengths = pairs.source_lengths.iter().chain(&pairs.target_lengths);
    lengths.map(|n| *n as u64).sum()
}

impl TrainStep for Translation {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        let pairs = host::pairs(&batch);
        let device = self.model.embedding.weight.val().device();
        let longest = host::longest(pairs.target_lengths.iter().copied());
        // The encoder's mask tells itself what fills sources up.
        let sample = Sample {
            within: "decoder",
            ..longest
        };
        let pass = host::training_pass(&batch, self.seed, sample);
        let sum = self.loss(pairs, &device, &pass).sum;
        let output = StepOutput {
            loss: Sum::new(host::scalar(sum.clone().detach()), batch.scored as f64),
            items: tokens(pairs),
            ..StepOutput::default()
        };
        let loss = sum / batch.step_scored.max(1) as f64;
        host::trained(self, loss, &pass, output)
    }
}

impl InferenceStep for Translation {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> StepOutput {
        let pairs = host::pairs(&batch);
        let device = self.model.embedding.weight.val().device();
        let loss = self.loss(pairs, &device, &Pass::evaluation());
        let mut output = StepOutput {
            items: tokens(pairs),
            ..StepOutput::default()
        };
        output
            .metrics
            .insert("accuracy", host::right(&loss, &pairs.targets));
        output.loss = Sum::new(host::scalar(loss.sum), batch.scored as f64);
        output
    }
}

impl Task for Translation {}
