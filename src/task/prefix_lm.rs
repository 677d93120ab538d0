//! Text to text with a decoder alone: the source, then the target, in one row, and a loss on the target only
//! (Liu et al. 2018, section 4.2.3; the prefix language model of Raffel et al. 2019, section 3.2.1).
//!
//! The mark that ends the source and the one that begins the target stand between them. With
//! `bidirectional_source` every position sees the whole source; otherwise each sees itself and those before it.

use super::distillation::Distils;
use super::{Networks, Scored, Task, TextToText, TranslationConfig, host};
use crate::data::batch::{Batch, PairBatch};
use crate::data::{NOT_SCORED, Shape};
use crate::kernel::{self, HeadLoss};
use crate::model::decoder::DecoderInput;
use crate::model::{Decoder, DecoderConfig, LanguageModel, ModelInputs};
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};

/// A decoder that continues after a source.
#[derive(Module, Debug)]
pub struct PrefixLm {
    /// The network.
    pub model: Decoder,
    seed: u64,
    label_smoothing: f64,
    bidirectional_source: bool,
}

/// Rows of source and target.
struct Joined {
    inputs: Vec<i32>,
    targets: Vec<i32>,
    /// Tokens of each row; what stands behind them is padding.
    lengths: Vec<usize>,
    cols: usize,
}

impl PrefixLm {
    /// A decoder of this config that can place a longest source and a longest target in one row.
    pub fn new(model: &DecoderConfig, config: &TranslationConfig, inputs: &ModelInputs) -> Self {
        let shape = Shape {
            context: 2 * inputs.shape.context,
            ..inputs.shape.clone()
        };
        let inputs = ModelInputs {
            shape: &shape,
            ..*inputs
        };
        Self {
            model: match config.bidirectional_source {
                true => model.init_of_prefixes(&inputs),
                false => model.init(&inputs),
            },
            seed: inputs.seed,
            label_smoothing: config.label_smoothing,
            bidirectional_source: config.bidirectional_source,
        }
    }

    /// Whether positions of the source see all of it.
    pub fn sees_whole_source(&self) -> bool {
        self.bidirectional_source
    }

    /// Scores of the vocabulary `[rows, target, vocab]` at every position of the targets.
    pub(super) fn logits(&self, pairs: &PairBatch, pass: &Pass) -> Tensor<3> {
        let (written, _) = self.of_targets(pairs, pass);
        self.model.vocabulary_head().logits(written)
    }

    /// Label smoothing in a pass.
    pub(super) fn smoothing(&self, pass: &Pass) -> f64 {
        host::smoothing(self.label_smoothing, pass)
    }

    /// Hidden states `[rows, target, d_model]` at every position of the targets, and where they lie.
    pub(super) fn of_targets(&self, pairs: &PairBatch, pass: &Pass) -> (Tensor<3>, Device) {
        let (joined, device) = (joined(pairs), self.device());
        let hidden = self.hidden(pairs, &joined, &device, pass);
        let [rows, cols, d] = hidden.dims();
        let starts = pairs.source_lengths.iter().enumerate();
        let places: Vec<i32> = starts
            .flat_map(|(row, start)| (0..pairs.target_cols).map(move |i| row * cols + start + i))
            .map(|place| place as i32)
            .collect();
        let places = host::matrix(&places, pairs.target_cols, &device);
        let written = kernel::embedding(hidden.reshape([rows * cols, d]), places);
        (written, device)
    }

    fn loss(&self, pairs: &PairBatch, joined: &Joined, device: &Device, pass: &Pass) -> HeadLoss {
        let hidden = self.hidden(pairs, joined, device, pass);
        let targets = host::vector(&joined.targets, device);
        self.model
            .vocabulary_head()
            .loss(hidden, targets, self.smoothing(pass), !pass.trains())
    }

    /// Hidden states of rows of source and target.
    fn hidden(
        &self,
        pairs: &PairBatch,
        joined: &Joined,
        device: &Device,
        pass: &Pass,
    ) -> Tensor<3> {
        let mut input = DecoderInput::new(host::matrix(&joined.inputs, joined.cols, device));
        input.visible.lengths = Some(joined.lengths.as_slice().into());
        if self.bidirectional_source {
            input.visible.prefix = Some(pairs.source_lengths.as_slice().into());
        }
        self.model.forward(input, None, pass)
    }

    fn device(&self) -> Device {
        self.model.embedding.device()
    }
}

/// Each row's source and target next to each other, filled up on the right: to the longest source and the longest
/// target of the step, so that the same elements are dropped however the step is cut into micro-batches.
fn joined(pairs: &PairBatch) -> Joined {
    let lengths = pairs.source_lengths.iter().zip(&pairs.target_lengths);
    let cols = pairs.source_cols + pairs.target_cols;
    let mut joined = Joined {
        inputs: Vec::new(),
        targets: Vec::new(),
        lengths: lengths
            .clone()
            .map(|(source, target)| source + target)
            .collect(),
        cols,
    };
    for (row, (source, target)) in lengths.enumerate() {
        let read = |all: &[i32], width: usize, count: usize| -> Vec<i32> {
            all[row * width..row * width + count].to_vec()
        };
        let end = (row + 1) * cols;
        joined
            .inputs
            .extend(read(&pairs.source, pairs.source_cols, *source));
        joined
            .inputs
            .extend(read(&pairs.inputs, pairs.target_cols, *target));
        joined.inputs.resize(end, 0);
        joined.targets.resize(row * cols + source, NOT_SCORED);
        joined
            .targets
            .extend(read(&pairs.targets, pairs.target_cols, *target));
        joined.targets.resize(end, NOT_SCORED);
    }
    joined
}

impl Task for PrefixLm {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let (pairs, device) = (host::pairs(batch), self.device());
        let joined = joined(pairs);
        let loss = self.loss(pairs, &joined, &device, pass);
        host::written(loss, &joined.targets, batch, pass)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn distils(&self) -> Option<&dyn Distils> {
        Some(self)
    }

    fn sample(&self, batch: &Batch) -> Sample {
        let pairs = host::pairs(batch);
        let lengths = pairs.source_lengths.iter().zip(&pairs.target_lengths);
        host::longest(lengths.map(|(source, target)| source + target))
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_to_text: Some(TextToText::Prefix(self)),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
