//! Layer norm: (x−μ)/√(σ²+ε)·γ+β (Ba et al. 2016), optionally without β, or without both γ and β.

use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::role::{NORM, Roles};
use crate::one_table::is_true;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "layer",
    summary: "subtract the mean, divide by the standard deviation, scale and shift",
    source: "Ba, Kiros and Hinton 2016",
    example: "{ kind = \"layer\", eps = 1e-5, bias = true, gain = true }",
};

/// Settings of layer norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerNormConfig {
    /// Added to the variance.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub eps: f64,
    /// Whether there is a shift β.
    pub bias: bool,
    /// Whether there is a scale γ (OLMo has neither scale nor shift: Groeneveld et al. 2024, section 2.1).
    #[serde(skip_serializing_if = "is_true")]
    pub gain: bool,
}

impl Default for LayerNormConfig {
    fn default() -> Self {
        Self {
            eps: 1e-5,
            bias: true,
            gain: true,
        }
    }
}

impl LayerNormConfig {
    /// Reports invalid settings.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("eps", self.eps);
        if self.bias && !self.gain {
            let rule = "gain = false removes the scale, and a shift without a scale is not supported; set bias = false as well";
            at.fault(&["gain", "bias"], rule);
        }
    }

    /// Builds a norm over vectors of `d` elements.
    pub fn init(&self, d: usize, init: &Init) -> LayerNorm {
        LayerNorm {
            gamma: self.gain.then(|| init.vector(d, 1.0)),
            beta: self.bias.then(|| init.vector(d, 0.0)),
            eps: self.eps,
        }
    }
}

/// Roles of the parameters of [`LayerNorm`].
pub const ROLES: Roles = Roles::new("LayerNorm", &[("gamma", NORM), ("beta", NORM)]);

/// Parameters γ and β of a layer norm.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// γ `[d]`, initially 1.
    pub gamma: Option<Param<Tensor<1>>>,
    /// β `[d]`, initially 0.
    pub beta: Option<Param<Tensor<1>>>,
    eps: f64,
}

impl LayerNorm {
    /// Builds a norm over vectors of `d` elements whose γ is initially `gain`.
    pub fn new(d: usize, eps: f64, gain: f32, init: &Init) -> Self {
        Self {
            gamma: Some(init.vector(d, gain)),
            beta: Some(init.vector(d, 0.0)),
            eps,
        }
    }

    /// Normalises `[batch, seq, d]`; the shape stays the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [gamma, beta] = self.vectors();
        kernel::layer_norm(x, gamma, beta, self.eps)
    }

    /// Returns the norm of `factor·x + y`; `x`, `y` and the result are `[batch, seq, d]`.
    pub(super) fn forward_of_sum(&self, both: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        let [gamma, beta] = self.vectors();
        kernel::layer_norm_of_sum(both, factor, gamma, beta, self.eps)
    }

    /// Normalises `[batch, seq, d]` in `groups` equal parts, each by its own mean and deviation (group norm, Wu and He 2018).
    pub fn by_groups(&self, x: Tensor<3>, groups: usize) -> Tensor<3> {
        let ([batch, seq, d], [gamma, beta]) = (x.dims(), self.vectors());
        let parts = x.reshape([batch, seq * groups, d / groups]);
        let normed = kernel::layer_norm(parts, None, None, self.eps).reshape([batch, seq, d]);
        let scaled = match gamma {
            Some(gamma) => normed * gamma.reshape([1, 1, d]),
            None => normed,
        };
        match beta {
            Some(beta) => scaled + beta.reshape([1, 1, d]),
            None => scaled,
        }
    }

    /// Returns γ and β, if present.
    fn vectors(&self) -> [Option<Tensor<1>>; 2] {
        [&self.gamma, &self.beta].map(|vector| vector.as_ref().map(Param::val))
    }
}
