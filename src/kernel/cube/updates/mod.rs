//! Elementwise optimizer steps: one kernel around the formulas of all optimizers, one file per formula. It works in
//! place if nothing else refers to a tensor, and reads the decision about the step, `[taken, factor]`, on the device.
//!
//! Each formula's file also lists its coefficients: those of this step, which a replay reads from a table, and those
//! that are the same at every step.

mod adamw;
mod adaptive;
mod ademamix;
mod adopt;
mod lion;
mod sgd;

use std::any::TypeId;
use std::rc::Rc;

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{contiguous, empty, owned, units};
use super::shared_launch::{LaunchQueue, SharedLaunch, largest};
use super::step_inputs::{self, UpdateCoefficients};
use crate::kernel::elementwise::{ElementwiseStep, ScheduledStep};

/// A value that an optimizer keeps for each element, such as a mean of gradients.
#[derive(CubeType, CubeLaunch)]
pub struct Moment {
    /// One value per element.
    pub values: Box<[f32]>,
}

/// A parameter with its gradient, its moments and its coefficients.
#[derive(CubeType, CubeLaunch)]
pub struct Weights {
    /// The parameter θ.
    pub param: Box<[f32]>,
    /// The gradient, not yet scaled by the decision.
    pub grad: Box<[f32]>,
    /// The optimizer's moments.
    pub moments: Sequence<Moment>,
    /// Coefficients that are the same at every step.
    pub always: Sequence<f32>,
    /// Coefficients of this step.
    now: Sequence<f32>,
    /// Offset of this step's coefficients in the table of a replayed step.
    now_at: u32,
}

/// The step of one kind of optimizer.
#[cube]
pub trait Formula: 'static + Send + Sync {
    /// Updates one element, with its gradient multiplied by `factor`, using the coefficients `now` of this step and
    /// those of every step.
    fn step(weights: &mut Weights, at: usize, factor: f32, now: &Sequence<f32>);
}

/// The coefficients of a formula, in the order in which it reads them.
pub struct Numbers {
    /// Coefficients of this step; every step of the formula has the same number of them.
    pub now: Vec<f64>,
    /// Coefficients that are the same at every step.
    pub always: Vec<f64>,
}

/// A step that the kernel can take, with `N` values beside each element.
pub trait Launched<const N: usize> {
    /// The formula of the step.
    type Formula: Formula;

    /// Returns the coefficients of the formula.
    fn numbers(&self) -> Numbers;
}

/// Takes the steps of `count` parameters; a unit updates the same element of each.
#[cube(launch)]
fn stepped<F: Formula>(
    all: &mut Sequence<Weights>,
    decision: &[f32],
    table: &[f32],
    #[comptime] count: u32,
    #[comptime] numbers: u32,
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
                let mut now = Sequence::<f32>::new();
                let from = weights.now_at as usize;
                #[unroll]
                for n in 0..comptime!(numbers as usize) {
                    if comptime!(replayed) {
                        now.push(table[from + n]);
                    } else {
                        now.push(weights.now[n]);
                    }
                }
                F::step(weights, at, factor, &now);
            }
        }
    }
}

/// Like [`owned`], for a tensor that persists from step to step.
pub fn updated(x: CubeTensor) -> CubeTensor {
    step_inputs::check_persistent(&x);
    owned(x)
}

/// A step that has not been launched yet.
pub struct Update {
    formula: TypeId,
    launch: fn(Vec<Self>),
    param: CubeTensor,
    grad: CubeTensor,
    moments: Vec<CubeTensor>,
    numbers: Numbers,
    /// Decision about the step, `[2]`: the same for all updates of a launch.
    decision: Option<CubeTensor>,
    /// Table and offset of the coefficients of a replayed step.
    table: Option<(CubeTensor, u32)>,
}

impl Update {
    /// Creates an update, and returns the parameter and values that its launch will write. With a decision, `[2]`,
    /// the gradient is scaled first, and a step that is not taken leaves everything unchanged.
    pub fn new<A: ElementwiseStep<N>, const N: usize>(
        param: CubeTensor,
        grad: CubeTensor,
        values: [CubeTensor; N],
        step: &ScheduledStep<A>,
        decision: Option<CubeTensor>,
    ) -> (Self, CubeTensor, [CubeTensor; N]) {
        let (param, values) = (updated(param), values.map(updated));
        let update = Self {
            formula: TypeId::of::<A::Formula>(),
            launch: launched::<A::Formula>,
            param: param.clone(),
            grad: contiguous(grad),
            moments: values.to_vec(),
            numbers: step.args().numbers(),
            decision: decision.map(contiguous),
            table: step_inputs::numbers_at(|| later(step)),
        };
        (update, param, values)
    }

    fn argument(self) -> WeightsLaunch {
        let moments = self.moments.into_iter();
        let moments = moments.map(|values| MomentLaunch::new(values.into_buffer_arg()));
        let shown = |numbers: Vec<f64>| numbers.into_iter().map(|x| x as f32).collect();
        WeightsLaunch::new(
            self.param.into_buffer_arg(),
            self.grad.into_buffer_arg(),
            moments.collect(),
            shown(self.numbers.always),
            shown(self.numbers.now),
            self.table.map_or(0, |(_, at)| at),
        )
    }
}

/// Returns the coefficients of a step in the form of a replay's table, for any learning rate and step number.
fn later<A: ElementwiseStep<N>, const N: usize>(step: &ScheduledStep<A>) -> UpdateCoefficients {
    let args = step.args.clone();
    UpdateCoefficients {
        lr: step.lr,
        time: step.time,
        count: step.args().numbers().now.len(),
        words: Rc::new(move |lr, time| {
            let now = args(lr, time).numbers().now.into_iter();
            now.map(|x| (x as f32).to_bits()).collect()
        }),
    }
}

/// Launches updates of the same formula at once.
fn launched<F: Formula>(updates: Vec<Update>) {
    let Some(first) = updates.first() else { return };
    let client = first.param.client.clone();
    let (cubes, dim) = units(&first.param, largest(&updates));
    let (decided, replayed) = (first.decision.is_some(), first.table.is_some());
    let numbers = first.numbers.now.len() as u32;
    // The kernel does not read absent tensors.
    let nothing = || empty(&first.param, [1]);
    let decision = first.decision.clone().unwrap_or_else(nothing);
    let table = first.table.clone();
    let table = table.map_or_else(nothing, |(table, _)| table);
    let count = updates.len() as u32;
    stepped::launch::<F>(
        &client,
        cubes,
        dim,
        updates.into_iter().map(Update::argument).collect(),
        decision.into_buffer_arg(),
        table.into_buffer_arg(),
        count,
        numbers,
        decided,
        replayed,
    );
}

impl SharedLaunch for Update {
    fn buffers(&self) -> usize {
        2 + self.moments.len()
    }

    fn written(&self) -> &CubeTensor {
        &self.param
    }

    fn queue<'a>(&self, waiting: &'a mut LaunchQueue) -> &'a mut Vec<Self> {
        waiting.updates.entry(self.formula).or_default()
    }

    fn launch(updates: Vec<Self>) {
        if let Some(first) = updates.first() {
            (first.launch)(updates);
        }
    }
}
