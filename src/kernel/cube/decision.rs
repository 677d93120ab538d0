//! The decision about a step from its loss and gradient norm, in one launch.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty};

#[cube(launch)]
fn decided(
    loss: &[f32],
    squares: &[f32],
    before: &[f32],
    out: &mut [f32],
    limit: f32,
    #[comptime] clips: bool,
    #[comptime] follows: bool,
) {
    if ABSOLUTE_POS > 0 {
        terminate!();
    }
    let square = squares[0];
    let loss = loss[0];
    let mut taken = 1.0f32;
    if loss.is_nan() || loss.is_inf() || square.is_nan() || square.is_inf() {
        taken = 0.0f32;
    }
    if comptime!(follows) {
        if before[0] == 0.0f32 {
            taken = 0.0f32;
        }
    }
    let mut factor = 1.0f32;
    if comptime!(clips) {
        let norm = square.sqrt();
        if norm > limit {
            factor = 1.0f32 / (norm + 1e-6f32) * limit;
        }
    }
    out[0] = taken;
    out[1] = factor;
}

/// Returns `[taken, factor]` of a step, as defined by [`crate::kernel::decide`].
pub fn decide(
    loss: CubeTensor,
    squares: CubeTensor,
    limit: Option<f64>,
    before: Option<CubeTensor>,
) -> CubeTensor {
    let [loss, squares] = [loss, squares].map(contiguous);
    let out = empty(&loss, [2]);
    let follows = before.is_some();
    let before = before.map_or_else(|| loss.clone(), contiguous);
    decided::launch(
        &out.client,
        CubeCount::new_single(),
        CubeDim::new_single(),
        loss.into_buffer_arg(),
        squares.into_buffer_arg(),
        before.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        limit.unwrap_or(0.0) as f32,
        limit.is_some(),
        follows,
    );
    out
}
