//! The head of self-distillation (Caron et al. 2021, DINO, section 3.1 and appendix C): from the vector of an image to scores of
//! classes that nothing names.
//!
//! ```text
//! z = W₃·gelu(W₂·gelu(W₁x + b₁) + b₂) + b₃        s_k = (z / ‖z‖)·(v_k / ‖v_k‖)
//! ```
//!
//! The last map has weight normalisation (Salimans and Kingma 2016) whose gains stay 1, so that scores are cosines. The head is a
//! parameter of the task, and is left behind when the network is used.

use super::ModelInputs;
use crate::kernel;
use crate::nn::init::{Init, Initial, Role};
use crate::nn::linear::Linear;
use crate::nn::role::{Place, Roles, Says, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// The field of a task that holds it, and its name in draws.
pub const NAME: &str = "projection_head";

/// Square of the least length that a vector is divided by (PyTorch's `normalize`).
const LEAST: f64 = 1e-24;

/// The widths of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectionHeadShape {
    /// Of its input.
    pub d_in: usize,
    /// Of both inner layers.
    pub d_hidden: usize,
    /// Of the vector that is normalised.
    pub d_bottleneck: usize,
    /// Scores.
    pub d_out: usize,
}

impl ProjectionHeadShape {
    /// Multiplications for one vector.
    pub fn products(&self) -> f64 {
        let Self {
            d_in,
            d_hidden,
            d_bottleneck,
            d_out,
        } = *self;
        let widths = [d_in, d_hidden, d_hidden, d_bottleneck, d_out];
        let pairs = widths.iter().zip(&widths[1..]);
        pairs.map(|(a, b)| *a as f64 * *b as f64).sum()
    }

    /// Builds it; its parameters are drawn when they are first used.
    pub fn init(&self, initial: Initial, inputs: &ModelInputs) -> ProjectionHead {
        let init = Init::of_heads(inputs.device, inputs.seed, initial).of(NAME);
        let map = |name: &str, from: usize, to: usize| {
            Linear::new(from, to, true, Role::Inner, &init.of(name))
        };
        let last = init.of("last");
        ProjectionHead {
            first: map("first", self.d_in, self.d_hidden),
            second: map("second", self.d_hidden, self.d_hidden),
            bottleneck: map("bottleneck", self.d_hidden, self.d_bottleneck),
            last: last.linear(self.d_bottleneck, self.d_out, Role::Inner),
        }
    }
}

/// The roles of the parameters of [`ProjectionHead`].
pub const ROLES: Roles = Roles::new(
    "ProjectionHead",
    &[
        ("first", Says::Stands(Place::Head)),
        ("second", Says::Stands(Place::Head)),
        ("bottleneck", Says::Stands(Place::Head)),
        ("last", WEIGHT),
        ("last", Says::Stands(Place::Head)),
    ],
);

/// Three maps, a norm, and the directions of classes.
#[derive(Module, Debug)]
pub struct ProjectionHead {
    /// `[d_hidden, d_in]`.
    pub first: Linear,
    /// `[d_hidden, d_hidden]`.
    pub second: Linear,
    /// `[d_bottleneck, d_hidden]`.
    pub bottleneck: Linear,
    /// `[d_out, d_bottleneck]`; the length of a row has no effect.
    pub last: Param<Tensor<2>>,
}

impl ProjectionHead {
    /// Scores `[rows, d_out]` of vectors `[rows, d_in]`, in single precision. `rests` keeps the last map from learning.
    pub fn forward(&self, x: Tensor<2>, rests: bool) -> Tensor<2> {
        let gelu = kernel::Activation::Gelu;
        let x = self.first.activated(x.unsqueeze_dim::<3>(0), gelu);
        let x = self.second.activated(x, gelu);
        let x = self.bottleneck.forward(x).squeeze_dim::<2>(0);
        let last = match rests {
            true => self.last.val().detach(),
            false => self.last.val(),
        };
        let directions = normalised(kernel::full(last));
        normalised(kernel::full(x)).matmul(directions.transpose())
    }
}

/// Rows of length 1.
fn normalised(x: Tensor<2>) -> Tensor<2> {
    let squares = (x.clone() * x.clone()).sum_dim(1);
    x / squares.clamp_min(LEAST).sqrt()
}
