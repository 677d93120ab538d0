//! Next-token prediction: `logits` at every position. Labels are the inputs themselves, as in Hugging Face's models,
//! and are shifted here.

use super::{
    ATTENTION_MASK, ArrayContent, INPUT_IDS, InferenceOutputs, InferenceTask, Input, InputArrays,
    Scores,
};
use crate::data::{NOT_SCORED, Shape};
use crate::model::LanguageModel;
use crate::model::decoder::DecoderInput;
use crate::nn::pass::Pass;
use crate::task::{CausalLm, host};
use burn::tensor::Tensor;

impl InferenceTask for CausalLm {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let below = shape.vocab_size;
        let targets = ArrayContent::Targets {
            of: INPUT_IDS,
            below,
        };
        let mut all = Input::tokens(below, self.model.network().max_len()).to_vec();
        all.push(Input::labels(targets));
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let network = self.model.network();
        InferenceOutputs::of(Scores::for_tokens(
            network.logits(hidden(network, given, pass)),
        ))
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        hidden(self.model.network(), given, pass);
    }

    fn targets(&self, given: &InputArrays, labels: &str) -> Option<Vec<i32>> {
        shift_labels(given, labels)
    }
}

/// Shifts labels left by one position: the label after each token.
pub(super) fn shift_labels(given: &InputArrays, labels: &str) -> Option<Vec<i32>> {
    let labels = given.integers.get(labels)?;
    let rows = labels.values.chunks(labels.cols);
    let next = rows.flat_map(|row| row[1..].iter().copied().chain([NOT_SCORED]));
    Some(next.collect())
}

/// Returns the hidden states of the rows' texts.
pub(super) fn hidden(network: &dyn LanguageModel, given: &InputArrays, pass: &Pass) -> Tensor<3> {
    let ids = given.matrix(INPUT_IDS);
    let ids = host::matrix(&ids.values, ids.cols, &network.device());
    let mut input = DecoderInput::new(ids);
    input.visible.lengths = given.lengths(ATTENTION_MASK).map(Into::into);
    network.forward(input, None, pass)
}
