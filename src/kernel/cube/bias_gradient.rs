//! The gradient of the attention bias, summed from the score gradients of each block.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Slice};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::blocks::Block;
use super::columns;
use super::launch::{units, zeros};
use super::scores::Added;
use super::softmax::Softmax;
use super::structure::Sizes;

/// Adds the sum of each diagonal of a block over batch rows and queries, in their order.
#[cube(launch)]
fn diagonals(d: &[f32], out: &mut [f32], sizes: Sizes, batch: u32) {
    let unit = ABSOLUTE_POS as u32;
    if unit >= out.len() as u32 {
        terminate!();
    }
    let distances = sizes.queries + sizes.keys - 1;
    let head = unit / distances;
    // Query i of the block and key j lie on the diagonal if j + queries = i + base.
    let base = unit % distances + sizes.first_query + 1;
    let low = max(sizes.first_key + sizes.queries, base) - base;
    let high = min(
        max(sizes.last_key + sizes.queries, base) - base,
        sizes.block_queries,
    );
    let keys = sizes.last_key - sizes.first_key;
    let mut sum = out[unit as usize];
    for row in 0..batch {
        let of_head = (row * sizes.heads + head) * sizes.block_queries;
        for query in low..high {
            let key = query + base - sizes.queries - sizes.first_key;
            sum += d[((of_head + query) * keys + key) as usize];
        }
    }
    out[unit as usize] = sum;
}

/// The gradient summed so far; entries of pairs that no block covers stay zero.
pub struct BiasGradient {
    sum: CubeTensor,
    batch: usize,
}

impl BiasGradient {
    /// Starts with zeros for attention of the given rows, heads, queries and keys.
    pub fn new(softmax: &Softmax, [batch, heads, queries, keys]: [usize; 4]) -> Self {
        let beside = &softmax.structure.numbers;
        let sum = match softmax.added {
            Added::Nothing => unreachable!("no bias, no gradient of it"),
            Added::Own => zeros(beside, [batch, heads, queries, keys]),
            Added::Shared => zeros(beside, [1, heads, queries, keys]),
            Added::ByDistance => zeros(beside, [heads, queries + keys - 1]),
        };
        Self { sum, batch }
    }

    /// Adds the score gradients of a block, `[B, H, queries, keys]`.
    pub fn add(&mut self, softmax: &Softmax, block: &Block, d: CubeTensor) {
        if softmax.added == Added::ByDistance {
            return self.add_diagonals(softmax, block, d);
        }
        let d = if softmax.added == Added::Shared {
            over_rows(d)
        } else {
            d
        };
        let place = [
            Slice::full(),
            Slice::full(),
            block.queries.clone().into(),
            block.keys.clone().into(),
        ];
        let sum = std::mem::replace(&mut self.sum, d.clone());
        self.sum = CubeBackend::float_slice_assign(sum, &place, d);
    }

    fn add_diagonals(&self, softmax: &Softmax, block: &Block, d: CubeTensor) {
        let (cubes, dim) = units(&d, self.sum.shape().num_elements());
        let client = d.client.clone();
        diagonals::launch(
            &client,
            cubes,
            dim,
            d.into_buffer_arg(),
            self.sum.clone().into_buffer_arg(),
            softmax.structure.sizes(block),
            self.batch as u32,
        );
    }

    /// Returns the whole gradient, in the shape of the bias.
    pub fn total(self) -> CubeTensor {
        self.sum
    }
}

/// Sums over the rows of the batch: `[1, H, queries, keys]`.
fn over_rows(d: CubeTensor) -> CubeTensor {
    let [rows, heads, queries, keys] = d.shape().dims();
    let flat = Shape::from([rows, heads * queries * keys]);
    let sum = columns::sum(CubeBackend::float_reshape(d, flat));
    CubeBackend::float_reshape(sum, Shape::from([1, heads, queries, keys]))
}
