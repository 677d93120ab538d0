//! What a model is measured in: positions, items, blocks, convolutions.

use super::ModelConfig;
use super::resnet::Cost;
use crate::data::Shape;
use crate::nn::position::Grid;
use crate::stack::{Depth, ShareConfig};

impl ModelConfig {
    /// Positions that an input of this shape has, of a pair each side, of a network for images and one for texts both
    /// together; 1 of a network that has none.
    pub fn tokens(&self, shape: &Shape) -> usize {
        self.facts().positions(shape)
    }

    /// Positions of the stack that reads, of a network that reads recordings, for those of this shape.
    pub fn heard(&self, shape: &Shape) -> Option<usize> {
        self.facts().heard(shape.speech?)
    }

    /// What speed and cost are counted in.
    pub fn item(&self) -> ItemOf {
        self.facts().item()
    }

    /// The blocks of its stacks, by which learning rates fall with depth; `None` of a network without transformer blocks.
    pub fn stack_depths(&self) -> Option<StackDepths> {
        if let Some(stages) = self.facts().stages() {
            let blocks = stages.iter().copied().fold(0, usize::saturating_add);
            return Some(StackDepths {
                reads: blocks,
                writes: blocks,
                tokens: blocks,
                share: ShareConfig::default(),
                stages: stages.to_vec(),
            });
        }
        let [first, second] = self.transformer()?.stacks;
        let blocks = |depth: Option<Depth>| depth.map(|depth| depth.blocks());
        let reads = blocks(first).unwrap_or(0);
        let writes = blocks(second).unwrap_or(reads);
        let shared = matches!(self, Self::EncoderDecoder(c) if c.share_embeddings);
        Some(StackDepths {
            share: self.transformer()?.stack.share_layers,
            reads,
            writes,
            tokens: if shared { reads.max(writes) } else { writes },
            stages: Vec::new(),
        })
    }

    /// What the convolutions of an input of this shape cost.
    pub fn convolutions(&self, shape: &Shape) -> Cost {
        let of_images = self.facts().of_images();
        let network = of_images.and_then(|network| network.convolutions());
        match (network, shape.image) {
            (Some(network), Some(image)) => network.cost(image),
            _ => Cost::default(),
        }
    }

    /// The patches of an image of this height and width, or the places of a feature map, and the tokens before them; `None` of
    /// a network that reads no images.
    pub fn patches(&self, height: usize, width: usize) -> Option<(Grid, usize)> {
        let network = self.facts().of_images()?;
        Some(network.patches(height, width))
    }

    /// The names of the tokens before the patches of an image, in their order.
    pub fn tokens_before_patches(&self) -> Vec<String> {
        let network = self.facts().of_images();
        network.map_or_else(Vec::new, |network| network.tokens_before())
    }

    /// The side in pixels of patches that are multiplied by one matrix, where a network reads images so.
    pub fn patch_size(&self) -> Option<usize> {
        self.facts().of_images()?.patch_size()
    }

    /// Vectors of an image that another network looks at: its patches and the tokens before them but registers, or the places of a
    /// feature map; 0 of a network that reads none.
    pub fn sequence(&self, shape: &Shape) -> usize {
        let [_, height, width] = shape.image.unwrap_or_default();
        let patches = self.patches(height, width);
        let unread = self.facts().unplaced();
        patches.map_or(0, |(grid, before)| grid.rows * grid.cols + before - unread)
    }
}

/// Blocks of the stacks of a network; one stack counts as both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackDepths {
    /// Of that which reads.
    pub reads: usize,
    /// Of that which writes.
    pub writes: usize,
    /// Blocks above the table of the tokens that are written: those of the deeper stack where both read from it.
    pub tokens: usize,
    /// The layers of each that have parameters in common.
    pub share: ShareConfig,
    /// Those of each stage, of a network whose blocks stand in stages; empty elsewhere.
    pub stages: Vec<usize>,
}

/// What speed and cost are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOf {
    /// Tokens of a text.
    Token,
    /// Tokens of either side of a pair.
    Pair,
    /// Images.
    Image,
    /// Recordings.
    Recording,
}
