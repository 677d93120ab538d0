//! RMS norm: x/√(mean x²+ε)·γ (Zhang and Sennrich 2019), or, zero-centred, x/√(mean x²+ε)·(1+γ) (Gemma). It may do without γ.

use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use crate::one_table::{is_true, is_usual};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "rms",
    summary: "divide by the root mean square, scale",
    source: "Zhang and Sennrich 2019",
    example: "{ kind = \"rms\", eps = 1e-6, zero_centered = true }",
};

/// RMS norm's knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RmsNormConfig {
    /// Added to the mean square.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
    /// Whether the scale is 1 + γ with a γ that starts at 0, so that weight decay draws it towards 1 (Gemma).
    #[serde(skip_serializing_if = "is_usual")]
    pub zero_centered: bool,
    /// Whether there is a scale γ.
    #[serde(skip_serializing_if = "is_true")]
    pub gain: bool,
}

impl Default for RmsNormConfig {
    fn default() -> Self {
        Self {
            eps: 1e-6,
            zero_centered: false,
            gain: true,
        }
    }
}

/// The roles of the parameters of [`RmsNorm`].
pub const ROLES: Roles = Roles::new("RmsNorm", &[("gamma", NORM)]);

/// γ of an RMS norm.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// `[d]`, starts at 1; at 0 when zero-centred.
    pub gamma: Option<Param<Tensor<1>>>,
    eps: f64,
    zero_centered: bool,
}

impl RmsNormConfig {
    /// Faults of its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("eps", self.eps);
        if self.zero_centered && !self.gain {
            let rule = "zero_centered = true has no effect on gain = false; leave one of them out";
            at.fault(&["zero_centered", "gain"], rule);
        }
    }

    /// A norm over vectors of `d` elements.
    pub fn init(&self, d: usize, init: &Init) -> RmsNorm {
        let start = if self.zero_centered { 0.0 } else { 1.0 };
        RmsNorm {
            gamma: self.gain.then(|| init.vector(d, start)),
            eps: self.eps,
            zero_centered: self.zero_centered,
        }
    }
}

impl RmsNorm {
    /// A norm over vectors of `d` elements.
    pub fn new(d: usize, eps: f64, init: &Init) -> Self {
        let config = RmsNormConfig {
            eps,
            ..RmsNormConfig::default()
        };
        config.init(d, init)
    }

    /// `[d]`, by which what was normalised is multiplied.
    fn scale(&self) -> Option<Tensor<1>> {
        let gamma = self.gamma.as_ref()?.val();
        Some(match self.zero_centered {
            true => gamma + 1.0,
            false => gamma,
        })
    }

    /// `[batch, seq, d]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        kernel::rms_norm(x, self.scale(), self.eps)
    }

    /// The norm of `factor·x + y`, all three `[batch, seq, d]`.
    pub(super) fn forward_sum(&self, both: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        kernel::rms_norm_of_sum(both, factor, self.scale(), self.eps)
    }

    /// `[batch, seq, d]` → the same shape, each of `groups` equal parts of a vector by its own root mean square.
    pub fn by_groups(&self, x: Tensor<3>, groups: usize) -> Tensor<3> {
        let ([batch, seq, d], gamma) = (x.dims(), self.scale());
        if groups == 1 {
            return kernel::rms_norm(x, gamma, self.eps);
        }
        let parts = x.reshape([batch, seq * groups, d / groups]);
        let normed = kernel::rms_norm(parts, None, self.eps).reshape([batch, seq, d]);
        match gamma {
            Some(gamma) => normed * gamma.reshape([1, 1, d]),
            None => normed,
        }
    }

    /// `[batch, seq, parts·d]` → the same shape, each part of d elements by itself, all of them with one scale.
    pub fn by_parts(&self, x: Tensor<3>, parts: usize) -> Tensor<3> {
        let [batch, seq, width] = x.dims();
        let parts = x.reshape([batch, seq * parts, width / parts]);
        kernel::rms_norm(parts, self.scale(), self.eps).reshape([batch, seq, width])
    }
}
