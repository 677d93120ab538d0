//! How tasks read whole texts: the pooled vector of a text, or of two texts that are read separately and compared.

use super::{masked_lm, towers};
use crate::data::batch::TextBatch;
use crate::model::encoder::EncoderInput;
use crate::model::text::{self, TextPooling};
use crate::model::{GlobalTokens, TextModel, WholeText};
use crate::nn::pass::Pass;
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pooling of a text's hidden states to one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The first position of an encoder, through its pooler if it has one.
    First,
    /// The mean over the positions.
    #[default]
    Mean,
    /// The last position.
    Last,
    /// The maximum of each feature over the positions. Source: Collobert et al. 2011, section 3.3.2.
    Max,
}

impl Pooling {
    /// Returns the demand of `task.pooling` on a network.
    pub(super) fn demand(pooling: Option<Self>) -> WholeText {
        match pooling {
            None => WholeText::Own,
            Some(Self::First) => WholeText::First,
            Some(Self::Mean | Self::Last | Self::Max) => WholeText::NotRead,
        }
    }
}

/// How a task's keys say that texts are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Whether the two texts of an example are read separately, by the same network, and compared.
    pub towers: bool,
    pub pooling: Option<Pooling>,
    pub globals: GlobalTokens,
    /// Dropout on the vector before the head.
    pub dropout: f64,
}

impl Reading {
    /// Returns the width of an example's vector, for a network of width `d_model`.
    pub fn width(&self, d_model: usize) -> usize {
        match self.towers {
            true => towers::WIDTHS * d_model,
            false => d_model,
        }
    }

    /// Computes the vector of each example `[rows, width]`, with dropout, and the hidden states
    /// `[rows, cols, d_model]`; with towers, the hidden states of the first text.
    pub fn vectors(
        &self,
        model: &TextModel,
        texts: &TextBatch,
        device: &Device,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let input = |texts| masked_lm::input(texts, self.globals, device);
        if !self.towers {
            return self.vectors_of(model, input(texts), pass);
        }
        let [first, second] = towers::alone(texts);
        let (first, hidden) = self.read(model, input(&first), pass);
        let (second, _) = pass.within("second", || self.read(model, input(&second), pass));
        (self.dropped(towers::compared(first, second), pass), hidden)
    }

    /// Computes the vectors and hidden states for an input of single texts.
    pub fn vectors_of(
        &self,
        model: &TextModel,
        input: EncoderInput,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let (pooled, hidden) = self.read(model, input, pass);
        (self.dropped(pooled, pass), hidden)
    }

    /// Computes the pooled vector of each text `[rows, d_model]`, and its hidden states.
    fn read(&self, model: &TextModel, input: EncoderInput, pass: &Pass) -> (Tensor<2>, Tensor<3>) {
        let lengths = input.lengths.clone();
        let hidden = model.forward(input, pass);
        let all = hidden.clone();
        let pooled = match self.pooling {
            None | Some(Pooling::First) => model.pooled(all, lengths.as_deref()),
            Some(Pooling::Last) => text::last(all, lengths.as_deref()),
            Some(Pooling::Max) => text::largest(all, lengths.as_deref()),
            Some(Pooling::Mean) => text::mean(all, lengths.as_deref()),
        };
        (pooled, hidden)
    }

    /// Returns the pooling of a text to one vector: the key's, or the model's own.
    pub fn stands(&self, model: &TextModel) -> Pooling {
        self.pooling.unwrap_or(match model.default_pooling() {
            TextPooling::First => Pooling::First,
            TextPooling::Mean => Pooling::Mean,
            TextPooling::Last => Pooling::Last,
            TextPooling::Largest => Pooling::Max,
        })
    }

    fn dropped(&self, pooled: Tensor<2>, pass: &Pass) -> Tensor<2> {
        let [rows, width] = pooled.dims();
        let pooled = pass.dropout(pooled.reshape([rows, 1, width]), "pooled", self.dropout);
        pooled.reshape([rows, width])
    }
}
