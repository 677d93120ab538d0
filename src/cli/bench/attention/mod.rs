//! `formwork bench attention`: measures time and memory of an attention layer by the length of the text.
//!
//! The layer's input and output have the width of a single head, so that its projections cost little compared to attention
//! itself. Each kind and length is measured in a separate process, since the peak memory of a process never falls. A kind that
//! reads in only one direction is measured in that direction.

mod kinds;
mod measurement;

use super::super::output;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::nn::attention::AttentionConfig;
use clap::Args;
use kinds::{causal, check_sizes, configs};
use measurement::measure_length;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// `formwork bench attention`.
#[derive(Debug, Args)]
pub struct AttentionArgs {
    /// Attention kinds, as `formwork list attention` names them; several are measured one after another.
    #[arg(long, default_value = "multi_head", value_delimiter = ',')]
    kind: Vec<String>,
    /// Measure every kind, with its default keys.
    #[arg(long, conflicts_with = "kind")]
    all: bool,
    /// Set another key of all kinds: `--set window=256`, or of one of them: `--set sliding_window.window=256`; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Number of positions; several lengths are measured one after another, the shortest first.
    #[arg(long, default_value = "1024,2048,4096", value_delimiter = ',')]
    context: Vec<usize>,
    /// Batch size.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Number of query heads.
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Number of key and value heads; as many as query heads when absent.
    #[arg(long)]
    kv_heads: Option<usize>,
    /// Width of a head.
    #[arg(long, default_value_t = 64)]
    head_width: usize,
    /// Let each position attend to all others, not only to earlier ones, if the kind can read either way.
    #[arg(long)]
    bidirectional: bool,
    /// Number of measured rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork bench attention`.
///
/// # Errors
/// If a flag is out of range, a kind or key is unknown, or the device cannot be opened.
pub fn run(args: AttentionArgs) -> Result<()> {
    let kv_heads = args.kv_heads.unwrap_or(args.heads);
    let name = args.device.parse::<DeviceName>()?;
    check_sizes(&args, kv_heads, name.backend)?;
    let configs = configs(&args)?;
    let mut lengths = args.context.clone();
    lengths.sort_unstable();
    lengths.dedup();
    if let ([config], [length]) = (&configs[..], &lengths[..]) {
        let measured = measure_length(&args, config, *length, &name.open()?.autodiff());
        return show(&args, &measured);
    }
    for config in &configs {
        let mut all = Vec::new();
        for length in &lengths {
            let measured = in_child(&args, config, *length)?;
            show(&args, &measured)?;
            all.push(measured);
        }
        if lengths.len() > 1 {
            show_exponents(&args, &exponents(&args, config, &all))?;
        }
    }
    Ok(())
}

/// The growth exponents of one attention kind over the measured lengths.
fn exponents(args: &AttentionArgs, config: &AttentionConfig, all: &[Value]) -> Value {
    json!({
        "kind": config.kind(),
        "engine": args.device,
        "causal": causal(args, config),
        "exponent_time": exponent(all, |m| number(m, "forward_ms") + number(m, "backward_ms")),
        "exponent_memory": exponent(all, |m| number(m, "peak_mb")),
    })
}

/// Measures one attention kind at one length in a child process.
fn in_child(args: &AttentionArgs, config: &AttentionConfig, length: usize) -> Result<Value> {
    let program = std::env::current_exe().map_err(Error::io("find", "this program"))?;
    let mut command = Command::new(&program);
    let kind = config.kind();
    command.args(["bench", "attention", "--json", "--kind", kind]);
    for set in kinds::sets_for_kind(args, kind)? {
        command.args(["--set", set]);
    }
    let numbers = [
        ("--context", Some(length)),
        ("--batch", Some(args.batch)),
        ("--heads", Some(args.heads)),
        ("--kv-heads", args.kv_heads),
        ("--head-width", Some(args.head_width)),
        ("--rounds", Some(args.rounds)),
    ];
    for (flag, number) in numbers {
        if let Some(number) = number {
            command.args([flag, &number.to_string()]);
        }
    }
    if args.bidirectional {
        command.arg("--bidirectional");
    }
    command
        .args(["--device", &args.device])
        .stderr(Stdio::inherit());
    let done = command.output().map_err(Error::io("run", &program))?;
    match serde_json::from_slice(&done.stdout) {
        Ok(measured) if done.status.success() => Ok(measured),
        _ => Err(Error::run(format!(
            "{kind} could not be measured at {length} positions"
        ))),
    }
}

fn number(measured: &Value, key: &str) -> f64 {
    measured[key].as_f64().unwrap_or_default()
}

/// The least-squares slope of the logarithm of a measure over the logarithm of the length; none if a measure is 0.
fn exponent(all: &[Value], measure: impl Fn(&Value) -> f64) -> Option<f64> {
    let points: Vec<[f64; 2]> = all
        .iter()
        .map(|m| [number(m, "context").ln(), measure(m).ln()])
        .collect();
    let count = points.len() as f64;
    let mean = |i: usize| points.iter().map(|p| p[i]).sum::<f64>() / count;
    let [x, y] = [mean(0), mean(1)];
    let moment = |i: usize, m: f64| -> f64 { points.iter().map(|p| (p[0] - x) * (p[i] - m)).sum() };
    let slope = moment(1, y) / moment(0, x);
    slope.is_finite().then_some(slope)
}

/// The kind and its direction, for display.
fn name(of: &Value) -> String {
    let order = if of["causal"] == true {
        "causal"
    } else {
        "bidirectional"
    };
    format!("{} ({order})", of["kind"].as_str().unwrap_or_default())
}

fn show(args: &AttentionArgs, measured: &Value) -> Result<()> {
    if args.json {
        return output::line(measured.to_string());
    }
    output::line(format!(
        "{}, {} positions: forward {:.1} ms, backward {:.1} ms, {:.0} MB more at the peak",
        name(measured),
        measured["context"],
        number(measured, "forward_ms"),
        number(measured, "backward_ms"),
        number(measured, "peak_mb"),
    ))
}

fn show_exponents(args: &AttentionArgs, exponents: &Value) -> Result<()> {
    if args.json {
        return output::line(exponents.to_string());
    }
    let shown = |key: &str| match exponents[key].as_f64() {
        Some(exponent) => format!("{exponent:.2}"),
        None => "?".to_string(),
    };
    output::line(format!(
        "{}: time grows with the length to the power of {}, memory to that of {}",
        name(exponents),
        shown("exponent_time"),
        shown("exponent_memory"),
    ))
}
