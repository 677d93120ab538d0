//! The shape of a Swin Transformer: its settings, its stages, and their cost.

use super::bias::{self, PositionBias};
use super::cosines::Scores;
use crate::model::Use;
use crate::nn::attention::AttentionConfig;
use crate::nn::attention::multi_head::MultiHeadConfig;
use crate::nn::feed_forward::{Activation, DenseConfig};
use crate::nn::init::InitConfig;
use crate::nn::norm::NormConfig;
use crate::one_table::is_usual;
use crate::stack::NormPlacement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The uses that it serves.
pub(in crate::model) const USES: &[Use] = &[Use::ImageClasses];

/// Maximum number of stages.
pub(super) const MAX_STAGES: usize = 8;
/// Maximum number of blocks in all stages.
pub(super) const MAX_BLOCKS: usize = 1024;
/// Maximum width of the last stage.
pub(super) const MAX_FEATURES: usize = 1 << 20;
/// Maximum side of a window in patches.
pub(super) const MAX_WINDOW: usize = 256;

/// The settings of a Swin Transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwinConfig {
    /// Side of a patch in pixels, a divisor of the image's height and width. Source: Liu et al. 2021, section 3.1.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub patch_size: usize,
    /// Side of a window in patches. In a stage whose map has a side of this or less, the window's side is the map's shorter side,
    /// and no block shifts it. Source: Liu et al. 2021, section 3.2.
    #[schemars(range(min = 1, max = MAX_WINDOW))]
    pub window: usize,
    /// Number of blocks in each stage; every second one shifts its windows. Each stage except the first has half the rows and
    /// columns of the one before it, and twice its width. Source: Liu et al. 2021, section 3.3.
    pub stages: Vec<usize>,
    /// Width of the first stage. Source: Liu et al. 2021, section 3.3.
    #[schemars(range(min = 1, max = MAX_FEATURES))]
    pub d_model: usize,
    /// Number of heads of each stage, a divisor of its width. Source: Liu et al. 2021, section 3.3.
    pub n_heads: Vec<usize>,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether keys have a bias, if queries and values do. Source: Liu et al. 2022, Swin V2, released code.
    #[serde(skip_serializing_if = "crate::one_table::is_true")]
    pub key_bias: bool,
    /// Score of a query and a key. Source: Liu et al. 2022, Swin V2, section 3.2.
    #[serde(skip_serializing_if = "is_usual")]
    pub scores: Scores,
    /// Source of the position bias in a window. Source: Liu et al. 2022, Swin V2, section 3.3.
    #[serde(skip_serializing_if = "is_usual")]
    pub position_bias: PositionBias,
    /// Window sides that the network of distances was trained with, one for each stage; 0 (and an empty list) means the stage's
    /// own windows. Source: Liu et al. 2022, Swin V2, released code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trained_windows: Vec<usize>,
    /// Norm placement: "pre", or "res_post", with which the norms of merged positions also come after their linear map.
    /// Source: Liu et al. 2022, Swin V2, section 3.2.
    #[serde(skip_serializing_if = "is_usual")]
    pub norm_placement: NormPlacement,
    /// Ratio of the feed-forward layers' hidden width to their stage's width. Source: Liu et al. 2021, section 3.3.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub ff_ratio: f64,
    /// Activation of the feed-forward layers.
    pub activation: Activation,
    /// Settings of every norm layer.
    pub norm: NormConfig,
    /// Dropout on the patch vectors and on each layer's output.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Dropout on attention weights; `dropout` when absent.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout_attention: Option<f64>,
    /// Probability that an image skips a layer, rising linearly to this value at the last block. Source: Huang et al. 2016,
    /// section 3; Liu et al. 2021, appendix A2.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub drop_path: f64,
    /// How the initial weights are drawn. Source: Liu et al. 2021, released code.
    pub init: InitConfig,
}

impl Default for SwinConfig {
    fn default() -> Self {
        Self {
            patch_size: 4,
            window: 7,
            stages: vec![2, 2, 6, 2],
            d_model: 96,
            n_heads: vec![3, 6, 12, 24],
            qkv_bias: true,
            key_bias: true,
            scores: Scores::default(),
            position_bias: PositionBias::default(),
            trained_windows: Vec::new(),
            norm_placement: NormPlacement::default(),
            ff_ratio: 4.0,
            activation: Activation::Gelu,
            norm: NormConfig::default(),
            dropout: 0.0,
            dropout_attention: None,
            drop_path: 0.0,
            init: InitConfig::truncated_normal(),
        }
    }
}

/// The shape of a stage for images of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageShape {
    /// Number of its blocks.
    pub blocks: usize,
    /// Number of blocks in the stages before it.
    pub blocks_before: usize,
    /// Width of its vectors.
    pub width: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Rows and columns of its map.
    pub map: [usize; 2],
    /// Side of its windows in positions of the map.
    pub window: usize,
    /// Whether no window is shifted: one side of the map is no longer than a window.
    pub unshifted: bool,
    /// Whether its positions are merged, four to one, for a following stage.
    pub merges: bool,
}

impl StageShape {
    /// Rows and columns of the map, padded to whole windows.
    pub fn padded_map(&self) -> [usize; 2] {
        self.map.map(|side| side.next_multiple_of(self.window))
    }

    /// Number of windows of the map.
    pub fn windows(&self) -> usize {
        let [rows, cols] = self.padded_map();
        (rows / self.window) * (cols / self.window)
    }

    /// Shift of the windows of a block, by the block's number in the stage.
    pub fn shift(&self, block: usize) -> usize {
        match self.unshifted || block.is_multiple_of(2) {
            true => 0,
            false => self.window / 2,
        }
    }

    /// Rows and columns of the following stage's map.
    pub fn merged_map(&self) -> [usize; 2] {
        self.map.map(|side| side.div_ceil(2))
    }
}

impl SwinConfig {
    /// Width of the last stage.
    pub fn features(&self) -> usize {
        self.width(self.stages.len().saturating_sub(1))
    }

    /// Width of a stage.
    pub fn width(&self, stage: usize) -> usize {
        self.d_model.saturating_mul(1 << stage.min(20))
    }

    /// Rows and columns of patches of an image of this height and width.
    pub fn first_map(&self, height: usize, width: usize) -> [usize; 2] {
        [height, width].map(|side| side / self.patch_size.max(1))
    }

    /// Rows and columns of the last map of an image of this height and width.
    pub fn last_map(&self, height: usize, width: usize) -> [usize; 2] {
        let merges = self.stages.len().saturating_sub(1).min(40);
        // ⌈⌈n/2⌉/2⌉ = ⌈n/4⌉.
        self.first_map(height, width)
            .map(|side| side.div_ceil(1 << merges))
    }

    /// Number of blocks in all stages.
    pub fn blocks(&self) -> usize {
        self.stages.iter().copied().fold(0, usize::saturating_add)
    }

    /// Returns the stages' shapes for images of this height and width.
    pub fn shapes(&self, height: usize, width: usize) -> Vec<StageShape> {
        let (mut map, mut before) = (self.first_map(height, width), 0);
        let shape = |(stage, blocks): (usize, &usize)| {
            let [rows, cols] = map;
            let side = rows.min(cols).max(1);
            let shape = StageShape {
                blocks: *blocks,
                blocks_before: before,
                width: self.width(stage),
                heads: self.n_heads.get(stage).copied().unwrap_or(1),
                map,
                window: self.window.clamp(1, side),
                unshifted: side <= self.window,
                merges: stage + 1 < self.stages.len(),
            };
            (map, before) = (shape.merged_map(), before.saturating_add(*blocks));
            shape
        };
        self.stages.iter().enumerate().map(shape).collect()
    }

    /// Dropout on attention weights.
    pub fn attention_dropout(&self) -> f64 {
        self.dropout_attention.unwrap_or(self.dropout)
    }

    /// Probability that an image skips a layer of a block, counted over all stages.
    pub fn path_at(&self, block: usize) -> f64 {
        self.drop_path * block as f64 / (self.blocks().max(2) - 1) as f64
    }

    /// Window side that a stage's network of distances was trained with; 0 for its own.
    pub(super) fn pretrained_window(&self, stage: usize) -> usize {
        self.trained_windows.get(stage).copied().unwrap_or(0)
    }

    /// Returns the attention config of a stage with this many heads.
    pub(super) fn heads(&self, heads: usize) -> MultiHeadConfig {
        MultiHeadConfig {
            n_heads: heads,
            bias: self.qkv_bias,
            key_bias: Some(self.qkv_bias && self.key_bias),
            out_bias: Some(true),
            ..MultiHeadConfig::default()
        }
    }

    /// Returns the feed-forward config of a stage of this width.
    pub(super) fn feed_forward(&self, width: usize) -> DenseConfig {
        DenseConfig {
            d_ff: Some((self.ff_ratio * width as f64) as usize),
            activation: self.activation,
            ..DenseConfig::default()
        }
    }

    /// Multiplications of a forward pass over an image of `[channels, height, width]`.
    pub fn image_products(&self, [channels, height, width]: [usize; 3]) -> f64 {
        let [rows, cols] = self.first_map(height, width);
        let of_patch = channels * self.patch_size * self.patch_size * self.d_model;
        let stages = self.shapes(height, width).into_iter().map(|stage| {
            let [below, beside] = stage.merged_map();
            let merging = match stage.merges {
                true => (below * beside) as u128 * 8 * (stage.width as u128).pow(2),
                false => 0,
            };
            self.stage_products(&stage) + merging
        });
        (rows * cols) as f64 * of_patch as f64 + stages.sum::<u128>() as f64
    }

    /// Multiplications of the blocks of all stages.
    pub(super) fn block_products(&self, height: usize, width: usize) -> f64 {
        let stages = self.shapes(height, width).into_iter();
        let each = stages.map(|stage| self.stage_products(&stage));
        each.sum::<u128>() as f64
    }

    /// Multiplications of the blocks of a stage.
    fn stage_products(&self, stage: &StageShape) -> u128 {
        let d = stage.width;
        let places = (stage.map[0] * stage.map[1]) as u128;
        let attention = AttentionConfig::from(self.heads(stage.heads));
        let keys = stage.window * stage.window;
        let attention = stage.windows() as u128 * attention.products(d, keys, false);
        let biases = bias::products(self.position_bias, stage);
        stage.blocks as u128 * (attention + biases + places * self.feed_forward(d).products(d))
    }

    /// Elements kept for the backward pass for an image of this height and width: all of each block; with `recompute`, only each
    /// block's input, plus all of the largest block.
    pub(super) fn image_activations(&self, height: usize, width: usize, recompute: bool) -> u128 {
        let stages = self.shapes(height, width).into_iter().map(|stage| {
            let d = stage.width;
            let places = |[rows, cols]: [usize; 2]| (rows * cols) as u128;
            let filled = places(stage.padded_map());
            let attention = AttentionConfig::from(self.heads(stage.heads)).kept(d);
            // The copies that cutting into windows and joining them make.
            let moved = 2 * d as u128;
            // The normalised queries and keys.
            let unit = match self.scores {
                Scores::Products => 0,
                Scores::Cosines => 4 * d as u128,
            };
            let block =
                6 * d as u128 + moved + unit + attention + self.feed_forward(d).activations(d);
            let merging = match stage.merges {
                true => 2 * d as u128,
                false => 0,
            };
            let (each, once) = match recompute {
                true => (places(stage.map) * d as u128, filled * block),
                false => (filled * block, 0),
            };
            (stage.blocks as u128 * each + filled * merging, once)
        });
        let (kept, once) = stages.fold((0, 0), |(sum, most), (kept, once)| {
            (sum + kept, once.max(most))
        });
        kept + once
    }
}
