//! The work of an optimizer on whole tensors, in place where nothing else holds them: AdamW's update, moving averages,
//! scaling. What was decided about a step is read where it is used, `[taken, factor]`.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty, owned, units};
use super::noted;
use super::together::{Joint, Waiting, largest};
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

/// A parameter with its moments.
#[derive(CubeType, CubeLaunch)]
struct Weights {
    param: Box<[f32]>,
    grad: Box<[f32]>,
    moment_1: Box<[f32]>,
    moment_2: Box<[f32]>,
    step: Step,
}

/// A moving average.
#[derive(CubeType, CubeLaunch)]
struct Average {
    mean: Box<[f32]>,
    value: Box<[f32]>,
    decay: f32,
    rest: f32,
}

/// The updates of so many parameters; a unit works on the same place of each.
#[cube(launch)]
fn adamw(
    all: &mut Sequence<Weights>,
    decision: &[f32],
    table: &[f32],
    #[comptime] count: u32,
    #[comptime] decided: bool,
    #[comptime] replayed: bool,
) {
    let at = ABSOLUTE_POS;
    let mut taken = true;
    let mut factor = 1.0f32;
    if comptime!(decided) {
        taken = decision[0] != 0.0f32;
        factor = decision[1];
    }
    if taken {
        #[unroll]
        for i in 0..comptime!(count as usize) {
            let weights = all.index_mut(i);
            if at < weights.param.len() {
                let step = &weights.step;
                let mut decay = step.decay;
                let mut step_size = step.step_size;
                let mut second_scale = step.second_scale;
                if comptime!(replayed) {
                    decay = table[step.factors_at as usize];
                    step_size = table[(step.factors_at + 1) as usize];
                    second_scale = table[(step.factors_at + 2) as usize];
                }
                let g = weights.grad[at] * factor;
                let m = weights.moment_1[at] * step.beta_1 + g * step.rest_1;
                let v = weights.moment_2[at] * step.beta_2 + g * g * step.rest_2;
                let scale = v.sqrt() * second_scale + step.eps;
                weights.param[at] = weights.param[at] * decay - m / scale * step_size;
                weights.moment_1[at] = m;
                weights.moment_2[at] = v;
            }
        }
    }
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

/// [`owned`] of a tensor that stays from step to step.
fn updated(x: CubeTensor) -> CubeTensor {
    noted::stays(&x);
    owned(x)
}

/// A step of AdamW that has not been launched.
pub struct Update {
    param: CubeTensor,
    grad: CubeTensor,
    moments: [CubeTensor; 2],
    args: AdamwArgs,
    /// What was decided about the step, `[2]`: the same for all updates of a launch.
    decision: Option<CubeTensor>,
    /// Where a step that is replayed finds its factors.
    factors: Option<(CubeTensor, u32)>,
}

impl Update {
    /// With a decision, `[2]`, the gradient is scaled first, and a step that is not taken leaves everything as it was.
    pub fn new(
        param: CubeTensor,
        grad: CubeTensor,
        moments: [CubeTensor; 2],
        args: AdamwArgs,
        decision: Option<CubeTensor>,
    ) -> Self {
        Self {
            param: updated(param),
            grad: contiguous(grad),
            moments: moments.map(updated),
            args,
            decision: decision.map(contiguous),
            factors: noted::factors_at(&args),
        }
    }

    /// Param and moments, which the launch writes.
    pub fn results(&self) -> [CubeTensor; 3] {
        let [moment_1, moment_2] = self.moments.clone();
        [self.param.clone(), moment_1, moment_2]
    }

    fn argument(self) -> WeightsLaunch {
        let (args, factors) = (self.args, self.args.factors());
        let [moment_1, moment_2] = self.moments;
        let step = StepLaunch::new(
            args.beta_1 as f32,
            (1.0 - args.beta_1) as f32,
            args.beta_2 as f32,
            (1.0 - args.beta_2) as f32,
            args.eps as f32,
            factors.decay as f32,
            factors.step_size as f32,
            factors.second_scale as f32,
            self.factors.map_or(0, |(_, at)| at),
        );
        WeightsLaunch::new(
            self.param.into_buffer_arg(),
            self.grad.into_buffer_arg(),
            moment_1.into_buffer_arg(),
            moment_2.into_buffer_arg(),
            step,
        )
    }
}

impl Joint for Update {
    const BUFFERS: usize = 4;

    fn written(&self) -> &CubeTensor {
        &self.param
    }

    fn among(waiting: &mut Waiting) -> &mut Vec<Self> {
        &mut waiting.updates
    }

    fn launch(updates: Vec<Self>) {
        let Some(first) = updates.first() else { return };
        let client = first.param.client.clone();
        let (cubes, dim) = units(&first.param, largest(&updates));
        let (decided, replayed) = (first.decision.is_some(), first.factors.is_some());
        // What is not there is not read.
        let nothing = || empty(&first.param, [1]);
        let decision = first.decision.clone().unwrap_or_else(nothing);
        let table = first
            .factors
            .clone()
            .map_or_else(nothing, |(table, _)| table);
        let count = updates.len() as u32;
        adamw::launch(
            &client,
            cubes,
            dim,
            updates.into_iter().map(Update::argument).collect(),
            decision.into_buffer_arg(),
            table.into_buffer_arg(),
            count,
            decided,
            replayed,
        );
    }
}

/// `decay·mean + (1 − decay)·value` where the step is taken: not launched yet.
pub struct Mean {
    mean: CubeTensor,
    value: CubeTensor,
    decay: f64,
    decision: CubeTensor,
}

impl Mean {
    /// The decision, `[2]`, is the same for all averages of a launch.
    pub fn new(mean: CubeTensor, value: CubeTensor, decay: f64, decision: CubeTensor) -> Self {
        Self {
            mean: updated(mean),
            value: contiguous(value),
            decay,
            decision: contiguous(decision),
        }
    }

    /// The mean, which the launch writes.
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

impl Joint for Mean {
    const BUFFERS: usize = 2;

    fn written(&self) -> &CubeTensor {
        &self.mean
    }

    fn among(waiting: &mut Waiting) -> &mut Vec<Self> {
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

/// `x·factor` with the first element of `factor`.
pub fn scaled(x: CubeTensor, factor: CubeTensor) -> CubeTensor {
    let (x, factor) = (owned(x), contiguous(factor));
    let (cubes, dim) = units(&x, x.meta.shape().num_elements());
    let (out, factor) = (x.clone().into_buffer_arg(), factor.into_buffer_arg());
    scaled_by::launch(&x.client, cubes, dim, out, factor);
    x
}
