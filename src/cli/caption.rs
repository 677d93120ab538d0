//! `formwork caption`: generates captions of images.
//!
//! If one of several images cannot be read, it is reported on standard error, the others are captioned, and the exit status is
//! 1.

use super::{inputs, output};
use crate::data::images::read_image;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::run_contents::CheckpointChoice;
use crate::generate::decode::{MAX_ROWS, check_search, with_flags};
use crate::generate::{Captioner, SamplingConfig};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// `formwork caption`.
#[derive(Debug, Args)]
pub struct CaptionArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Images: PNG or JPEG.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The text that captions begin with; empty when absent.
    #[arg(long, allow_hyphen_values = true, default_value = "")]
    prompt: String,
    /// Beam size of the search; 1 takes the most likely token each time. The experiment's when absent.
    #[arg(long, value_name = "B")]
    beam: Option<usize>,
    /// Number of captions per image, the best first, each after its score.
    #[arg(long, value_name = "N")]
    n_best: Option<usize>,
    /// Sample this many captions of each image instead of searching for the most likely one.
    #[arg(long, value_name = "N", conflicts_with_all = ["beam", "n_best"])]
    samples: Option<usize>,
    /// Sampling temperature, which divides the logits; the run's when absent, usually 0.8.
    #[arg(long, requires = "samples", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Sample from the K most likely tokens; the run's when absent, usually all.
    #[arg(long, requires = "samples", value_name = "K")]
    top_k: Option<usize>,
    /// Sample from the most likely tokens that together reach probability P; the run's when absent, usually 1.
    #[arg(
        long,
        requires = "samples",
        value_name = "P",
        allow_negative_numbers = true
    )]
    top_p: Option<f64>,
    /// Sample from the tokens at least P times as likely as the most likely one; the run's when absent, usually 0.
    #[arg(
        long,
        requires = "samples",
        value_name = "P",
        allow_negative_numbers = true
    )]
    min_p: Option<f64>,
    /// Seed of the sampling; 0 when absent.
    #[arg(long, requires = "samples", value_name = "SEED")]
    seed: Option<u64>,
    /// Print one JSON object for each image.
    #[arg(long)]
    json: bool,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Runs `formwork caption`.
///
/// # Errors
/// If flags are out of range, the run generates no captions, or it cannot read an image.
pub fn run(args: CaptionArgs) -> Result<()> {
    check_search(args.beam, args.n_best)?;
    if let Some(samples) = args.samples.filter(|n| !(1..=MAX_ROWS).contains(n)) {
        return Err(Error::usage(format!(
            "--samples {samples} is not between 1 and {MAX_ROWS}"
        )));
    }
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let decode = &opened.experiment.decode;
    let captioner = Captioner::new(
        &opened.model,
        &opened.tokenizers,
        decode,
        opened.shape.context,
    )?;
    let Some(captioner) = captioner else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which does not caption images",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let search = with_flags(&decode.search, args.beam, args.n_best)?;
    let sampling = sampling(&args, &opened)?;
    let mut files = inputs::InputCounter::of(args.files.len());
    for file in &args.files {
        let image = match read_image(file, &opened.shape).map_err(Error::into_usage_error) {
            Ok(image) => image,
            Err(error) => {
                files.record(Err(error), "")?;
                continue;
            }
        };
        let captions: Vec<(String, Option<f64>)> = match args.samples {
            Some(samples) => {
                let seed = args.seed.unwrap_or(0);
                let drawn = captioner.sample(&image, &args.prompt, &sampling, (samples, seed));
                let drawn = drawn.map_err(Error::into_usage_error)?;
                drawn.into_iter().map(|text| (text, None)).collect()
            }
            None => {
                let found = captioner.write(std::slice::from_ref(&image), &args.prompt, &search);
                let found = found
                    .map_err(Error::into_usage_error)?
                    .into_iter()
                    .flatten();
                found.map(|w| (w.text, Some(w.score))).collect()
            }
        };
        show(&args, &file.display().to_string(), &captions)?;
        files.record(Ok(()), "")?;
    }
    files.finish("images")
}

fn sampling(args: &CaptionArgs, opened: &OpenedRun) -> Result<SamplingConfig> {
    let run = &opened.experiment.decode.sampling;
    let config = SamplingConfig {
        temperature: args.temperature.unwrap_or(run.temperature),
        top_k: args.top_k.or(run.top_k),
        top_p: args.top_p.or(run.top_p),
        min_p: args.min_p.or(run.min_p),
        ..run.clone()
    };
    match config.faults().into_iter().next() {
        Some(fault) => Err(Error::usage(fault)),
        None => Ok(config),
    }
}

/// Prints the captions of an image, one per line, each with its score if a search found several.
fn show(args: &CaptionArgs, name: &str, captions: &[(String, Option<f64>)]) -> Result<()> {
    if args.json {
        let all = captions.iter().map(|(text, score)| match score {
            Some(score) => json!({ "text": text, "score": score }),
            None => json!({ "text": text }),
        });
        let all: Vec<serde_json::Value> = all.collect();
        return output::line(json!({ "input": name, "captions": all }).to_string());
    }
    for (text, score) in captions {
        let text = text.trim().replace(['\n', '\r'], " ");
        match score.filter(|_| captions.len() > 1) {
            Some(score) => output::line(format!("{name}: {score:.4}\t{text}"))?,
            None => output::line(format!("{name}: {text}"))?,
        }
    }
    Ok(())
}
