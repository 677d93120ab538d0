//! Classes of texts: `logits` of every row.

use super::{Given, Holds, Inferred, Infers, Input, LABELS, LOGITS, Scores, floats, masked_lm};
use crate::data::Shape;
use crate::model::TextModel;
use crate::nn::pass::Pass;
use crate::task::TextClassification;

impl Infers for TextClassification {
    fn inputs(&self, shape: &Shape) -> Vec<Input> {
        let mut all = match &self.model {
            TextModel::Encoder(encoder) => masked_lm::inputs(encoder, shape),
            TextModel::Recurrent(_) => Input::tokens(shape.vocab_size, None).to_vec(),
        };
        let below = shape.classes.len();
        all.push(Input::labels(Holds::Classes { below }));
        all
    }

    fn infer(&self, given: &Given, pass: &Pass) -> Inferred {
        let input = masked_lm::input(given, self.globals, &self.device());
        let (scores, hidden) = self.scores_and_hidden_of(input, pass);
        let pooled = match &self.model {
            TextModel::Encoder(encoder) if encoder.pooler.is_some() => {
                Some(floats(encoder.pooled(hidden)))
            }
            TextModel::Encoder(_) | TextModel::Recurrent(_) => None,
        };
        Inferred {
            scores: vec![Scores::of_rows(LOGITS, scores, LABELS)],
            pooled,
        }
    }
}
