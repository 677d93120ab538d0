//! `formwork bench`: how fast this machine does what a run spends its time on.

mod attention;
mod evaluate;
mod generate;
mod train;

use super::output;
use super::sweep::base;
use crate::data::Data;
use crate::error::Result;
use crate::experiment::{self, Loaded, assemble};
use crate::report::render::table::table;
use crate::report::render::terminal::number;
use crate::train::bench::KernelTime;
use clap::{Args, Subcommand};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// `formwork bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Training steps of an experiment: forward, backward, clipping, update.
    Train(train::TrainArgs),
    /// Attention alone, forward and backward, by the length of the text.
    Attention(attention::AttentionArgs),
    /// Evaluation with a memory, against windows that slide by one token.
    Evaluate(evaluate::EvaluateArgs),
    /// Tokens that a decoder gives, one at a time, from its initial weights.
    Generate(generate::GenerateArgs),
}

/// Runs `formwork bench`.
///
/// # Errors
/// Faults of the experiment or of a flag, data that is missing, a device that cannot be opened.
pub fn run(args: BenchArgs) -> Result<()> {
    match args.what {
        What::Train(args) => train::run(args),
        What::Attention(args) => attention::run(args),
        What::Evaluate(args) => evaluate::run(args),
        What::Generate(args) => generate::run(args),
    }
}

/// The experiment of a file with changes, checked, and its data.
fn opened(file: &Path, sets: &[String], device: Option<&str>) -> Result<(Loaded, Data)> {
    let mut sets = sets.to_vec();
    sets.extend(device.map(|device| format!("train.device={device}")));
    let loaded = experiment::load(file, &sets)?;
    experiment::check(&loaded)?;
    base::tell(&loaded);
    let data = assemble::data_to_train_on(&loaded)?;
    Ok((loaded, data))
}

/// The name of a case: that of its file.
fn case(file: &Path) -> String {
    let stem = file.file_stem();
    stem.map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The milliseconds of kernels by their names.
fn kernels_json(kernels: &[KernelTime]) -> serde_json::Value {
    let times = kernels.iter().map(|(name, _, ms)| (*name, *ms));
    times.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// A table of kernels and of what is in none of them, of `all` milliseconds.
fn show_kernels(unit: &str, kernels: &[KernelTime], all: f64) -> Result<()> {
    let each = kernels.iter();
    let mut rows: Vec<_> = each.map(|(name, n, ms)| (*name, Some(*n), *ms)).collect();
    let inside: f64 = kernels.iter().map(|(_, _, ms)| ms).sum();
    rows.push(("everything else", None, all - inside));
    show_times(["kernel", unit], &rows, all)
}

/// A table of names, calls and milliseconds, with their shares of `all`.
fn show_times(
    [first, unit]: [&str; 2],
    times: &[(&str, Option<f64>, f64)],
    all: f64,
) -> Result<()> {
    let mut rows = vec![[first, "calls", unit, "share"].map(String::from).to_vec()];
    rows.extend(times.iter().map(|(name, calls, ms)| {
        let share = format!("{:.1} %", 100.0 * ms / all.max(f64::MIN_POSITIVE));
        let calls = calls.map_or_else(String::new, number);
        vec![name.to_string(), calls, format!("{ms:.2}"), share]
    }));
    output::line(String::new())?;
    output::line(table(&rows, None).trim_end())
}

/// The median of the milliseconds that `work` takes in so many rounds, after one that does not count.
fn median_ms(rounds: usize, mut work: impl FnMut()) -> f64 {
    median_ms_after(rounds, || (), |()| work())
}

/// The same of work on what `prepare` makes before each round, whose time does not count.
fn median_ms_after<T>(
    rounds: usize,
    mut prepare: impl FnMut() -> T,
    mut work: impl FnMut(T),
) -> f64 {
    work(prepare());
    let time = |_| {
        let prepared = prepare();
        let began = Instant::now();
        work(prepared);
        began.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..rounds.max(1)).map(time).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
