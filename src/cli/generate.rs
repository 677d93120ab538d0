//! `formwork generate`: a trained model continues a text.
//!
//! A line of a file that cannot be continued is named on standard error, the others are continued, and the exit status is 1.

mod begun;
mod text;

use super::{inputs, output};
use crate::data::Database;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::data_files;
use crate::experiment::open::{self, Opened};
use crate::experiment::saved::Which;
use crate::generate::decode::MOST;
use crate::generate::{Generator, SamplingConfig};
use crate::nn::linear::stored_for_decoding;
use crate::nn::neighbours::Retrieves;
use crate::rng;
use crate::tokenizer::Tokenizer;
use clap::Args;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use text::{Shown, Text};

/// `formwork generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The run folder.
    run: PathBuf,
    /// The text to continue; \n is a line break, \\ a backslash. May be given several times. A token that the tokenizer's file
    /// puts before texts (`<s>` of LLaMA) is put there in imported runs.
    #[arg(long, allow_hyphen_values = true, required_unless_present = "input")]
    prompt: Vec<String>,
    /// Prompts, one a line, - for standard input, written as in --prompt.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    input: Option<PathBuf>,
    /// Tokens to generate at the most. The run's when absent, as [decode.sampling] of its experiment says; usually 200.
    #[arg(long)]
    tokens: Option<usize>,
    /// Divides the logits; 0 takes the likeliest token. The run's when absent, usually 0.8.
    #[arg(long, allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Draw among the K likeliest tokens. The run's when absent, usually all.
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw among the likeliest tokens that together reach probability P. The run's when absent, usually 1.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Above 1: tokens that are already there become less likely. The run's when absent, usually 1.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repetition_penalty: Option<f64>,
    /// Continuations of each prompt, made side by side; each is shown when all of them are done.
    #[arg(long, default_value_t = 1, value_name = "N")]
    samples: usize,
    /// Stop before this text, written as in --prompt; may be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Read no neighbours, in a run that retrieves some for each chunk of the text from the database of its data.
    #[arg(long)]
    without_retrieval: bool,
    /// Print one JSON object for each continuation.
    #[arg(long)]
    json: bool,
    /// Seed of the draws. Where prompts are equal, the first has the draws that it has alone, and each further one its own.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: Which,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::of_flag)]
    device: Option<String>,
}

/// Runs `formwork generate`.
///
/// # Errors
/// Flags out of range, a run that cannot be opened, a prompt that its tokenizer cannot read.
pub fn run(args: GenerateArgs) -> Result<()> {
    check(&args)?;
    let opened = open::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let config = settings(&args, &opened.experiment.decode.sampling)?;
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Err(Error::usage(format!(
            "{} was trained on token numbers, not text: there is nothing to write out",
            args.run.display()
        )));
    };
    let begin = begun::tokens(&opened.experiment.data, tokenizer);
    let database = database(&args, &opened)?;
    let model = stored_for_decoding(opened.model);
    let Some(decoder) = model.networks().language_model else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which continues no text",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let mut lines = inputs::Processed::of(usize::MAX);
    let prompts = readable(&args, (tokenizer, &begin[..]), &config, &mut lines)?;
    let ends = match config.end.as_slice() {
        [] => tokenizer.end_of_text().into_iter().collect(),
        ends => ends.to_vec(),
    };
    let began = Instant::now();
    let stops: Vec<String> = args.stop.iter().map(|stop| unescaped(stop)).collect();
    let shown = Shown {
        of: lines.count() * args.samples,
        json: args.json,
    };
    let found = database.as_deref().map(|found| found as &dyn Retrieves);
    let mut generated = 0;
    for prompt in &prompts {
        let most = config.tokens_after(prompt.tokens.len())?;
        let sampling = config.rules(prompt.seed);
        let rows = vec![prompt.tokens.as_slice(); args.samples];
        let mut generator = Generator::retrieving(decoder, opened.shape.context, &rows, found)?;
        generator.reserve(most);
        let mut texts: Vec<Text> = rows
            .iter()
            .map(|tokens| Text::new(tokenizer, tokens, &stops))
            .collect();
        shown.begins(&prompt.text)?;
        let mut steps = 0;
        while steps < most && texts.iter().any(|text| !text.ended) {
            let tokens = generator.next(&sampling);
            steps += 1;
            for (text, token) in texts.iter_mut().zip(tokens) {
                let new = text.push(token, &ends);
                shown.grows(&new)?;
            }
        }
        for (sample, text) in texts.iter_mut().enumerate() {
            let rest = text.finish();
            shown.grows(&rest)?;
            let number = prompt.number * args.samples + sample;
            shown.ends(&prompt.text, number, sample, text)?;
        }
        generated += texts.iter().map(|text| text.tokens).sum::<usize>();
    }
    let speed = generated as f64 / began.elapsed().as_secs_f64();
    let tokens = output::many(generated, "token");
    output::note(format!("{tokens}, {speed:.0} tokens/s"));
    lines.end("lines")
}

/// A prompt that is continued.
struct Prompt {
    /// Its number among all that were given, from 0.
    number: usize,
    text: String,
    tokens: Vec<u32>,
    /// Of its draws.
    seed: u64,
}

/// The prompts that can be continued, all looked at before one is. A line of a file that cannot be continued is counted in
/// `lines` and left out. `reads` are the tokenizer and the tokens before each prompt.
///
/// # Errors
/// A prompt of a flag that cannot be continued.
fn readable(
    args: &GenerateArgs,
    reads: (&Tokenizer, &[u32]),
    config: &SamplingConfig,
    lines: &mut inputs::Processed,
) -> Result<Vec<Prompt>> {
    let mut readable = Vec::new();
    let mut equal: HashMap<Vec<u32>, u64> = HashMap::new();
    for (number, (place, prompt)) in prompts(args)?.into_iter().enumerate() {
        let read = prompt.and_then(|text| Ok((begun::prompt(&text, reads, config)?, text)));
        let (tokens, text) = match read {
            Ok(read) => read,
            Err(error) if args.input.is_some() => {
                lines.one(Err(error), &place)?;
                continue;
            }
            Err(error) if place.is_empty() => return Err(Error::usage(error.to_string())),
            Err(error) => return Err(Error::usage(format!("{place}: {error}"))),
        };
        lines.one(Ok(()), &place)?;
        let before = equal.entry(tokens.clone()).or_default();
        let seed = seed_behind(args.seed, *before);
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

/// The seed of a prompt's draws, where so many equal prompts stand before it.
fn seed_behind(seed: u64, equal: u64) -> u64 {
    match equal {
        0 => seed,
        equal => rng::mix(rng::mix(equal) ^ seed),
    }
}

/// What finds neighbours of the text, for a run that reads them: the database that the run was trained with.
///
/// # Errors
/// Files of the data that are not there, or whose content changed; a flag without effect.
fn database(args: &GenerateArgs, opened: &Opened) -> Result<Option<Arc<Database>>> {
    let reads = opened.experiment.model.retrieval().is_some();
    if args.without_retrieval && !reads {
        return Err(Error::usage(
            "--without-retrieval has no effect: the run reads no neighbours; leave it out",
        ));
    }
    if args.without_retrieval || !reads {
        return Ok(None);
    }
    let notice = |text: &str| output::note(text);
    let data = data_files::assembled(&args.run, opened, false, notice, Ok)?;
    Ok(data.database)
}

/// The prompts of the flags, each behind its place for messages; a flag that is alone has none.
fn prompts(args: &GenerateArgs) -> Result<Vec<(String, Result<String>)>> {
    if let Some(path) = &args.input {
        let lines = inputs::lines(path)?.into_iter();
        return Ok(lines
            .map(|(place, line)| (place, line.map(|line| unescaped(&line))))
            .collect());
    }
    let place = |number: usize| match args.prompt.len() {
        1 => String::new(),
        _ => format!("prompt {}", number + 1),
    };
    let all = args.prompt.iter().enumerate();
    Ok(all
        .map(|(number, prompt)| (place(number), Ok(unescaped(prompt))))
        .collect())
}

/// A text of the command line: `\n` is a line break, `\\` a backslash.
fn unescaped(text: &str) -> String {
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

/// The run's settings where no flag says otherwise.
///
/// # Errors
/// Flags of draws where nothing is drawn.
fn settings(args: &GenerateArgs, run: &SamplingConfig) -> Result<SamplingConfig> {
    let temperature = args.temperature.unwrap_or(run.temperature);
    let drawn = [
        ("--top-k", args.top_k.is_some()),
        ("--top-p", args.top_p.is_some()),
    ];
    if let Some((flag, _)) = drawn.iter().find(|(_, given)| *given && temperature == 0.0) {
        let whose = match args.temperature {
            Some(_) => "--temperature 0",
            None => "the run's temperature of 0",
        };
        return Err(Error::usage(format!(
            "{flag} has no effect: {whose} takes the likeliest token; give a --temperature above 0, or leave {flag} out"
        )));
    }
    Ok(SamplingConfig {
        tokens: args.tokens.or(run.tokens),
        max_length: run.max_length.filter(|_| args.tokens.is_none()),
        temperature,
        top_k: args.top_k.or(run.top_k),
        top_p: args.top_p.or(run.top_p),
        repetition_penalty: args.repetition_penalty.unwrap_or(run.repetition_penalty),
        end: run.end.clone(),
    })
}

/// Faults of the flags.
fn check(args: &GenerateArgs) -> Result<()> {
    let wrong = |message: String| Err(Error::usage(message));
    if let Some(t) = args.temperature.filter(|t| !(*t >= 0.0 && t.is_finite())) {
        return wrong(format!(
            "--temperature {t} must be 0 (the likeliest token) or more"
        ));
    }
    if args.samples == 0 {
        return wrong("--samples 0 generates nothing; give at least 1".into());
    }
    if args.samples > MOST {
        return wrong(format!(
            "--samples {} is more than {MOST}, the most that are made side by side; make others with another --seed",
            args.samples
        ));
    }
    if args.top_k == Some(0) {
        return wrong("--top-k 0 leaves no token; give at least 1".into());
    }
    if let Some(p) = args.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return wrong(format!("--top-p {p} is not in (0, 1]"));
    }
    let penalty = args.repetition_penalty;
    if let Some(x) = penalty.filter(|x| !(*x > 0.0 && x.is_finite())) {
        return wrong(format!(
            "--repetition-penalty {x} is not a number above 0; 1 switches it off"
        ));
    }
    if args.stop.iter().any(String::is_empty) {
        return wrong("--stop \"\" stops before anything is generated; give a text".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn line_breaks_and_backslashes_can_both_be_written() {
        assert_eq!(unescaped("a\\nb"), "a\nb");
        assert_eq!(unescaped("\\\\nabla \\x\\"), "\\nabla \\x\\");
    }
}
