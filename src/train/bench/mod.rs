//! Training steps outside a run, timed one by one.

mod steps;

use super::config::TrainConfig;
use super::gradients::Abandoned;
use super::job::DecidedOn;
use super::machine::read_proc_bytes;
use super::schedule::ScheduleConfig;
use super::{optim, parameters};
use crate::data::Source;
use crate::error::{Error, Result};
use crate::kernel;
use crate::kernel::profile::CallStats;
use crate::task::{StepOutput, TrainableModel};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steps::{MicroBatchTimes, TimedRun};

/// The work that is timed.
pub struct Bench<'a> {
    /// `[train]`.
    pub config: &'a TrainConfig,
    /// `[optimizer]`.
    pub optimizer: &'a optim::OptimizerConfig,
    /// `[schedule]`.
    pub schedule: &'a ScheduleConfig,
    /// Seed of the data order.
    pub seed: u64,
    /// Training items.
    pub train: Arc<dyn Source>,
    /// Whether to measure where the time goes.
    pub profile: bool,
    /// Time after which no further micro-batch is started.
    pub limit: Option<Duration>,
    /// Where it is decided whether a step is taken.
    pub route: DecidedOn,
}

/// Results of a measurement.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Number of parameters of the model.
    pub params: usize,
    /// Median time of a step in milliseconds; the mean if the host runs ahead of the device.
    pub step_ms_median: f64,
    /// Reads from the device per timed step, each of which waits for it; `None` if tensors are in the host's memory.
    pub host_reads: Option<f64>,
    /// Items per second: items of a step over its median time.
    pub items_per_s: f64,
    /// Peak resident memory of the process in MB (2²⁰ bytes); 0 if the system does not tell.
    pub peak_rss_mb: f64,
    /// Loss of the first step.
    pub loss_first: f64,
    /// Loss of the last step.
    pub loss_last: f64,
    /// Whether the time was up before all steps were done. If no step could be timed, the time of a step is the mean
    /// time of the micro-batches that were run, times the number of micro-batches in a step.
    pub out_of_time: bool,
    /// Where the time went, if it was measured.
    pub profile: Option<Profile>,
}

/// Where the time of a step goes, in milliseconds per step.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Parts of a step in order, including waiting for data. They add up to the whole step.
    pub parts: Vec<(&'static str, f64)>,
    /// Kernels, the longest first; time not in them is spent in Burn's own operations.
    pub kernels: Vec<KernelTime>,
}

/// A kernel's name, its number of runs per step, and its milliseconds per step.
pub type KernelTime = (&'static str, f64, f64);

/// Converts the record of `steps` steps to times per step, the longest first.
pub fn kernel_times(spent: BTreeMap<&'static str, CallStats>, steps: usize) -> Vec<KernelTime> {
    let steps = steps as f64;
    let kernel = |(name, spent): (&'static str, CallStats)| {
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
/// If there is no step to time, the number of steps overflows, an optimizer's group fits no parameter, or the data
/// cannot be read.
pub fn measure<M: TrainableModel>(
    model: M,
    bench: &Bench,
    warmup: usize,
    steps: usize,
) -> Result<Measurement> {
    // Steps that record a replay are not timed.
    let warmup = match bench.config.replay {
        true => warmup.max(4),
        false => warmup,
    };
    let Some(all) = warmup.checked_add(steps).filter(|_| steps > 0) else {
        return Err(Error::usage(format!(
            "{warmup} warmup steps and {steps} timed steps cannot be measured; time at least one step"
        )));
    };
    let mut course = TimedRun::new(model, bench)?;
    let (mut times, mut losses) = (Vec::new(), Vec::new());
    // Micro-batches of untimed steps, and the time they took.
    let (mut untimed, mut cut) = (MicroBatchTimes::default(), false);
    let mut window = TimedWindow::begin(course.model(), bench.route);
    for step in 0..all {
        if step == warmup {
            window = TimedWindow::begin(course.model(), bench.route);
            course.begin_parts();
        }
        let batches = course.batches()?;
        let (began, count) = (Instant::now(), batches.len());
        match course.step(batches)? {
            Ok(output) => losses.push(output),
            Err(Abandoned(made)) => {
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
    if bench.route == DecidedOn::Device && !times.is_empty() {
        times = vec![mean];
    }
    if times.is_empty() {
        times.push(untimed.step());
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let items = losses.last().map_or(0, |output: &StepOutput| output.items);
    Ok(Measurement {
        params: parameters::count(course.model()),
        step_ms_median: median * 1e3,
        host_reads: (bench.route == DecidedOn::Device).then_some(host_reads),
        items_per_s: items as f64 / median,
        peak_rss_mb: peak_rss_mb(),
        loss_first: mean_of(losses.first()),
        loss_last: mean_of(losses.last()),
        out_of_time: cut,
        profile: course.profile(steps),
    })
}

/// Returns the loss of a step; NaN if there is none.
fn mean_of(output: Option<&StepOutput>) -> f64 {
    output.map_or(f64::NAN, |output| output.clone().read().loss.mean())
}

/// The timed steps as a whole: the device is idle at their beginning, and has finished them at their end.
struct TimedWindow {
    began: Instant,
    reads: u64,
    route: DecidedOn,
}

impl TimedWindow {
    fn begin<M: TrainableModel>(model: &M, route: DecidedOn) -> Self {
        synchronize(model, route);
        Self {
            began: Instant::now(),
            reads: kernel::read_count(),
            route,
        }
    }

    /// Returns seconds and reads per step, for this number of steps.
    fn end<M: TrainableModel>(self, model: &M, steps: usize) -> (f64, f64) {
        let reads = kernel::read_count() - self.reads;
        synchronize(model, self.route);
        let steps = steps.max(1) as f64;
        (
            self.began.elapsed().as_secs_f64() / steps,
            reads as f64 / steps,
        )
    }
}

/// Waits until the device has finished its work.
fn synchronize<M: TrainableModel>(model: &M, route: DecidedOn) {
    if route == DecidedOn::Device {
        for device in model.devices() {
            // A failure there is reported by the read of the losses.
            drop(device.sync());
        }
    }
}

/// Returns the peak resident memory of this process in MB (2²⁰ bytes), from the kernel's accounting.
pub fn peak_rss_mb() -> f64 {
    read_proc_bytes("/proc/self/status", "VmHWM")
        .map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20))
}
