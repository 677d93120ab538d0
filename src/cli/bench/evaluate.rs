//! `formwork bench evaluate`: seconds per token of evaluation with a memory, compared with windows that slide by one token (Dai
//! et al. 2019, section 4.5: 363, 773, 1,409 and 1,874 times as fast at attention lengths of 800, 1,800, 2,800 and 3,800).
//!
//! At attention length N a query sees at most N keys. With a memory, a text is read in segments of S tokens with a memory of N
//! − S positions, so that a query sees at least N − S + 1 keys; S is N/8 by default. A longer segment is faster, since the keys
//! and values of the memory are recomputed in each. Without a memory, each token is the last one of a window of N tokens, in
//! batches of the fastest size. Weights are freshly initialised and tokens are random: neither changes the time.

use super::super::output;
use crate::data::Shape;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::check::check_without_files;
use crate::experiment::{self, LoadedExperiment, assemble};
use crate::report::render::terminal::number;
use crate::task::Objective;
use crate::tokenizer::Tokenizer;
use crate::train::parameters;
use crate::train::reading_speed::{RandomTexts, TokenTime, time_segments, time_sliding_windows};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Path and text of the default experiments; the paths appear in error messages.
const MEMORY: (&str, &str) = (
    "experiments/bench/evaluate_memory.toml",
    include_str!("../../../experiments/bench/evaluate_memory.toml"),
);
const SLIDING: (&str, &str) = (
    "experiments/bench/evaluate_sliding.toml",
    include_str!("../../../experiments/bench/evaluate_sliding.toml"),
);
/// Maximum attention length: a window of this many tokens is one batch.
const LONGEST: usize = 1 << 16;

/// `formwork bench evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// The experiment file of the model with a memory; experiments/bench/evaluate_memory.toml when absent.
    #[arg(requires = "sliding")]
    memory: Option<PathBuf>,
    /// The experiment file of the model without a memory; experiments/bench/evaluate_sliding.toml when absent.
    sliding: Option<PathBuf>,
    /// Maximum number of keys that a query sees; several lengths are measured one after another.
    #[arg(
        long,
        value_name = "N",
        default_value = "800,1800,2800,3800",
        value_delimiter = ','
    )]
    attention_length: Vec<usize>,
    /// Tokens per segment of the model with a memory; an eighth of the attention length when absent.
    #[arg(long, value_name = "S")]
    segment: Option<usize>,
    /// Minimum number of tokens timed for each model.
    #[arg(long, default_value_t = 64)]
    tokens: usize,
    /// flex, ndarray, wgpu[:i], vulkan[:i] or cuda[:i].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
    /// Print one JSON object for each length.
    #[arg(long)]
    json: bool,
}

/// Runs `formwork bench evaluate`.
///
/// # Errors
/// If a flag is out of range or an experiment is invalid; if the first model has no memory, or the second cannot read so long a
/// window; if the device cannot be opened.
pub fn run(args: EvaluateArgs) -> Result<()> {
    check(&args)?;
    for length in &args.attention_length {
        let memory = time_with_memory(&args, *length)?;
        let sliding = time_without_memory(&args, *length)?;
        show(&args, *length, memory, sliding)?;
    }
    Ok(())
}

fn check(args: &EvaluateArgs) -> Result<()> {
    let lengths = args.attention_length.iter();
    let lengths = lengths.map(|length| ("--attention-length", *length));
    let segment = args.segment.map(|segment| ("--segment", segment));
    let sizes = segment.into_iter().chain([("--tokens", args.tokens)]);
    for (flag, value) in sizes.chain(lengths) {
        if !(1..=LONGEST).contains(&value) {
            return Err(Error::usage(format!(
                "{flag} {value} must be between 1 and {LONGEST}"
            )));
        }
    }
    let fits = |length: &&usize| segment_length(args, **length) >= **length;
    match args.attention_length.iter().find(fits) {
        Some(length) => Err(Error::usage(format!(
            "--attention-length {length} leaves no room for a memory next to segments of {} tokens; increase it, or reduce \
             --segment",
            segment_length(args, *length)
        ))),
        None => Ok(()),
    }
}

/// Attention length divided by the default segment length.
const PARTS: usize = 8;

/// Tokens per segment at an attention length.
fn segment_length(args: &EvaluateArgs, length: usize) -> usize {
    args.segment.unwrap_or((length / PARTS).max(1))
}

/// Time per token of the model with a memory.
fn time_with_memory(args: &EvaluateArgs, length: usize) -> Result<TokenTime> {
    let segment = segment_length(args, length);
    let memory = length - segment;
    let sets = vec![format!("data.context={segment}")];
    let mut loaded = load_experiment(args.memory.as_deref(), MEMORY, sets, args)?;
    if !loaded.experiment.model.set_evaluation_memory(memory) {
        return Err(Error::usage(format!(
            "{}: no layer has a memory of earlier segments ([model.attention] memory), so no attention reaches the length \
             {length}; give a model with a memory first",
            loaded.path.display()
        )));
    }
    check_without_files(&loaded)?;
    let (model, texts) = model(&loaded)?;
    let time = time_segments(&model, texts, segment, memory, args.tokens);
    time.map_err(|error| Error::usage(format!("{}: {error}", loaded.path.display())))
}

/// Time per token of the model without a memory.
fn time_without_memory(args: &EvaluateArgs, length: usize) -> Result<TokenTime> {
    let sets = vec![format!("data.context={length}")];
    let loaded = load_experiment(args.sliding.as_deref(), SLIDING, sets, args)?;
    let (model, texts) = model(&loaded)?;
    time_sliding_windows(&model, texts, length, args.tokens)
}

/// The experiment of a file, or the built-in one.
fn load_experiment(
    file: Option<&Path>,
    (name, text): (&str, &str),
    mut sets: Vec<String>,
    args: &EvaluateArgs,
) -> Result<LoadedExperiment> {
    sets.extend(args.device.iter().map(|d| format!("train.device={d}")));
    let loaded = match file {
        Some(file) => experiment::load(file, &sets)?,
        None => experiment::load_text(Path::new(name), text.into(), &sets)?,
    };
    check_without_files(&loaded)?;
    Ok(loaded)
}

/// The model with fresh weights, and random texts for it.
fn model(loaded: &LoadedExperiment) -> Result<(Objective, RandomTexts)> {
    let experiment = &loaded.experiment;
    let shape = shape(loaded)?;
    let device = assemble::device(experiment, false)?;
    let model = parameters::materialize(assemble::objective(experiment, &shape, &device)?);
    if model.networks().language_model.is_none() {
        return Err(Error::usage(format!(
            "{} has the task {}, which does not continue text",
            loaded.path.display(),
            experiment.task.kind()
        )));
    }
    let vocab = shape.vocab_size;
    Ok((model, RandomTexts { vocab }))
}

/// The shape of the data. Its files are not read if the tokenizer is known without them.
fn shape(loaded: &LoadedExperiment) -> Result<Shape> {
    let experiment = &loaded.experiment;
    match &experiment.tokenizer {
        Some(config) if !config.is_trained() => {
            let places = loaded.places();
            let found = config.with_path(|path| places.resolve(path))?;
            let vocab = Tokenizer::build(&found, &[])?.vocab_size();
            Ok(Shape::of_text(experiment.data.context(), vocab))
        }
        Some(_) | None => Ok(assemble::training_data(loaded)?.shape),
    }
}

fn show(args: &EvaluateArgs, length: usize, memory: TokenTime, sliding: TokenTime) -> Result<()> {
    let speedup = sliding.seconds / memory.seconds;
    if args.json {
        let object = json!({
            "attention_length": length,
            "memory_s_per_token": memory.seconds,
            "sliding_s_per_token": sliding.seconds,
            "speedup": speedup,
            "segment": segment_length(args, length),
            "memory_tokens": memory.tokens,
            "sliding_batch": sliding.rows,
            "sliding_tokens": sliding.tokens,
        });
        return output::line(object.to_string());
    }
    output::line(format!(
        "attention length {length}: {:.3} ms a token with memory, {:.1} ms with sliding windows ({} at a time), {} times \
         as fast",
        memory.seconds * 1e3,
        sliding.seconds * 1e3,
        sliding.rows,
        number(speedup)
    ))
}
