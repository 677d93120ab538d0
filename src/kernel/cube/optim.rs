//! The work of an optimizer on whole tensors, in place where nothing else holds them: AdamW's update, moving averages,
//! scaling. What was decided about a step is read where it is used, `[taken, factor]`.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, owned, units};
use super::noted;
use crate::kernel::optim::AdamwArgs;

/// The numbers of one AdamW step.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Step {
    beta_1: f32,
    rest_1: f32,
    beta_2: f32,
    rest_2: f32,
    eps: f32,
    decay: f32,
    step_size: f32,
    second_scale: f32,
    /// Where the last three are in the table of a step that is replayed.
    factors_at: u32,
}

#[cube(launch)]
fn adamw(
    param: &mut [f32],
    grad: &[f32],
    moment_1: &mut [f32],
    moment_2: &mut [f32],
    decision: &[f32],
    table: &[f32],
    step: Step,
    #[comptime] decided: bool,
    #[comptime] replayed: bool,
) {
    let at = ABSOLUTE_POS;
    if at < param.len() {
        let mut g = grad[at];
        let mut taken = true;
        if comptime!(decided) {
            taken = decision[0] != 0.0f32;
            g *= decision[1];
        }
        let mut decay = step.decay;
        let mut step_size = step.step_size;
        let mut second_scale = step.second_scale;
        if comptime!(replayed) {
            decay = table[step.factors_at as usize];
            step_size = table[(step.factors_at + 1) as usize];
            second_scale = table[(step.factors_at + 2) as usize];
        }
        if taken {
            let m = moment_1[at] * step.beta_1 + g * step.rest_1;
            let v = moment_2[at] * step.beta_2 + g * g * step.rest_2;
            let scale = v.sqrt() * second_scale + step.eps;
            param[at] = param[at] * decay - m / scale * step_size;
            moment_1[at] = m;
            moment_2[at] = v;
        }
    }
}

#[cube(launch)]
fn moved(mean: &mut [f32], value: &[f32], decision: &[f32], decay: f32, rest: f32) {
    let at = ABSOLUTE_POS;
    if at < mean.len() {
        if decision[0] != 0.0f32 {
            mean[at] = mean[at] * decay + value[at] * rest;
        }
    }
}

#[cube(launch)]
fn scaled_by(x: &mut [f32], factor: &[f32]) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] *= factor[0];
    }
}

/// [`owned`] of a tensor that stays from step to step.
fn updated(x: CubeTensor) -> CubeTensor {
    noted::stays(&x);
    owned(x)
}

/// One step of AdamW: param and moments. With a decision, `[2]`, the gradient is scaled first, and a step that is not taken
/// leaves everything as it was.
pub fn adamw_step(
    param: CubeTensor,
    grad: CubeTensor,
    moments: [CubeTensor; 2],
    args: AdamwArgs,
    decision: Option<CubeTensor>,
) -> [CubeTensor; 3] {
    let factors = args.factors();
    let [moment_1, moment_2] = moments;
    let [param, moment_1, moment_2] = [param, moment_1, moment_2].map(updated);
    let grad = contiguous(grad);
    let (table, factors_at) = noted::factors_at(&args).unzip();
    let replayed = table.is_some();
    let table = table.unwrap_or_else(|| grad.clone());
    let decided = decision.is_some();
    let decision = decision.map_or_else(|| grad.clone(), contiguous);
    let (cubes, dim) = units(&param, param.meta.shape().num_elements());
    adamw::launch(
        &param.client,
        cubes,
        dim,
        param.clone().into_buffer_arg(),
        grad.into_buffer_arg(),
        moment_1.clone().into_buffer_arg(),
        moment_2.clone().into_buffer_arg(),
        decision.into_buffer_arg(),
        table.into_buffer_arg(),
        StepLaunch::new(
            args.beta_1 as f32,
            (1.0 - args.beta_1) as f32,
            args.beta_2 as f32,
            (1.0 - args.beta_2) as f32,
            args.eps as f32,
            factors.decay as f32,
            factors.step_size as f32,
            factors.second_scale as f32,
            factors_at.unwrap_or(0),
        ),
        decided,
        replayed,
    );
    [param, moment_1, moment_2]
}

/// `decay·mean + (1 − decay)·value` where the step is taken.
pub fn moved_if(
    mean: CubeTensor,
    value: CubeTensor,
    decay: f64,
    decision: CubeTensor,
) -> CubeTensor {
    let (mean, value) = (updated(mean), contiguous(value));
    let (cubes, dim) = units(&mean, mean.meta.shape().num_elements());
    moved::launch(
        &mean.client,
        cubes,
        dim,
        mean.clone().into_buffer_arg(),
        value.into_buffer_arg(),
        contiguous(decision).into_buffer_arg(),
        decay as f32,
        (1.0 - decay) as f32,
    );
    mean
}

/// `x·factor` with the first element of `factor`.
pub fn scaled(x: CubeTensor, factor: CubeTensor) -> CubeTensor {
    let (x, factor) = (owned(x), contiguous(factor));
    let (cubes, dim) = units(&x, x.meta.shape().num_elements());
    let (out, factor) = (x.clone().into_buffer_arg(), factor.into_buffer_arg());
    scaled_by::launch(&x.client, cubes, dim, out, factor);
    x
}
