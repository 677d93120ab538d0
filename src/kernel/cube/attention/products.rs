//! Attention as matrix product, [`super::super::softmax`], matrix product, by blocks of queries. Forward and backward
//! hold the scores of one block. Nothing of that size is kept between them: the backward pass multiplies queries and
//! keys again.
//!
//! Query heads that share keys and values are treated as additional queries of one head, so nothing is repeated.
//! Vectors by distance ([`super::super::relative`]) add to the scores before softmax and to the output after it.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::{Backward, Dims, Pass};
use crate::kernel::cube::bias_gradient::BiasGradient;
use crate::kernel::cube::blocks::{Block, blocks};
use crate::kernel::cube::launch::{SpacedRows, contiguous, empty, product, spaced_rows};
use crate::kernel::cube::parts::{PartSum, concat, part};
use crate::kernel::cube::relative::Distances;
use crate::kernel::extension::AttentionGradients;
use crate::kernel::relative::extension::{RelativeGradients, WantedGradients};

impl Dims {
    /// Starts a sum over blocks of the gradients of keys or values.
    fn key_sum(self) -> PartSum {
        PartSum::new([self.batch, self.kv_heads, self.keys, self.d_head])
    }

    /// Groups a block's queries by key-value head: the query heads of a group are concatenated.
    fn grouped(self, x: &CubeTensor, block: &Block) -> CubeTensor {
        let x = part(x, block.queries.clone());
        if self.heads == self.kv_heads {
            return x;
        }
        let rows = self.heads / self.kv_heads * block.queries.len();
        reshaped(x, [self.batch, self.kv_heads, rows, self.d_head])
    }

    /// The inverse of [`Self::grouped`].
    fn by_head(self, x: CubeTensor, block: &Block) -> CubeTensor {
        if self.heads == self.kv_heads {
            return x;
        }
        let queries = block.queries.len();
        reshaped(x, [self.batch, self.heads, queries, self.d_head])
    }
}

fn reshaped(x: CubeTensor, dims: [usize; 4]) -> CubeTensor {
    CubeBackend::float_reshape(x, Shape::from(dims))
}

fn transposed(x: CubeTensor) -> CubeTensor {
    CubeBackend::float_swap_dims(x, 2, 3)
}

/// Returns the raw scores and the distance between their rows, by key-value head, which keeps the order of query
/// heads.
fn scores(q: CubeTensor, k: CubeTensor) -> SpacedRows {
    spaced_rows(product(q, transposed(k)))
}

/// Returns the outputs `[B, H, Q, D]` and the log-sum-exps of the scores `[B, H, Q]`.
pub fn forward(pass: &Pass, distances: Option<&Distances>) -> [CubeTensor; 2] {
    let Pass {
        q,
        k,
        v,
        softmax,
        dims,
        ..
    } = pass;
    let content = content_queries(q, distances);
    let lse = empty(q, [dims.batch, dims.heads, dims.queries]);
    let blocks = pass.blocks();
    let parts = blocks.iter().map(|block| {
        let queries = dims.grouped(&content, block);
        let scores = scores(queries, part(k, block.keys.clone()));
        if let Some(distances) = distances {
            distances.add_to_scores(block, [q, k], &scores);
        }
        softmax.forward(block, &scores.0, scores.1, &lse);
        let added = distances.and_then(|x| x.weighted_values(block, &scores, dims.of_scores()));
        let out = product(scores.0, part(v, block.keys.clone()));
        let out = dims.by_head(out, block);
        match added {
            Some(added) => CubeBackend::float_add(out, added),
            None => out,
        }
    });
    [concat(parts.collect()), lse]
}

impl Pass {
    fn blocks(&self) -> Vec<Block> {
        let Self { settings, dims, .. } = self;
        blocks(&settings.visible, settings.offset, dims.of_scores())
    }
}

/// Returns the queries in the form in which they are multiplied with keys.
fn content_queries(q: &CubeTensor, distances: Option<&Distances>) -> CubeTensor {
    match distances {
        Some(distances) => distances.content_queries(q),
        None => q.clone(),
    }
}

/// Returns the gradients of attention.
pub fn backward(
    backward: &Backward,
    distances: Option<&Distances>,
    wanted: WantedGradients,
) -> RelativeGradients<CubeBackend> {
    let Backward {
        pass,
        grad,
        lse,
        products,
    } = backward;
    let Pass {
        q,
        k,
        v,
        softmax,
        dims,
        ..
    } = pass;
    let grad = &contiguous(grad.clone());
    let content = content_queries(q, distances);
    let mut d_bias = wanted
        .bias
        .then(|| BiasGradient::new(softmax, dims.of_scores()));
    let mut d_distances = distances.map(|x| x.gradients(wanted.tensors, dims.of_scores()));
    let (mut d_q, mut d_k, mut d_v) = (Vec::new(), dims.key_sum(), dims.key_sum());
    for block in pass.blocks() {
        let keys = block.keys.clone();
        let [queries, block_grad] = [&content, grad].map(|x| dims.grouped(x, &block));
        let block_keys = part(k, keys.clone());
        let weights = scores(queries.clone(), block_keys.clone());
        let d_scores = scores(block_grad.clone(), part(v, keys.clone()));
        if let Some(distances) = distances {
            distances.add_to_scores(&block, [q, k], &weights);
            distances.add_to_weights(&block, grad, &d_scores);
        }
        let d_added = d_bias.as_ref().map(|_| {
            let [rows, heads, ..] = dims.of_scores();
            empty(lse, [rows, heads, block.queries.len(), keys.len()])
        });
        softmax.backward(
            &block,
            [&weights.0, &d_scores.0],
            [weights.1, d_scores.1],
            [lse, products],
            d_added.as_ref(),
        );
        if let Some(d) = &mut d_distances {
            d.add_block(&block, [q, k, grad], [&weights, &d_scores], &mut d_k);
        }
        let (weights, d_scores) = (weights.0, d_scores.0);
        d_v.add(keys.clone(), product(transposed(weights), block_grad));
        d_q.push(dims.by_head(product(d_scores.clone(), block_keys), &block));
        d_k.add(keys, product(transposed(d_scores), queries));
        if let (Some(all), Some(d_added)) = (&mut d_bias, d_added) {
            all.add(softmax, &block, d_added);
        }
    }
    let d_q = concat(d_q);
    let (d_q, tensors) = match d_distances {
        Some(d) => d.total(d_q),
        None => (d_q, Default::default()),
    };
    let attention = AttentionGradients {
        q: d_q,
        k: d_k.total(k),
        v: d_v.total(v),
        bias: d_bias.map(BiasGradient::total),
    };
    RelativeGradients { attention, tensors }
}
