//! The 2-D convolution of residual networks: no bias (a norm follows), padding that keeps an image's size at
//! stride 1.
//!
//! Weights are drawn as in He et al. 2015: normal with variance 2/(outputs·size²), so that what comes back keeps
//! its size. They may be standardised (Qiao et al. 2019): every output's weights have mean 0 and variance 1, which
//! goes with group norm.

use super::init::Init;
use crate::kernel::{self, ConvolutionSettings};
use crate::nn::role::{Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// Added to the variance of standardised weights.
const EPS: f64 = 1e-8;

/// What a convolution maps to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionShape {
    /// Planes that it reads.
    pub inputs: usize,
    /// Planes that it makes.
    pub outputs: usize,
    /// Side of the kernel, odd.
    pub size: usize,
    /// Step of the kernel.
    pub stride: usize,
}

impl ConvolutionShape {
    /// Side of the result for a side of the image.
    pub fn side(&self, side: usize) -> usize {
        side.div_ceil(self.stride)
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.inputs * self.outputs * self.size * self.size
    }
}

/// What the parameters of [`Convolution`] are.
pub const ROLES: Roles = Roles::new("Convolution", &[("weight", WEIGHT)]);

/// A convolution over the planes of an image.
#[derive(Module, Debug)]
pub struct Convolution {
    /// `[outputs, inputs, rows, columns]`.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    padding: usize,
    standardized: bool,
}

impl Convolution {
    /// A convolution of this shape; `standardized` weights are brought to mean 0 and variance 1 on the way.
    pub fn new(shape: &ConvolutionShape, standardized: bool, init: &Init) -> Self {
        let size = shape.size;
        Self {
            weight: init.kernel([shape.outputs, shape.inputs, size, size]),
            stride: shape.stride,
            padding: size / 2,
            standardized,
        }
    }

    /// `[batch, inputs, height, width]` → `[batch, outputs, ⌈height/stride⌉, ⌈width/stride⌉]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = self.weight.val();
        let weight = if self.standardized {
            standardized(weight)
        } else {
            weight
        };
        let settings = ConvolutionSettings {
            stride: self.stride,
            padding: self.padding,
        };
        kernel::convolution(x, weight, settings)
    }
}

/// Each output's weights with mean 0 and variance 1.
fn standardized(weight: Tensor<4>) -> Tensor<4> {
    let [outputs, inputs, rows, columns] = weight.dims();
    let flat = weight.reshape([outputs, inputs * rows * columns]);
    let centred = flat.clone() - flat.mean_dim(1);
    let variance = centred.clone().square().mean_dim(1);
    (centred / (variance + EPS).sqrt()).reshape([outputs, inputs, rows, columns])
}
