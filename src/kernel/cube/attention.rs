//! Softmax attention as product, [`super::softmax`], product, by blocks of queries. Forward and backward hold the scores of
//! one block; nothing of their size is kept between them: the backward pass multiplies queries and keys again.
//!
//! Query heads that share keys and values are taken as more queries of one head, so that nothing is repeated.

use std::ops::Range;

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Slice};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::bias_gradient::BiasGradient;
use super::blocks::{Block, blocks};
use super::launch::{empty, in_rows, product, zeros};
use super::numbers::Structure;
use super::scores::Added;
use super::softmax::{Softmax, products_of};
use crate::kernel::extension::{AttentionGradients, AttentionSaved, AttentionSettings, Maybe};

/// Sizes of a call.
#[derive(Clone, Copy)]
struct Dims {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    d_head: usize,
}

impl Dims {
    fn of(q: &CubeTensor, k: &CubeTensor) -> Self {
        let [batch, heads, queries, d_head] = q.shape().dims();
        let [_, kv_heads, keys, _] = k.shape().dims();
        Self {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            d_head,
        }
    }

    /// Rows, heads, queries, keys.
    fn of_scores(self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    /// The queries of a block by key-value heads, each head's behind the one before it.
    fn grouped(self, x: &CubeTensor, block: &Block) -> CubeTensor {
        let x = part(x, block.queries.clone());
        if self.heads == self.kv_heads {
            return x;
        }
        let rows = self.heads / self.kv_heads * block.queries.len();
        reshaped(x, [self.batch, self.kv_heads, rows, self.d_head])
    }

    /// The opposite.
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

/// Queries or keys of a tensor of four dimensions; all of them are the tensor itself.
fn part(x: &CubeTensor, range: Range<usize>) -> CubeTensor {
    if range.len() == x.shape()[2] {
        return x.clone();
    }
    CubeBackend::float_slice(x.clone(), &[Slice::full(), Slice::full(), range.into()])
}

/// Blocks of queries behind each other.
fn joined(mut parts: Vec<CubeTensor>) -> CubeTensor {
    match parts.len() {
        1 => parts.remove(0),
        _ => CubeBackend::float_cat(parts, 2),
    }
}

/// A sum over blocks, in their order, of gradients of some of the keys.
struct KeySum {
    dims: [usize; 4],
    sum: Option<CubeTensor>,
}

impl KeySum {
    fn new(dims: Dims) -> Self {
        let dims = [dims.batch, dims.kv_heads, dims.keys, dims.d_head];
        Self { dims, sum: None }
    }

    fn add(&mut self, keys: Range<usize>, gradient: CubeTensor) {
        if keys.len() == self.dims[2] {
            self.sum = Some(match self.sum.take() {
                Some(sum) => CubeBackend::float_add(sum, gradient),
                None => gradient,
            });
            return;
        }
        let sum = self
            .sum
            .take()
            .unwrap_or_else(|| zeros(&gradient, self.dims));
        let both = CubeBackend::float_add(part(&sum, keys.clone()), gradient);
        let place = [Slice::full(), Slice::full(), keys.into()];
        self.sum = Some(CubeBackend::float_slice_assign(sum, &place, both));
    }

    /// The sum; there is at least one block.
    fn total(self, beside: &CubeTensor) -> CubeTensor {
        self.sum.unwrap_or_else(|| zeros(beside, self.dims))
    }
}

fn softmax(
    bias: Maybe<CubeBackend>,
    settings: &AttentionSettings,
    dims: Dims,
    q: &CubeTensor,
) -> Softmax {
    let bias = bias.into_option().map(into_contiguous);
    let added = match &bias {
        None => Added::Nothing,
        Some(bias) if bias.rank() == 2 => Added::ByDistance,
        Some(bias) if bias.shape()[0] == dims.batch => Added::Own,
        Some(_) => Added::Shared,
    };
    Softmax {
        structure: Structure::of(settings, dims.of_scores(), &q.device()),
        scale: settings.scale as f32,
        cap: settings.softcap.map(|cap| cap as f32),
        dropout: settings.dropout,
        bias,
        added,
    }
}

/// Raw scores, the distance between their rows included; by key-value heads, which is the order of query heads.
fn scores(q: CubeTensor, k: CubeTensor) -> (CubeTensor, usize) {
    in_rows(product(q, transposed(k)))
}

/// Attention, and what its backward pass needs.
pub fn saving(
    [q, k, v]: [CubeTensor; 3],
    bias: Maybe<CubeBackend>,
    settings: AttentionSettings,
) -> AttentionSaved<CubeBackend> {
    let dims = Dims::of(&q, &k);
    let lse = empty(&q, [dims.batch, dims.heads, dims.queries]);
    let softmax = softmax(bias.clone(), &settings, dims, &q);
    let blocks = blocks(&settings.visible, settings.offset, dims.of_scores());
    let parts = blocks.iter().map(|block| {
        let queries = dims.grouped(&q, block);
        let (weights, distance) = scores(queries, part(&k, block.keys.clone()));
        softmax.forward(block, &weights, distance, &lse);
        dims.by_head(product(weights, part(&v, block.keys.clone())), block)
    });
    let out = joined(parts.collect());
    AttentionSaved {
        q,
        k,
        v,
        bias,
        out,
        lse,
    }
}

/// The gradients of attention.
pub fn backward(
    saved: AttentionSaved<CubeBackend>,
    grad: CubeTensor,
    settings: AttentionSettings,
    wants_bias: bool,
) -> AttentionGradients<CubeBackend> {
    let AttentionSaved {
        q,
        k,
        v,
        bias,
        out,
        lse,
    } = saved;
    let dims = Dims::of(&q, &k);
    let softmax = softmax(bias, &settings, dims, &q);
    let grad = into_contiguous(grad);
    let products = products_of(into_contiguous(out), grad.clone());
    let mut d_bias = wants_bias.then(|| BiasGradient::new(&softmax, dims.of_scores()));
    let (mut d_q, mut d_k, mut d_v) = (Vec::new(), KeySum::new(dims), KeySum::new(dims));
    for block in blocks(&settings.visible, settings.offset, dims.of_scores()) {
        let keys = block.keys.clone();
        let [queries, grad] = [&q, &grad].map(|x| dims.grouped(x, &block));
        let block_keys = part(&k, keys.clone());
        let (weights, distance) = scores(queries.clone(), block_keys.clone());
        let (d_scores, d_distance) = scores(grad.clone(), part(&v, keys.clone()));
        let d_added = d_bias.as_ref().map(|_| {
            let [rows, heads, ..] = dims.of_scores();
            empty(&lse, [rows, heads, block.queries.len(), keys.len()])
        });
        let distances = [distance, d_distance];
        let sums = [&lse, &products];
        softmax.backward(
            &block,
            [&weights, &d_scores],
            distances,
            sums,
            d_added.as_ref(),
        );
        d_v.add(keys.clone(), product(transposed(weights), grad));
        d_q.push(dims.by_head(product(d_scores.clone(), block_keys), &block));
        d_k.add(keys, product(transposed(d_scores), queries));
        if let (Some(all), Some(d_added)) = (&mut d_bias, d_added) {
            all.add(&softmax, &block, d_added);
        }
    }
    AttentionGradients {
        q: joined(d_q),
        k: d_k.total(&k),
        v: d_v.total(&v),
        bias: d_bias.map(BiasGradient::total),
    }
}
