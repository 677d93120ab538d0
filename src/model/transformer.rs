//! A model as far as it is a transformer: what checks and plans ask of all of them alike.

use crate::stack::{BlockConfig, Depth, StackConfig};

/// A model as far as it is a transformer, borrowed from its config.
#[derive(Clone, Copy, Debug)]
pub struct Transformer<'a> {
    /// What all its blocks have in common.
    pub stack: &'a StackConfig,
    /// Its stacks: one, or that which reads and that which writes.
    pub stacks: [Option<Depth<'a>>; 2],
    /// Whether the embeddings are normalised.
    pub embedding_norm: bool,
}

impl<'a> Transformer<'a> {
    /// Its stacks.
    pub fn depths(&self) -> impl Iterator<Item = Depth<'a>> {
        self.stacks.into_iter().flatten()
    }

    /// Parameters that a token does not use; those of shared layers count once.
    pub(super) fn unused(&self) -> usize {
        let stack = self.stack;
        let blocks = self.depths().flat_map(move |depth| {
            let owners = stack.share_layers.owners(depth.blocks());
            let blocks = 0..depth.blocks();
            let owned = blocks.filter(move |block| owners.feeding(*block) == *block);
            owned.map(move |block| stack.block(&depth, block))
        });
        let layers = blocks.filter_map(|block| block.feed_forward);
        layers.fold(0, |sum: usize, layer| {
            sum.saturating_add(layer.unused(self.stack.d_model))
        })
    }

    /// The layers of its blocks, stack after stack.
    pub fn blocks(&self) -> impl Iterator<Item = BlockConfig<'a>> {
        let stack = self.stack;
        self.depths().flat_map(move |depth| {
            let blocks = 0..depth.blocks();
            blocks.map(move |block| stack.block(&depth, block))
        })
    }

    /// The blocks that differ, stack after stack: one of each group. What asks whether some block is so asks these, however many
    /// there are.
    pub fn sorts(&self) -> impl Iterator<Item = BlockConfig<'a>> {
        let stack = self.stack;
        self.depths().flat_map(move |depth| stack.sorts(depth))
    }
}
