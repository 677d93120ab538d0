//! Additive attention: weights softmax_k(v·tanh(W q + U k)) over a memory (Bahdanau et al. 2015, arXiv:1409.0473, section A.1.2),
//! for a decoder that attends to its source once per step.

use crate::kernel;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::pass::Pass;
use crate::nn::role::{Roles, WEIGHT};
use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Tensor, TensorData};

/// Roles of the parameters of [`AdditiveAttention`].
pub const ROLES: Roles = Roles::new(
    "AdditiveAttention",
    &[("query", WEIGHT), ("key", WEIGHT), ("score", WEIGHT)],
);

/// The attention softmax_k(v·tanh(W q + U k)) and the weighted mean of the memory.
#[derive(Module, Debug)]
pub struct AdditiveAttention {
    /// W, `[d, d_query]`.
    pub query: Param<Tensor<2>>,
    /// U, `[d, d_memory]`.
    pub key: Param<Tensor<2>>,
    /// v, `[1, d]`.
    pub score: Param<Tensor<2>>,
}

/// A memory together with the parts that are the same for all queries.
#[derive(Clone, Debug)]
pub struct AdditiveMemory {
    /// States of the memory, `[batch, keys, d_memory]`.
    pub states: Tensor<3>,
    /// Projected keys U k, `[batch, keys, d]`.
    keys: Tensor<3>,
    /// True at padding keys, `[batch, keys]`.
    padding: Option<Tensor<2, Bool>>,
}

/// Returns the multiplications of a forward pass with all widths `d`: the keys' map once, then for each query its map, a score
/// for each key, and the weighted mean.
pub fn products(d: usize, [queries, keys]: [usize; 2]) -> u128 {
    let [d, queries, keys] = [d, queries, keys].map(|n| n as u128);
    d * d * (queries + keys) + 2 * queries * keys * d
}

impl AdditiveAttention {
    /// Builds attention from queries of width `d_query` to a memory of width `d_memory`, compared in `d` dimensions.
    pub fn new([d_query, d_memory, d]: [usize; 3], init: &Init) -> Self {
        Self {
            query: init.linear(d_query, d, MatrixRole::Inner),
            key: init.linear(d_memory, d, MatrixRole::Inner),
            score: init.linear(d, 1, MatrixRole::Inner),
        }
    }

    /// Prepares a memory `[batch, keys, d_memory]` whose rows have these lengths for queries.
    pub fn memory(&self, states: Tensor<3>, lengths: Option<&[usize]>) -> AdditiveMemory {
        let [_, keys, _] = states.dims();
        let device = states.device();
        AdditiveMemory {
            keys: kernel::linear(states.clone(), self.key.val(), None),
            padding: lengths.map(|lengths| padding_mask(lengths, keys, &device)),
            states,
        }
    }

    /// Attends with each query `[batch, d_query]` to the memory and returns `[batch, d_memory]`, which is zero for a row without
    /// keys.
    pub fn forward(&self, query: Tensor<2>, memory: &AdditiveMemory, pass: &Pass) -> Tensor<2> {
        let [batch, keys, d_memory] = memory.states.dims();
        let query = query.unsqueeze_dim::<3>(1);
        let query = kernel::linear(query, self.query.val(), None);
        let inner = (memory.keys.clone() + query).tanh();
        let scores = kernel::linear(inner, self.score.val(), None);
        let scores = scores.reshape([batch, keys]);
        let weights = match &memory.padding {
            None => softmax(scores, 1),
            Some(padding) => {
                let scores = scores.mask_fill(padding.clone(), f32::MIN);
                softmax(scores, 1).mask_fill(padding.clone(), 0.0)
            }
        };
        if let Some(record) = pass.record().filter(|record| record.keeps_attentions()) {
            let weights = kernel::untracked(weights.clone());
            record.note_attention(0, true, weights.reshape([batch, 1, 1, keys]));
        }
        let seen = weights.unsqueeze_dim::<3>(1).matmul(memory.states.clone());
        seen.reshape([batch, d_memory])
    }
}

impl AdditiveMemory {
    /// Reorders the rows: row i becomes the former row `rows[i]`.
    pub fn select(&self, rows: &Tensor<1, burn::tensor::Int>) -> Self {
        Self {
            states: self.states.clone().select(0, rows.clone()),
            keys: self.keys.clone().select(0, rows.clone()),
            padding: self
                .padding
                .as_ref()
                .map(|x| x.clone().int().select(0, rows.clone()).equal_elem(1)),
        }
    }
}

/// Returns a mask that is true at padding keys.
fn padding_mask(lengths: &[usize], keys: usize, device: &Device) -> Tensor<2, Bool> {
    let flags: Vec<bool> = lengths
        .iter()
        .flat_map(|length| (0..keys).map(move |key| key >= *length))
        .collect();
    Tensor::from_data(TensorData::new(flags, [lengths.len(), keys]), device)
}
