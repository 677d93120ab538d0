//! `formwork bench attention`: time and memory of a layer of attention by the length of the text.
//!
//! The layer reads and gives vectors of one head's width, so that its projections weigh little beside attention itself.
//! Each length has a process of its own, since the peak of a process never falls.

use super::super::output;
use super::median_ms;
use crate::device::{Backend, DeviceName};
use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::nn::attention::{Attention, AttentionConfig, AttentionShape, Visibility};
use crate::nn::init::{Init, InitConfig};
use crate::nn::layer::LayerContext;
use crate::nn::pass::Pass;
use crate::rng::{Purpose, Stream};
use crate::train::bench::peak_rss_mb;
use burn::tensor::{Device, Tensor, TensorData};
use clap::Args;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Numbers of the queries at most: 1 GiB, and there are about ten tensors as large, gradients among them.
const MOST_NUMBERS: u128 = 1 << 28;
/// Scores at most, 16 GiB, where attention has all of them in memory: everywhere but on flex.
const MOST_SCORES: u128 = 1 << 32;

/// `formwork bench attention`.
#[derive(Debug, Args)]
pub struct AttentionArgs {
    /// Kind of attention: `formwork list attention` names them.
    #[arg(long, default_value = "multi_head")]
    kind: String,
    /// Another key of this kind: `--set window=256`; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Positions; several lengths are measured one after the other, the shortest first.
    #[arg(long, default_value = "1024,2048,4096", value_delimiter = ',')]
    context: Vec<usize>,
    /// Rows.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Heads of queries.
    #[arg(long, default_value_t = 8)]
    heads: usize,
    /// Heads of keys and values; as many as of queries when absent.
    #[arg(long)]
    kv_heads: Option<usize>,
    /// Width of a head.
    #[arg(long, default_value_t = 64)]
    head_width: usize,
    /// A position sees all others, not the earlier ones alone.
    #[arg(long)]
    bidirectional: bool,
    /// Rounds that are counted.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork bench attention`.
///
/// # Errors
/// A flag out of range, a kind or key that is not known, a device that cannot be opened.
pub fn run(args: AttentionArgs) -> Result<()> {
    let kv_heads = args.kv_heads.unwrap_or(args.heads);
    let name = args.device.parse::<DeviceName>()?;
    check_sizes(&args, kv_heads, name.backend)?;
    let config = config(&args)?;
    let mut lengths = args.context.clone();
    lengths.sort_unstable();
    lengths.dedup();
    if let [length] = lengths[..] {
        let measured = measured(&args, &config, length, &name.open()?.autodiff());
        return show(&args, &measured);
    }
    let mut all = Vec::new();
    for length in lengths {
        let measured = in_child(&args, length)?;
        show(&args, &measured)?;
        all.push(measured);
    }
    let exponents = json!({
        "kind": args.kind,
        "engine": args.device,
        "exponent_time": exponent(&all, |m| number(m, "forward_ms") + number(m, "backward_ms")),
        "exponent_memory": exponent(&all, |m| number(m, "peak_mb")),
    });
    show_exponents(&args, &exponents)
}

/// The attention that the flags describe.
fn config(args: &AttentionArgs) -> Result<AttentionConfig> {
    let mut keys = serde_json::Map::new();
    keys.insert("kind".into(), json!(args.kind));
    keys.insert("n_heads".into(), json!(args.heads));
    keys.insert("d_head".into(), json!(args.head_width));
    if let Some(kv_heads) = args.kv_heads {
        keys.insert("n_kv_heads".into(), json!(kv_heads));
    }
    for set in &args.sets {
        let Some((key, value)) = set.split_once('=') else {
            return Err(Error::usage(format!(
                "--set {set} has no value; write --set KEY=VALUE"
            )));
        };
        let value: Value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        keys.insert(key.trim().into(), value);
    }
    let config: AttentionConfig = serde_json::from_value(Value::Object(keys))
        .map_err(|e| Error::usage(format!("--kind {}: {e}", args.kind)))?;
    let mut faults = Faults::default();
    config.faults(None, &mut faults.of("kind"));
    match faults.found.first() {
        Some((_, rule)) => Err(Error::usage(format!("--kind {}: {rule}", args.kind))),
        None => Ok(config),
    }
}

/// The measures of one length, from a process of its own.
fn in_child(args: &AttentionArgs, length: usize) -> Result<Value> {
    let program = std::env::current_exe().map_err(Error::io("find", "this program"))?;
    let mut command = Command::new(&program);
    command.args(["bench", "attention", "--json", "--kind", &args.kind]);
    for set in &args.sets {
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
            "{length} positions could not be measured"
        ))),
    }
}

fn number(measured: &Value, key: &str) -> f64 {
    measured[key].as_f64().unwrap_or_default()
}

/// The slope of the line through the logarithms of lengths and measures, by least squares; none when a measure is 0.
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

/// An error for sizes that make no attention, or none that a machine could hold.
fn check_sizes(args: &AttentionArgs, kv_heads: usize, backend: Backend) -> Result<()> {
    let (batch, heads, width) = (args.batch, args.heads, args.head_width);
    let sizes = [
        ("--batch", batch),
        ("--heads", heads),
        ("--kv-heads", kv_heads),
        ("--head-width", width),
        ("--rounds", args.rounds),
    ];
    let contexts = args.context.iter().map(|context| ("--context", *context));
    for (flag, size) in sizes.into_iter().chain(contexts) {
        if !(1..=1 << 20).contains(&size) {
            return Err(Error::usage(format!(
                "{flag} {size} is not between 1 and 1048576"
            )));
        }
    }
    if !heads.is_multiple_of(kv_heads) {
        return Err(Error::usage(format!(
            "--heads {heads} is not a multiple of --kv-heads {kv_heads}"
        )));
    }
    let length = args.context.iter().copied().max().unwrap_or(1);
    let product = |sizes: [usize; 4]| sizes.map(|size| size as u128).iter().product::<u128>();
    let numbers = product([batch, heads, length, width]);
    if numbers > MOST_NUMBERS {
        return Err(Error::usage(format!(
            "--batch {batch} x --heads {heads} x --context {length} x --head-width {width} are {numbers} numbers, more \
             than {MOST_NUMBERS}; make one of them smaller"
        )));
    }
    let scores = product([batch, heads, length, length]);
    if backend != Backend::Flex && scores > MOST_SCORES {
        return Err(Error::usage(format!(
            "--batch {batch} x --heads {heads} x --context {length} squared are {scores} scores, more than {MOST_SCORES}, \
             and {} has all of them in memory; make one of them smaller",
            backend.name()
        )));
    }
    Ok(())
}

/// Time and memory of one length.
fn measured(
    args: &AttentionArgs,
    config: &AttentionConfig,
    length: usize,
    device: &Device,
) -> Value {
    let width = args.head_width;
    let mut stream = Stream::new(0, Purpose::Init, (0, 0, 0));
    let values: Vec<f32> = (0..args.batch * length * width)
        .map(|_| stream.normal())
        .collect();
    let input = TensorData::new(values, [args.batch, length, width]);
    let input = Tensor::<3>::from_data(input, device);
    let init = Init::new(device, 0, &InitConfig::default(), 1, 1.0);
    let shape = AttentionShape::alone(width, length);
    let attention = config.init(&shape, &init);
    let visible = Visibility {
        causal: !args.bidirectional,
        ..Visibility::default()
    };
    // What parameters and kernels need once is not counted.
    let few = input.clone().narrow(1, 0, length.min(64));
    drop(attend(&attention, few, &visible).into_data());
    let before = peak_rss_mb();
    let plain = input.clone().inner();
    let valid = burn::module::Module::valid(&attention);
    let forward = median_ms(args.rounds, || {
        drop(attend(&valid, plain.clone(), &visible).into_data());
    });
    let both = median_ms(args.rounds, || {
        let leaf = input.clone().detach().require_grad();
        let grads = attend(&attention, leaf.clone(), &visible).sum().backward();
        drop(leaf.grad(&grads).map(Tensor::into_data));
    });
    json!({
        "kind": args.kind,
        "engine": args.device,
        "context": length,
        "forward_ms": forward,
        "backward_ms": (both - forward).max(0.0),
        "peak_mb": peak_rss_mb() - before,
    })
}

fn attend(attention: &Attention, x: Tensor<3>, visible: &Visibility) -> Tensor<3> {
    let [_, length, _] = x.dims();
    let pass = Pass::evaluation();
    let mut cx = LayerContext {
        visible,
        ..LayerContext::alone(length, &pass)
    };
    attention.layer().forward(x, &mut cx)
}

fn show(args: &AttentionArgs, measured: &Value) -> Result<()> {
    if args.json {
        return output::line(measured.to_string());
    }
    output::line(format!(
        "{} positions: forward {:.1} ms, backward {:.1} ms, {:.0} MB more at the peak",
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
        "time grows with the length to the power of {}, memory to that of {}",
        shown("exponent_time"),
        shown("exponent_memory"),
    ))
}
