//! Training steps without a run around them, timed one by one.

mod steps;

use super::config::TrainConfig;
use super::gradients::Left;
use super::job::Route;
use super::machine::bytes;
use super::schedule::ScheduleConfig;
use super::{optim, parameters};
use crate::data::Source;
use crate::error::{Error, Result};
use crate::kernel;
use crate::kernel::profile::Spent;
use crate::task::{StepOutput, Trained};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steps::{Course, Untimed};

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
    let warmup = match bench.config.replay {
        true => warmup.max(4),
        false => warmup,
    };
    let Some(all) = warmup.checked_add(steps).filter(|_| steps > 0) else {
        return Err(Error::usage(format!(
            "{warmup} steps of warm-up and {steps} timed ones cannot be measured; time at least one step"
        )));
    };
    let mut course = Course::new(model, bench)?;
    let (mut times, mut losses) = (Vec::new(), Vec::new());
    // Micro-batches of steps before the first that is timed, and what they took.
    let (mut untimed, mut cut) = (Untimed::default(), false);
    let mut window = Window::begin(course.model(), bench.route);
    for step in 0..all {
        if step == warmup {
            window = Window::begin(course.model(), bench.route);
            course.begin_parts();
        }
        let batches = course.batches()?;
        let (began, count) = (Instant::now(), batches.len());
        match course.step(batches)? {
            Ok(output) => losses.push(output),
            Err(Left(made)) => {
                untimed.add(began, made, count);
                cut = true;
                break;
            }
        }
        match step >= warmup {
            true => times.push(began.elapsed().as_secs_f64()),
            false => untimed.add(began, count, count),
        }
    }
    let (mean, host_reads) = window.end(course.model(), times.len());
    if bench.route == Route::Device && !times.is_empty() {
        times = vec![mean];
    }
    if times.is_empty() {
        times.push(untimed.step());
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let items = losses.last().map_or(0, |output: &StepOutput| output.items);
    Ok(Measure {
        params: parameters::count(course.model()),
        step_ms_median: median * 1e3,
        host_reads: (bench.route == Route::Device).then_some(host_reads),
        items_per_s: items as f64 / median,
        peak_rss_mb: peak_rss_mb(),
        loss_first: mean_of(losses.first()),
        loss_last: mean_of(losses.last()),
        cut,
        profile: course.profile(steps),
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
