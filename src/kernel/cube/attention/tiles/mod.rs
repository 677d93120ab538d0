//! Attention in tiles on tensor cores, in one kernel forward and two backward: scores never leave a plane's
//! registers. It serves runs that multiply in bfloat16 ([`crate::kernel::precision`]) on devices with such cores;
//! [`super::products`] computes the same by products of whole blocks.

mod forward;
mod held;
mod key_gradients;
mod query_gradient;
mod tile;

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::choice::uses_tiles;
use super::{Backward, Dims, Pass};
use crate::kernel::cube::blocks::Block;
use crate::kernel::cube::fragment::{SIDE, distance, has_products};
use crate::kernel::cube::launch::empty;
use crate::kernel::cube::softmax::Softmax;
use crate::kernel::cube::strided::{empty_by_position, with_aligned_strides, with_strides};
use crate::kernel::rounds_operands;
use held::pairs_held;
use tile::{TILE, Tiles, UNITS};

/// Maximum head width: wider ones do not fit a plane's registers.
const MAX_HEAD_WIDTH: usize = 128;

/// Returns whether the kernels support a call: products in bfloat16 on a device that has them, and heads of whole
/// fragments. A unit draws dropout words for four keys at once, so with dropout the keys must fill whole blocks of
/// words.
pub fn supports(pass: &Pass) -> bool {
    let Pass {
        q, dims, softmax, ..
    } = pass;
    let widths = dims.d_head % SIDE as usize == 0 && dims.d_head <= MAX_HEAD_WIDTH;
    let words = softmax.dropout.is_none() || dims.keys % TILE as usize == 0;
    uses_tiles() && rounds_operands() && widths && words && has_cores(q, dims.d_head)
}

/// Returns whether a device has bfloat16 tensor cores with operands and sums in registers, and enough shared memory
/// for the kernels.
fn has_cores(x: &CubeTensor, width: usize) -> bool {
    let properties = x.client.properties();
    has_products(properties) && shared(width) <= properties.hardware.max_shared_memory_size
}

/// Returns the maximum number of bytes of shared memory of a cube: two tiles, the values kept per query, and the keys
/// and values of wide heads.
fn shared(width: usize) -> usize {
    let held = 2 * 4 * pairs_held(width as u32) as usize;
    TILE as usize * (2 * 8 * distance(width as u32) as usize + 2 * 8) + held
}

/// Returns the whole pass as one block.
fn whole_pass(dims: Dims) -> Block {
    Block {
        queries: 0..dims.queries,
        keys: 0..dims.keys,
    }
}

fn form(softmax: &Softmax, dims: Dims, replayed: bool) -> Tiles {
    Tiles {
        form: softmax.form(UNITS, false, replayed),
        width: dims.d_head as u32,
    }
}

/// Returns the cube count with one cube per tile of `numbers` queries or keys of each head.
fn cubes(x: &CubeTensor, heads: usize, numbers: usize) -> CubeCount {
    let tiles = heads * numbers.div_ceil(TILE as usize);
    cubecl::calculate_cube_count_elemwise(&x.client, tiles, CubeDim::new_single())
}

/// Returns the outputs `[B, H, Q, D]` and the log-sum-exps of the scores `[B, H, Q]`.
pub fn forward(pass: &Pass) -> [CubeTensor; 2] {
    let Pass {
        q,
        k,
        v,
        softmax,
        dims,
        ..
    } = pass;
    let out = empty_by_position(q, [dims.batch, dims.heads, dims.queries, dims.d_head]);
    let lse = empty(q, [dims.batch, dims.heads, dims.queries]);
    let [(q, of_q), (k, of_k), (v, of_v)] = [q, k, v].map(with_aligned_strides);
    let (_, of_out) = with_strides(&out);
    let (drop, table, replayed) = softmax.drop();
    let bias = softmax.bias.clone().unwrap_or_else(|| lse.clone());
    let client = q.client.clone();
    forward::attended::launch(
        &client,
        cubes(&q, dims.batch * dims.heads, dims.queries),
        CubeDim::new_1d(UNITS),
        q.into_tensor_arg(),
        k.into_tensor_arg(),
        v.into_tensor_arg(),
        bias.into_buffer_arg(),
        softmax.structure.numbers.clone().into_buffer_arg(),
        table.into_buffer_arg(),
        out.clone().into_tensor_arg(),
        lse.clone().into_buffer_arg(),
        softmax.structure.sizes(&whole_pass(*dims)),
        softmax.factors([0, 0]),
        drop,
        of_q,
        of_k,
        of_v,
        of_out,
        dims.group(),
        form(softmax, *dims, replayed),
    );
    [out, lse]
}

/// Returns the gradients of queries, keys and values.
pub fn backward(backward: &Backward) -> [CubeTensor; 3] {
    let Backward { pass, lse, .. } = backward;
    let dims = pass.dims;
    let of_keys = [dims.batch, dims.kv_heads, dims.keys, dims.d_head];
    let [d_k, d_v] = [of_keys; 2].map(|dims| empty_by_position(lse, dims));
    let of_queries = [dims.batch, dims.heads, dims.queries, dims.d_head];
    let d_q = empty_by_position(lse, of_queries);
    launch_queries(backward, &d_q);
    launch_keys(backward, [&d_k, &d_v]);
    [d_q, d_k, d_v]
}

fn launch_queries(backward: &Backward, d_q: &CubeTensor) {
    let Backward {
        pass,
        grad,
        lse,
        products,
    } = backward;
    let (softmax, dims) = (&pass.softmax, pass.dims);
    let inputs = [&pass.q, &pass.k, &pass.v, grad];
    let [(q, of_q), (k, of_k), (v, of_v), (grad, of_grad)] = inputs.map(with_aligned_strides);
    let (_, of_out) = with_strides(d_q);
    let (drop, table, replayed) = softmax.drop();
    let bias = softmax.bias.clone().unwrap_or_else(|| lse.clone());
    let client = q.client.clone();
    query_gradient::query_gradient::launch(
        &client,
        cubes(&q, dims.batch * dims.heads, dims.queries),
        CubeDim::new_1d(UNITS),
        q.into_tensor_arg(),
        k.into_tensor_arg(),
        v.into_tensor_arg(),
        grad.into_tensor_arg(),
        bias.into_buffer_arg(),
        softmax.structure.numbers.clone().into_buffer_arg(),
        table.into_buffer_arg(),
        lse.clone().into_buffer_arg(),
        products.clone().into_buffer_arg(),
        d_q.clone().into_tensor_arg(),
        softmax.structure.sizes(&whole_pass(dims)),
        softmax.factors([0, 0]),
        drop,
        of_q,
        of_k,
        of_v,
        of_grad,
        of_out,
        dims.group(),
        form(softmax, dims, replayed),
    );
}

fn launch_keys(backward: &Backward, [d_k, d_v]: [&CubeTensor; 2]) {
    let Backward {
        pass,
        grad,
        lse,
        products,
    } = backward;
    let (softmax, dims) = (&pass.softmax, pass.dims);
    let inputs = [&pass.q, &pass.k, &pass.v, grad];
    let [(q, of_q), (k, of_k), (v, of_v), (grad, of_grad)] = inputs.map(with_aligned_strides);
    let (_, of_out) = with_strides(d_k);
    let (drop, table, replayed) = softmax.drop();
    let bias = softmax.bias.clone().unwrap_or_else(|| lse.clone());
    let client = q.client.clone();
    key_gradients::key_gradients::launch(
        &client,
        cubes(&q, dims.batch * dims.kv_heads, dims.keys),
        CubeDim::new_1d(UNITS),
        q.into_tensor_arg(),
        k.into_tensor_arg(),
        v.into_tensor_arg(),
        grad.into_tensor_arg(),
        bias.into_buffer_arg(),
        softmax.structure.numbers.clone().into_buffer_arg(),
        table.into_buffer_arg(),
        lse.clone().into_buffer_arg(),
        products.clone().into_buffer_arg(),
        d_k.clone().into_tensor_arg(),
        d_v.clone().into_tensor_arg(),
        softmax.structure.sizes(&whole_pass(dims)),
        softmax.factors([0, 0]),
        drop,
        of_q,
        of_k,
        of_v,
        of_grad,
        of_out,
        dims.group(),
        form(softmax, dims, replayed),
    );
}
