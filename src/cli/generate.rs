//! `formwork generate`: continues a text with a trained model.
//!
//! If a line of a file cannot be continued, it is reported on standard error, the others are continued, and the exit status is
//! 1.

mod batches;
mod beams;
mod best_of;
mod flags;
mod prompt_prefix;
pub(super) mod text;

use super::sampling::SamplingArgs;
use super::{inputs, output};
use crate::data::Database;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::data_files::{self, ChangedFiles};
use crate::experiment::open::{self, OpenedRun};
use crate::experiment::run_contents::CheckpointChoice;
use crate::generate::SamplingConfig;
use crate::nn::linear::repacked_for_decoding;
use crate::nn::neighbours::Retriever;
use crate::rng;
use crate::tokenizer::Tokenizer;
use batches::{Continuations, batches};
use beams::BeamArgs;
use best_of::{BestOf, BestOfArgs};
use clap::Args;
use flags::check;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use text::{Text, TextPrinter};

/// `formwork generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// The text to continue; \n is a line break, \\ a backslash. May be given several times. For imported runs, a token that
    /// the tokenizer's file puts before texts (`<s>` of LLaMA) is added.
    #[arg(long, allow_hyphen_values = true, required_unless_present = "input")]
    prompt: Vec<String>,
    /// Prompts, one per line, - for standard input, written as in --prompt.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    input: Option<PathBuf>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Number of continuations of each prompt, generated in parallel; each is shown when all of them are done.
    #[arg(long, default_value_t = 1, value_name = "N")]
    samples: usize,
    /// Number of continuations generated in parallel, of one prompt or of several with the same length in tokens; those of one
    /// prompt are always generated together. 8 when absent.
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    #[command(flatten)]
    beams: BeamArgs,
    #[command(flatten)]
    best_of: BestOfArgs,
    /// Stop before this text, written as in --prompt; may be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Use no neighbours, in a run that retrieves some for each chunk of the text from the database of its data.
    #[arg(long)]
    without_retrieval: bool,
    /// Print one JSON object for each continuation.
    #[arg(long)]
    json: bool,
    /// Seed of the sampling. Among equal prompts, the first gets the same draws as it would alone, and each further one has its
    /// own.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Runs `formwork generate`.
///
/// # Errors
/// If flags are out of range, the run cannot be opened, or its tokenizer cannot read a prompt.
pub fn run(args: GenerateArgs) -> Result<()> {
    check(&args)?;
    beams::check(&args)?;
    let opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let decode = &opened.experiment.decode;
    let search = beams::search(&args, decode.beam_search.as_ref())?;
    let config = args.sampling.settings(&decode.sampling)?;
    let judged = best_of::open_best_of(&args, config.temperature)?;
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Err(without_texts(&args, &opened));
    };
    let begin = prompt_prefix::begin_tokens(&opened.experiment.data, tokenizer);
    let database = database(&args, &opened)?;
    let model = repacked_for_decoding(opened.model);
    let Some(decoder) = model.networks().language_model else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which does not continue text",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let mut lines = inputs::InputCounter::of(usize::MAX);
    let prompts = tokenize_prompts(&args, (tokenizer, &begin[..]), &config, &mut lines)?;
    let ends = match config.end.as_slice() {
        [] => tokenizer.end_of_text().into_iter().collect(),
        ends => ends.to_vec(),
    };
    let began = Instant::now();
    let stops: Vec<String> = args.stop.iter().map(|stop| unescape(stop)).collect();
    // A beam search starts with one row, and returns as many texts as requested.
    let (rows, each, width) = match (&search, &judged) {
        (Some(search), _) => (1, search.n_best, search.beam),
        (None, Some(judged)) => (judged.count, 1, judged.count),
        (None, None) => (args.samples, args.samples, args.samples),
    };
    let shown = TextPrinter {
        total: lines.count() * each,
        json: args.json,
    };
    let continues = Continuations {
        decoder,
        context: opened.shape.context,
        retriever: database.as_deref().map(|found| found as &dyn Retriever),
        tokenizer,
        ends: &ends,
        stops: &stops,
        config: &config,
        search: search.as_ref(),
        rows,
        each,
    };
    let most = args.batch_size.unwrap_or(batches::DEFAULT_ROWS) / width.max(1);
    let generated = continue_prompts(&continues, &prompts, most, &shown, judged.as_ref())?;
    let speed = generated as f64 / began.elapsed().as_secs_f64();
    let tokens = output::count_of(generated, "token");
    output::note(format!("{tokens}, {speed:.0} tokens/s"));
    lines.finish("lines")
}

/// Continues prompts, up to `most` of equal length at a time, and shows their texts in the order of the prompts. Returns the
/// total number of generated tokens.
fn continue_prompts(
    continues: &Continuations,
    prompts: &[Prompt],
    most: usize,
    shown: &TextPrinter,
    judged: Option<&BestOf>,
) -> Result<usize> {
    let lengths: Vec<usize> = prompts.iter().map(|prompt| prompt.tokens.len()).collect();
    let (mut generated, mut next) = (0, 0);
    // Texts of later prompts wait for those of earlier ones.
    let mut done: BTreeMap<usize, Vec<Text>> = BTreeMap::new();
    for places in batches(&lengths, most) {
        let some: Vec<&Prompt> = places.iter().map(|place| &prompts[*place]).collect();
        shown.begin(&some[0].text)?;
        let texts = continues.texts(&some, |new| match judged {
            Some(_) => Ok(()),
            None => shown.append(new),
        })?;
        let counts = texts.iter().flatten().map(|text| text.tokens);
        generated += counts.sum::<usize>();
        done.extend(places.into_iter().zip(texts));
        while let Some(mut texts) = done.remove(&next) {
            let prompt = &prompts[next];
            next += 1;
            if let Some(judged) = judged {
                texts = Vec::from_iter(judged.best(&prompt.text, texts)?);
                texts
                    .iter()
                    .try_for_each(|text| shown.append(&text.whole))?;
            }
            for (sample, text) in texts.iter_mut().enumerate() {
                let rest = text.finish();
                shown.append(&rest)?;
                let number = prompt.number * continues.each + sample;
                shown.finish_text(&prompt.text, number, sample, text)?;
            }
        }
    }
    Ok(generated)
}

/// The error for a run that generates no texts.
fn without_texts(args: &GenerateArgs, opened: &OpenedRun) -> Error {
    let (run, experiment) = (args.run.display(), &opened.experiment);
    if opened.shape.image.is_none() && experiment.data.sequence_image_size().is_none() {
        return Error::usage(format!(
            "{run} was trained on token ids, not text, so it cannot generate text"
        ));
    }
    let used = open::suggested_use(experiment, &args.run);
    let used = used.map(|command| format!("; use it with: {command}"));
    let used = used.unwrap_or_default();
    Error::usage(format!(
        "{run} reads images and does not continue text{used}"
    ))
}

/// A prompt to continue.
struct Prompt {
    /// Its number among all given prompts, from 0.
    number: usize,
    text: String,
    tokens: Vec<u32>,
    /// Seed of its sampling.
    seed: u64,
}

/// Tokenizes all prompts before any is continued. A line of a file that cannot be continued is reported through `lines` and
/// left out. `reads` are the tokenizer and the tokens before each prompt.
///
/// # Errors
/// If a prompt given by a flag cannot be continued.
fn tokenize_prompts(
    args: &GenerateArgs,
    reads: (&Tokenizer, &[u32]),
    config: &SamplingConfig,
    lines: &mut inputs::InputCounter,
) -> Result<Vec<Prompt>> {
    let mut readable = Vec::new();
    let mut equal: HashMap<Vec<u32>, u64> = HashMap::new();
    for (number, (place, prompt)) in prompts(args)?.into_iter().enumerate() {
        let read =
            prompt.and_then(|text| Ok((prompt_prefix::prompt_tokens(&text, reads, config)?, text)));
        let (tokens, text) = match read {
            Ok(read) => read,
            Err(error) if args.input.is_some() => {
                lines.record(Err(error), &place)?;
                continue;
            }
            Err(error) if place.is_empty() => return Err(Error::usage(error.to_string())),
            Err(error) => return Err(Error::usage(format!("{place}: {error}"))),
        };
        lines.record(Ok(()), &place)?;
        let before = equal.entry(tokens.clone()).or_default();
        let seed = seed_of_repeat(args.seed, *before);
        *before += 1;
        readable.push(Prompt {
            number,
            text,
            tokens,
            seed,
        });
    }
    Ok(readable)
}

/// The sampling seed of a prompt that is preceded by `equal` equal prompts.
fn seed_of_repeat(seed: u64, equal: u64) -> u64 {
    match equal {
        0 => seed,
        equal => rng::mix(rng::mix(equal) ^ seed),
    }
}

/// The retrieval database that the run was trained with, for a run that reads neighbours.
///
/// # Errors
/// If data files do not exist or their content changed; if the flag has no effect.
fn database(args: &GenerateArgs, opened: &OpenedRun) -> Result<Option<Arc<Database>>> {
    let reads = opened.experiment.model.retrieval().is_some();
    if args.without_retrieval && !reads {
        return Err(Error::usage(
            "--without-retrieval has no effect: the run does not read neighbours; remove it",
        ));
    }
    if args.without_retrieval || !reads {
        return Ok(None);
    }
    let notice = |text: &str| output::note(text);
    let data = data_files::read_run_data(&args.run, opened, ChangedFiles::REFUSED, notice, Ok)?;
    Ok(data.database)
}

/// The prompts of the flags, each with its name for messages; a single prompt flag has an empty one.
fn prompts(args: &GenerateArgs) -> Result<Vec<(String, Result<String>)>> {
    if let Some(path) = &args.input {
        let lines = inputs::lines(path)?.into_iter();
        return Ok(lines
            .map(|(place, line)| (place, line.map(|line| unescape(&line))))
            .collect());
    }
    let place = |number: usize| match args.prompt.len() {
        1 => String::new(),
        _ => format!("prompt {}", number + 1),
    };
    let all = args.prompt.iter().enumerate();
    Ok(all
        .map(|(number, prompt)| (place(number), Ok(unescape(prompt))))
        .collect())
}

/// Unescapes a text of the command line: `\n` is a line break, `\\` a backslash.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('\\')) => out.push('\\'),
            _ => {
                out.push(c);
                continue;
            }
        }
        rest.next();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn line_breaks_and_backslashes_can_both_be_written() {
        assert_eq!(unescape("a\\nb"), "a\nb");
        assert_eq!(unescape("\\\\nabla \\x\\"), "\\nabla \\x\\");
    }
}
