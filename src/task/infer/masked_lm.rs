//! Masked language modelling: `logits` at every position. With a head for segment pairs also `seq_relationship_logits`
//! for next-sentence prediction, or `sop_logits` for sentence order.

use super::{
    ATTENTION_MASK, ArrayContent, GLOBAL_ATTENTION_MASK, INPUT_IDS, InferenceOutputs,
    InferenceTask, Input, InputArrays, LABELS, LOGITS, NEXT_SENTENCE_LABEL, ORDER_LOGITS,
    PAIR_LOGITS, Requirement, SENTENCE_ORDER_LABEL, Scores, TOKEN_TYPE_IDS, floats,
};
use crate::data::Shape;
use crate::data::batch::TextBatch;
use crate::data::masked::masking::Pairs;
use crate::model::encoder::{Encoder, EncoderInput};
use crate::model::heads;
use crate::model::{GlobalTokens, LanguageModel, TextModel};
use crate::nn::pass::Pass;
use crate::task::MaskedLm;
use crate::task::masked_lm::input as read;
use burn::tensor::{Device, Tensor, TensorData};

/// Returns the arrays that an encoder reads.
pub(super) fn inputs(encoder: &Encoder, shape: &Shape) -> Vec<Input> {
    let longest = encoder.max_len();
    let mut all = Input::tokens(shape.vocab_size, longest).to_vec();
    let rows = encoder.segments.as_ref();
    let rows = rows.map_or(0, |table| table.val().dims()[0]);
    let below = rows.max(encoder.position.scheme().segments());
    if below > 0 {
        let segments = ArrayContent::Segments {
            of: INPUT_IDS,
            below,
        };
        all.push(Input::new(TOKEN_TYPE_IDS, segments, Requirement::Never));
    }
    if encoder.sees_globals() {
        all.push(Input::global_mask());
    }
    all
}

/// Returns the arrays that a text network reads.
pub(super) fn text_inputs(model: &TextModel, shape: &Shape) -> Vec<Input> {
    match model {
        TextModel::Encoder(encoder) => inputs(encoder, shape),
        TextModel::Recurrent(_) | TextModel::Convolutional(_) => {
            Input::tokens(shape.vocab_size, None).to_vec()
        }
        TextModel::Decoder(decoder) => Input::tokens(shape.vocab_size, decoder.max_len()).to_vec(),
    }
}

/// Returns the pooled vector of each text from its hidden states, if the network has a pooler.
pub(super) fn pooled(
    model: &TextModel,
    hidden: Tensor<3>,
    lengths: Option<&[usize]>,
) -> Option<TensorData> {
    match model {
        TextModel::Encoder(encoder) if encoder.pooler.is_some() => {
            Some(floats(encoder.pooled(hidden, lengths)))
        }
        _ => None,
    }
}

/// Converts the rows to texts.
pub(super) fn texts(given: &InputArrays) -> TextBatch {
    let ids = given.matrix(INPUT_IDS);
    TextBatch {
        inputs: ids.values.clone(),
        segments: given.values(TOKEN_TYPE_IDS).map(<[i32]>::to_vec),
        lengths: given.lengths(ATTENTION_MASK),
        cols: ids.cols,
        ..TextBatch::default()
    }
}

/// Converts the rows to an encoder's input. The global tokens are those that the arrays mark, otherwise those of the
/// task.
pub(super) fn input(given: &InputArrays, globals: GlobalTokens, device: &Device) -> EncoderInput {
    let input = read(&texts(given), globals, device);
    EncoderInput {
        globals: given
            .marked_positions(GLOBAL_ATTENTION_MASK)
            .or(input.globals),
        ..input
    }
}

/// Returns the names of the labels and of the logits of segment pairs.
fn pair_output_names(pairs: Pairs) -> [&'static str; 2] {
    match pairs {
        Pairs::SentenceOrder => [SENTENCE_ORDER_LABEL, ORDER_LOGITS],
        Pairs::NextSentence | Pairs::None => [NEXT_SENTENCE_LABEL, PAIR_LOGITS],
    }
}

impl InferenceTask for MaskedLm {
    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        let device = self.model.embedding.weight.val().device();
        self.states(input(given, self.globals, &device), true, pass);
    }

    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = inputs(&self.model, shape);
        if let Some(decoder) = &self.mask_decoder {
            let longest = self.model.max_len();
            let longest = longest.map_or(decoder.max_len(), |n| n.min(decoder.max_len()));
            all[..2].clone_from_slice(&Input::tokens(shape.vocab_size, Some(longest)));
        }
        all.push(Input::labels(ArrayContent::Targets {
            of: INPUT_IDS,
            below: shape.vocab_size,
        }));
        if self.pair_head.is_some() {
            let classes = ArrayContent::Classes { below: 2 };
            let [labels, _] = pair_output_names(self.pairs);
            all.push(Input::new(labels, classes, Requirement::Never));
        }
        all
    }

    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs {
        let device = self.model.embedding.weight.val().device();
        // The encoder's hidden states are written out, even if predictions are made from other states.
        let states = self.states(input(given, self.globals, &device), true, pass);
        let [rows, tokens, d] = states.prediction.dims();
        let flat = states.prediction.reshape([1, rows * tokens, d]);
        let values = self.head.forward(flat, &self.model);
        let vocab = values.dims()[1];
        let mut scores = vec![Scores {
            name: LOGITS,
            values,
            shape: vec![rows, tokens, vocab],
            labels: LABELS,
        }];
        let pooled = (self.model.pooler.is_some() || self.pair_head.is_some())
            .then_some(states.encoder_output)
            .flatten()
            .map(|hidden| self.model.pooled(hidden, None));
        if let (Some(head), Some(pooled)) = (&self.pair_head, &pooled) {
            let values = heads::class_scores(head, pooled.clone());
            let [labels, name] = pair_output_names(self.pairs);
            scores.push(Scores::for_rows(name, values, labels));
        }
        InferenceOutputs {
            scores,
            pooled: pooled.filter(|_| self.model.pooler.is_some()).map(floats),
        }
    }
}
