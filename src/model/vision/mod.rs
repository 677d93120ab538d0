//! The vision transformer (Dosovitskiy et al. 2021): an image as a sequence of patches, read by an encoder.
//!
//! z₀ = [x_class; x₁E; …; x_nE] + E_pos, then a bidirectional stack and a norm. The image's vector is the class token's
//! state, the mean over the patches, or the result of attention pooling. E multiplies a patch's pixels (channel, row,
//! column), as a convolution of the patch's size and stride would; a hybrid reads the positions of a residual network's
//! feature map instead.

pub mod attention_pooling;
mod facts;
mod local;
pub mod masked;
mod pooling;
mod stem;

use super::{BuildContext, Use, keys_replaced_by_groups};
use crate::nn::Kind;
use crate::nn::attention::Visibility;
use crate::nn::init::Init;
use crate::nn::norm::Norm;
use crate::nn::pass::Pass;
use crate::nn::position::{FROM_START, Grid, Position, PositionShape, Span};
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use crate::one_table::{is_usual, one_table};
use crate::stack::{Depth, LayerGroup, Stack, StackConfig, StackContext, StackShape};
use attention_pooling::AttentionPooling;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
pub use local::LocalViews;
pub use masked::{Masks, PatchMasking};
pub use pooling::Pooling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(super) use stem::patch_size_fault;
pub use stem::{Hybrid, Patches, PatchesConfig, STEMS, Stem, StemConfig};

/// Its entry in the list of model kinds.
pub const KIND: Kind = Kind {
    kind: "vision",
    summary: "vision transformer: an encoder over the patches of an image, or over a ResNet's feature map",
    source: "Dosovitskiy et al. 2021",
    example: "kind = \"vision\"\nn_layers = 6\nd_model = 192\nstem = { kind = \"patches\", size = 4 }",
};

/// Maximum number of registers.
const MAX_REGISTERS: usize = 1024;

/// The uses that it serves.
pub(super) const USES: &[Use] = &[Use::ImageClasses, Use::MaskedPatches, Use::ImageViews];

/// The settings of a vision transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct VisionConfig {
    /// Number of blocks; when absent, the total of the groups in `layers`, or 4 without groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<usize>,
    /// Groups of blocks that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerGroup>,
    /// The keys that all transformers share.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub stack: StackConfig,
    /// Stem that turns an image into a sequence of vectors.
    pub stem: StemConfig,
    /// Whether the sum of patch and position vectors is normalised (CLIP).
    /// Source: Radford et al. 2021, section 2.4.
    pub embedding_norm: bool,
    /// Pooling of an image's hidden states into one vector. Source: Dosovitskiy et al. 2021, section 3.1 and appendix D.3; Zhai
    /// et al. 2022, Scaling Vision Transformers.
    pub pooling: Pooling,
    /// Number of learned tokens between the class token and the patches, without positions, which no head and no other network
    /// reads.
    /// Source: Darcet et al. 2024, Vision Transformers Need Registers, section 2.3.
    #[schemars(range(max = MAX_REGISTERS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub n_registers: usize,
    /// Whether a distillation token with its own head, trained by a teacher, follows the class token; a trained model's scores
    /// are the mean of both heads'.
    /// Source: Touvron et al. 2021, section 4.
    pub distillation_token: bool,
}

impl Default for VisionConfig {
    fn default() -> Self {
        Self {
            n_layers: None,
            layers: Vec::new(),
            stack: StackConfig::default(),
            stem: StemConfig::default(),
            embedding_norm: false,
            pooling: Pooling::Class,
            n_registers: 0,
            distillation_token: false,
        }
    }
}

one_table!(VisionConfig, stack: StackConfig, |c| keys_replaced_by_groups(&[&c.layers]));

impl VisionConfig {
    /// Returns the depth of its stack.
    pub fn depth(&self) -> Depth<'_> {
        Depth {
            key: "n_layers",
            causal: false,
            n_layers: self.n_layers,
            groups_key: "layers",
            groups: &self.layers,
            cross: None,
            cross_in: None,
        }
    }

    /// Returns the grid of positions of an image of this height and width.
    pub fn grid(&self, height: usize, width: usize) -> Grid {
        let [rows, cols] = self.stem.grid(height, width);
        Grid {
            rows,
            cols,
            class_token: self.pooling.has_class_token(),
        }
    }

    /// Number of positions of an image of this height and width: its patches and all tokens before them.
    pub fn positions(&self, height: usize, width: usize) -> usize {
        self.placed(height, width) + self.n_registers
    }

    /// Number of these that the position scheme encodes: all except registers.
    pub fn placed(&self, height: usize, width: usize) -> usize {
        self.grid(height, width).positions() + usize::from(self.distillation_token)
    }

    /// Multiplications of a forward pass over an image. The class token needs no projection.
    pub fn image_products(&self, image: [usize; 3]) -> f64 {
        let [channels, height, width] = image;
        let grid = self.grid(height, width);
        let stem =
            self.stem.products(channels, self.stack.d_model) * (grid.rows * grid.cols) as f64;
        let network = self.stem.network().map_or(0.0, |c| c.cost(image).products);
        let positions = self.positions(height, width);
        let stack = self.stack.products(&self.depth(), positions, 0);
        let pooling = match self.pooling {
            Pooling::Class | Pooling::ClassAndMean | Pooling::Mean | Pooling::MeanThenNorm => 0,
            Pooling::Attention => attention_pooling::products(self, self.placed(height, width)),
        };
        network + stem + (stack + pooling) as f64
    }

    /// Builds the network for images of `[channels, height, width]`; its parameters are drawn at their first
    /// use.
    pub fn init(&self, [channels, height, width]: [usize; 3], inputs: &BuildContext) -> Vision {
        let (config, depth) = (&self.stack, self.depth());
        let (d_model, blocks) = (config.d_model, depth.blocks());
        let (alpha, beta) = config.norm_placement.alpha_beta(blocks);
        let init = &Init::new(
            inputs.device,
            inputs.seed,
            config.init_settings(),
            2 * blocks,
            beta,
        );
        let shape = StackShape {
            config,
            depth,
            alpha,
            context: self.positions(height, width),
            d_memory: None,
        };
        let grid = self.grid(height, width);
        let position = PositionShape {
            grid: Some(grid),
            ..config.position_shape(&depth, self.placed(height, width))
        };
        Vision {
            stem: self.stem.build(channels, d_model, &init.part("stem")),
            class_token: grid.class_token.then(|| init.vector(d_model, 0.0)),
            distillation_token: self.distillation_token.then(|| init.vector(d_model, 0.0)),
            registers: (self.n_registers > 0)
                .then(|| init.part("registers").table(self.n_registers, d_model)),
            position: config.position.init(&position, &init.part("position")),
            embedding_norm: self.embedding_norm.then(|| config.norm.init(d_model, init)),
            stack: Stack::new(&shape, &init.part("stack")),
            attention_pooling: match self.pooling {
                Pooling::Class | Pooling::ClassAndMean | Pooling::Mean | Pooling::MeanThenNorm => {
                    None
                }
                Pooling::Attention => {
                    let init = init.part(attention_pooling::PART);
                    Some(AttentionPooling::new(self, &init))
                }
            },
            pooled_norm: (self.pooling == Pooling::MeanThenNorm)
                .then(|| config.norm.init(d_model, &init.part("pooled_norm"))),
            pools_both: self.pooling == Pooling::ClassAndMean,
            dropout: config.dropouts().embedding,
        }
    }
}

/// Places of the parameters of [`Vision`].
pub const ROLES: Roles = Roles::new(
    "Vision",
    &[
        ("class_token", TABLE),
        ("class_token", Declaration::Place(Place::Input)),
        ("distillation_token", TABLE),
        ("distillation_token", Declaration::Place(Place::Input)),
        ("registers", TABLE),
        ("registers", Declaration::Place(Place::Input)),
        ("stem", Declaration::Place(Place::Input)),
        ("position", Declaration::Place(Place::Position)),
        ("embedding_norm", Declaration::Place(Place::Input)),
        ("attention_pooling", Declaration::Place(Place::Head)),
        ("pooled_norm", Declaration::Place(Place::Head)),
    ],
);

/// A vision transformer without a classifier.
#[derive(Module, Debug)]
pub struct Vision {
    /// The map from pixels to vectors.
    pub stem: Stem,
    /// The class token before the patches, `[d_model]`.
    pub class_token: Option<Param<Tensor<1>>>,
    /// The distillation token after the class token, `[d_model]`.
    pub distillation_token: Option<Param<Tensor<1>>>,
    /// The registers, `[registers, d_model]`: tokens without a position before the patches.
    pub registers: Option<Param<Tensor<2>>>,
    /// The position scheme.
    pub position: Position,
    /// The norm of the sum of patch and position vectors.
    pub embedding_norm: Option<Norm>,
    /// The blocks.
    pub stack: Stack,
    /// Attention pooling, if it is configured.
    pub attention_pooling: Option<AttentionPooling>,
    /// The norm of the mean over the patches, if pooling has one.
    pub pooled_norm: Option<Norm>,
    pools_both: bool,
    dropout: f64,
}

impl Vision {
    /// Computes hidden states after the last norm: `[batch, channels, height, width]` → `[batch, positions, d_model]`; the
    /// class token comes first.
    pub fn forward(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        self.run_blocks(self.placed(pixels, pass), pass)
    }

    /// Computes the blocks' input before dropout: tokens and patches with their positions, `[batch, positions, d_model]`.
    fn placed(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let x = self.embed_patches(pixels, pass);
        self.add_registers(self.position.embed(x, &FROM_START, pass))
    }

    /// Computes the vectors of patches and of tokens except registers, without positions.
    fn embed_patches(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<3> {
        let x = self.stem.forward(pixels, pass);
        let [batch, _, d_model] = x.dims();
        let tokens = [&self.class_token, &self.distillation_token];
        let mut parts: Vec<Tensor<3>> = tokens
            .into_iter()
            .flatten()
            .map(|token| token.val().reshape([1, 1, d_model]))
            .map(|token| token.expand([batch, 1, d_model]))
            .collect();
        match parts.is_empty() {
            true => x,
            false => {
                parts.push(x);
                Tensor::cat(parts, 1)
            }
        }
    }

    /// Adds registers and applies the embedding norm to vectors that have their positions.
    fn add_registers(&self, x: Tensor<3>) -> Tensor<3> {
        let x = self.with_registers(x);
        match &self.embedding_norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }

    /// Inserts the registers between the other tokens and the patches, if there are any.
    fn with_registers(&self, x: Tensor<3>) -> Tensor<3> {
        let Some(registers) = &self.registers else {
            return x;
        };
        let [batch, positions, d_model] = x.dims();
        let registers = registers.val().unsqueeze_dim::<3>(0);
        let count = registers.dims()[1];
        let mut parts = vec![registers.expand([batch, count, d_model])];
        let first = self.positioned_prefix_tokens();
        if first > 0 {
            parts.insert(0, x.clone().narrow(1, 0, first));
        }
        parts.push(x.narrow(1, first, positions - first));
        Tensor::cat(parts, 1)
    }

    /// Number of tokens before the patches that have a position.
    fn positioned_prefix_tokens(&self) -> usize {
        let tokens = [&self.class_token, &self.distillation_token];
        tokens.into_iter().flatten().count()
    }

    /// Number of tokens before the patches, including registers.
    fn prefix_tokens(&self) -> usize {
        let registers = self.registers.as_ref();
        let registers = registers.map_or(0, |registers| registers.val().dims()[0]);
        self.positioned_prefix_tokens() + registers
    }

    /// Runs the vectors of [`Self::placed`], or some of them, through dropout, the blocks and the last norm.
    fn run_blocks(&self, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
        let positions = x.dims()[1];
        let span = Span {
            queries: positions,
            keys: positions,
            offset: 0,
        };
        let x = pass.dropout(x, "embedding", self.dropout);
        let context = StackContext {
            position: &self.position,
            token_positions: &FROM_START,
            span,
            visible: &Visibility::default(),
            memory: None,
            before_blocks: None,
            state: None,
            pass,
        };
        self.stack.forward(x, context)
    }
}
