//! The 2-D convolution of residual networks, without bias (a norm follows).
//!
//! The padding keeps the image's size at stride 1. It is either the same on both sides (as in PyTorch's networks) or only as much
//! as the last kernel position needs, with the odd pixel at the end (TensorFlow's SAME, with which the hybrids of Dosovitskiy et
//! al. 2021 were trained).
//!
//! Weights are drawn as in He et al. 2015: normal with variance 2/(outputs·size²), which preserves the size of gradients in the
//! backward pass. They may be standardised (Qiao et al. 2019): the weights of every output then have mean 0 and variance 1, which
//! goes with group norm.

use super::init::Init;
use crate::kernel::{self, ConvolutionSettings};
use crate::nn::role::{Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Added to the variance of standardised weights.
const EPS: f64 = 1e-8;

/// Placement of the zeros around an image. At stride 1 all placements agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// Half of the kernel on every side (PyTorch).
    #[default]
    Symmetric,
    /// As many zeros as the kernels reach beyond the image, the odd one at the end (TensorFlow's SAME).
    Same,
}

impl Padding {
    /// Returns the numbers of zeros before and after a side of the image, for kernels of this size and stride.
    pub fn pair(self, side: usize, size: usize, stride: usize) -> (usize, usize) {
        match self {
            Self::Symmetric => (size / 2, size / 2),
            Self::Same => {
                let reach = (side.div_ceil(stride) - 1) * stride + size;
                let zeros = reach.saturating_sub(side);
                (zeros / 2, zeros - zeros / 2)
            }
        }
    }
}

/// The shapes of a convolution's input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionShape {
    /// Number of input planes.
    pub inputs: usize,
    /// Number of output planes.
    pub outputs: usize,
    /// Side of the kernel in pixels, odd.
    pub size: usize,
    /// Step of the kernel in pixels.
    pub stride: usize,
}

impl ConvolutionShape {
    /// Returns the output's side for an image of this side.
    pub fn side(&self, side: usize) -> usize {
        side.div_ceil(self.stride)
    }

    /// Returns the number of weights.
    pub fn weights(&self) -> usize {
        self.inputs * self.outputs * self.size * self.size
    }
}

/// Roles of the parameters of [`Convolution`].
pub const ROLES: Roles = Roles::new("Convolution", &[("weight", WEIGHT)]);

/// A convolution over the planes of an image.
#[derive(Module, Debug)]
pub struct Convolution {
    /// `[outputs, inputs, kernel rows, kernel columns]`.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    size: usize,
    #[module(skip)]
    padding: Padding,
    standardized: bool,
}

impl Convolution {
    /// Builds a convolution of this shape. If `standardized`, each forward pass brings the weights to mean 0 and variance 1.
    pub fn new(
        shape: &ConvolutionShape,
        padding: Padding,
        standardized: bool,
        init: &Init,
    ) -> Self {
        let size = shape.size;
        Self {
            weight: init.kernel([shape.outputs, shape.inputs, size, size]),
            stride: shape.stride,
            size,
            padding,
            standardized,
        }
    }

    /// Convolves `[batch, inputs, height, width]` to `[batch, outputs, ⌈height/stride⌉, ⌈width/stride⌉]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = self.weight.val();
        let weight = if self.standardized {
            standardized(weight)
        } else {
            weight
        };
        let [_, _, height, width] = x.dims();
        let [rows, cols] =
            [height, width].map(|side| self.padding.pair(side, self.size, self.stride));
        let even = rows.0 == rows.1 && rows == cols;
        let x = if even {
            x
        } else {
            x.pad((cols.0, cols.1, rows.0, rows.1), PadMode::Constant(0.0))
        };
        let settings = ConvolutionSettings {
            stride: self.stride,
            padding: if even { rows.0 } else { 0 },
        };
        kernel::convolution(x, weight, settings)
    }
}

/// Returns the weights standardised: those of each output have mean 0 and variance 1.
fn standardized(weight: Tensor<4>) -> Tensor<4> {
    let [outputs, inputs, rows, columns] = weight.dims();
    let flat = weight.reshape([outputs, inputs * rows * columns]);
    let centred = flat.clone() - flat.mean_dim(1);
    let variance = centred.clone().square().mean_dim(1);
    (centred / (variance + EPS).sqrt()).reshape([outputs, inputs, rows, columns])
}
