//! The decoder of masked autoencoders (He et al. 2022, MAE, section 3 and appendix A.1): from the hidden states of visible
//! patches to the pixels of all patches.
//!
//! The states are projected onto the decoder's width, a learned mask token takes the place of each masked patch, fixed sines and
//! cosines of rows and columns are added, and blocks with a final norm and a linear map follow. The blocks are pre-norm; their
//! norms, biases and activation are those of the encoder. A class token passes through with position
//! zero, and its output is not read. The decoder belongs to the task; it is not part of the network that is used afterwards.

use super::vision::{Masks, PatchMasking};
use super::{BuildContext, VisionConfig};
use crate::kernel;
use crate::nn::attention::Visibility;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::DenseConfig;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::norm::NormConfig;
use crate::nn::pass::Pass;
use crate::nn::position::sinusoidal_2d::Sinusoidal2dConfig;
use crate::nn::position::{FROM_START, Position, PositionShape, Span};
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use crate::stack::{Stack, StackConfig, StackContext, StackShape};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// Name of the decoder: as a field of a task, in keys of random draws, and in readings.
pub const NAME: &str = "pixel_decoder";

/// Standard deviation of the mask token before training (He et al. 2022, released code).
const MASK_STD: f32 = 0.02;

/// The shape of a decoder beside an encoder of visible patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelDecoderShape {
    /// Number of blocks.
    pub n_layers: usize,
    /// Width of its residual stream, a multiple of 4 and of the number of heads.
    pub d_model: usize,
    /// Number of attention heads.
    pub n_heads: usize,
    /// Hidden width of its feed-forward layers.
    pub d_ff: usize,
}

impl PixelDecoderShape {
    /// Returns the blocks as the config of a separate vision network over all patches, also for plans.
    pub fn config(&self, encoder: &VisionConfig) -> VisionConfig {
        let (stack, depth) = (&encoder.stack, encoder.depth());
        let heads = stack.attention_of(&depth).heads();
        let first = stack.block(&depth, 0).feed_forward;
        let dense = first.iter().find_map(|layer| layer.as_dense());
        let own = dense.map_or_else(DenseConfig::default, |c| DenseConfig {
            activation: c.activation,
            bias: c.bias,
            ..DenseConfig::default()
        });
        let feed_forward = DenseConfig {
            d_ff: Some(self.d_ff),
            ..own
        };
        let attention = MultiHeadConfig {
            n_heads: self.n_heads,
            bias: heads.bias,
            key_bias: heads.key_bias,
            out_bias: heads.out_bias,
            ..MultiHeadConfig::default()
        };
        VisionConfig {
            n_layers: Some(self.n_layers),
            stack: StackConfig {
                d_model: self.d_model,
                norm: match stack.norm.is_none() {
                    true => NormConfig::default(),
                    false => stack.norm.clone(),
                },
                position: Sinusoidal2dConfig::default().into(),
                attention: attention.into(),
                feed_forward: feed_forward.into(),
                init: Some(stack.init_settings().scheme),
                ..StackConfig::default()
            },
            stem: encoder.stem.clone(),
            pooling: encoder.pooling,
            ..VisionConfig::default()
        }
    }

    /// Multiplications of a forward pass over an image `[channels, height, width]`; only masked patches are mapped to pixels.
    pub fn products(&self, encoder: &VisionConfig, image: [usize; 3], hidden: PatchMasking) -> f64 {
        let [channels, height, width] = image;
        let config = self.config(encoder);
        let positions = config.positions(height, width);
        let [rows, cols] = config.stem.grid(height, width);
        let (patches, wide) = (rows * cols, self.d_model as f64);
        let hidden_patches = patches.saturating_sub(hidden.visible(patches));
        let projected = (positions - hidden_patches) as f64 * encoder.stack.d_output() as f64;
        let size = encoder.stem.patch_size().unwrap_or(0);
        let pixels = (hidden_patches * channels * size * size) as f64;
        let blocks = config.stack.products(&config.depth(), positions, 0);
        blocks as f64 + (projected + pixels) * wide
    }

    /// Builds the decoder for an encoder that reads patches of images `[channels, height, width]`; its parameters are drawn at
    /// their first use. `None` if the encoder does not read patches.
    pub fn init(
        &self,
        encoder: &VisionConfig,
        image: [usize; 3],
        inputs: &BuildContext,
    ) -> Option<PixelDecoder> {
        let size = encoder.stem.patch_size()?;
        let [channels, height, width] = image;
        let config = self.config(encoder);
        let (stack, depth) = (&config.stack, config.depth());
        let blocks = depth.blocks();
        let (alpha, beta) = stack.norm_placement.alpha_beta(blocks);
        let init = Init::of_heads(inputs.device, inputs.seed, stack.init_settings());
        let init = init.part(NAME).with_residual_scaling(2 * blocks, beta);
        let context = config.positions(height, width);
        let position = PositionShape {
            grid: Some(config.grid(height, width)),
            ..stack.position_shape(&depth, context)
        };
        let shape = StackShape {
            config: stack,
            depth,
            alpha,
            context,
            d_memory: None,
        };
        let (d_encoder, d_model) = (encoder.stack.d_output(), self.d_model);
        let values = channels * size * size;
        Some(PixelDecoder {
            projection: Linear::new(
                d_encoder,
                d_model,
                true,
                MatrixRole::Inner,
                &init.part("projection"),
            ),
            mask_token: init.part("mask_token").normal([d_model], MASK_STD),
            position: stack.position.init(&position, &init.part("position")),
            stack: Stack::new(&shape, &init.part("stack")),
            head: Linear::new(d_model, values, true, MatrixRole::Head, &init.part("head")),
        })
    }
}

/// Places of the parameters of [`PixelDecoder`].
pub const ROLES: Roles = Roles::new(
    "PixelDecoder",
    &[
        ("projection", Declaration::Place(Place::Input)),
        ("mask_token", TABLE),
        ("mask_token", Declaration::Place(Place::Input)),
        ("position", Declaration::Place(Place::Position)),
        ("head", Declaration::Place(Place::Head)),
    ],
);

/// The blocks that reconstruct pixels from the states of visible patches.
#[derive(Module, Debug)]
pub struct PixelDecoder {
    /// Projection from the states' width to the blocks', `[d_model, d_encoder]`.
    pub projection: Linear,
    /// Mask token, `[d_model]`; takes the place of masked patches.
    pub mask_token: Param<Tensor<1>>,
    /// Fixed sines and cosines of rows and columns.
    pub position: Position,
    /// The blocks with the final norm.
    pub stack: Stack,
    /// Map to a patch's pixels, `[size·size·channels, d_model]`, ordered by row, column and channel.
    pub head: Linear,
}

impl PixelDecoder {
    /// Computes the states of all patches, `[batch, patches, d_model]`, from those of the visible patches and the tokens before
    /// them, `[batch, tokens + visible, d_encoder]`.
    pub fn forward(&self, seen: Tensor<3>, masks: &Masks, pass: &Pass) -> Tensor<3> {
        pass.in_network(NAME, || {
            let x = self.projection.forward(seen);
            let [batch, positions, d_model] = x.dims();
            let tokens = positions - masks.visible();
            let hidden = self.mask_token.val().cast(x.dtype());
            let hidden = hidden.reshape([1, d_model]);
            let filled = masks.restore_rows(tokens, &x.device());
            let rows = x.reshape([batch * positions, d_model]);
            let x = kernel::embedding(Tensor::cat(vec![rows, hidden], 0), filled);
            let x = self.position.embed(x, &FROM_START, pass);
            let context = StackContext {
                position: &self.position,
                token_positions: &FROM_START,
                span: Span::full(x.dims()[1]),
                visible: &Visibility::default(),
                state: None,
                memory: None,
                before_blocks: None,
                pass,
            };
            let x = self.stack.forward(x, context);
            let patches = x.dims()[1] - tokens;
            x.narrow(1, tokens, patches)
        })
    }

    /// Computes the pixels of some patches from their states: `[batch, n, size·size·channels]`, ordered by row, column and
    /// channel.
    pub fn pixels(&self, states: Tensor<3>) -> Tensor<3> {
        self.head.forward(states)
    }
}
