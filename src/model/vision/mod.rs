//! The vision transformer (Dosovitskiy et al. 2021): an image as a sequence of patches, read by an encoder.
//!
//! z₀ = [x_class; x₁E; …; x_nE] + E_pos, then a stack that sees everything, a norm, and of that the class token's
//! state or the mean over the patches. E multiplies the patch's pixels (channel, row, column), as a convolution
//! of the patch's size and stride would; a hybrid reads the places of a residual network's feature map instead.

mod stem;

use super::{Keys, ModelInputs};
use crate::nn::Kind;
use crate::nn::attention::{AttentionConfig, Visibility};
use crate::nn::feed_forward::FeedForwardConfig;
use crate::nn::init::{Init, InitConfig};
use crate::nn::norm::NormConfig;
use crate::nn::pass::Pass;
use crate::nn::position::{Grid, Places, Position, PositionConfig, Span};
use crate::stack::{NormPlacement, Stack, StackContext};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
pub use stem::{Hybrid, Patches, PatchesConfig, STEMS, Stem, StemConfig};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "vision",
    summary: "vision transformer: an encoder over the patches of an image, or over a ResNet's feature map",
    source: "Dosovitskiy et al. 2021",
    example: "kind = \"vision\"\nn_layers = 6\nd_model = 192\nstem = { kind = \"patches\", size = 4 }",
};

/// The knobs of a vision transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VisionConfig {
    /// Number of blocks.
    pub n_layers: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// How an image becomes a sequence.
    pub stem: StemConfig,
    /// What stands for the whole image.
    pub pooling: Pooling,
    /// Every norm of the blocks.
    pub norm: NormConfig,
    /// Where norms stand.
    pub norm_placement: NormPlacement,
    /// Whether a norm follows the last block; as the placement wants it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<bool>,
    /// Whether parallel layers share one norm or have one each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_parallel_norm: Option<bool>,
    /// How the model knows where a patch stands.
    pub position: PositionConfig,
    /// Every attention.
    pub attention: AttentionConfig,
    /// Every feed-forward layer.
    pub feed_forward: FeedForwardConfig,
    /// Every dropout that has no key of its own.
    pub dropout: f64,
    /// Dropout on the embedded patches; `dropout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_embedding: Option<f64>,
    /// Dropout on attention weights; `dropout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_attention: Option<f64>,
    /// Dropout on each layer's result; `dropout` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_residual: Option<f64>,
    /// Probability that a row skips a layer, rising linearly to this at the last one.
    pub drop_path: f64,
    /// How the initial weights are drawn; class tokens start at 0, convolutions as in He et al. 2015.
    pub init: InitConfig,
}

impl Default for VisionConfig {
    fn default() -> Self {
        Self {
            n_layers: 6,
            d_model: 192,
            stem: StemConfig::default(),
            pooling: Pooling::Class,
            norm: NormConfig::default(),
            norm_placement: NormPlacement::Pre,
            final_norm: None,
            shared_parallel_norm: None,
            position: PositionConfig::default(),
            attention: AttentionConfig::default(),
            feed_forward: FeedForwardConfig::default(),
            dropout: 0.0,
            dropout_embedding: None,
            dropout_attention: None,
            dropout_residual: None,
            drop_path: 0.0,
            init: InitConfig::default(),
        }
    }
}

/// What stands for the whole image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// A token of its own, before the patches.
    Class,
    /// The mean over the patches (Beyer et al. 2022).
    Mean,
}

impl VisionConfig {
    /// What it has in common with other transformers.
    pub fn keys(&self) -> Keys<'_> {
        Keys {
            n_layers: [Some(("n_layers", self.n_layers)), None],
            d_model: self.d_model,
            norm: &self.norm,
            norm_placement: self.norm_placement,
            final_norm: self.final_norm,
            shared_parallel_norm: self.shared_parallel_norm,
            embedding_norm: false,
            position: &self.position,
            attention: &self.attention,
            feed_forward: &self.feed_forward,
            dropout: self.dropout,
            own_dropouts: [
                self.dropout_embedding,
                self.dropout_attention,
                self.dropout_residual,
            ],
            drop_path: self.drop_path,
            init: &self.init,
        }
    }

    /// The positions of an image of this height and width.
    pub fn grid(&self, height: usize, width: usize) -> Grid {
        let [rows, cols] = self.stem.grid(height, width);
        Grid {
            rows,
            cols,
            class_token: self.pooling == Pooling::Class,
        }
    }

    /// Builds the network for images of `[channels, height, width]`; its parameters are drawn when they are first
    /// used.
    pub fn init(&self, [channels, height, width]: [usize; 3], inputs: &ModelInputs) -> Vision {
        let keys = self.keys();
        let (alpha, beta) = self.norm_placement.alpha_beta(self.n_layers);
        let init = &Init::new(
            inputs.device,
            inputs.seed,
            &self.init,
            2 * self.n_layers,
            beta,
        );
        let shape = keys.stack(self.n_layers, alpha);
        let grid = self.grid(height, width);
        let mut position = keys.position_shape(self.n_layers, grid.positions(), false);
        position.grid = Some(grid);
        Vision {
            stem: self.stem.build(channels, self.d_model, &init.of("stem")),
            class_token: grid.class_token.then(|| init.vector(self.d_model, 0.0)),
            position: self.position.init(&position, &init.of("position")),
            stack: Stack::new(&shape, &init.of("stack")),
            dropout: shape.dropout.embedding,
        }
    }
}

/// A vision transformer without a classifier.
#[derive(Module, Debug)]
pub struct Vision {
    /// From pixels to vectors.
    pub stem: Stem,
    /// `[d_model]`, stands before the patches.
    pub class_token: Option<Param<Tensor<1>>>,
    /// How the model knows where a patch stands.
    pub position: Position,
    /// The blocks.
    pub stack: Stack,
    dropout: f64,
}

impl Vision {
    /// Hidden states `[batch, positions, d_model]` of `[batch, channels, height, width]` after the last norm; the
    /// class token's come first.
    pub fn forward(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let x = self.stem.forward(pixels, pass);
        let [batch, _, d_model] = x.dims();
        let x = match &self.class_token {
            Some(token) => {
                let token = token.val().reshape([1, 1, d_model]);
                Tensor::cat(vec![token.expand([batch, 1, d_model]), x], 1)
            }
            None => x,
        };
        let (positions, device) = (x.dims()[1], x.device());
        let scheme = self.position.scheme();
        let places = Places {
            offset: 0,
            ids: None,
        };
        let span = Span {
            queries: positions,
            keys: positions,
            offset: 0,
        };
        let x = pass.dropout(scheme.embed(x, &places), self.dropout);
        let context = StackContext {
            scheme,
            places: &places,
            prepared: &scheme.prepare(span, &device),
            visible: &Visibility::default(),
            memory: None,
            cache: None,
            pass,
        };
        self.stack.forward(x, context)
    }

    /// What stands for each image: hidden states `[batch, positions, d_model]` → `[batch, d_model]`.
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        let [batch, _, d_model] = hidden.dims();
        let one = match self.class_token {
            Some(_) => hidden.narrow(1, 0, 1),
            None => hidden.mean_dim(1),
        };
        one.reshape([batch, d_model])
    }
}
