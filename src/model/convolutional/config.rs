//! The keys of `[model] kind = "convolutional"`.

use crate::nn::feed_forward::Activation;
use crate::nn::init::InitConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of window widths.
pub(super) const MAX_WIDTHS: usize = 64;
/// Maximum window width, in tokens.
pub(super) const MAX_WINDOW: usize = 1024;

/// The settings of a convolutional reader of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConvolutionalConfig {
    /// Width of token vectors.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_model: usize,
    /// Window widths in tokens; each has its own filters. Source: Kim 2014, section 3.1.
    #[schemars(inner(range(min = 1, max = MAX_WINDOW)), length(min = 1, max = MAX_WIDTHS))]
    pub widths: Vec<usize>,
    /// Number of features for each window width. Source: Kim 2014, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub filters: usize,
    /// Activation of the features.
    pub activation: Activation,
    /// Dropout on the embeddings; dropout on a text's vector is set by the task.
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
    /// Number of features of a position.
    pub fn features(&self) -> usize {
        self.widths.len().saturating_mul(self.filters)
    }

    /// Sum of all window widths, in tokens.
    pub(super) fn total_width(&self) -> u128 {
        self.widths.iter().map(|width| *width as u128).sum()
    }
}
