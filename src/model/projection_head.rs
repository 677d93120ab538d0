//! The head of self-distillation (Caron et al. 2021, DINO, section 3.1 and appendix C): from an image's vector to scores of
//! unnamed classes.
//!
//! ```text
//! z = W₃·gelu(W₂·gelu(W₁x + b₁) + b₂) + b₃        s_k = (z / ‖z‖)·(v_k / ‖v_k‖)
//! ```
//!
//! The last map has weight normalisation (Salimans and Kingma 2016) whose gains stay 1, so that scores are cosines. The head
//! belongs to the task; it is not part of the network that is used afterwards.

use super::BuildContext;
use crate::kernel;
use crate::nn::init::{Init, InitSettings, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::role::{Declaration, Place, Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// Name of the head: as a field of a task, and in keys of random draws.
pub const NAME: &str = "projection_head";

/// The widths of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectionHeadShape {
    /// Width of the head's input.
    pub d_in: usize,
    /// Width of both hidden layers.
    pub d_hidden: usize,
    /// Width of the vector that is normalised.
    pub d_bottleneck: usize,
    /// Number of scores.
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

    /// Builds the head; its parameters are drawn at their first use.
    pub fn init(&self, initial: InitSettings, inputs: &BuildContext) -> ProjectionHead {
        let init = Init::of_heads(inputs.device, inputs.seed, initial).part(NAME);
        let map = |name: &str, from: usize, to: usize| {
            Linear::new(from, to, true, MatrixRole::Inner, &init.part(name))
        };
        let last = init.part("last");
        ProjectionHead {
            first: map("first", self.d_in, self.d_hidden),
            second: map("second", self.d_hidden, self.d_hidden),
            bottleneck: map("bottleneck", self.d_hidden, self.d_bottleneck),
            last: last.linear(self.d_bottleneck, self.d_out, MatrixRole::Inner),
        }
    }
}

/// Places of the parameters of [`ProjectionHead`].
pub const ROLES: Roles = Roles::new(
    "ProjectionHead",
    &[
        ("first", Declaration::Place(Place::Head)),
        ("second", Declaration::Place(Place::Head)),
        ("bottleneck", Declaration::Place(Place::Head)),
        ("last", WEIGHT),
        ("last", Declaration::Place(Place::Head)),
    ],
);

/// The self-distillation head: three linear maps, normalisation, and class directions.
#[derive(Module, Debug)]
pub struct ProjectionHead {
    /// First map, `[d_hidden, d_in]`.
    pub first: Linear,
    /// Second map, `[d_hidden, d_hidden]`.
    pub second: Linear,
    /// Map onto the bottleneck, `[d_bottleneck, d_hidden]`.
    pub bottleneck: Linear,
    /// Directions of the classes, `[d_out, d_bottleneck]`; the length of a row has no effect.
    pub last: Param<Tensor<2>>,
}

impl ProjectionHead {
    /// Computes scores `[rows, d_out]` of vectors `[rows, d_in]`, in float32. `rests` freezes the last map.
    pub fn forward(&self, x: Tensor<2>, rests: bool) -> Tensor<2> {
        let gelu = kernel::Activation::Gelu;
        let x = self.first.forward_activated(x.unsqueeze_dim::<3>(0), gelu);
        let x = self.second.forward_activated(x, gelu);
        let x = self.bottleneck.forward(x).squeeze_dim::<2>(0);
        let last = match rests {
            true => self.last.val().detach(),
            false => self.last.val(),
        };
        let directions = kernel::l2_normalise(kernel::to_f32(last));
        kernel::l2_normalise(kernel::to_f32(x)).matmul(directions.transpose())
    }
}
