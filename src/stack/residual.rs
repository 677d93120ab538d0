//! Norm placement: the only place where a layer's result is added to the residual stream.
//!
//! post: LN(x+f(x)) (Vaswani et al. 2017) · pre: x+f(LN(x)) (Xiong et al. 2020) · sandwich: x+LN(f(LN(x))) (Ding et al.
//! 2021) · res_post: x+LN(f(x)) (Liu et al. 2022, Swin V2; OLMo 2) · parallel: x+a(LN(x))+m(LN(x)) (Wang and Komatsuzaki
//! 2021, GPT-J) · deepnorm: LN(αx+f(x)) with α = (2N)^¼ and β = (8N)^−¼ in a decoder or an encoder alone (Wang et al. 2022,
//! table 2): β is the gain of Xavier's initial weights of values, outputs and feed-forward layers, 1 that of queries and
//! keys.
//!
//! f may be scaled by learned numbers first ([`super::residual_scale`]); of parallel layers their sum is. With post x may be.

use super::residual_scale::admin::SkipScale;
use super::residual_scale::{ResidualScale, ResidualScaleConfig};
use crate::kernel;
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::norm::{NoNorm, Norm, NormConfig, scaled};
use crate::nn::pass::Pass;
use burn::module::Module;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a block normalises.
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
        summary: "LN(alpha x + f(x)), Xavier's initial weights with the gain beta",
        source: "Wang et al. 2022, DeepNet",
        example: "\"deepnorm\"",
    },
];

impl NormPlacement {
    /// The value of the key.
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

    /// Whether norms stand where a layer's result is, so that it means nothing without norms.
    pub fn needs_norm(self) -> bool {
        match self {
            Self::Pre | Self::Parallel => false,
            Self::Post | Self::Sandwich | Self::ResPost | Self::Deepnorm => true,
        }
    }

    /// Whether each result has the one norm of its layer, before the layer or behind it, and no factor: the two ways in which blocks stand in
    /// stages.
    pub fn norms_each_result_once(self) -> bool {
        match self {
            Self::Pre | Self::ResPost => true,
            Self::Post | Self::Sandwich | Self::Parallel | Self::Deepnorm => false,
        }
    }

    /// Whether norms stand behind sums whose stream has no factor of its own.
    pub fn normalises_plain_sums(self) -> bool {
        self == Self::Post
    }

    /// Whether a layer reads the stream through a norm, so that sums stay as they are.
    pub fn reads_through_norm(self) -> bool {
        match self {
            Self::Pre | Self::Sandwich | Self::Parallel => true,
            Self::Post | Self::ResPost | Self::Deepnorm => false,
        }
    }

    /// Whether each layer of a block has a norm of its own before it, so that the first one may lack it.
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

    /// Whether the stream leaves the last block unnormalised, so that a final norm belongs after it.
    pub fn wants_final_norm(self) -> bool {
        match self {
            Self::Pre | Self::Sandwich | Self::ResPost | Self::Parallel => true,
            Self::Post | Self::Deepnorm => false,
        }
    }

    /// DeepNorm's (α, β) for `n_layers` of a decoder or an encoder alone; (1, 1) elsewhere.
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
    /// DeepNorm's (α, β) of an encoder of `n` and a decoder of `m` layers (Wang et al. 2022, table 2); (1, 1)
    /// elsewhere.
    pub fn alpha_beta_of_both(self, n: usize, m: usize) -> [(f64, f64); 2] {
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

/// How a layer's result joins the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidualConfig {
    /// Dropout on each result.
    pub dropout: f64,
    /// DeepNorm's α.
    pub alpha: f64,
    /// By what each result is multiplied, or the stream that it joins.
    pub scale: ResidualScaleConfig,
}

impl ResidualConfig {
    /// Results join the stream as they are, but for this dropout.
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
    /// Before the layer, after the sum, or of the layer's result (res_post).
    pub norm: Norm,
    /// Of the layer's result, beside the one before the layer (sandwich).
    pub after: Option<Norm>,
    /// Of the layer's result, behind its norm.
    pub scale: Option<ResidualScale>,
    /// Of the stream that the result joins.
    pub skip: Option<SkipScale>,
    #[module(skip)]
    placement: NormPlacement,
    #[module(skip)]
    config: ResidualConfig,
}

impl Residual {
    /// A connection over vectors of `d_model` elements.
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

    /// The same connection, whose layer reads the stream as it is.
    #[must_use]
    pub fn unnormed(self) -> Self {
        Self {
            norm: Norm::None(NoNorm {}),
            ..self
        }
    }

    /// Where the norms stand.
    pub fn placement(&self) -> NormPlacement {
        self.placement
    }

    /// The layer's input, made of the stream `x` `[batch, seq, d_model]`.
    pub fn read(&self, x: Tensor<3>) -> Tensor<3> {
        match self.placement.reads_through_norm() {
            true => self.norm.forward(x),
            false => x,
        }
    }

    /// Runs `layer`, the block's part of that name, around the stream `x` `[batch, seq, d_model]`. A row skips it with the
    /// probability `drop_path`.
    pub fn around(
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
                let result = self.branch(x.clone(), part, drop_path, pass, layer);
                let x = match &self.skip {
                    Some(skip) => skip.forward(x, &result, pass),
                    None => x,
                };
                self.norm.forward_sum(x, result, alpha)
            }
            NormPlacement::Pre
            | NormPlacement::Sandwich
            | NormPlacement::ResPost
            | NormPlacement::Parallel => {
                let result = self.computed(x.clone(), part, pass, layer);
                let x = scaled(x, alpha);
                match drop_path > 0.0 {
                    true => kernel::add(x, self.dropped(result, part, drop_path, pass)),
                    false => pass.add_dropped(x, result, part, self.config.dropout),
                }
            }
        }
    }

    /// The result of `layer` for the stream `x` as it joins a stream: read, computed and dropped.
    pub fn branch(
        &self,
        x: Tensor<3>,
        part: &str,
        drop_path: f64,
        pass: &Pass,
        layer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let result = self.computed(x, part, pass, layer);
        self.dropped(result, part, drop_path, pass)
    }

    fn dropped(&self, result: Tensor<3>, part: &str, drop_path: f64, pass: &Pass) -> Tensor<3> {
        let result = pass.dropout(result, part, self.config.dropout);
        pass.drop_path(result, part, drop_path)
    }

    /// The result before it is dropped.
    fn computed(
        &self,
        x: Tensor<3>,
        part: &str,
        pass: &Pass,
        layer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let x = self.read(x);
        let result = pass.part(part, || layer(x));
        let result = match self.norm_of_result() {
            Some(norm) => norm.forward(result),
            None => result,
        };
        match &self.scale {
            Some(scale) => scale.forward(result),
            None => result,
        }
    }

    fn norm_of_result(&self) -> Option<&Norm> {
        match self.placement {
            NormPlacement::ResPost => Some(&self.norm),
            _ => self.after.as_ref(),
        }
    }
}
