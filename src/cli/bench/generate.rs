//! `formwork bench generate`: measures how many tokens per second a decoder generates.

use super::super::flags::Keys;
use super::super::output;
use super::{case, kernels_json, load_with_data, show_kernels};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::{Experiment, assemble, cost};
use crate::generate::{Sampling, TextGenerator};
use crate::kernel::profile;
use crate::model::LanguageModel;
use crate::nn::linear::repacked_for_decoding;
use crate::report::render::terminal::{bytes, number};
use crate::rng::{Purpose, Stream};
use crate::train::bench::{KernelTime, kernel_times, peak_rss_mb};
use crate::train::machine;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// `formwork bench generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The experiment file of a model that continues texts.
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Number of texts generated in parallel.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Length of each prompt in tokens.
    #[arg(long, default_value_t = 16)]
    prompt: usize,
    /// Tokens to generate for each text.
    #[arg(long, default_value_t = 128)]
    tokens: usize,
    /// Number of measured rounds, after one warmup round.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Show the time per token by kernel.
    #[arg(long)]
    profile: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork bench generate`.
///
/// # Errors
/// If a flag is out of range, the experiment is invalid, the model continues no text, or the texts do not fit into memory.
pub fn run(args: GenerateArgs) -> Result<()> {
    for (flag, value) in [
        ("batch", args.batch),
        ("prompt", args.prompt),
        ("tokens", args.tokens),
        ("rounds", args.rounds),
    ] {
        if !(1..=1 << 20).contains(&value) {
            return Err(Error::usage(format!(
                "--{flag} {value} must be between 1 and 1048576"
            )));
        }
    }
    let (loaded, data) = load_with_data(&args.file, &args.keys.sets(), args.device.as_deref())?;
    let experiment = &loaded.experiment;
    require_memory(&args, experiment, data.shape.vocab_size)?;
    let device = assemble::device(experiment, false)?;
    let model = repacked_for_decoding(assemble::objective(experiment, &data.shape, &device)?);
    let Some(decoder) = model.networks().language_model else {
        return Err(Error::usage(format!(
            "{} has the task {}, which does not continue text",
            args.file.display(),
            experiment.task.kind()
        )));
    };
    let mut stream = Stream::new(experiment.seed, Purpose::Sampling, (0, 0, 0));
    let mut prompt = || -> Vec<u32> {
        let token = |_| stream.below(data.shape.vocab_size as u64) as u32;
        (0..args.prompt).map(token).collect()
    };
    let prompts: Vec<Vec<u32>> = (0..args.batch).map(|_| prompt()).collect();
    round(decoder, &prompts, &args, false)?;
    let mut times = (0..args.rounds)
        .map(|_| round(decoder, &prompts, &args, false))
        .collect::<Result<Vec<_>>>()?;
    times.sort_by(|a, b| a[1].total_cmp(&b[1]));
    let kernels = match args.profile {
        false => None,
        true => {
            let [read, all] = round(decoder, &prompts, &args, true)?;
            let kernels = kernel_times(profile::stop(), args.tokens);
            Some((kernels, (all - read) * 1e3 / args.tokens as f64))
        }
    };
    let times = times[times.len() / 2];
    show(&args, &experiment.train.device, times, kernels)
}

/// Returns an error if the KV cache of all texts, a block's activations for the prompts, and the logits need more memory than
/// there is. The estimate is an upper bound: attention kinds with a smaller cache count like the others.
fn require_memory(args: &GenerateArgs, experiment: &Experiment, vocab: usize) -> Result<()> {
    let Some((limit, gives)) = cost::memory_limit(experiment)? else {
        return Ok(());
    };
    let (cached, most) = match experiment.model.transformer() {
        None => {
            let width = experiment.model.d_output() as u128;
            (2 * width, 16 * width)
        }
        Some(model) => {
            let d_model = model.stack.d_model;
            let blocks = model.blocks().map(|block| {
                let attention = block.attention.map_or(0, |a| a.kept(d_model));
                let mixer = block.mixer.map_or(0, |m| m.activations(d_model));
                let feed_forward = block.feed_forward.map_or(0, |f| f.activations(d_model));
                attention + mixer + feed_forward
            });
            let width = d_model as u128;
            blocks.fold((0, 0), |(cached, most), block: u128| {
                (cached + 2 * width, block.max(most))
            })
        }
    };
    let [batch, prompt, tokens] = [args.batch, args.prompt, args.tokens].map(|n| n as u128);
    let text = cached * (prompt + tokens) + most * prompt + 2 * vocab as u128;
    let needed = u64::try_from(4 * batch * text).unwrap_or(u64::MAX);
    match needed <= limit {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "--batch {batch} x (--prompt {prompt} + --tokens {tokens}) need about {} of memory, but {gives} {}; reduce one of \
             them, or, if the estimate is wrong, set {}=SIZE",
            bytes(needed),
            bytes(limit),
            machine::MEMORY_VARIABLE
        ))),
    }
}

/// Runs one round; returns the seconds until the prompts are read, and until all tokens are generated. Kernels are recorded
/// between the two.
fn round(
    decoder: &dyn LanguageModel,
    prompts: &[Vec<u32>],
    args: &GenerateArgs,
    profiled: bool,
) -> Result<[f64; 2]> {
    let greedy = Sampling {
        temperature: 0.0,
        ..Sampling::default()
    };
    let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let began = Instant::now();
    let mut generator = TextGenerator::new(decoder, args.prompt + args.tokens, &prompts)?;
    generator.reserve(args.tokens);
    let read = began.elapsed().as_secs_f64();
    if profiled {
        profile::start();
    }
    for _ in 0..args.tokens {
        generator.next(&greedy);
    }
    Ok([read, began.elapsed().as_secs_f64()])
}

/// Prints one line, and the kernels with their milliseconds per token; or one JSON object.
fn show(
    args: &GenerateArgs,
    engine: &str,
    [read, all]: [f64; 2],
    kernels: Option<(Vec<KernelTime>, f64)>,
) -> Result<()> {
    let speed = (args.batch * args.tokens) as f64 / all;
    let case = case(&args.file);
    if args.json {
        let mut object = serde_json::json!({
            "case": case,
            "engine": engine,
            "batch": args.batch,
            "prompt": args.prompt,
            "tokens": args.tokens,
            "prompt_ms": read * 1e3,
            "tokens_per_s": speed,
            "peak_rss_mb": peak_rss_mb(),
        });
        if let Some((kernels, all)) = &kernels {
            object["token_ms"] = (*all).into();
            object["kernels_ms"] = kernels_json(kernels);
        }
        return output::line(object.to_string());
    }
    output::line(format!(
        "{case} on {engine}: {} tokens/s, {} texts of {} + {} tokens, the prompt in {:.1} ms",
        number(speed),
        args.batch,
        args.prompt,
        args.tokens,
        read * 1e3
    ))?;
    kernels.map_or(Ok(()), |(kernels, all)| {
        show_kernels("ms a token", &kernels, all)
    })
}
