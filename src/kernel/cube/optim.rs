//! Moving averages and scaling, in place if nothing else refers to a tensor. The kernels read the decision about a
//! step, `[taken, factor]`, on the device.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, owned, units};
use super::shared_launch::{LaunchQueue, SharedLaunch, largest};
use super::updates::updated;

/// A moving average.
#[derive(CubeType, CubeLaunch)]
struct Average {
    mean: Box<[f32]>,
    value: Box<[f32]>,
    decay: f32,
    rest: f32,
}

#[cube(launch)]
fn moved(all: &mut Sequence<Average>, decision: &[f32], #[comptime] count: u32) {
    let at = ABSOLUTE_POS;
    if decision[0] != 0.0f32 {
        #[unroll]
        for i in 0..comptime!(count as usize) {
            let average = all.index_mut(i);
            if at < average.mean.len() {
                average.mean[at] =
                    average.mean[at] * average.decay + average.value[at] * average.rest;
            }
        }
    }
}

#[cube(launch)]
fn scaled_by(x: &mut [f32], factor: &[f32]) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] *= factor[0];
    }
}

/// The update `decay·mean + (1 − decay)·value` if the step is taken, not launched yet.
pub struct Mean {
    mean: CubeTensor,
    value: CubeTensor,
    decay: f64,
    decision: CubeTensor,
}

impl Mean {
    /// Creates the update. The decision, `[2]`, is the same for all averages of a launch.
    pub fn new(mean: CubeTensor, value: CubeTensor, decay: f64, decision: CubeTensor) -> Self {
        Self {
            mean: updated(mean),
            value: contiguous(value),
            decay,
            decision: contiguous(decision),
        }
    }

    /// Returns the mean, which the launch will write.
    pub fn result(&self) -> CubeTensor {
        self.mean.clone()
    }

    fn argument(self) -> AverageLaunch {
        AverageLaunch::new(
            self.mean.into_buffer_arg(),
            self.value.into_buffer_arg(),
            self.decay as f32,
            (1.0 - self.decay) as f32,
        )
    }
}

impl SharedLaunch for Mean {
    fn buffers(&self) -> usize {
        2
    }

    fn written(&self) -> &CubeTensor {
        &self.mean
    }

    fn queue<'a>(&self, waiting: &'a mut LaunchQueue) -> &'a mut Vec<Self> {
        &mut waiting.means
    }

    fn launch(means: Vec<Self>) {
        let Some(first) = means.first() else { return };
        let client = first.mean.client.clone();
        let (cubes, dim) = units(&first.mean, largest(&means));
        let decision = first.decision.clone().into_buffer_arg();
        let count = means.len() as u32;
        let all = means.into_iter().map(Mean::argument).collect();
        moved::launch(&client, cubes, dim, all, decision, count);
    }
}

/// Multiplies `x` by the first element of `factor`.
pub fn scaled(x: CubeTensor, factor: CubeTensor) -> CubeTensor {
    let (x, factor) = (owned(x), contiguous(factor));
    let (cubes, dim) = units(&x, x.meta.shape().num_elements());
    let (out, factor) = (x.clone().into_buffer_arg(), factor.into_buffer_arg());
    scaled_by::launch(&x.client, cubes, dim, out, factor);
    x
}
