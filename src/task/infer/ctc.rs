//! CTC: `logits` at every frame of the samples in `input_values`, whose lengths `attention_mask` gives. `labels` are
//! the transcripts, padded with -100. The loss is the mean over recordings, each divided as the task's reduction says.

use super::{
    ATTENTION_MASK, ArrayContent, INPUT_VALUES, InferenceOutputs, InferenceTask, Input,
    InputArrays, LABELS, Requirement, Scores,
};
use crate::data::Shape;
use crate::data::batch::SpeechBatch;
use crate::model::speech_encoder::Frames;
use crate::nn::pass::Pass;
use crate::task::Ctc;
use crate::task::ctc::labels;
use burn::tensor::Tensor;

/// Returns the input arrays of recordings: their samples, and a mask of their lengths.
pub(super) fn recording_inputs() -> [Input; 2] {
    let mask = ArrayContent::Mask { of: INPUT_VALUES };
    [
        Input::new(INPUT_VALUES, ArrayContent::Samples, Requirement::Always),
        Input::new(ATTENTION_MASK, mask, Requirement::Never),
    ]
}

/// Returns the given recordings as a batch.
pub(super) fn recordings(given: &InputArrays) -> SpeechBatch {
    let width = given.features.len() / given.rows.max(1);
    let lengths = given.sample_lengths.clone();
    let lengths = lengths.or_else(|| given.lengths(ATTENTION_MASK));
    SpeechBatch {
        features: given.features.clone(),
        rows: given.rows,
        lengths: lengths.unwrap_or_else(|| vec![width; given.rows]),
        width,
        ..SpeechBatch::default()
    }
}

impl InferenceTask for Ctc {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let targets = ArrayContent::Targets {
            of: LABELS,
            below: shape.vocab_size,
        };
        let [samples, mask] = recording_inputs();
        vec![samples, mask, Input::labels(targets)]
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let Frames { states, .. } = self.frames(&recordings(given), pass);
        InferenceOutputs::of(Scores::for_tokens(self.model.scores(states)))
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        self.frames(&recordings(given), pass);
    }

    fn count_labels(&self, given: &InputArrays, name: &str) -> Option<usize> {
        given.values(name).map(|_| given.rows)
    }

    fn loss(&self, scores: &Scores, given: &InputArrays) -> Option<Tensor<1>> {
        let targets = given.integers.get(scores.labels)?;
        let [rows, frames, vocab] = <[usize; 3]>::try_from(&scores.shape[..]).ok()?;
        let lengths = self.model.features.frames(&recordings(given).lengths);
        let labels = labels(&targets.values, targets.cols, rows);
        let values = scores.values.clone().reshape([rows, frames, vocab]);
        Some(self.loss(values, lengths, labels))
    }
}
