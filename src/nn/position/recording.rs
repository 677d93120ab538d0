//! Recording of a scheme's contribution in a recorded pass: what it adds to embeddings, layer inputs and scores, by itself.

use super::{Position, ScoreBias, TokenPositions};
use crate::nn::pass::Pass;
use crate::nn::record::Record;
use burn::tensor::Tensor;

fn position_record(pass: &Pass) -> Option<&Record> {
    pass.record().filter(|record| record.keeps_positions())
}

impl Position {
    /// Applies the scheme to the embeddings `[batch, seq, width]` before the first layer.
    pub fn embed(&self, x: Tensor<3>, at: &TokenPositions, pass: &Pass) -> Tensor<3> {
        let scheme = self.scheme();
        if let Some(record) = position_record(pass) {
            record.note_vectors(None, scheme.embed(x.zeros_like(), at));
        }
        scheme.embed(x, at)
    }

    /// Applies the scheme to the input of a layer.
    pub fn embed_layer(
        &self,
        x: Tensor<3>,
        layer: usize,
        at: &TokenPositions,
        pass: &Pass,
    ) -> Tensor<3> {
        let scheme = self.scheme();
        if let Some(record) = position_record(pass) {
            record.note_vectors(Some(layer), scheme.embed_layer(x.zeros_like(), layer, at));
        }
        scheme.embed_layer(x, layer, at)
    }
}

/// Notes the bias on the scores of a layer's self-attention.
pub(crate) fn note_bias(pass: &Pass, layer: usize, queries: usize, bias: &ScoreBias) {
    if let Some(record) = position_record(pass) {
        record.note_bias(layer, queries, bias);
    }
}
