//! Transcription: `logits` at every position of the decoder, given each row's recording in `input_features`. The
//! decoder's inputs are `decoder_input_ids`, or `labels` shifted right by one position.

use super::{
    ArrayContent, DECODER_INPUT_IDS, INPUT_FEATURES, InferenceOutputs, InferenceTask, Input,
    InputArrays, LABELS, Requirement, Scores,
};
use crate::data::Shape;
use crate::data::batch::SpeechBatch;
use crate::nn::pass::Pass;
use crate::task::{Transcription, host};
use burn::tensor::Tensor;

impl Transcription {
    /// Returns the hidden states of the decoder.
    fn hidden(&self, given: &InputArrays, pass: &Pass) -> Tensor<3> {
        let speech = SpeechBatch {
            features: given.features.clone(),
            rows: given.rows,
            n_mels: given.speech.n_mels,
            n_frames: given.speech.n_frames,
            ..SpeechBatch::default()
        };
        let source = self.model.encode(self.features(&speech), pass);
        let written = given.decoder_inputs();
        let ids = host::matrix(&written.values, written.cols, &self.device());
        self.model.decode(ids, &source, None, pass)
    }
}

impl InferenceTask for Transcription {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let speech = shape.speech.unwrap_or_default();
        let below = shape.vocab_size;
        let tokens = ArrayContent::Tokens {
            below,
            longest: self.model.max_len(),
            beside: None,
        };
        let targets = ArrayContent::Targets {
            of: DECODER_INPUT_IDS,
            below,
        };
        vec![
            Input::new(
                INPUT_FEATURES,
                ArrayContent::Features(speech),
                Requirement::Always,
            ),
            Input::new(DECODER_INPUT_IDS, tokens, Requirement::UnlessGiven(LABELS)),
            Input::labels(targets),
        ]
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let head = self.model.vocabulary_head();
        InferenceOutputs::of(Scores::for_tokens(head.logits(self.hidden(given, pass))))
    }

    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        self.hidden(given, pass);
    }
}
