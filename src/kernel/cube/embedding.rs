//! Embedding lookup, and gradients added back without atomics. Positions are sorted by id, then by position, and each
//! id sums its positions in that order, so every sum has a fixed order. Runs of positions are sorted first, then
//! merged.

use burn::backend::ops::IntTensorOps;
use burn::tensor::{DType, IntDType};
use burn_cubecl::CubeBackend;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty, units, zeros};

/// Converts to contiguous 32-bit integers.
pub fn integers(x: CubeTensor) -> CubeTensor {
    let x = match x.dtype {
        DType::I32 => x,
        _ => CubeBackend::int_cast(x, IntDType::I32),
    };
    contiguous(x)
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

/// Looks up rows of a table `[V, D]`: ids `[B, S]` to `[B, S, D]`.
pub fn forward(table: CubeTensor, ids: CubeTensor) -> CubeTensor {
    let (table, ids) = (contiguous(table), integers(ids));
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

/// Number of positions of a run. Each is compared with all others of its run; the sorted runs are merged.
const RUN: usize = 1024;

/// Sorts each run of positions by id, then by position: the rank of a position is the number of positions before it.
#[cube(launch)]
fn sorted_runs(ids: &[i32], order: &mut [i32], #[comptime] tile: u32, #[comptime] run: u32) {
    let positions = ids.len() as u32;
    let own = ABSOLUTE_POS as u32;
    let mut shared = Shared::<[i32]>::new_slice(comptime!(tile as usize));
    let mut id = 0i32;
    if own < positions {
        id = ids[own as usize];
    }
    // All positions of a cube belong to one run.
    let first = CUBE_POS as u32 * tile / run * run;
    let end = min(first + run, positions);
    let mut before = 0u32;
    let mut from = first;
    while from < end {
        if from + UNIT_POS < end {
            shared[UNIT_POS as usize] = ids[(from + UNIT_POS) as usize];
        }
        sync_cube();
        let here = min(tile, end - from);
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
        order[(first + before) as usize] = own as i32;
    }
}

/// Merges pairs of sorted runs. The rank of a position is its rank in its own run plus the number of positions of the
/// other run that precede it; among equal ids the left run's precede.
#[cube(launch)]
fn merged_runs(ids: &[i32], order: &[i32], out: &mut [i32], run: u32) {
    let positions = order.len() as u32;
    let number = ABSOLUTE_POS as u32;
    if number >= positions {
        terminate!();
    }
    let place = order[number as usize];
    let id = ids[place as usize];
    let first = number / (2 * run) * (2 * run);
    let middle = min(first + run, positions);
    let is_left = number < middle;
    let mut low = first;
    let mut high = middle;
    let mut rank = number - first;
    if is_left {
        low = middle;
        high = min(middle + run, positions);
    } else {
        rank = number - middle;
    }
    let begin = low;
    while low < high {
        let half = (low + high) / 2;
        let other = ids[order[half as usize] as usize];
        if other < id || (other == id && !is_left) {
            low = half + 1;
        } else {
            high = half;
        }
    }
    out[(first + rank + low - begin) as usize] = place;
}

/// Returns the positions sorted by id, then by position.
fn sorted(ids: &CubeTensor) -> CubeTensor {
    let positions = ids.meta.shape().num_elements();
    let (client, device) = (ids.client.clone(), ids.device.clone());
    let room = || {
        let (client, device) = (client.clone(), device.clone());
        empty_device_contiguous_dtype(client, device, [positions].into(), DType::I32)
    };
    let (cubes, dim) = units(ids, positions);
    let mut order = room();
    sorted_runs::launch(
        &client,
        cubes.clone(),
        dim,
        ids.clone().into_buffer_arg(),
        order.clone().into_buffer_arg(),
        dim.x,
        RUN as u32,
    );
    let mut run = RUN;
    while run < positions {
        let out = room();
        merged_runs::launch(
            &client,
            cubes.clone(),
            dim,
            ids.clone().into_buffer_arg(),
            order.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            run as u32,
        );
        order = out;
        run *= 2;
    }
    order
}

/// Sums one column of one id: the unit at the id's first position adds all of them.
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

/// Returns the gradient of the table, `[rows, D]`.
pub fn backward(ids: CubeTensor, grad: CubeTensor, rows: usize) -> CubeTensor {
    let (ids, grad) = (integers(ids), contiguous(grad));
    let client = grad.client.clone();
    let positions = ids.meta.shape().num_elements();
    let width = grad.meta.shape().num_elements() / positions.max(1);
    let width = if positions == 0 {
        grad.meta.shape()[grad.meta.shape().num_dims() - 1]
    } else {
        width
    };
    let out = zeros(&grad, [rows, width]);
    if positions * width == 0 {
        return out;
    }
    let order = sorted(&ids);
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
