//! Normalisation of the last dimension.
//!
//! Layer norm: (x−μ)/√(σ²+ε)·γ+β (Ba et al. 2016). RMS norm: x/√(mean x²+ε)·γ (Zhang and Sennrich 2019), or, zero-centred,
//! x/√(mean x²+ε)·(1+γ) (Gemma). Both may do without γ.

use super::Kind;
use super::init::Init;
use crate::faults::TableFaults;
use crate::kernel;
use crate::nn::role::{NORM, Roles};
use crate::one_table::{is_true, is_usual};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of `[model] norm`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "layer",
        summary: "subtract the mean, divide by the standard deviation, scale and shift",
        source: "Ba, Kiros and Hinton 2016",
        example: "{ kind = \"layer\", eps = 1e-5, bias = true, gain = true }",
    },
    Kind {
        kind: "rms",
        summary: "divide by the root mean square, scale",
        source: "Zhang and Sennrich 2019",
        example: "{ kind = \"rms\", eps = 1e-6, zero_centered = true }",
    },
    Kind {
        kind: "none",
        summary: "no normalisation",
        source: "",
        example: "{ kind = \"none\" }",
    },
];

/// Which normalisation a model uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NormConfig {
    /// Layer norm.
    Layer(LayerNormConfig),
    /// RMS norm.
    Rms(RmsNormConfig),
    /// No normalisation.
    None(NoNormConfig),
}

impl Default for NormConfig {
    fn default() -> Self {
        Self::Layer(LayerNormConfig::default())
    }
}

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

/// `none` has no knobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoNormConfig {}

impl NormConfig {
    /// Faults of its keys.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Layer(c) => {
                at.positive("eps", c.eps);
                if c.bias && !c.gain {
                    let rule = "gain = false leaves no scale for the shift to stand beside; give bias = false as well";
                    at.fault(&["gain", "bias"], rule);
                }
            }
            Self::Rms(c) => {
                at.positive("eps", c.eps);
                if c.zero_centered && !c.gain {
                    let rule =
                        "zero_centered = true has no effect on gain = false; leave one of them out";
                    at.fault(&["zero_centered", "gain"], rule);
                }
            }
            Self::None(_) => {}
        }
    }

    /// RMS norm with its usual keys.
    pub fn rms() -> Self {
        Self::Rms(RmsNormConfig::default())
    }

    /// RMS norm with this ε.
    pub fn rms_of(eps: f64) -> Self {
        Self::Rms(RmsNormConfig {
            eps,
            ..RmsNormConfig::default()
        })
    }

    /// Vectors stay as they are.
    pub fn none() -> Self {
        Self::None(NoNormConfig {})
    }

    /// Whether vectors stay as they are.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None(_))
    }

    /// A norm over vectors of `d` elements.
    pub fn init(&self, d: usize, init: &Init) -> Norm {
        match self {
            Self::Layer(c) => Norm::Layer(LayerNorm {
                gamma: c.gain.then(|| init.vector(d, 1.0)),
                beta: c.bias.then(|| init.vector(d, 0.0)),
                eps: c.eps,
            }),
            Self::Rms(c) => Norm::Rms(c.init(d, init)),
            Self::None(_) => Norm::None(NoNorm {}),
        }
    }
}

/// A normalisation with its parameters.
#[derive(Module, Debug)]
pub enum Norm {
    /// Layer norm.
    Layer(LayerNorm),
    /// RMS norm.
    Rms(RmsNorm),
    /// No normalisation.
    None(NoNorm),
}

impl Norm {
    /// `[batch, seq, d]` → the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Layer(n) => {
                let [gamma, beta] = n.vectors();
                kernel::layer_norm(x, gamma, beta, n.eps)
            }
            Self::Rms(n) => kernel::rms_norm(x, n.scale(), n.eps),
            Self::None(_) => x,
        }
    }

    /// The norm of `factor·x + y`, all three `[batch, seq, d]`.
    pub fn forward_sum(&self, x: Tensor<3>, y: Tensor<3>, factor: f64) -> Tensor<3> {
        match self {
            Self::Layer(n) => {
                let [gamma, beta] = n.vectors();
                kernel::layer_norm_of_sum([x, y], factor, gamma, beta, n.eps)
            }
            Self::Rms(n) => kernel::rms_norm_of_sum([x, y], factor, n.scale(), n.eps),
            Self::None(_) => kernel::add(scaled(x, factor), y),
        }
    }
}

/// `factor·x`.
pub fn scaled(x: Tensor<3>, factor: f64) -> Tensor<3> {
    if factor == 1.0 { x } else { x * factor }
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

/// The roles of the parameters of [`RmsNorm`].
pub const RMSNORM_ROLES: Roles = Roles::new("RmsNorm", &[("gamma", NORM)]);

/// γ of an RMS norm.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// `[d]`, starts at 1; at 0 when zero-centred.
    pub gamma: Option<Param<Tensor<1>>>,
    eps: f64,
    zero_centered: bool,
}

impl RmsNormConfig {
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

/// Nothing.
#[derive(Module, Debug)]
pub struct NoNorm {}
