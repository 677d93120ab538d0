//! What stands for a whole image: states of the last norm, as one vector.

use super::Vision;
use crate::nn::pass::Pass;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands for the whole image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// A token of its own, before the patches.
    Class,
    /// The state of such a token beside the mean over the patches, twice as wide (Oquab et al. 2024, DINOv2, appendix B.3).
    ClassAndMean,
    /// The mean over the patches (Beyer et al. 2022).
    Mean,
    /// The mean over the patches through a norm of its own, which takes the place of the last norm where `final_norm = false`. A class
    /// token stands before the patches, and is not read (Bao et al. 2022, BEiT, released code).
    MeanThenNorm,
    /// What a learned vector sees of the patches by attention of as many heads as the blocks have, through a feed-forward layer as the
    /// first block has one (SigLIP).
    Attention,
}

impl Pooling {
    /// Whether a token of its own stands before the patches.
    pub fn has_class_token(self) -> bool {
        match self {
            Self::Class | Self::ClassAndMean | Self::MeanThenNorm => true,
            Self::Mean | Self::Attention => false,
        }
    }

    /// Its name, where it has parameters of its own.
    pub fn learned(self) -> Option<&'static str> {
        match self {
            Self::Attention => Some("attention"),
            Self::MeanThenNorm => Some("mean_then_norm"),
            Self::Class | Self::ClassAndMean | Self::Mean => None,
        }
    }

    /// Vectors of the network's width that stand beside each other.
    pub fn vectors(self) -> usize {
        match self {
            Self::ClassAndMean => 2,
            Self::Class | Self::Mean | Self::MeanThenNorm | Self::Attention => 1,
        }
    }
}

impl Vision {
    /// The second token's state of each image, which the head that a teacher teaches reads, where there is one.
    pub fn distilled(&self, hidden: &Tensor<3>) -> Option<Tensor<2>> {
        self.distillation_token.as_ref()?;
        let [batch, _, d_model] = hidden.dims();
        Some(hidden.clone().narrow(1, 1, 1).reshape([batch, d_model]))
    }

    /// What stands for each image: hidden states `[batch, positions, d_model]` → `[batch, d_model]`, or twice as wide where the class
    /// token's state stands beside the mean. Registers are read by none.
    pub fn pooled(&self, hidden: Tensor<3>, pass: &Pass) -> Tensor<2> {
        if let Some(pooling) = &self.attention_pooling {
            return pooling.forward(&self.without_registers(hidden), pass);
        }
        let [batch, positions, _] = hidden.dims();
        let tokens = self.tokens();
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

    /// Hidden states `[batch, positions, d_model]` without those of registers.
    pub fn without_registers(&self, hidden: Tensor<3>) -> Tensor<3> {
        if self.registers.is_none() {
            return hidden;
        }
        let [_, positions, _] = hidden.dims();
        let (first, tokens) = (self.placed_tokens(), self.tokens());
        let patches = hidden.clone().narrow(1, tokens, positions - tokens);
        match first {
            0 => patches,
            _ => Tensor::cat(vec![hidden.narrow(1, 0, first), patches], 1),
        }
    }
}
