//! Scale norm: x/√(mean x²+ε)·g, with a single number g for all channels (Nguyen and Salazar 2019, section 2.2).
//!
//! The paper divides by the length ‖x‖ and begins with g = √d, which is equivalent: √d/‖x‖ = 1/√(mean x²).

use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "scale",
    summary: "divide by the root mean square, one scale for all channels",
    source: "Nguyen and Salazar 2019, ScaleNorm",
    example: "{ kind = \"scale\", eps = 1e-5 }",
};

/// Settings of scale norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScaleNormConfig {
    /// Added to the mean square.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
}

impl Default for ScaleNormConfig {
    fn default() -> Self {
        Self { eps: 1e-5 }
    }
}

impl ScaleNormConfig {
    /// Reports invalid settings.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("eps", self.eps);
    }

    /// Builds a norm over vectors of any width.
    pub(super) fn init(&self, init: &Init) -> ScaleNorm {
        ScaleNorm {
            gain: init.vector(1, 1.0),
            eps: self.eps,
        }
    }
}

/// Roles of the parameters of [`ScaleNorm`].
pub const ROLES: Roles = Roles::new("ScaleNorm", &[("gain", NORM)]);

/// Parameter g of a scale norm.
#[derive(Module, Debug)]
pub struct ScaleNorm {
    /// g `[1]`, initially 1.
    pub gain: Param<Tensor<1>>,
    eps: f64,
}

impl ScaleNorm {
    /// Normalises `[batch, seq, d]`; the shape stays the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.scaled(kernel::rms_norm(x, None, self.eps))
    }

    /// Returns the norm of `factor·x + y`; `x`, `y` and the result are `[batch, seq, d]`.
    pub(super) fn forward_of_sum(&self, both: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        self.scaled(kernel::rms_norm_of_sum(both, factor, None, self.eps))
    }

    fn scaled(&self, x: Tensor<3>) -> Tensor<3> {
        let gain = self.gain.val().cast(x.dtype());
        x * gain.reshape([1, 1, 1])
    }
}
