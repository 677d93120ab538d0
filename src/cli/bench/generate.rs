//! `formwork bench generate`: how many tokens a decoder gives in a second.

use super::super::output;
use super::{case, kernels_json, opened, show_kernels};
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::assemble;
use crate::generate::{Generator, Sampling};
use crate::kernel::profile;
use crate::model::LanguageModel;
use crate::nn::linear::stored_for_decoding;
use crate::report::render::terminal::number;
use crate::rng::{Purpose, Stream};
use crate::train::bench::{KernelTime, kernel_times, peak_rss_mb};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// `formwork bench generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The experiment file of a model that continues texts.
    file: PathBuf,
    /// Override a key.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Texts side by side.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Tokens of each prompt.
    #[arg(long, default_value_t = 16)]
    prompt: usize,
    /// Tokens to generate for each text.
    #[arg(long, default_value_t = 128)]
    tokens: usize,
    /// Rounds that are counted, after one that is not.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::of_flag)]
    device: Option<String>,
    /// Show where the time of a token goes, by kernel.
    #[arg(long)]
    profile: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork bench generate`.
///
/// # Errors
/// A flag out of range, faults of the experiment, a model that continues no text.
pub fn run(args: GenerateArgs) -> Result<()> {
    for (flag, value) in [
        ("batch", args.batch),
        ("prompt", args.prompt),
        ("tokens", args.tokens),
        ("rounds", args.rounds),
    ] {
        if !(1..=1 << 20).contains(&value) {
            return Err(Error::usage(format!(
                "--{flag} {value} is not 1 to 1048576"
            )));
        }
    }
    let (loaded, data) = opened(&args.file, &args.sets, args.device.as_deref())?;
    let experiment = &loaded.experiment;
    let device = assemble::device(experiment, false)?;
    let model = stored_for_decoding(assemble::objective(experiment, &data.shape, &device)?);
    let Some(decoder) = model.networks().language_model else {
        return Err(Error::usage(format!(
            "{} is of the task {}, which continues no text",
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

/// Seconds until the prompts are read, and until all tokens are there; kernels are recorded between the two.
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
    let mut generator = Generator::new(decoder, args.prompt + args.tokens, &prompts)?;
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

/// One line and the kernels of a token with its milliseconds, or one object.
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
