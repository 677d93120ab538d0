//! Copies of the operands' steps to shared memory.

use burn::tensor::bf16;
use cubecl::frontend::barrier::copy_async_checked;
use cubecl::prelude::*;

use crate::kernel::cube::fragment::PLANE;

/// Number of rows and columns that a cube computes.
pub const TILE: u32 = 128;

/// Depth of a step along the inner dimension.
pub const DEPTH: u32 = 32;

/// Number of steps that shared memory holds.
pub const STAGES: u32 = 4;

/// Number of units of a cube: four planes.
pub const UNITS: u32 = 4 * PLANE;

/// Number of elements that a unit copies at once.
pub const CHUNK: u32 = 8;

/// Distance between rows of a step in shared memory, for operands that are contiguous along the inner dimension and
/// across it. It is eight elements more than a row has, so that rows begin in different banks.
pub const ALONG: u32 = DEPTH + CHUNK;
pub const ACROSS: u32 = TILE + CHUNK;

/// The memory layout of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Contiguous along the inner dimension, over which products are summed.
    Along,
    /// Contiguous across it: adjacent elements belong to different rows or columns of the result.
    Across,
}

impl Layout {
    /// Returns the number of elements of a step in shared memory.
    pub fn size(self) -> u32 {
        match self {
            Self::Along => TILE * ALONG,
            Self::Across => DEPTH * ACROSS,
        }
    }
}

/// Sizes and strides of an operand.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Operand {
    /// Number of rows of the left operand, or columns of the right one.
    pub count: u32,
    /// Distance between elements along the dimension that is not contiguous.
    pub step: u32,
    /// Distance from matrix to matrix of a batch.
    pub batch: u32,
}

/// Starts copying a step of an operand to a stage of shared memory; zeros fill the part outside the matrix.
#[cube]
pub fn fetch(
    from: &Tensor<bf16>,
    to: &mut Shared<[bf16]>,
    operand: &Operand,
    batch: u32,
    first: u32,
    depth: u32,
    deep: u32,
    stage: u32,
    #[comptime] lies: Layout,
) {
    let begin = batch * operand.batch;
    let place = stage * comptime!(lies.size());
    #[unroll]
    for part in 0..comptime!(TILE * DEPTH / CHUNK / UNITS) {
        let chunk = comptime!(part * UNITS) + UNIT_POS;
        let mut at = begin;
        let mut there = place;
        let mut have = 0u32;
        if comptime!(lies == Layout::Along) {
            // The rows that eight units write at once begin in different banks: rows 0, 4, 1, 5, … of eight.
            let each = chunk / comptime!(DEPTH / CHUNK);
            let each = each / 8 * 8 + each % 2 * 4 + each / 2 % 4;
            let along = chunk % comptime!(DEPTH / CHUNK) * CHUNK;
            there += each * ALONG + along;
            if first + each < operand.count && depth + along < deep {
                at += (first + each) * operand.step + depth + along;
                have = min(deep - depth - along, CHUNK);
            }
        } else {
            let along = chunk / comptime!(TILE / CHUNK);
            let each = chunk % comptime!(TILE / CHUNK) * CHUNK;
            there += along * ACROSS + each;
            if first + each < operand.count && depth + along < deep {
                at += (depth + along) * operand.step + first + each;
                have = min(operand.count - first - each, CHUNK);
            }
        }
        copy_async_checked(
            &from[at as usize..(at + have) as usize],
            &mut to[there as usize..(there + CHUNK) as usize],
            CHUNK,
        );
    }
}

/// Ends a group of asynchronous copies.
#[cube]
pub fn commit() {
    gpu_asm!("cp.async.commit_group;");
}

/// Waits until the oldest group of copies has arrived.
#[cube]
pub fn wait() {
    let left = comptime!(STAGES - 2);
    gpu_asm!("cp.async.wait_group {left};", left = const left);
}
