//! How tasks read whole texts: the pooled vector of a text, or of two texts that are read separately and compared.

use super::{masked_lm, towers};
use crate::data::batch::TextBatch;
use crate::model::encoder::EncoderInput;
use crate::model::text::{self, TextPooling};
use crate::model::{GlobalTokens, PooledText, TextModel};
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
    pub(super) fn demand(pooling: Option<Self>) -> PooledText {
        match pooling {
            None => PooledText::NetworkDefault,
            Some(Self::First) => PooledText::FirstPosition,
            Some(Self::Mean | Self::Last | Self::Max) => PooledText::Unused,
        }
    }
}

/// How a task's keys say that texts are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextReading {
    /// Whether the two texts of an example are read separately, by the same network, and compared.
    pub towers: bool,
    pub pooling: Option<Pooling>,
    pub globals: GlobalTokens,
    /// Dropout on the vector before the head.
    pub dropout: f64,
}

impl TextReading {
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
        let [first, second] = towers::split_with_first_token(texts);
        let (first, hidden) = self.read(model, input(&first), pass);
        let (second, _) = pass.in_network("second", || self.read(model, input(&second), pass));
        (
            self.apply_dropout(towers::concat_features(first, second), pass),
            hidden,
        )
    }

    /// Computes the vectors and hidden states for an input of single texts.
    pub fn vectors_of(
        &self,
        model: &TextModel,
        input: EncoderInput,
        pass: &Pass,
    ) -> (Tensor<2>, Tensor<3>) {
        let (pooled, hidden) = self.read(model, input, pass);
        (self.apply_dropout(pooled, pass), hidden)
    }

    /// Computes the pooled vector of each text `[rows, d_model]`, and its hidden states.
    fn read(&self, model: &TextModel, input: EncoderInput, pass: &Pass) -> (Tensor<2>, Tensor<3>) {
        let lengths = input.lengths.clone();
        let hidden = model.forward(input, pass);
        let all = hidden.clone();
        let pooled = match self.pooling {
            None | Some(Pooling::First) => model.pooled(all, lengths.as_deref()),
            Some(Pooling::Last) => text::last_token(all, lengths.as_deref()),
            Some(Pooling::Max) => text::max_pool(all, lengths.as_deref()),
            Some(Pooling::Mean) => text::mean_pool(all, lengths.as_deref()),
        };
        (pooled, hidden)
    }

    /// Returns the pooling of a text to one vector: the key's, or the model's own.
    pub fn pooling(&self, model: &TextModel) -> Pooling {
        self.pooling.unwrap_or(match model.default_pooling() {
            TextPooling::First => Pooling::First,
            TextPooling::Mean => Pooling::Mean,
            TextPooling::Last => Pooling::Last,
            TextPooling::Max => Pooling::Max,
        })
    }

    fn apply_dropout(&self, pooled: Tensor<2>, pass: &Pass) -> Tensor<2> {
        let [rows, width] = pooled.dims();
        let pooled = pass.dropout(pooled.reshape([rows, 1, width]), "pooled", self.dropout);
        pooled.reshape([rows, width])
    }
}
