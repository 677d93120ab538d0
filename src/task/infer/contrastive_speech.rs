//! Hidden states of whole recordings, from `input_values`, for pretraining without transcripts: `encode` computes embeddings
//! from them. There are no scores.

use super::ctc::{recording_inputs, recordings};
use super::{InferenceOutputs, InferenceTask, Input, InputArrays};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::ContrastiveSpeech;

impl InferenceTask for ContrastiveSpeech {
    fn inputs(&self, _shape: &Shape) -> Vec<Input> {
        recording_inputs().into()
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        self.frames(&recordings(given), pass);
        InferenceOutputs::default()
    }
}
