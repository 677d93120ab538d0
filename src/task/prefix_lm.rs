//! Text to text with a decoder only: source and target follow each other in one row, and only the target is scored (Liu
//! et al. 2018, section 4.2.3; the prefix language model of Raffel et al. 2019, section 3.2.1).
//!
//! The tokens that end the source and begin the target stand between the two. With `bidirectional_source` every
//! position attends to the whole source; otherwise attention is causal.

use super::distillation::Distillable;
use super::{Networks, Scored, Task, TextToText, TranslationConfig, host};
use crate::data::batch::{Batch, PairBatch};
use crate::data::{NOT_SCORED, Shape};
use crate::kernel::{self, HeadLoss};
use crate::model::decoder::DecoderInput;
use crate::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};

/// A decoder that writes the target after the source.
#[derive(Module, Debug)]
pub struct PrefixLm {
    /// The network.
    pub model: Decoder,
    seed: u64,
    label_smoothing: f64,
    bidirectional_source: bool,
}

/// Rows in which source and target are joined.
struct JoinedRows {
    inputs: Vec<i32>,
    targets: Vec<i32>,
    /// Number of tokens of each row; the rest is padding.
    lengths: Vec<usize>,
    cols: usize,
}

impl PrefixLm {
    /// Builds a decoder of this config with room for the longest source and the longest target in one row.
    pub fn new(model: &DecoderConfig, config: &TranslationConfig, inputs: &BuildContext) -> Self {
        let shape = Shape {
            context: 2 * inputs.shape.context,
            ..inputs.shape.clone()
        };
        let inputs = BuildContext {
            shape: &shape,
            ..*inputs
        };
        Self {
            model: match config.bidirectional_source {
                true => model.init_prefix_lm(&inputs),
                false => model.init(&inputs),
            },
            seed: inputs.seed,
            label_smoothing: config.label_smoothing,
            bidirectional_source: config.bidirectional_source,
        }
    }

    /// Returns whether positions of the source attend to all of the source.
    pub fn sees_whole_source(&self) -> bool {
        self.bidirectional_source
    }

    /// Returns the logits `[rows, target, vocab]` at every position of the targets.
    pub(super) fn logits(&self, pairs: &PairBatch, pass: &Pass) -> Tensor<3> {
        let (written, _) = self.target_states(pairs, pass);
        self.model.vocabulary_head().logits(written)
    }

    /// Returns the label smoothing that applies in a pass.
    pub(super) fn smoothing(&self, pass: &Pass) -> f64 {
        host::smoothing(self.label_smoothing, pass)
    }

    /// Returns the hidden states `[rows, target, d_model]` at every position of the targets, and their device.
    pub(super) fn target_states(&self, pairs: &PairBatch, pass: &Pass) -> (Tensor<3>, Device) {
        let (joined, device) = (join_rows(pairs), self.device());
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

    fn loss(
        &self,
        pairs: &PairBatch,
        joined: &JoinedRows,
        device: &Device,
        pass: &Pass,
    ) -> HeadLoss {
        let hidden = self.hidden(pairs, joined, device, pass);
        let targets = host::vector(&joined.targets, device);
        self.model.vocabulary_head().loss(
            hidden,
            targets,
            self.smoothing(pass),
            !pass.is_training(),
        )
    }

    /// Returns the hidden states of the joined rows, `[rows, cols, d_model]`.
    fn hidden(
        &self,
        pairs: &PairBatch,
        joined: &JoinedRows,
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

/// Joins the source and target of each row and pads on the right, to the length of the step's longest source plus its
/// longest target, so that dropout removes the same elements however the step is cut into micro-batches.
fn join_rows(pairs: &PairBatch) -> JoinedRows {
    let lengths = pairs.source_lengths.iter().zip(&pairs.target_lengths);
    let cols = pairs.source_cols + pairs.target_cols;
    let mut joined = JoinedRows {
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
        let joined = join_rows(pairs);
        let loss = self.loss(pairs, &joined, &device, pass);
        host::score_written(loss, &joined.targets, batch, pass)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        Some(self)
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        let pairs = host::pairs(batch);
        let lengths = pairs.source_lengths.iter().zip(&pairs.target_lengths);
        host::longest_row(lengths.map(|(source, target)| source + target))
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            text_to_text: Some(TextToText::Prefix(self)),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
