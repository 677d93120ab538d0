//! Training steps without a run around them, timed one by one.

use super::config::TrainConfig;
use super::device_step::{Held, Replays};
use super::gradients::{self, Left};
use super::job::Route;
use super::machine::bytes;
use super::schedule::ScheduleConfig;
use super::{optim, parameters};
use crate::data::{Source, loader};
use crate::error::{Error, Result};
use crate::kernel;
use crate::kernel::profile::{self, Spent};
use crate::task::{StepOutput, Trained};
use burn::optim::GradientsParams;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The work that is timed.
pub struct Bench<'a> {
    /// `[train]`.
    pub config: &'a TrainConfig,
    /// `[optimizer]`.
    pub optimizer: &'a optim::OptimizerConfig,
    /// `[schedule]`.
    pub schedule: &'a ScheduleConfig,
    /// Seed of the order of the data.
    pub seed: u64,
    /// Training items.
    pub train: Arc<dyn Source>,
    /// Whether to find out where the time goes.
    pub profile: bool,
    /// After how long no further micro-batch is begun.
    pub limit: Option<Duration>,
    /// Where steps are decided.
    pub route: Route,
}

/// Figures of a measurement.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Parameters of the model.
    pub params: usize,
    /// Median of the steps' times in milliseconds; their mean where the host is ahead of the device.
    pub step_ms_median: f64,
    /// Reads of the device a timed step, each of which waits for it; none where tensors are in the host's memory.
    pub host_reads: Option<f64>,
    /// Items of a step over its median time.
    pub items_per_s: f64,
    /// Largest resident size of the process in MB (2²⁰ bytes); 0 where the system does not tell.
    pub peak_rss_mb: f64,
    /// Loss of the first step.
    pub loss_first: f64,
    /// Loss of the last step.
    pub loss_last: f64,
    /// Whether the time was up before all steps were made. Where not one could be timed, the time of a step is that of
    /// the micro-batches that were made, times the number of them that a step has.
    pub cut: bool,
    /// Where the time went, when it was asked for.
    pub profile: Option<Profile>,
}

/// Where the time of a step goes, in milliseconds a step.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The parts of a step in their order, waiting for data included. They are all of it.
    pub parts: Vec<(&'static str, f64)>,
    /// Kernels by their time; what is not in them is Burn's own operations.
    pub kernels: Vec<KernelTime>,
}

/// A kernel's name, how often it runs in a step, and its milliseconds a step.
pub type KernelTime = (&'static str, f64, f64);

/// The record of so many steps, the longest first.
pub fn kernel_times(spent: BTreeMap<&'static str, Spent>, steps: usize) -> Vec<KernelTime> {
    let steps = steps as f64;
    let kernel = |(name, spent): (&'static str, Spent)| {
        let ms = spent.time.as_secs_f64() * 1e3 / steps;
        (name, spent.calls as f64 / steps, ms)
    };
    let mut kernels: Vec<_> = spent.into_iter().map(kernel).collect();
    kernels.sort_by(|a, b| b.2.total_cmp(&a.2));
    kernels
}

/// Sums of the times of the parts.
#[derive(Default)]
struct Parts {
    data: f64,
    passes: f64,
    clipping: f64,
    update: f64,
}

/// Adds what `work` takes to a sum.
fn counted<T>(sum: &mut f64, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    *sum += began.elapsed().as_secs_f64();
    done
}

impl Parts {
    fn profile(&self, mut spent: BTreeMap<&'static str, Spent>, steps: usize) -> Profile {
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

/// Micro-batches that were made, the seconds that they took, and how many a step has.
#[derive(Default)]
struct Untimed {
    made: usize,
    seconds: f64,
    of: usize,
}

impl Untimed {
    fn add(&mut self, began: Instant, made: usize, of: usize) {
        self.made += made;
        self.seconds += began.elapsed().as_secs_f64();
        self.of = of;
    }

    /// Seconds of a step.
    fn step(&self) -> f64 {
        self.seconds / self.made.max(1) as f64 * self.of as f64
    }
}

/// Takes `warmup` steps, then times `steps`: forward, backward, clipping, update.
///
/// # Errors
/// No step to time, a number of steps that cannot be counted, an optimizer's group that fits no parameter, and
/// data that cannot be read.
pub fn measure<M: Trained>(
    model: M,
    bench: &Bench,
    warmup: usize,
    steps: usize,
) -> Result<Measure> {
    // Steps that are recorded are not timed.
    let warmup = if bench.config.replay {
        warmup.max(4)
    } else {
        warmup
    };
    let Some(all) = warmup.checked_add(steps).filter(|_| steps > 0) else {
        return Err(Error::usage(format!(
            "{warmup} steps of warm-up and {steps} timed ones cannot be measured; time at least one step"
        )));
    };
    let config = bench.config;
    let optimizer = optim::build(bench.optimizer, &model)?;
    let (mut held, mut replays) = (Held::new(model, optimizer), Replays::default());
    let mut stream = loader::train_stream(
        bench.train.clone(),
        config.order(bench.seed),
        config.micro_batch_size(),
        0,
    );
    let (mut times, mut losses, mut items) = (Vec::new(), Vec::new(), 0);
    let all_began = Instant::now();
    let is_late = || {
        bench
            .limit
            .is_some_and(|limit| all_began.elapsed() >= limit)
    };
    // Micro-batches of steps before the first that is timed, and what they took.
    let (mut untimed, mut cut) = (Untimed::default(), false);
    let mut parts = Parts::default();
    let mut window = Window::begin(held.model(), bench.route);
    let mut carried = config
        .carry_state
        .then(|| held.model().empty_state())
        .flatten();
    for step in 0..all {
        if step == warmup {
            window = Window::begin(held.model(), bench.route);
            parts = Parts::default();
            if bench.profile {
                profile::start();
            }
        }
        let Some(batches) = counted(&mut parts.data, || stream.next()) else {
            return Err(Error::run("the training data ended before the last step"));
        };
        let mut batches = batches?;
        for batch in &mut batches {
            // A length in epochs is not known here; what changes over a run is timed at its first steps.
            batch.steps = config.steps.max(1);
            batch.recompute = config.recompute;
            batch.unread = bench.route == Route::Device;
        }
        let began = Instant::now();
        let count = batches.len();
        let lr = bench
            .schedule
            .lr(bench.optimizer.lr(), step as u64, config.steps);
        // The first step makes the optimizer's state.
        if config.replay && step > 0 && lr > 0.0 && carried.is_none() && replays.fit(&batches) {
            let taken = counted(&mut parts.passes, || {
                replays.step(held.moving(), batches, (lr, config.clip_norm))
            })?;
            items = taken.output.items;
            losses.push(taken.output);
            times.extend((step >= warmup).then(|| began.elapsed().as_secs_f64()));
            continue;
        }
        // The first micro-batch is always made: there is a time to tell.
        let first = Cell::new(step == 0);
        let leaves = || !first.replace(false) && is_late();
        let made = counted(&mut parts.passes, || {
            gradients::accumulate_until(held.model(), batches, carried.as_ref(), &leaves)
        });
        let mut gradient = match made {
            Ok(gradient) => gradient,
            Err(Left(made)) => {
                untimed.add(began, made, count);
                cut = true;
                break;
            }
        };
        carried = gradient.output.state.take();
        items = gradient.output.items;
        if step > 0 && carried.is_none() && gradient.squares.is_some() {
            let (taken, _) = counted(&mut parts.update, || {
                let none = GradientsParams::new();
                held.moving()
                    .by(gradient, none, (lr, config.clip_norm), None)
            })?;
            losses.push(taken.output);
        } else {
            gradient = gradient.read();
            counted(&mut parts.clipping, || {
                gradient.clip(held.model(), config.clip_norm)
            });
            losses.push(gradient.output);
            counted(&mut parts.update, || held.optimize(lr, gradient.gradients));
        }
        if step >= warmup {
            times.push(began.elapsed().as_secs_f64());
        } else {
            untimed.add(began, count, count);
        }
    }
    let (mean, host_reads) = window.end(held.model(), times.len());
    if bench.route == Route::Device && !times.is_empty() {
        times = vec![mean];
    }
    if times.is_empty() {
        times.push(untimed.step());
    }
    let profile = bench.profile.then(|| parts.profile(profile::stop(), steps));
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    Ok(Measure {
        params: parameters::count(held.model()),
        step_ms_median: median * 1e3,
        host_reads: (bench.route == Route::Device).then_some(host_reads),
        items_per_s: items as f64 / median,
        peak_rss_mb: peak_rss_mb(),
        loss_first: mean_of(losses.first()),
        loss_last: mean_of(losses.last()),
        cut,
        profile,
    })
}

/// The loss of a step; not a number of none.
fn mean_of(output: Option<&StepOutput>) -> f64 {
    output.map_or(f64::NAN, |output| output.clone().read().loss.mean())
}

/// The timed steps as a whole: the device has nothing else to do at their beginning, and has done them at their end.
struct Window {
    began: Instant,
    reads: u64,
    route: Route,
}

impl Window {
    fn begin<M: Trained>(model: &M, route: Route) -> Self {
        synchronized(model, route);
        Self {
            began: Instant::now(),
            reads: kernel::reads(),
            route,
        }
    }

    /// Seconds and reads a step of so many.
    fn end<M: Trained>(self, model: &M, steps: usize) -> (f64, f64) {
        let reads = kernel::reads() - self.reads;
        synchronized(model, self.route);
        let steps = steps.max(1) as f64;
        (
            self.began.elapsed().as_secs_f64() / steps,
            reads as f64 / steps,
        )
    }
}

/// Waits until the device has done what it was given.
fn synchronized<M: Trained>(model: &M, route: Route) {
    if route == Route::Device {
        for device in model.devices() {
            // What failed there is told by the read of the losses.
            drop(device.sync());
        }
    }
}

/// Largest resident size of this process so far, from the kernel's accounting.
pub fn peak_rss_mb() -> f64 {
    bytes("/proc/self/status", "VmHWM").map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20))
}
