//! A transformer's facts, as checks and plans read them for all kinds of transformers alike.

use crate::stack::{BlockConfig, Depth, StackConfig};

/// A model's transformer facts, borrowed from its config.
#[derive(Clone, Copy, Debug)]
pub struct Transformer<'a> {
    /// The settings that all its blocks share.
    pub stack: &'a StackConfig,
    /// The depths of its stacks: one, or those of encoder and decoder.
    pub stacks: [Option<Depth<'a>>; 2],
    /// Whether the embeddings are normalised.
    pub embedding_norm: bool,
}

impl<'a> Transformer<'a> {
    /// Returns the depths of its stacks.
    pub fn depths(&self) -> impl Iterator<Item = Depth<'a>> {
        self.stacks.into_iter().flatten()
    }

    /// Number of parameters that a single token does not use; shared layers count once.
    pub(super) fn inactive_parameters(&self) -> usize {
        let stack = self.stack;
        let blocks = self.depths().flat_map(move |depth| {
            let owners = stack.share_layers.owners(depth.blocks());
            let blocks = 0..depth.blocks();
            let owned = blocks.filter(move |block| owners.feed_forward_owner(*block) == *block);
            owned.map(move |block| stack.block(&depth, block))
        });
        let layers = blocks.filter_map(|block| block.feed_forward);
        layers.fold(0, |sum: usize, layer| {
            sum.saturating_add(layer.inactive_parameters(self.stack.d_model))
        })
    }

    /// Returns the layers of all blocks, stack after stack.
    pub fn blocks(&self) -> impl Iterator<Item = BlockConfig<'a>> {
        let stack = self.stack;
        self.depths().flat_map(move |depth| {
            let blocks = 0..depth.blocks();
            blocks.map(move |block| stack.block(&depth, block))
        })
    }

    /// Returns the layers of each distinct kind of block, stack after stack: one for each group. Checks of whether some block has
    /// a property use these, independent of the number of blocks.
    pub fn distinct_blocks(&self) -> impl Iterator<Item = BlockConfig<'a>> {
        let stack = self.stack;
        self.depths()
            .flat_map(move |depth| stack.distinct_blocks(depth))
    }
}
