//! The sum of the squares of many tensors: each launch reads [`TOGETHER`] of them, and one more adds the cubes'
//! results.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::columns;
use super::launch::{contiguous, cube_sum, empty};

/// Number of tensors per launch: with two more buffers, the number that every WebGPU device can bind.
const TOGETHER: usize = 6;

/// Number of units of a cube.
const UNITS: u32 = 256;

/// Maximum number of cubes of a launch.
const CUBES: usize = 256;

/// Returns the sum of the squares that this unit adds.
#[cube]
fn own_squares(x: &[f32], #[comptime] step: u32) -> f32 {
    let mut sum = 0.0f32;
    let mut at = ABSOLUTE_POS as u32;
    while at < x.len() as u32 {
        let value = x[at as usize];
        sum += value * value;
        at += comptime!(step);
    }
    sum
}

#[cube(launch)]
fn squares_of_six(
    first: &[f32],
    second: &[f32],
    third: &[f32],
    fourth: &[f32],
    fifth: &[f32],
    sixth: &[f32],
    out: &mut [f32],
    from: u32,
    #[comptime] count: u32,
    #[comptime] cubes: u32,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    let step = comptime!(cubes * UNITS);
    let mut sum = own_squares(first, step);
    if comptime!(count > 1) {
        sum += own_squares(second, step);
    }
    if comptime!(count > 2) {
        sum += own_squares(third, step);
    }
    if comptime!(count > 3) {
        sum += own_squares(fourth, step);
    }
    if comptime!(count > 4) {
        sum += own_squares(fifth, step);
    }
    if comptime!(count > 5) {
        sum += own_squares(sixth, step);
    }
    let total = cube_sum(sum, &mut shared, UNITS);
    if UNIT_POS == 0 {
        out[(from + CUBE_POS as u32) as usize] = total;
    }
}

/// Returns the sum of the squares of all elements of one or more tensors, `[1]`.
pub fn sum(tensors: Vec<CubeTensor>) -> CubeTensor {
    let tensors: Vec<_> = tensors.into_iter().map(contiguous).collect();
    let sizes = tensors.iter().map(|x| x.meta.shape().num_elements());
    let wanted = sizes.max().unwrap_or(0).div_ceil(8 * UNITS as usize);
    let cubes = wanted.clamp(1, CUBES);
    let groups = tensors.chunks(TOGETHER);
    let out = empty(&tensors[0], [groups.len() * cubes, 1]);
    for (number, group) in groups.enumerate() {
        // Unused slots refer to the first tensor; the kernel does not read them.
        let [a, b, c, d, e, f] = std::array::from_fn(|i| {
            let tensor = group.get(i).unwrap_or(&group[0]);
            tensor.clone().into_buffer_arg()
        });
        squares_of_six::launch(
            &out.client,
            CubeCount::Static(cubes as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            a,
            b,
            c,
            d,
            e,
            f,
            out.clone().into_buffer_arg(),
            (number * cubes) as u32,
            group.len() as u32,
            cubes as u32,
        );
    }
    columns::sum(out)
}
