//! `formwork bench attention`: time and memory of attention by the length of the text.

use super::super::output;
use super::median_ms;
use crate::device::{Backend, DeviceName};
use crate::error::{Error, Result};
use crate::kernel::{AttentionOptions, Relations, Visibility, attention};
use crate::rng::{Purpose, Stream};
use crate::train::bench::peak_rss_mb;
use burn::tensor::{Device, Tensor, TensorData};
use clap::Args;

/// Numbers of the queries at most: 1 GiB, and there are about ten tensors as large, gradients among them.
const MOST_NUMBERS: u128 = 1 << 28;
/// Scores at most, 16 GiB, where attention has all of them in memory: everywhere but on flex.
const MOST_SCORES: u128 = 1 << 32;

/// `formwork bench attention`.
#[derive(Debug, Args)]
pub struct AttentionArgs {
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
/// A flag out of range, a device that cannot be opened.
pub fn run(args: AttentionArgs) -> Result<()> {
    let kv_heads = args.kv_heads.unwrap_or(args.heads);
    let name = args.device.parse::<DeviceName>()?;
    check_sizes(&args, kv_heads, name.backend)?;
    let device = name.open()?.autodiff();
    let mut lengths = args.context.clone();
    lengths.sort_unstable();
    for length in lengths {
        let before = peak_rss_mb();
        let [forward, both] = times(&args, kv_heads, length, &device);
        show(&args, length, [forward, both, peak_rss_mb() - before])?;
    }
    Ok(())
}

/// An error for sizes that make no attention, or none that a machine could hold.
fn check_sizes(args: &AttentionArgs, kv_heads: usize, backend: Backend) -> Result<()> {
    let (batch, heads, width) = (args.batch, args.heads, args.head_width);
    let sizes = [batch, heads, kv_heads, width, args.rounds];
    if sizes
        .iter()
        .chain(&args.context)
        .any(|size| !(1..=1 << 20).contains(size))
    {
        return Err(Error::usage(
            "--context, --batch, --heads, --kv-heads, --head-width and --rounds are 1 to 1048576",
        ));
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

/// Milliseconds of the forward pass, and of forward and backward.
fn times(args: &AttentionArgs, kv_heads: usize, length: usize, device: &Device) -> [f64; 2] {
    let random = |heads: usize, number: u64| {
        let mut stream = Stream::new(number, Purpose::Init, (0, 0, 0));
        let shape = [args.batch, heads, length, args.head_width];
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| stream.normal())
            .collect();
        Tensor::<4>::from_data(TensorData::new(values, shape), device)
    };
    let inputs = [
        random(args.heads, 0),
        random(kv_heads, 1),
        random(kv_heads, 2),
    ];
    let attend = |[q, k, v]: [Tensor<4>; 3]| {
        let visible = Visibility {
            causal: !args.bidirectional,
            ..Visibility::default()
        };
        let relations = Relations {
            visible,
            ..Relations::default()
        };
        let options = AttentionOptions {
            scale: (args.head_width as f64).powf(-0.5),
            softcap: None,
            dropout: None,
        };
        attention(q, k, v, relations, options)
    };
    let plain = inputs.clone().map(Tensor::inner);
    let forward = median_ms(args.rounds, || {
        let _ = attend(plain.clone()).into_data();
    });
    let both = median_ms(args.rounds, || {
        let leaves = inputs.clone().map(|x| x.detach().require_grad());
        let out = attend(leaves.clone());
        let grads = out.sum().backward();
        for leaf in leaves {
            let _ = leaf.grad(&grads).map(Tensor::into_data);
        }
    });
    [forward, both]
}

fn show(args: &AttentionArgs, length: usize, [forward, both, memory]: [f64; 3]) -> Result<()> {
    if args.json {
        let object = serde_json::json!({
            "case": "attention",
            "engine": args.device,
            "context": length,
            "forward_ms_median": forward,
            "forward_backward_ms_median": both,
            "peak_rss_growth_mb": memory,
        });
        return output::line(object.to_string());
    }
    output::line(format!(
        "{length} positions: forward {forward:.1} ms, forward and backward {both:.1} ms, {memory:.0} MB more at the peak"
    ))
}
