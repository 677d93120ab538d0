//! Text to text: `logits` at every position of the decoder. Its inputs are `decoder_input_ids`, or `labels` shifted
//! right by one position.
//!
//! A decoder-only model reads both in one row: the tokens of `input_ids`, those of `decoder_input_ids`, then padding.
//! Its hidden states and attention weights are those of such rows.

use super::{
    ATTENTION_MASK, ArrayContent, DECODER_ATTENTION_MASK, DECODER_INPUT_IDS, GLOBAL_ATTENTION_MASK,
    INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, Requirement, Scores,
};
use crate::data::Shape;
use crate::data::batch::PairBatch;
use crate::model::{LanguageModel, PairModel};
use crate::nn::pass::Pass;
use crate::task::{PrefixLm, Translation, host};
use burn::tensor::Tensor;

/// Returns the arrays of a source and a target, with the maximum number of tokens of each; the two share the target's
/// maximum if `together`.
fn inputs(shape: &Shape, [source, target]: [Option<usize>; 2], together: bool) -> Vec<Input> {
    let below = shape.vocab_size;
    let mut all = Input::tokens(shape.source_vocab_size.unwrap_or(below), source).to_vec();
    let tokens = ArrayContent::Tokens {
        below,
        longest: target,
        beside: together.then_some(INPUT_IDS),
    };
    let mask = ArrayContent::Mask {
        of: DECODER_INPUT_IDS,
    };
    all.extend([
        Input::new(DECODER_INPUT_IDS, tokens, Requirement::UnlessGiven(LABELS)),
        Input::new(DECODER_ATTENTION_MASK, mask, Requirement::Never),
        Input::labels(ArrayContent::Targets {
            of: DECODER_INPUT_IDS,
            below,
        }),
    ]);
    all
}

impl InferenceTask for Translation {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let longest = match &self.model {
            PairModel::EncoderDecoder(network) => {
                let encoder = &network.encoder;
                let placed = encoder.position.scheme().max_len();
                let read = placed.into_iter().chain(encoder.stack.max_len()).min();
                [read, network.max_len()]
            }
            PairModel::Recurrent(_) => [None, None],
        };
        let mut all = inputs(shape, longest, false);
        if let PairModel::EncoderDecoder(network) = &self.model
            && network.encoder.stack.sees_globals()
        {
            all.push(Input::global_mask());
        }
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let head = self.model.vocabulary_head();
        InferenceOutputs::of(Scores::for_tokens(head.logits(hidden(self, given, pass))))
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        hidden(self, given, pass);
    }

    fn last_hidden_is_normed(&self) -> bool {
        match &self.model {
            PairModel::EncoderDecoder(_) => true,
            // Its last hidden states are computed from those of the cells and other inputs.
            PairModel::Recurrent(_) => false,
        }
    }
}

/// Returns the hidden states of the decoder.
fn hidden(task: &Translation, given: &InputArrays, pass: &Pass) -> Tensor<3> {
    let device = task.model.vocabulary_head().embedding.device();
    let (source, target) = (given.matrix(INPUT_IDS), given.decoder_inputs());
    let source = host::matrix(&source.values, source.cols, &device);
    let target = host::matrix(&target.values, target.cols, &device);
    let lengths = given.lengths(ATTENTION_MASK);
    let source_marks = (lengths, given.marked_positions(GLOBAL_ATTENTION_MASK));
    task.model
        .hidden_states_with_globals(source, source_marks, target, pass)
}

impl InferenceTask for PrefixLm {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        inputs(shape, [self.model.max_len(); 2], true)
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let (source, target) = (given.matrix(INPUT_IDS), given.decoder_inputs());
        let source_lengths = given.lengths(ATTENTION_MASK);
        let pairs = PairBatch {
            source: source.values.clone(),
            source_lengths: source_lengths.unwrap_or_else(|| vec![source.cols; given.rows]),
            source_cols: source.cols,
            targets: target.values.clone(),
            inputs: target.values,
            target_lengths: vec![target.cols; given.rows],
            target_cols: target.cols,
        };
        InferenceOutputs::of(Scores::for_tokens(self.logits(&pairs, pass)))
    }
}
