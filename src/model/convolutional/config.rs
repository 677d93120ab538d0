//! The keys of `[model] kind = "convolutional"`.

use crate::nn::feed_forward::Activation;
use crate::nn::init::InitConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Widths of windows at most.
pub(super) const MOST_WIDTHS: usize = 64;
/// Tokens of a window at most.
pub(super) const WIDEST_WINDOW: usize = 1024;

/// The knobs of a convolutional reader of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConvolutionalConfig {
    /// Width of token vectors.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    pub d_model: usize,
    /// Tokens of a window, for each sort of windows. Source: Kim 2014, section 3.1.
    #[schemars(inner(range(min = 1, max = WIDEST_WINDOW)), length(min = 1, max = MOST_WIDTHS))]
    pub widths: Vec<usize>,
    /// Features of the windows of each width. Source: Kim 2014, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::WIDEST))]
    pub filters: usize,
    /// Nonlinearity of the features.
    pub activation: Activation,
    /// Dropout on the embeddings; that of the vector of a text is the task's.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// How the initial weights are drawn.
    pub init: InitConfig,
}

impl Default for ConvolutionalConfig {
    fn default() -> Self {
        Self {
            d_model: 128,
            widths: vec![3, 4, 5],
            filters: 100,
            activation: Activation::Relu,
            dropout: 0.0,
            init: InitConfig::xavier(),
        }
    }
}

impl ConvolutionalConfig {
    /// Features of a position.
    pub fn features(&self) -> usize {
        self.widths.len().saturating_mul(self.filters)
    }

    /// Tokens of the windows of all widths together.
    pub(super) fn taps(&self) -> u128 {
        self.widths.iter().map(|width| *width as u128).sum()
    }
}
