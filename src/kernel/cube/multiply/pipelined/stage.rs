//! Steps of the operands on their way to shared memory.

use burn::tensor::bf16;
use cubecl::frontend::barrier::copy_async_checked;
use cubecl::prelude::*;

use crate::kernel::cube::fragment::PLANE;

/// Rows and columns that a cube makes.
pub const TILE: u32 = 128;

/// Numbers of the sums that are read at a time.
pub const DEPTH: u32 = 32;

/// How many of these steps shared memory holds.
pub const STAGES: u32 = 4;

/// Units of a cube: four planes.
pub const UNITS: u32 = 4 * PLANE;

/// Numbers that a unit copies at once.
pub const CHUNK: u32 = 8;

/// Distance between rows of a step whose rows are those of an operand's sums, and whose rows are its rows or columns: eight
/// numbers more than there are, so that rows begin in other banks.
pub const ALONG: u32 = DEPTH + CHUNK;
pub const ACROSS: u32 = TILE + CHUNK;

/// How an operand lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lies {
    /// Neighbours are those that are added.
    Along,
    /// Neighbours are of one row of the sums.
    Across,
}

impl Lies {
    /// Numbers of a step in shared memory.
    pub fn size(self) -> u32 {
        match self {
            Self::Along => TILE * ALONG,
            Self::Across => DEPTH * ACROSS,
        }
    }
}

/// An operand.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub struct Operand {
    /// Rows of the left one, columns of the right one.
    pub count: u32,
    /// From a number to the next one in the direction in which they do not lie beside each other.
    pub step: u32,
    /// From matrix to matrix of a batch.
    pub batch: u32,
}

/// Has a step of an operand copied to a stage of shared memory; zeros stand where there is nothing.
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
    #[comptime] lies: Lies,
) {
    let begin = batch * operand.batch;
    let place = stage * comptime!(lies.size());
    #[unroll]
    for part in 0..comptime!(TILE * DEPTH / CHUNK / UNITS) {
        let chunk = comptime!(part * UNITS) + UNIT_POS;
        let mut at = begin;
        let mut there = place;
        let mut have = 0u32;
        if comptime!(lies == Lies::Along) {
            // Eight units, which write at once, have rows that begin in different banks: one and the fourth behind it.
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

/// Ends a group of copies.
#[cube]
pub fn commit() {
    gpu_asm!("cp.async.commit_group;");
}

/// Waits until the oldest group of copies is there.
#[cube]
pub fn wait() {
    let left = comptime!(STAGES - 2);
    gpu_asm!("cp.async.wait_group {left};", left = const left);
}
