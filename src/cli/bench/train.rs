//! `formwork bench train`: measures the speed of training steps, without evaluation, checkpoints and start-up.

use super::super::flags::Keys;
use super::super::output;
use super::{case, kernels_json, load_with_data, show_kernels, show_times};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::cost;
use crate::report::render::terminal::{loss, number};
use crate::train::bench::{Measurement, Profile};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `formwork bench train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The experiment file.
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Number of measured steps.
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Number of warmup steps before them.
    #[arg(long, default_value_t = 3)]
    warmup: usize,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Show the time by part of the step and by kernel.
    #[arg(long)]
    profile: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork bench train`.
///
/// # Errors
/// If the experiment is invalid, data is missing, or the device cannot be opened.
pub fn run(args: TrainArgs) -> Result<()> {
    if args.steps == 0 {
        return Err(Error::usage("--steps 0 measures nothing; give at least 1"));
    }
    let (loaded, data) = load_with_data(&args.file, &args.keys.sets(), args.device.as_deref())?;
    let experiment = &loaded.experiment;
    let counts = (args.warmup, args.steps);
    let measured = cost::measure_steps(experiment, &loaded.places(), &data, counts, args.profile)?;
    show(
        &case(&args.file),
        &experiment.train.device,
        &measured,
        args.json,
    )
}

fn show(case: &str, engine: &str, m: &Measurement, json: bool) -> Result<()> {
    if json {
        let mut object = serde_json::json!({
            "case": case,
            "engine": engine,
            "params": m.params,
            "step_ms_median": m.step_ms_median,
            "items_per_s": m.items_per_s,
            "peak_rss_mb": m.peak_rss_mb,
            "loss_first": m.loss_first,
            "loss_last": m.loss_last,
        });
        if let Some(reads) = m.host_reads {
            object["host_reads"] = reads.into();
        }
        if let Some(profile) = &m.profile {
            let parts = profile.parts.iter().map(|(name, ms)| (*name, *ms));
            object["parts_ms"] = parts.collect::<BTreeMap<_, _>>().into_iter().collect();
            object["kernels_ms"] = kernels_json(&profile.kernels);
        }
        return output::line(object.to_string());
    }
    output::line(format!("{case} on {engine}: {} parameters", m.params))?;
    output::line(format!(
        "step {:.2} ms (median)  {} items/s  peak memory {:.0} MB",
        m.step_ms_median,
        number(m.items_per_s),
        m.peak_rss_mb
    ))?;
    output::line(format!(
        "loss {} → {}",
        loss(m.loss_first),
        loss(m.loss_last)
    ))?;
    m.profile.as_ref().map_or(Ok(()), show_profile)
}

/// Prints two tables: the parts of a step, and the kernels with the time outside of them.
fn show_profile(profile: &Profile) -> Result<()> {
    let all: f64 = profile.parts.iter().map(|(_, ms)| ms).sum();
    let parts = profile.parts.iter();
    let parts: Vec<_> = parts.map(|(name, ms)| (*name, None, *ms)).collect();
    show_times(["part", "ms a step"], &parts, all)?;
    show_kernels("ms a step", &profile.kernels, all)
}
