//! Pooling of a vision transformer: one vector for a whole image, from the hidden states after the last norm.

use super::Vision;
use crate::nn::pass::Pass;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pooling of an image's hidden states into one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The hidden state of a class token before the patches.
    Class,
    /// The hidden state of a class token concatenated with the mean over the patches, twice as wide (Oquab et al. 2024, DINOv2,
    /// appendix B.3).
    ClassAndMean,
    /// The mean over the patches (Beyer et al. 2022).
    Mean,
    /// The mean over the patches through a separate norm, which replaces the last norm if `final_norm = false`. A class
    /// token stands before the patches, but is not read (Bao et al. 2022, BEiT, released code).
    MeanThenNorm,
    /// Attention of a learned vector to the patches, with as many heads as the blocks have, then a feed-forward layer like the
    /// first block's (SigLIP).
    Attention,
}

impl Pooling {
    /// Whether a class token stands before the patches.
    pub fn has_class_token(self) -> bool {
        match self {
            Self::Class | Self::ClassAndMean | Self::MeanThenNorm => true,
            Self::Mean | Self::Attention => false,
        }
    }

    /// Returns its name if it has learned parameters.
    pub fn learned_name(self) -> Option<&'static str> {
        match self {
            Self::Attention => Some("attention"),
            Self::MeanThenNorm => Some("mean_then_norm"),
            Self::Class | Self::ClassAndMean | Self::Mean => None,
        }
    }

    /// Width of the pooled vector, as a multiple of the network's width.
    pub fn width_factor(self) -> usize {
        match self {
            Self::ClassAndMean => 2,
            Self::Class | Self::Mean | Self::MeanThenNorm | Self::Attention => 1,
        }
    }
}

impl Vision {
    /// Returns the hidden state of the distillation token of each image, `[batch, d_model]`; `None` if there is no such token.
    pub fn distillation_state(&self, hidden: &Tensor<3>) -> Option<Tensor<2>> {
        self.distillation_token.as_ref()?;
        let [batch, _, d_model] = hidden.dims();
        Some(hidden.clone().narrow(1, 1, 1).reshape([batch, d_model]))
    }

    /// Pools hidden states `[batch, positions, d_model]` of each image into one vector: `[batch, d_model]`, or twice as wide if
    /// the class token's state and the mean are concatenated. Registers are ignored.
    pub fn pooled(&self, hidden: Tensor<3>, pass: &Pass) -> Tensor<2> {
        if let Some(pooling) = &self.attention_pooling {
            return pooling.forward(&self.without_registers(hidden), pass);
        }
        let [batch, positions, _] = hidden.dims();
        let tokens = self.prefix_tokens();
        let class = || hidden.clone().narrow(1, 0, 1);
        let mean = || {
            let patches = hidden.clone().narrow(1, tokens, positions - tokens);
            patches.mean_dim(1)
        };
        let one = match (&self.class_token, &self.pooled_norm) {
            (_, Some(norm)) => norm.forward(mean()),
            (Some(_), None) if self.pools_both => Tensor::cat(vec![class(), mean()], 2),
            (Some(_), None) => class(),
            (None, None) => mean(),
        };
        let width = one.dims()[2];
        one.reshape([batch, width])
    }

    /// Drops the registers from hidden states `[batch, positions, d_model]`.
    pub fn without_registers(&self, hidden: Tensor<3>) -> Tensor<3> {
        if self.registers.is_none() {
            return hidden;
        }
        let [_, positions, _] = hidden.dims();
        let (first, tokens) = (self.positioned_prefix_tokens(), self.prefix_tokens());
        let patches = hidden.clone().narrow(1, tokens, positions - tokens);
        match first {
            0 => patches,
            _ => Tensor::cat(vec![hidden.narrow(1, 0, first), patches], 1),
        }
    }
}
