//! The Perceiver resampler: reduces any number of an image's vectors to a fixed number of latents (Alayrac et al. 2022, Flamingo,
//! section 2.1 and appendix A.1.1; Jaegle et al. 2021, Perceiver).
//!
//! ```text
//! l ← l + attention(norm(l), [norm(image); norm(l)])      l ← l + feed_forward(norm(l))
//! ```
//!
//! in each layer, starting from learned latents, with a norm at the end. Latents are the queries; keys and values are computed
//! from both the image and the latents.

use crate::faults::{MAX_WIDTH, TableFaults};
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::attention::{Attention, AttentionConfig, AttentionShape};
use crate::nn::feed_forward::{Activation, DenseConfig, FeedForward, FeedForwardConfig};
use crate::nn::init::Init;
use crate::nn::layer::{BlockShape, LayerContext};
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use crate::stack::residual::{Residual, ResidualConfig};
use crate::stack::{Dropout, NormPlacement};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of layers.
const MAX_LAYERS: usize = 1_000;

/// The settings of a resampler. Its width, dropouts and initial weights are those of the image network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResamplerConfig {
    /// Number of latents, the vectors that represent an image. Source: Alayrac et al. 2022, appendix A.1.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub n_latents: usize,
    /// Number of layers. Source: Alayrac et al. 2022, table 3.
    #[schemars(range(min = 1, max = MAX_LAYERS))]
    pub n_layers: usize,
    /// The attention of every layer.
    pub attention: AttentionConfig,
    /// The feed-forward layer of every layer.
    pub feed_forward: FeedForwardConfig,
    /// Settings of every norm layer.
    pub norm: NormConfig,
}

impl Default for ResamplerConfig {
    fn default() -> Self {
        Self {
            n_latents: 64,
            n_layers: 6,
            attention: MultiHeadConfig {
                n_heads: 8,
                bias: false,
                ..MultiHeadConfig::default()
            }
            .into(),
            feed_forward: DenseConfig {
                activation: Activation::ReluSquared,
                bias: false,
                ..DenseConfig::default()
            }
            .into(),
            norm: NormConfig::default(),
        }
    }
}

impl ResamplerConfig {
    /// Checks its keys, over vectors of `d` elements.
    pub(super) fn faults(&self, d: usize, at: &mut TableFaults) {
        at.count("n_latents", self.n_latents, MAX_WIDTH);
        at.count("n_layers", self.n_layers, MAX_LAYERS);
        at.nested("attention", |at| self.attention.faults_across(Some(d), at));
        at.nested("feed_forward", |at| {
            self.feed_forward.faults(at);
            if self.feed_forward.reads_earlier_positions() {
                let kind = self.feed_forward.kind();
                let rule = format!(
                    "kind = \"{kind}\" reads from left to right, but latents have no order; use dense, gated or moe"
                );
                at.fault(&["kind"], rule);
            }
        });
        at.nested("norm", |at| self.norm.faults(at));
    }

    /// Multiplications of a forward pass over `read` vectors of `d` elements.
    pub(super) fn products(&self, d: usize, read: usize) -> u128 {
        let latents = self.n_latents;
        let attention = self.attention.products_across(d, latents, read + latents);
        let feed_forward = latents as u128 * self.feed_forward.products(d);
        self.n_layers as u128 * (attention + feed_forward)
    }

    /// Elements kept for the backward pass over `read` vectors of `d` elements.
    pub(super) fn activations(&self, d: usize, read: usize) -> u128 {
        let (width, latents) = (d as u128, self.n_latents as u128);
        let attention = self.attention.kept(d);
        let of_latents = latents * (6 * width + attention + self.feed_forward.activations(d));
        let of_image = (read as u128 + latents) * (2 * width + attention);
        (self.n_layers as u128).saturating_mul(of_latents + of_image)
    }
}

/// Places of the parameters of [`Resampler`].
pub const ROLES: Roles = Roles::new(
    "Resampler",
    &[
        ("latents", TABLE),
        ("latents", Declaration::Place(Place::Input)),
        ("layers", Declaration::Place(Place::Blocks)),
        ("final_norm", Declaration::Place(Place::Head)),
    ],
);

/// Places of the parameters of [`ResamplerLayer`].
pub const LAYER_ROLES: Roles = Roles::new(
    "ResamplerLayer",
    &[
        ("image_norm", Declaration::Place(Place::Mixer)),
        ("attention", Declaration::Place(Place::Mixer)),
        ("attention_residual", Declaration::Place(Place::Mixer)),
        ("feed_forward", Declaration::Place(Place::FeedForward)),
        (
            "feed_forward_residual",
            Declaration::Place(Place::FeedForward),
        ),
    ],
);

/// A Perceiver resampler.
#[derive(Module, Debug)]
pub struct Resampler {
    /// The learned latents, `[n_latents, d]`.
    pub latents: Param<Tensor<2>>,
    /// The layers in order of computation.
    pub layers: Vec<ResamplerLayer>,
    /// The norm after the last layer.
    pub final_norm: Norm,
}

/// One layer of a resampler.
#[derive(Module, Debug)]
pub struct ResamplerLayer {
    /// The norm of the image's vectors.
    pub image_norm: Norm,
    /// Attention with queries from the latents, keys and values from image and latents.
    pub attention: Attention,
    /// The residual connection around attention, with the norm of the latents.
    pub attention_residual: Residual,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
    /// The residual connection around the feed-forward layer.
    pub feed_forward_residual: Residual,
}

impl Resampler {
    /// Builds the resampler of vectors of `d` elements.
    pub(super) fn new(config: &ResamplerConfig, d: usize, dropouts: &Dropout, init: &Init) -> Self {
        let layer = |number: usize| {
            let init = init.part(&number.to_string());
            ResamplerLayer::new(config, d, dropouts, number, &init)
        };
        Self {
            latents: init.part("latents").table(config.n_latents, d),
            layers: (0..config.n_layers).map(layer).collect(),
            final_norm: config.norm.init(d, init),
        }
    }

    /// Resamples an image's vectors: `[batch, vectors, d]` → `[batch, n_latents, d]`.
    pub fn forward(&self, image: &Tensor<3>, pass: &Pass) -> Tensor<3> {
        let [batch, _, d] = image.dims();
        let latents = self.latents.val();
        let [count, _] = latents.dims();
        let mut x = latents.cast(image.dtype()).unsqueeze_dim::<3>(0);
        x = x.expand([batch, count, d]);
        for (number, layer) in self.layers.iter().enumerate() {
            x = pass.in_block(format_args!("layers.{number}"), || {
                layer.forward(x.clone(), image, number, pass)
            });
        }
        self.final_norm.forward(x)
    }
}

impl ResamplerLayer {
    fn new(
        config: &ResamplerConfig,
        d: usize,
        dropouts: &Dropout,
        number: usize,
        init: &Init,
    ) -> Self {
        let joined = ResidualConfig::plain(dropouts.residual);
        let residual = || Residual::new(NormPlacement::default(), &config.norm, d, joined, init);
        let attends = AttentionShape {
            dropout: dropouts.attention,
            ..AttentionShape::standalone(d, 0)
        };
        let block = BlockShape {
            d_model: d,
            layer: number,
            blocks: config.n_layers,
            makes_first_values: false,
        };
        let feed_forward = &config.feed_forward;
        Self {
            image_norm: config.norm.init(d, init),
            attention: config.attention.init(&attends, &init.part("attention")),
            attention_residual: residual(),
            feed_forward: feed_forward.init(
                &block,
                dropouts.feed_forward,
                &init.part("feed_forward"),
            ),
            feed_forward_residual: residual(),
        }
    }

    fn forward(&self, x: Tensor<3>, image: &Tensor<3>, number: usize, pass: &Pass) -> Tensor<3> {
        let count = x.dims()[1];
        let x = self
            .attention_residual
            .apply(x, "cross_attention", 0.0, pass, |latents| {
                let image = self.image_norm.forward(image.clone());
                let memory = Tensor::cat(vec![image, latents.clone()], 1);
                let mut cx = LayerContext::standalone(memory.dims()[1], pass);
                (cx.layer, cx.owner) = (number, number);
                cx.span.queries = count;
                cx.memory = Some(&memory);
                self.attention.layer().forward(latents, &mut cx)
            });
        self.feed_forward_residual
            .apply(x, "feed_forward", 0.0, pass, |x| {
                let mut cx = LayerContext::standalone(count, pass);
                self.feed_forward.layer().forward(x, &mut cx)
            })
    }
}
