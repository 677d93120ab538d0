//! RMS norm: x/√(mean x²+ε)·γ (Zhang and Sennrich 2019) or, zero-centred, x/√(mean x²+ε)·(1+γ) (Gemma), optionally without γ.

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

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "rms",
    summary: "divide by the root mean square, scale",
    source: "Zhang and Sennrich 2019",
    example: "{ kind = \"rms\", eps = 1e-6, zero_centered = true }",
};

/// Settings of RMS norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RmsNormConfig {
    /// Added to the mean square.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
    /// Whether the scale is 1 + γ with an initial γ of 0, so that weight decay draws the scale towards 1 (Gemma).
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

/// Roles of the parameters of [`RmsNorm`].
pub const ROLES: Roles = Roles::new("RmsNorm", &[("gamma", NORM)]);

/// Parameter γ of an RMS norm.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// γ `[d]`, initially 1; initially 0 if zero-centred.
    pub gamma: Option<Param<Tensor<1>>>,
    eps: f64,
    zero_centered: bool,
}

impl RmsNormConfig {
    /// Reports invalid settings.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("eps", self.eps);
        if self.zero_centered && !self.gain {
            let rule = "zero_centered = true has no effect with gain = false; remove one of them";
            at.fault(&["zero_centered", "gain"], rule);
        }
    }

    /// Builds a norm over vectors of `d` elements.
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
    /// Builds a norm over vectors of `d` elements.
    pub fn new(d: usize, eps: f64, init: &Init) -> Self {
        let config = RmsNormConfig {
            eps,
            ..RmsNormConfig::default()
        };
        config.init(d, init)
    }

    /// Returns the factor on normalised vectors, `[d]`.
    fn scale(&self) -> Option<Tensor<1>> {
        let gamma = self.gamma.as_ref()?.val();
        Some(match self.zero_centered {
            true => gamma + 1.0,
            false => gamma,
        })
    }

    /// Normalises `[batch, seq, d]`; the shape stays the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        kernel::rms_norm(x, self.scale(), self.eps)
    }

    /// Returns the norm of `factor·x + y`; `x`, `y` and the result are `[batch, seq, d]`.
    pub(super) fn forward_of_sum(&self, both: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        kernel::rms_norm_of_sum(both, factor, self.scale(), self.eps)
    }

    /// Normalises `[batch, seq, d]` in `groups` equal parts, each by its own root mean square.
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

    /// Normalises `[batch, seq, parts·d]` in parts of d elements, each by itself and all with the same scale.
    pub fn by_parts(&self, x: Tensor<3>, parts: usize) -> Tensor<3> {
        let [batch, seq, width] = x.dims();
        let parts = x.reshape([batch, seq * parts, width / parts]);
        kernel::rms_norm(parts, self.scale(), self.eps).reshape([batch, seq, width])
    }
}
