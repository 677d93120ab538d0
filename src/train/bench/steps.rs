//! The steps of a measurement, one by one, and the times of their parts.

use super::{Bench, Profile, kernel_times};
use crate::data::loader::{self, Batch, TrainStream};
use crate::error::{Error, Result};
use crate::kernel::profile::{self, CallStats};
use crate::stack::state::ModelState;
use crate::task::{StepOutput, TrainableModel};
use crate::train::device_step::{ModelWithOptimizer, Replays};
use crate::train::gradients::{self, Abandoned, Gradient};
use crate::train::job::DecidedOn;
use crate::train::optim;
use burn::optim::GradientsParams;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;

/// Seconds spent in each part of the steps.
#[derive(Default)]
struct PartSeconds {
    data: f64,
    passes: f64,
    clipping: f64,
    update: f64,
}

impl PartSeconds {
    fn profile(&self, mut spent: BTreeMap<&'static str, CallStats>, steps: usize) -> Profile {
        let each = |seconds: f64| seconds * 1e3 / steps as f64;
        let backward = spent.remove(profile::BACKWARD).unwrap_or_default();
        let backward = backward.time.as_secs_f64();
        let parts = [
            ("data", self.data),
            ("forward", self.passes - backward),
            ("backward", backward),
            ("clipping", self.clipping),
            ("update", self.update),
        ];
        Profile {
            parts: parts.map(|(name, seconds)| (name, each(seconds))).to_vec(),
            kernels: kernel_times(spent, steps),
        }
    }
}

/// Adds the seconds that `work` takes to a sum.
fn add_seconds<T>(sum: &mut f64, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    *sum += began.elapsed().as_secs_f64();
    done
}

/// Number of micro-batches that were run, the seconds they took, and how many a step has.
#[derive(Default)]
pub struct MicroBatchTimes {
    made: usize,
    seconds: f64,
    of: usize,
}

impl MicroBatchTimes {
    /// Counts `made` micro-batches of a step that has `of`.
    pub fn add(&mut self, began: Instant, made: usize, of: usize) {
        self.made += made;
        self.seconds += began.elapsed().as_secs_f64();
        self.of = of;
    }

    /// Returns the estimated seconds per step.
    pub fn step(&self) -> f64 {
        self.seconds / self.made.max(1) as f64 * self.of as f64
    }
}

/// A measurement in progress.
pub struct TimedRun<'a, M> {
    bench: &'a Bench<'a>,
    held: ModelWithOptimizer<M>,
    replays: Replays,
    carried: Option<ModelState>,
    stream: TrainStream<Vec<Batch>>,
    parts: PartSeconds,
    began: Instant,
    /// Number of steps taken.
    taken: usize,
}

impl<'a, M: TrainableModel> TimedRun<'a, M> {
    /// Starts a measurement before its first step.
    ///
    /// # Errors
    /// If an optimizer's group fits no parameter.
    pub fn new(model: M, bench: &'a Bench<'a>) -> Result<Self> {
        let config = bench.config;
        let optimizer = optim::build(bench.optimizer, &model)?;
        let carried = config.carry_state.then(|| model.empty_state()).flatten();
        let stream = loader::train_stream(
            bench.train.clone(),
            config.order(bench.seed),
            config.micro_batch_size(),
            0,
        );
        Ok(Self {
            bench,
            held: ModelWithOptimizer::new(model, optimizer),
            replays: Replays::default(),
            carried,
            stream,
            parts: PartSeconds::default(),
            began: Instant::now(),
            taken: 0,
        })
    }

    /// Returns the model between two steps.
    pub fn model(&self) -> &M {
        self.held.model()
    }

    /// Resets the times of the parts, and starts timing kernels if profiling is on.
    pub fn begin_parts(&mut self) {
        self.parts = PartSeconds::default();
        if self.bench.profile {
            profile::start();
        }
    }

    /// Returns the profile of `steps` steps, if profiling is on.
    pub fn profile(&self, steps: usize) -> Option<Profile> {
        self.bench
            .profile
            .then(|| self.parts.profile(profile::stop(), steps))
    }

    /// Returns the micro-batches of the next step.
    ///
    /// # Errors
    /// If the data cannot be read or has ended.
    pub fn batches(&mut self) -> Result<Vec<Batch>> {
        let Some(batches) = add_seconds(&mut self.parts.data, || self.stream.next()) else {
            return Err(Error::run("the training data ended before the last step"));
        };
        let mut batches = batches?;
        for batch in &mut batches {
            // A length in epochs is not known here; anything that changes over a run is timed as in its first steps.
            batch.steps = self.bench.config.steps.max(1);
            batch.recompute = self.bench.config.recompute;
            batch.keeps_sums_on_device = self.bench.route == DecidedOn::Device;
        }
        Ok(batches)
    }

    /// Takes a step, or abandons it if the time is up.
    ///
    /// # Errors
    /// If the step cannot be replayed.
    pub fn step(
        &mut self,
        batches: Vec<Batch>,
    ) -> Result<std::result::Result<StepOutput, Abandoned>> {
        let config = self.bench.config;
        let schedule = self.bench.schedule;
        let (lr, clip_norm) = (
            schedule.lr(self.bench.optimizer.lr(), self.taken as u64, config.steps),
            config.clip_norm,
        );
        // The first step creates the optimizer's state.
        let first = self.taken == 0;
        let replays = config.replay && !first && lr > 0.0 && self.carried.is_none();
        let output = if replays && self.replays.fit(&batches) {
            add_seconds(&mut self.parts.passes, || {
                self.replays
                    .step(self.held.step_targets(), batches, (lr, clip_norm))
            })?
            .output
        } else {
            let mut gradient = match self.gradient(batches, first) {
                Ok(gradient) => gradient,
                Err(left) => return Ok(Err(left)),
            };
            self.carried = gradient.output.state.take();
            // A recording writes to the buffers that the weights had before this step.
            self.replays.forget();
            let waits = !first && self.carried.is_none() && !config.decides_on_host();
            if waits && gradient.squares.is_some() {
                self.update_on_device(gradient, (lr, clip_norm))?
            } else {
                self.update(gradient, (lr, clip_norm))
            }
        };
        self.taken += 1;
        Ok(Ok(output))
    }

    /// Computes the gradient of a step. The first micro-batch of the `first` step is always run, so that there is a
    /// time to report.
    fn gradient(
        &mut self,
        batches: Vec<Batch>,
        first: bool,
    ) -> std::result::Result<Gradient, Abandoned> {
        let first = Cell::new(first);
        let limit = self.bench.limit;
        let is_late = || limit.is_some_and(|limit| self.began.elapsed() >= limit);
        let leaves = || !first.replace(false) && is_late();
        add_seconds(&mut self.parts.passes, || {
            gradients::accumulate_until(self.held.model(), batches, self.carried.as_ref(), &leaves)
        })
    }

    /// Updates the weights if the device decides to take the step.
    fn update_on_device(&mut self, gradient: Gradient, numbers: (f64, f64)) -> Result<StepOutput> {
        let (taken, _) = add_seconds(&mut self.parts.update, || {
            let none = GradientsParams::new();
            self.held
                .step_targets()
                .update_with(gradient, none, numbers, None)
        })?;
        Ok(taken.output)
    }

    /// Updates the weights after reading the gradient's numbers to the host.
    fn update(&mut self, gradient: Gradient, (lr, clip_norm): (f64, f64)) -> StepOutput {
        let mut gradient = gradient.read();
        add_seconds(&mut self.parts.clipping, || {
            gradient.clip(self.held.model(), clip_norm)
        });
        let Gradient {
            gradients, output, ..
        } = gradient;
        add_seconds(&mut self.parts.update, || self.held.optimize(lr, gradients));
        output
    }
}
