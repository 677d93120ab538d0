//! Text embeddings: `sentence_embedding` `[rows, d_model]`, named as in sentence-transformers.

use super::{
    InferenceOutputs, InferenceTask, Input, InputArrays, LABELS, SENTENCE_EMBEDDING, Scores,
    masked_lm,
};
use crate::data::Shape;
use crate::nn::pass::Pass;
use crate::task::TextEmbedding;

impl InferenceTask for TextEmbedding {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        masked_lm::text_inputs(&self.model, shape)
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let input = masked_lm::input(given, self.reading.globals, &self.device());
        let vectors = self.vectors(input, pass);
        InferenceOutputs::of(Scores::for_rows(SENTENCE_EMBEDDING, vectors, LABELS))
    }
}
