//! Memory layout of tensors by heads `[B, H, n, D]`. Attention kernels read them as linear maps leave them, position
//! by position, and write their results the same way, so nothing is copied in between.

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty};

/// Strides of a tensor `[B, H, n, D]` whose last dimension is contiguous.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Strides {
    /// Distance from row to row of the batch.
    pub row: u32,
    /// Distance from head to head.
    pub head: u32,
    /// Distance from query to query, or from key to key.
    pub each: u32,
}

/// Returns the offset of query or key number `each` of a head.
#[cube]
pub fn start_of(strides: &Strides, row: u32, head: u32, each: u32) -> u32 {
    row * strides.row + head * strides.head + each * strides.each
}

/// Returns a tensor whose last dimension is contiguous, and its strides.
pub fn with_strides(x: &CubeTensor) -> (CubeTensor, StridesLaunch) {
    let dense = x.meta.strides().last() == Some(&1) && !x.meta.is_tiled();
    let x = match dense {
        true => x.clone(),
        false => contiguous(x.clone()),
    };
    let [row, head, each] = [0, 1, 2].map(|i| x.meta.strides()[i] as u32);
    (x, StridesLaunch::new(row, head, each))
}

/// Like [`laid`], for kernels that read four numbers at once: vectors begin at multiples of 16 bytes.
pub fn with_aligned_strides(x: &CubeTensor) -> (CubeTensor, StridesLaunch) {
    let begins = x.handle.offset_start.unwrap_or(0).is_multiple_of(16);
    let mut strides = x.meta.strides().iter().rev().skip(1);
    let aligned = begins && strides.all(|stride| stride.is_multiple_of(4));
    match aligned {
        true => with_strides(x),
        false => with_strides(&contiguous(x.copy())),
    }
}

/// Allocates an uninitialised tensor `[B, H, n, D]` in the memory order `[B, n, H, D]`.
pub fn empty_by_position(beside: &CubeTensor, [rows, heads, n, width]: [usize; 4]) -> CubeTensor {
    let x = empty(beside, [rows, n, heads, width]);
    CubeBackend::float_swap_dims(x, 1, 2)
}
