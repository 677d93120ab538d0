//! Rows of a table, and their gradients added back without atomics: positions are sorted by row, then by place, and a row
//! adds its positions in their order, so that a sum has one order.

use burn::backend::ops::IntTensorOps;
use burn::tensor::{DType, IntDType};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{empty, units};

/// Integers of 32 bits, contiguous.
pub fn integers(x: CubeTensor) -> CubeTensor {
    let x = match x.dtype {
        DType::I32 => x,
        _ => CubeBackend::int_cast(x, IntDType::I32),
    };
    into_contiguous(x)
}

#[cube(launch)]
fn gathered(table: &[f32], ids: &[i32], out: &mut [f32], width: u32) {
    let unit = ABSOLUTE_POS;
    if unit >= out.len() {
        terminate!();
    }
    let width = width as usize;
    let id = ids[unit / width] as usize;
    out[unit] = table[id * width + unit % width];
}

/// Rows of a table `[V, D]`: ids `[B, S]` to `[B, S, D]`.
pub fn forward(table: CubeTensor, ids: CubeTensor) -> CubeTensor {
    let (table, ids) = (into_contiguous(table), integers(ids));
    let width = table.meta.shape()[1];
    let [batch, seq] = [ids.meta.shape()[0], ids.meta.shape()[1]];
    let out = empty(&table, [batch, seq, width]);
    let work = batch * seq * width;
    if work == 0 {
        return out;
    }
    let (cubes, dim) = units(&table, work);
    let client = table.client.clone();
    gathered::launch(
        &client,
        cubes,
        dim,
        table.into_buffer_arg(),
        ids.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
    );
    out
}

/// `order[n] = i` where position i is number n when positions are sorted by id, then by place: as many come before it.
#[cube(launch)]
fn sorted(ids: &[i32], order: &mut [i32], #[comptime] tile: u32) {
    let positions = ids.len() as u32;
    let own = ABSOLUTE_POS as u32;
    let mut shared = Shared::<[i32]>::new_slice(comptime!(tile as usize));
    let mut id = 0i32;
    if own < positions {
        id = ids[own as usize];
    }
    let mut before = 0u32;
    let mut from = 0u32;
    while from < positions {
        if from + UNIT_POS < positions {
            shared[UNIT_POS as usize] = ids[(from + UNIT_POS) as usize];
        }
        sync_cube();
        let here = min(tile, positions - from);
        for i in 0..here {
            let other = shared[i as usize];
            if other < id || (other == id && from + i < own) {
                before += 1u32;
            }
        }
        sync_cube();
        from += tile;
    }
    if own < positions {
        order[before as usize] = own as i32;
    }
}

/// One column of one id: the first of the id's positions adds them all.
#[cube(launch)]
fn segments(ids: &[i32], order: &[i32], grad: &[f32], out: &mut [f32], width: u32) {
    let positions = ids.len() as u32;
    let number = ABSOLUTE_POS as u32 / width;
    let column = ABSOLUTE_POS as u32 % width;
    if number >= positions {
        terminate!();
    }
    let id = ids[order[number as usize] as usize];
    let mut first = true;
    if number > 0 {
        first = ids[order[(number - 1) as usize] as usize] != id;
    }
    if first {
        let mut sum = 0.0f32;
        let mut next = number;
        let mut same = true;
        while same {
            let position = order[next as usize];
            sum += grad[position as usize * width as usize + column as usize];
            next += 1;
            same = next < positions;
            if same {
                same = ids[order[next as usize] as usize] == id;
            }
        }
        out[id as usize * width as usize + column as usize] = sum;
    }
}

/// The table's gradient, `[rows, D]`.
pub fn backward(ids: CubeTensor, grad: CubeTensor, rows: usize) -> CubeTensor {
    let (ids, grad) = (integers(ids), into_contiguous(grad));
    let (client, device) = (grad.client.clone(), grad.device.clone());
    let positions = ids.meta.shape().num_elements();
    let width = grad.meta.shape().num_elements() / positions.max(1);
    let width = if positions == 0 {
        grad.meta.shape()[grad.meta.shape().num_dims() - 1]
    } else {
        width
    };
    let out = zeros_client(
        client.clone(),
        device.clone(),
        [rows, width].into(),
        DType::F32,
    );
    let out = into_contiguous(out);
    if positions * width == 0 {
        return out;
    }
    let order =
        empty_device_contiguous_dtype(client.clone(), device, [positions].into(), DType::I32);
    let (cubes, dim) = units(&grad, positions);
    sorted::launch(
        &client,
        cubes,
        dim,
        ids.clone().into_buffer_arg(),
        order.clone().into_buffer_arg(),
        dim.x,
    );
    let (cubes, dim) = units(&grad, positions * width);
    segments::launch(
        &client,
        cubes,
        dim,
        ids.into_buffer_arg(),
        order.into_buffer_arg(),
        grad.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        width as u32,
    );
    out
}
