//! Convolutional position embedding over frames (Baevski et al. 2020, section 2; Mohamed et al. 2019). Its weights are factored
//! into a direction and a length for each position in the window (weight norm, Salimans and Kingma 2016):
//!
//! ```text
//! W[·, ·, k] = g_k V[·, ·, k] / ‖V[·, ·, k]‖      x ← x + act(conv(x))
//! ```
//!
//! Channels are divided into groups that do not see each other. A window of an even number of frames reaches one frame farther
//! back than ahead.

use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel;
use crate::nn::feed_forward::Activation;
use crate::nn::init::Init;
use crate::nn::role::{BIAS, NORM, Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::conv1d;
use burn::tensor::ops::ConvOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum window size in frames.
const MAX_WINDOW: usize = 1024;

/// The settings of the convolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConvolutionalPositionsConfig {
    /// Window size in frames. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 1, max = MAX_WINDOW))]
    pub size: usize,
    /// Number of channel groups; a divisor of `d_model`. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub groups: usize,
    /// Activation after the convolution.
    pub activation: Activation,
}

impl Default for ConvolutionalPositionsConfig {
    fn default() -> Self {
        Self {
            size: 128,
            groups: 16,
            activation: Activation::Gelu,
        }
    }
}

impl ConvolutionalPositionsConfig {
    /// Checks its keys, in a network of this width.
    pub(super) fn faults(&self, d_model: usize, at: &mut TableFaults) {
        at.count("size", self.size, MAX_WINDOW);
        let groups = at.count("groups", self.groups, MAX_WIDTH);
        if groups && !d_model.is_multiple_of(self.groups) {
            let rule = format!(
                "groups = {} does not divide the channels, d_model = {d_model}",
                self.groups
            );
            at.fault(&["groups", "model.d_model"], rule);
        }
    }

    /// Multiplications for `frames` frames; an even window size gives one more frame, which is dropped.
    pub(super) fn products(&self, frames: usize, d_model: usize) -> u128 {
        let each = self.size * (d_model / self.groups.max(1)) * d_model;
        let made = frames + usize::from(self.size.is_multiple_of(2));
        each as u128 * made as u128
    }

    /// Builds the convolution.
    pub(super) fn build(&self, d_model: usize, init: &Init) -> ConvolutionalPositions {
        let (size, inputs) = (self.size, d_model / self.groups.max(1));
        // The standard deviation of the initial weights in fairseq and Hugging Face Transformers.
        let deviation = 2.0 / ((size * d_model).max(1) as f32).sqrt();
        let bound = deviation * 3.0_f32.sqrt();
        let length = deviation * ((d_model * inputs) as f32).sqrt();
        ConvolutionalPositions {
            direction: init.uniform([d_model, inputs, size], move |u| bound * (2.0 * u - 1.0)),
            length: init.vector(size, length),
            bias: init.vector(d_model, 0.0),
            groups: self.groups,
            activation: self.activation,
        }
    }
}

/// Places of the parameters of [`ConvolutionalPositions`].
pub const ROLES: Roles = Roles::new(
    "ConvolutionalPositions",
    &[("direction", WEIGHT), ("length", NORM), ("bias", BIAS)],
);

/// A convolutional position embedding.
#[derive(Module, Debug)]
pub struct ConvolutionalPositions {
    /// Direction V, `[d_model, d_model/groups, size]`.
    pub direction: Param<Tensor<3>>,
    /// Length g, `[size]`.
    pub length: Param<Tensor<1>>,
    /// Bias, `[d_model]`.
    pub bias: Param<Tensor<1>>,
    groups: usize,
    #[module(skip)]
    activation: Activation,
}

impl ConvolutionalPositions {
    /// Computes the position embedding of `x` `[batch, frames, d_model]`, whose padded frames are 0; the caller adds it.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let direction = self.direction.val();
        let [_, frames, _] = x.dims();
        let size = direction.dims()[2];
        let norm = direction.clone().square().sum_dim(0).sum_dim(1).sqrt();
        let weight = direction * (self.length.val().reshape([1, 1, size]) / norm);
        let options = ConvOptions::new([1], [size / 2], [1], self.groups);
        let y = conv1d(x.swap_dims(1, 2), weight, Some(self.bias.val()), options);
        let y = y.narrow(2, 0, frames).swap_dims(1, 2);
        kernel::activate(y, self.activation.into())
    }
}
