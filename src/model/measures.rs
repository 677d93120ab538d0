//! Measures of a model's size and input: positions, items, blocks, convolutions.

use super::ModelConfig;
use super::resnet::ConvolutionCost;
use crate::data::Shape;
use crate::nn::position::Grid;
use crate::stack::{Depth, ShareConfig};

impl ModelConfig {
    /// Number of positions of an input of this shape: those of each side for a pair, the sum for an image and a text network, 1
    /// for a network without positions.
    pub fn tokens(&self, shape: &Shape) -> usize {
        self.facts().positions(shape)
    }

    /// Number of encoder positions for audio clips of this shape, if the network reads audio.
    pub fn encoder_positions(&self, shape: &Shape) -> Option<usize> {
        self.facts().encoder_positions(shape.speech?)
    }

    /// The item in which speed and cost are counted.
    pub fn throughput_unit(&self) -> ThroughputUnit {
        self.facts().throughput_unit()
    }

    /// Number of blocks of its stacks, for learning rates that fall with depth; `None` for a network without transformer blocks.
    pub fn stack_depths(&self) -> Option<StackDepths> {
        if let Some(stages) = self.facts().stages() {
            let blocks = stages.iter().copied().fold(0, usize::saturating_add);
            return Some(StackDepths {
                encoder: blocks,
                decoder: blocks,
                tokens: blocks,
                sharing: ShareConfig::default(),
                stages: stages.to_vec(),
            });
        }
        let [first, second] = self.transformer()?.stacks;
        let blocks = |depth: Option<Depth>| depth.map(|depth| depth.blocks());
        let reads = blocks(first).unwrap_or(0);
        let writes = blocks(second).unwrap_or(reads);
        let shared = matches!(self, Self::EncoderDecoder(c) if c.share_embeddings);
        Some(StackDepths {
            sharing: self.transformer()?.stack.share_layers,
            encoder: reads,
            decoder: writes,
            tokens: if shared { reads.max(writes) } else { writes },
            stages: Vec::new(),
        })
    }

    /// Cost of the convolutions for an input of this shape.
    pub fn convolution_cost(&self, shape: &Shape) -> ConvolutionCost {
        let of_images = self.facts().image_facts();
        let network = of_images.and_then(|network| network.convolutions());
        match (network, shape.image) {
            (Some(network), Some(image)) => network.cost(image),
            _ => ConvolutionCost::default(),
        }
    }

    /// The grid of patches (or of feature map positions) of an image of this height and width, and the number of tokens before
    /// them; `None` if the network reads no images.
    pub fn patches(&self, height: usize, width: usize) -> Option<(Grid, usize)> {
        let network = self.facts().image_facts()?;
        Some(network.patches(height, width))
    }

    /// The names of the tokens before the patches of an image, in their order.
    pub fn prefix_token_names(&self) -> Vec<String> {
        let network = self.facts().image_facts();
        network.map_or_else(Vec::new, |network| network.prefix_token_names())
    }

    /// Side in pixels of the patches, if patches are embedded by one matrix.
    pub fn patch_size(&self) -> Option<usize> {
        self.facts().image_facts()?.patch_size()
    }

    /// Number of vectors of an image that another network reads: patches and the tokens before them, without registers, or the
    /// positions of a feature map; 0 if the network reads no images.
    pub fn image_vectors(&self, shape: &Shape) -> usize {
        let [_, height, width] = shape.image.unwrap_or_default();
        let patches = self.patches(height, width);
        let unread = self.facts().tokens_without_position();
        patches.map_or(0, |(grid, before)| grid.rows * grid.cols + before - unread)
    }
}

/// Number of blocks in the stacks of a network; a single stack counts as both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackDepths {
    /// Blocks of the encoder.
    pub encoder: usize,
    /// Blocks of the decoder.
    pub decoder: usize,
    /// Blocks above the embedding table of the target tokens; if both stacks share it, those of the deeper one.
    pub tokens: usize,
    /// The layers of each stack that share parameters.
    pub sharing: ShareConfig,
    /// Blocks of each stage, for a network whose blocks form stages; empty otherwise.
    pub stages: Vec<usize>,
}

/// The item in which speed and cost are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThroughputUnit {
    /// Tokens of a text.
    Token,
    /// Tokens of a pair, on either side.
    Pair,
    /// Images.
    Image,
    /// Audio clips.
    Recording,
}
