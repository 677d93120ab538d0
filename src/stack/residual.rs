//! Norm placement and the residual connection: the only place where a layer's output is added to the residual stream.
//!
//! post: LN(x+f(x)) (Vaswani et al. 2017) · pre: x+f(LN(x)) (Xiong et al. 2020) · sandwich: x+LN(f(LN(x))) (Ding et al.
//! 2021) · res_post: x+LN(f(x)) (Liu et al. 2022, Swin V2; OLMo 2) · parallel: x+a(LN(x))+m(LN(x)) (Wang and Komatsuzaki
//! 2021, GPT-J) · deepnorm: LN(αx+f(x)) with α = (2N)^¼ and β = (8N)^−¼ in a decoder-only or encoder-only model (Wang et al. 2022,
//! table 2): β is the gain of the Xavier initial weights of values, outputs and feed-forward layers; that of queries and
//! keys is 1.
//!
//! A learned scale may apply to f(x) first ([`super::residual_scale`]), for parallel layers to their sum; with post it may apply
//! to x.

use super::residual_scale::admin::SkipScale;
use super::residual_scale::{ResidualScale, ResidualScaleConfig};
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::norm::{NoNorm, Norm, NormConfig, scale_by};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The position of the norms in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NormPlacement {
    /// x + f(LN(x)), and a norm after the last block.
    #[default]
    Pre,
    /// LN(x + f(x)).
    Post,
    /// x + LN(f(LN(x))), and a norm after the last block.
    Sandwich,
    /// x + LN(f(x)), and a norm after the last block.
    ResPost,
    /// x + attention(LN(x)) + feed-forward(LN(x)), and a norm after the last block.
    Parallel,
    /// LN(αx + f(x)).
    Deepnorm,
}

/// The values of `[model] norm_placement`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "pre",
        summary: "x + f(LN(x)), a final norm",
        source: "Xiong et al. 2020; GPT-2",
        example: "\"pre\"",
    },
    Kind {
        kind: "post",
        summary: "LN(x + f(x))",
        source: "Vaswani et al. 2017",
        example: "\"post\"",
    },
    Kind {
        kind: "sandwich",
        summary: "x + LN(f(LN(x))), a final norm",
        source: "Ding et al. 2021, CogView",
        example: "\"sandwich\"",
    },
    Kind {
        kind: "res_post",
        summary: "x + LN(f(x)), a final norm",
        source: "Liu et al. 2022, Swin V2; OLMo et al. 2024, OLMo 2",
        example: "\"res_post\"",
    },
    Kind {
        kind: "parallel",
        summary: "x + attention(LN(x)) + feed_forward(LN(x)), a final norm",
        source: "Wang and Komatsuzaki 2021, GPT-J",
        example: "\"parallel\"",
    },
    Kind {
        kind: "deepnorm",
        summary: "LN(alpha x + f(x)), Xavier initialisation with gain beta",
        source: "Wang et al. 2022, DeepNet",
        example: "\"deepnorm\"",
    },
];

impl NormPlacement {
    /// Returns the value of the key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pre => "pre",
            Self::Post => "post",
            Self::Sandwich => "sandwich",
            Self::ResPost => "res_post",
            Self::Parallel => "parallel",
            Self::Deepnorm => "deepnorm",
        }
    }

    /// Whether the placement normalises layer outputs or sums, so that it makes no sense without norms.
    pub fn needs_norm(self) -> bool {
        match self {
            Self::Pre | Self::Parallel => false,
            Self::Post | Self::Sandwich | Self::ResPost | Self::Deepnorm => true,
        }
    }

    /// Whether each layer output has exactly one norm, before or after the layer, and no factor. Blocks in stages support only
    /// these placements.
    pub fn norms_each_result_once(self) -> bool {
        match self {
            Self::Pre | Self::ResPost => true,
            Self::Post | Self::Sandwich | Self::Parallel | Self::Deepnorm => false,
        }
    }

    /// Whether norms follow sums x + f(x) whose x has no factor.
    pub fn normalises_plain_sums(self) -> bool {
        self == Self::Post
    }

    /// Whether a layer reads the stream through a norm, so that sums are not normalised.
    pub fn reads_through_norm(self) -> bool {
        match self {
            Self::Pre | Self::Sandwich | Self::Parallel => true,
            Self::Post | Self::ResPost | Self::Deepnorm => false,
        }
    }

    /// Whether each layer of a block has its own norm before it, so that the first one may be left out.
    pub fn norms_each_input(self) -> bool {
        self.reads_through_norm() && !self.is_parallel()
    }

    /// Whether its initial weights are scaled with the depth (β).
    pub fn scales_weights(self) -> bool {
        match self {
            Self::Deepnorm => true,
            Self::Pre | Self::Post | Self::Sandwich | Self::ResPost | Self::Parallel => false,
        }
    }

    /// Whether the layers of a block read the same input.
    pub fn is_parallel(self) -> bool {
        self == Self::Parallel
    }

    /// Whether the last block's output is not normalised, so that a final norm belongs after it.
    pub fn wants_final_norm(self) -> bool {
        match self {
            Self::Pre | Self::Sandwich | Self::ResPost | Self::Parallel => true,
            Self::Post | Self::Deepnorm => false,
        }
    }

    /// DeepNorm's (α, β) for the `n_layers` of a decoder-only or encoder-only model; (1, 1) for other placements.
    pub fn alpha_beta(self, n_layers: usize) -> (f64, f64) {
        match self {
            Self::Deepnorm => {
                let n = n_layers as f64;
                ((2.0 * n).powf(0.25), (8.0 * n).powf(-0.25))
            }
            Self::Pre | Self::Post | Self::Sandwich | Self::ResPost | Self::Parallel => (1.0, 1.0),
        }
    }
}

impl NormPlacement {
    /// DeepNorm's (α, β) of an encoder of `n` and a decoder of `m` layers (Wang et al. 2022, table 2); (1, 1) for other
    /// placements.
    pub fn alpha_beta_encoder_decoder(self, n: usize, m: usize) -> [(f64, f64); 2] {
        match self {
            Self::Deepnorm => {
                let (n, m) = (n as f64, m as f64);
                let depth = n.powi(4) * m;
                [
                    (
                        0.81 * depth.powf(1.0 / 16.0),
                        0.87 * depth.powf(-1.0 / 16.0),
                    ),
                    ((3.0 * m).powf(0.25), (12.0 * m).powf(-0.25)),
                ]
            }
            Self::Pre | Self::Post | Self::Sandwich | Self::ResPost | Self::Parallel => {
                [(1.0, 1.0); 2]
            }
        }
    }
}

/// How a layer's output is added to the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidualConfig {
    /// Dropout on each layer's output.
    pub dropout: f64,
    /// DeepNorm's α.
    pub alpha: f64,
    /// The learned scale on each layer's output or on the stream.
    pub scale: ResidualScaleConfig,
}

impl ResidualConfig {
    /// Plain addition, with this dropout on each layer's output.
    pub fn plain(dropout: f64) -> Self {
        Self {
            dropout,
            alpha: 1.0,
            scale: ResidualScaleConfig::default(),
        }
    }
}

/// One residual connection with its norms.
#[derive(Module, Debug)]
pub struct Residual {
    /// The norm before the layer, after the sum, or on the layer's output (res_post).
    pub norm: Norm,
    /// The second norm of the sandwich placement, on the layer's output.
    pub after: Option<Norm>,
    /// The learned scale on the layer's output, after its norm.
    pub scale: Option<ResidualScale>,
    /// The learned scale on the stream before the addition.
    pub skip: Option<SkipScale>,
    #[module(skip)]
    placement: NormPlacement,
    #[module(skip)]
    config: ResidualConfig,
}

impl Residual {
    /// Builds a residual connection over vectors of `d_model` elements.
    pub fn new(
        placement: NormPlacement,
        norm: &NormConfig,
        d_model: usize,
        config: ResidualConfig,
        init: &Init,
    ) -> Self {
        Self {
            norm: norm.init(d_model, init),
            after: (placement == NormPlacement::Sandwich).then(|| norm.init(d_model, init)),
            scale: config.scale.init(d_model, init),
            skip: match placement.normalises_plain_sums() {
                true => config.scale.skip(d_model, init),
                false => None,
            },
            placement,
            config,
        }
    }

    /// Returns the connection without its norm: the layer reads the stream unchanged.
    #[must_use]
    pub fn without_norm(self) -> Self {
        Self {
            norm: Norm::None(NoNorm {}),
            ..self
        }
    }

    /// Returns the norm placement.
    pub fn placement(&self) -> NormPlacement {
        self.placement
    }

    /// Returns the layer's input for the stream `x` `[batch, seq, d_model]`: normalised if the placement has a norm there.
    pub fn layer_input(&self, x: Tensor<3>) -> Tensor<3> {
        match self.placement.reads_through_norm() {
            true => self.norm.forward(x),
            false => x,
        }
    }

    /// Applies `layer`, the block's part named `part`, to the stream `x` `[batch, seq, d_model]` with its residual connection. A
    /// row skips the layer with probability `drop_path`.
    pub fn apply(
        &self,
        x: Tensor<3>,
        part: &str,
        drop_path: f64,
        pass: &Pass,
        layer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let alpha = self.config.alpha;
        match self.placement {
            NormPlacement::Post | NormPlacement::Deepnorm => {
                let result = self.branch_output(x.clone(), part, drop_path, pass, layer);
                let x = match &self.skip {
                    Some(skip) => skip.forward(x, &result, pass),
                    None => x,
                };
                self.norm.forward_of_sum(x, result, alpha)
            }
            NormPlacement::Pre
            | NormPlacement::Sandwich
            | NormPlacement::ResPost
            | NormPlacement::Parallel => {
                let result = self.layer_output(x.clone(), part, pass, layer);
                let x = scale_by(x, alpha);
                match drop_path > 0.0 {
                    true => kernel::add(x, self.drop_output(result, part, drop_path, pass)),
                    false => pass.add_dropped(x, result, part, self.config.dropout),
                }
            }
        }
    }

    /// Returns the output of `layer` for the stream `x` as it is added to a stream: after norm, scale, dropout and drop path.
    pub fn branch_output(
        &self,
        x: Tensor<3>,
        part: &str,
        drop_path: f64,
        pass: &Pass,
        layer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let result = self.layer_output(x, part, pass, layer);
        self.drop_output(result, part, drop_path, pass)
    }

    fn drop_output(&self, result: Tensor<3>, part: &str, drop_path: f64, pass: &Pass) -> Tensor<3> {
        let result = pass.dropout(result, part, self.config.dropout);
        pass.drop_path(result, part, drop_path)
    }

    /// Returns the layer's output before dropout.
    fn layer_output(
        &self,
        x: Tensor<3>,
        part: &str,
        pass: &Pass,
        layer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let x = self.layer_input(x);
        let result = pass.in_part(part, || layer(x));
        let result = match self.output_norm() {
            Some(norm) => norm.forward(result),
            None => result,
        };
        match &self.scale {
            Some(scale) => scale.forward(result),
            None => result,
        }
    }

    fn output_norm(&self) -> Option<&Norm> {
        match self.placement {
            NormPlacement::ResPost => Some(&self.norm),
            _ => self.after.as_ref(),
        }
    }
}
