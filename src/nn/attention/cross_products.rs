//! The cost of cross-attention.

use super::AttentionConfig;

impl AttentionConfig {
    /// Returns the multiplications of a forward pass in which `tokens` positions attend to a memory of `memory` positions.
    pub fn products_across(&self, d_model: usize, tokens: usize, memory: usize) -> u128 {
        let across = self.across();
        across.facts().products(d_model, [tokens, memory, memory])
    }

    /// Like [`Self::products_across`], for a memory whose vectors have `d_memory` elements.
    pub fn products_across_from(
        &self,
        [d_model, d_memory]: [usize; 2],
        tokens: usize,
        memory: usize,
    ) -> u128 {
        let heads = self.heads();
        let width = (heads.n_kv_heads() * heads.d_head(d_model)) as u128;
        let of_memory = |d: usize| 2 * memory as u128 * d as u128 * width;
        let alike = self.products_across(d_model, tokens, memory);
        (alike + of_memory(d_memory)).saturating_sub(of_memory(d_model))
    }
}
