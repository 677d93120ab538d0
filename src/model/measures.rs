//! What a model is measured in: positions, items, blocks, convolutions.

use super::ModelConfig;
use super::resnet::Cost;
use crate::data::Shape;
use crate::stack::{Depth, ShareConfig};

impl ModelConfig {
    /// Positions that an input of this shape has, of a pair each side, of a network for images and one for texts both together; 1 of a network that has
    /// none.
    pub fn tokens(&self, shape: &Shape) -> usize {
        let [_, height, width] = shape.image.unwrap_or_default();
        match self {
            Self::Decoder(_) | Self::Encoder(_) | Self::EncoderDecoder(_) | Self::Recurrent(_) => {
                shape.context
            }
            Self::Vision(c) => c.positions(height, width),
            Self::Resnet(_) => 1,
            Self::TwoTowers(_) | Self::VisionLanguage(_) => {
                let networks = self.networks().into_iter();
                networks.fold(0, |sum: usize, network| {
                    sum.saturating_add(network.tokens(shape))
                })
            }
        }
    }

    /// What speed and cost are counted in.
    pub fn item(&self) -> ItemOf {
        match self {
            Self::Decoder(_) | Self::Encoder(_) | Self::Recurrent(_) => ItemOf::Token,
            Self::EncoderDecoder(_) => ItemOf::Pair,
            Self::Vision(_) | Self::Resnet(_) | Self::TwoTowers(_) | Self::VisionLanguage(_) => {
                ItemOf::Image
            }
        }
    }

    /// The blocks of its stacks, by which learning rates fall with depth; `None` of a network without transformer blocks.
    pub fn stack_depths(&self) -> Option<StackDepths> {
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
        })
    }

    /// What the convolutions of an input of this shape cost.
    pub fn convolutions(&self, shape: &Shape) -> Cost {
        let network = match self {
            Self::Decoder(_) | Self::Encoder(_) | Self::EncoderDecoder(_) | Self::Recurrent(_) => {
                None
            }
            Self::Vision(c) => c.stem.network(),
            Self::Resnet(c) => Some(c),
            Self::TwoTowers(c) => return c.image.convolutions(shape),
            Self::VisionLanguage(c) => return c.image.convolutions(shape),
        };
        match (network, shape.image) {
            (Some(network), Some(image)) => network.cost(image),
            _ => Cost::default(),
        }
    }

    /// Numbers that what stands between its networks keeps of an example for the backward pass.
    pub fn kept_between(&self, shape: &Shape) -> u128 {
        match self {
            Self::VisionLanguage(c) => c.kept(shape),
            _ => 0,
        }
    }

    /// Vectors that a network of images has of one: its patches and the tokens before them, or the places of a feature map; 0 of
    /// a network that reads none.
    pub fn sequence(&self, shape: &Shape) -> usize {
        let [_, height, width] = shape.image.unwrap_or_default();
        let patches = self.patches(height, width);
        patches.map_or(0, |(grid, before)| grid.rows * grid.cols + before)
    }
}

/// Blocks of the stacks of a network; one stack counts as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackDepths {
    /// Of that which reads.
    pub reads: usize,
    /// Of that which writes.
    pub writes: usize,
    /// Blocks above the table of the tokens that are written: those of the deeper stack where both read from it.
    pub tokens: usize,
    /// The layers of each that have parameters in common.
    pub share: ShareConfig,
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
}
