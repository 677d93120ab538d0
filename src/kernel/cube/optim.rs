//! The work of an optimizer on whole tensors, in place where nothing else holds them: AdamW's update, scaling.

use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{owned, units};
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
}

#[cube(launch)]
fn adamw(param: &mut [f32], grad: &[f32], moment_1: &mut [f32], moment_2: &mut [f32], step: Step) {
    let at = ABSOLUTE_POS;
    if at < param.len() {
        let g = grad[at];
        let m = moment_1[at] * step.beta_1 + g * step.rest_1;
        let v = moment_2[at] * step.beta_2 + g * g * step.rest_2;
        let scale = v.sqrt() * step.second_scale + step.eps;
        param[at] = param[at] * step.decay - m / scale * step.step_size;
        moment_1[at] = m;
        moment_2[at] = v;
    }
}

#[cube(launch)]
fn scaled_by(x: &mut [f32], factor: &[f32]) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] *= factor[0];
    }
}

/// One step of AdamW: param and moments.
pub fn adamw_step(
    param: CubeTensor,
    grad: CubeTensor,
    moments: [CubeTensor; 2],
    args: AdamwArgs,
) -> [CubeTensor; 3] {
    let factors = args.factors();
    let (param, grad) = (owned(param), into_contiguous(grad));
    let [moment_1, moment_2] = moments.map(owned);
    let (cubes, dim) = units(&param, param.meta.shape().num_elements());
    adamw::launch(
        &param.client,
        cubes,
        dim,
        param.clone().into_buffer_arg(),
        grad.into_buffer_arg(),
        moment_1.clone().into_buffer_arg(),
        moment_2.clone().into_buffer_arg(),
        StepLaunch::new(
            args.beta_1 as f32,
            (1.0 - args.beta_1) as f32,
            args.beta_2 as f32,
            (1.0 - args.beta_2) as f32,
            args.eps as f32,
            factors.decay as f32,
            factors.step_size as f32,
            factors.second_scale as f32,
        ),
    );
    [param, moment_1, moment_2]
}

/// `x·factor` with the first element of `factor`.
pub fn scaled(x: CubeTensor, factor: CubeTensor) -> CubeTensor {
    let (x, factor) = (owned(x), into_contiguous(factor));
    let (cubes, dim) = units(&x, x.meta.shape().num_elements());
    let (out, factor) = (x.clone().into_buffer_arg(), factor.into_buffer_arg());
    scaled_by::launch(&x.client, cubes, dim, out, factor);
    x
}
