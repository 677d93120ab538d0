//! Scale norm: x/√(mean x²+ε)·g, one number g for all channels (Nguyen and Salazar 2019, section 2.2).
//!
//! The paper divides by the length ‖x‖ and begins with g = √d, which is the same: √d/‖x‖ = 1/√(mean x²).

use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "scale",
    summary: "divide by the root mean square, one scale for all channels",
    source: "Nguyen and Salazar 2019, ScaleNorm",
    example: "{ kind = \"scale\", eps = 1e-5 }",
};

/// Scale norm's knobs.
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
    /// Faults of its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("eps", self.eps);
    }

    /// A norm over vectors of any width.
    pub(super) fn init(&self, init: &Init) -> ScaleNorm {
        ScaleNorm {
            gain: init.vector(1, 1.0),
            eps: self.eps,
        }
    }
}

/// The roles of the parameters of [`ScaleNorm`].
pub const ROLES: Roles = Roles::new("ScaleNorm", &[("gain", NORM)]);

/// g of a scale norm.
#[derive(Module, Debug)]
pub struct ScaleNorm {
    /// `[1]`, starts at 1.
    pub gain: Param<Tensor<1>>,
    eps: f64,
}

impl ScaleNorm {
    /// `[batch, seq, d]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.scaled(kernel::rms_norm(x, None, self.eps))
    }

    /// The norm of `factor·x + y`, all three `[batch, seq, d]`.
    pub(super) fn forward_sum(&self, both: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        self.scaled(kernel::rms_norm_of_sum(both, factor, None, self.eps))
    }

    fn scaled(&self, x: Tensor<3>) -> Tensor<3> {
        let gain = self.gain.val().cast(x.dtype());
        x * gain.reshape([1, 1, 1])
    }
}
