//! Layer norm: (x−μ)/√(σ²+ε)·γ+β (Ba et al. 2016). It may do without β, or without both.

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

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "layer",
    summary: "subtract the mean, divide by the standard deviation, scale and shift",
    source: "Ba, Kiros and Hinton 2016",
    example: "{ kind = \"layer\", eps = 1e-5, bias = true, gain = true }",
};

/// Layer norm's knobs.
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
    /// Faults of its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("eps", self.eps);
        if self.bias && !self.gain {
            let rule = "gain = false leaves no scale for the shift to stand beside; give bias = false as well";
            at.fault(&["gain", "bias"], rule);
        }
    }

    /// A norm over vectors of `d` elements.
    pub fn init(&self, d: usize, init: &Init) -> LayerNorm {
        LayerNorm {
            gamma: self.gain.then(|| init.vector(d, 1.0)),
            beta: self.bias.then(|| init.vector(d, 0.0)),
            eps: self.eps,
        }
    }
}

/// The roles of the parameters of [`LayerNorm`].
pub const ROLES: Roles = Roles::new("LayerNorm", &[("gamma", NORM), ("beta", NORM)]);

/// γ and β of a layer norm.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// `[d]`, starts at 1.
    pub gamma: Option<Param<Tensor<1>>>,
    /// `[d]`, starts at 0.
    pub beta: Option<Param<Tensor<1>>>,
    eps: f64,
}

impl LayerNorm {
    /// A norm over vectors of `d` elements whose γ starts at `gain`.
    pub fn new(d: usize, eps: f64, gain: f32, init: &Init) -> Self {
        Self {
            gamma: Some(init.vector(d, gain)),
            beta: Some(init.vector(d, 0.0)),
            eps,
        }
    }

    /// `[batch, seq, d]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [gamma, beta] = self.vectors();
        kernel::layer_norm(x, gamma, beta, self.eps)
    }

    /// The norm of `factor·x + y`, all three `[batch, seq, d]`.
    pub(super) fn forward_sum(&self, both: [Tensor<3>; 2], factor: f64) -> Tensor<3> {
        let [gamma, beta] = self.vectors();
        kernel::layer_norm_of_sum(both, factor, gamma, beta, self.eps)
    }

    /// `[batch, seq, d]` → the same shape, each of `groups` equal parts of a vector by its own mean and deviation (group norm, Wu and
    /// He 2018).
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

    /// γ and β, where they are.
    fn vectors(&self) -> [Option<Tensor<1>>; 2] {
        [&self.gamma, &self.beta].map(|vector| vector.as_ref().map(Param::val))
    }
}
