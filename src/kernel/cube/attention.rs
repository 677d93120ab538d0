//! Softmax attention as product, [`super::softmax`], product. Forward and backward hold the scores of one call; nothing
//! of their size is kept between them: the backward pass multiplies queries and keys again.
//!
//! Query heads that share keys and values are taken as more queries of one head, so that nothing is repeated.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::columns;
use super::launch::{empty, in_rows, product, units};
use super::scores::Added;
use super::softmax::Softmax;
use super::structure::Structure;
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

    /// A tensor by query heads as one by key-value heads, whose queries follow each other.
    fn grouped(self, x: CubeTensor) -> CubeTensor {
        if self.heads == self.kv_heads {
            return x;
        }
        let last = x.shape()[3];
        let rows = self.heads / self.kv_heads * self.queries;
        reshaped(x, [self.batch, self.kv_heads, rows, last])
    }

    /// The opposite.
    fn by_head(self, x: CubeTensor) -> CubeTensor {
        if self.heads == self.kv_heads {
            return x;
        }
        reshaped(x, [self.batch, self.heads, self.queries, self.d_head])
    }
}

fn reshaped(x: CubeTensor, dims: [usize; 4]) -> CubeTensor {
    CubeBackend::float_reshape(x, Shape::from(dims))
}

fn transposed(x: CubeTensor) -> CubeTensor {
    CubeBackend::float_swap_dims(x, 2, 3)
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
    let sizes = [dims.batch, dims.heads, dims.queries, dims.keys];
    Softmax {
        structure: Structure::of(settings, sizes, &q.device()),
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
    let (weights, distance) = scores(dims.grouped(q.clone()), k.clone());
    softmax(bias.clone(), &settings, dims, &q).forward(&weights, distance, &lse);
    let out = dims.by_head(product(weights, v.clone()));
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
        q, k, v, bias, lse, ..
    } = saved;
    let dims = Dims::of(&q, &k);
    let softmax = softmax(bias, &settings, dims, &q);
    let (q, grad) = (dims.grouped(q), dims.grouped(grad));
    let (weights, distance) = scores(q.clone(), k.clone());
    let (d_scores, d_distance) = scores(grad.clone(), v);
    let full = [dims.batch, dims.heads, dims.queries, dims.keys];
    let d_added = wants_bias.then(|| empty(&lse, full));
    let both = [&weights, &d_scores];
    softmax.backward(both, [distance, d_distance], &lse, d_added.as_ref());
    AttentionGradients {
        v: product(transposed(weights), grad),
        q: dims.by_head(product(d_scores.clone(), k)),
        k: product(transposed(d_scores), q),
        bias: d_added.map(|d| of_added(d, softmax.added, dims)),
    }
}

/// The gradient of what was added, from that of all scores.
fn of_added(d: CubeTensor, added: Added, dims: Dims) -> CubeTensor {
    match added {
        Added::Nothing => unreachable!("no bias, no gradient of it"),
        Added::Own => d,
        Added::Shared => {
            let width = dims.heads * dims.queries * dims.keys;
            let rows = Shape::from([dims.batch, width]);
            let sum = columns::sum(CubeBackend::float_reshape(d, rows));
            reshaped(sum, [1, dims.heads, dims.queries, dims.keys])
        }
        Added::ByDistance => by_distance(d, dims),
    }
}

/// The sum of each diagonal over rows and queries, in their order.
#[cube(launch)]
fn diagonals(d: &[f32], out: &mut [f32], batch: u32, heads: u32, queries: u32, keys: u32) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= out.len() as u32 {
        terminate!();
    }
    let distances = queries + keys - 1;
    let head = unit / distances;
    let diagonal = unit % distances;
    let mut sum = 0.0f32;
    for row in 0..batch {
        for query in 0..queries {
            let shifted = diagonal + query + 1;
            if shifted >= queries && shifted - queries < keys {
                let at = ((row * heads + head) * queries + query) * keys;
                sum += d[(at + shifted - queries) as usize];
            }
        }
    }
    out[unit as usize] = sum;
}

fn by_distance(d: CubeTensor, dims: Dims) -> CubeTensor {
    let distances = dims.queries + dims.keys - 1;
    let out = empty(&d, [dims.heads, distances]);
    let (cubes, dim) = units(&d, dims.heads * distances);
    let client = d.client.clone();
    let sizes = [dims.batch, dims.heads, dims.queries, dims.keys];
    let [batch, heads, queries, keys] = sizes.map(|x| x as u32);
    diagonals::launch(
        &client,
        cubes,
        dim,
        d.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        batch,
        heads,
        queries,
        keys,
    );
    out
}
