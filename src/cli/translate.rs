//! `formwork translate`: generates a text for each input line, or for each `--text`, with a trained model.
//!
//! A line that is not UTF-8 or that the tokenizer cannot encode is reported on standard error. Its output line is empty (each
//! of them with `--n-best`), the other lines are translated, and the exit status is 1.

use super::inputs::{InputLines, to_text};
use super::output;
use crate::data::Tokenizers;
use crate::device::DeviceName;
use crate::error::{Error, Result};
use crate::experiment::run_contents::CheckpointChoice;
use crate::experiment::temporary_keys::{self, with_keys};
use crate::files;
use crate::generate::decode::{check_search, with_flags};
use crate::generate::{GeneratedText, Translator};
use clap::Args;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `formwork translate`.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// The run folder.
    #[arg(value_parser = super::flags::run_folder())]
    run: PathBuf,
    /// Beam size of the search; 1 takes the most likely token each time. The experiment's when absent.
    #[arg(long, value_name = "B")]
    beam: Option<usize>,
    /// Number of texts per source, the best first, one per line after its score and a tab.
    #[arg(long, value_name = "N")]
    n_best: Option<usize>,
    /// A source text; may be given several times.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "input"
    )]
    text: Vec<String>,
    /// Source texts, one per line, plain or packed (.gz, .zst); standard input when absent.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Output file, one text per line; standard output when absent.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The language of the sources, by its token, such as eng_Latn of NLLB-200, __en__ of M2M-100 or en_XX of mBART; the run's
    /// own when absent.
    #[arg(long, value_name = "TOKEN")]
    source_language: Option<String>,
    /// The language of the generated texts, by the token that they begin with; the run's own when absent.
    #[arg(long, value_name = "TOKEN")]
    target_language: Option<String>,
    /// Set a key of [decode] for this command only, as in decode.search.length_penalty.alpha=1; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: CheckpointChoice,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceName::parse_flag)]
    device: Option<String>,
}

/// Number of lines that are translated before the first of them is printed.
const LINES_PER_CHUNK: usize = 1024;

/// Runs `formwork translate`.
///
/// # Errors
/// If flags are out of range, the run generates no texts from texts, or files cannot be read or written.
pub fn run(args: TranslateArgs) -> Result<()> {
    check_search(args.beam, args.n_best)?;
    if let (Some(output), Some(input)) = (&args.output, &args.input) {
        files::require_distinct(("--output", output), ("--input", input))?;
    }
    if let Some(output) = &args.output {
        files::require_folder_of(output)?;
    }
    temporary_keys::require(&args.sets, None)?;
    let mut opened = super::open_run::open(&args.run, args.checkpoint, args.device.as_deref())?;
    opened.tokenizers = with_languages(opened.tokenizers, &args)?;
    let experiment = with_keys(&opened.experiment, &args.run, &args.sets)?;
    let config = &experiment.decode;
    let mut search = with_flags(&config.search, args.beam, args.n_best)?;
    if args.target_language.is_some() {
        // It replaces the language token that the run's settings force.
        search.first = None;
    }
    let longest = opened.shape.context;
    let Some(translator) = Translator::new(&opened.model, &opened.tokenizers, config, longest)
    else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which does not generate texts from texts",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let began = Instant::now();
    let n_best = (args.n_best.is_some() || search.n_best > 1).then_some(search.n_best);
    let (name, mut lines) = sources(&args)?;
    let mut whole = String::new();
    let (mut count, mut bad) = (0, 0);
    loop {
        let some: Vec<Vec<u8>> = lines
            .by_ref()
            .take(LINES_PER_CHUNK)
            .collect::<Result<_>>()?;
        if some.is_empty() {
            break;
        }
        let some: Vec<Result<String>> = some.into_iter().map(to_text).collect();
        let sources: Vec<&str> = some
            .iter()
            .map(|line| line.as_deref().unwrap_or(""))
            .collect();
        let written = translator.write_each(&sources, &search)?;
        let both = some.into_iter().zip(written).zip(count + 1..);
        let written: Vec<Vec<GeneratedText>> = both
            .map(|((line, texts), number)| {
                line.and(texts).unwrap_or_else(|error| {
                    bad += 1;
                    output::note(format!("error: {name}:{number}: {error}"));
                    Vec::new()
                })
            })
            .collect();
        let text = format_texts(&written, n_best);
        count += written.len();
        match &args.output {
            Some(_) => whole.push_str(&text),
            None => output::line_part(text)?,
        }
    }
    if let Some(path) = &args.output {
        files::write_result(path, whole.as_bytes())?;
    }
    if translator.truncated() > 0 {
        output::note(format!(
            "{} had more than {}, the maximum that the model was trained on, and {} truncated",
            output::count_of(translator.truncated(), "text"),
            output::count_of(translator.longest(), "token"),
            if translator.truncated() == 1 {
                "was"
            } else {
                "were"
            }
        ));
    }
    let speed = count as f64 / began.elapsed().as_secs_f64();
    let texts = output::count_of(count, "text");
    output::note(format!("{texts}, {speed:.1} a second"));
    match bad {
        0 => Ok(()),
        _ => Err(Error::run(format!(
            "{bad} of {count} {} could not be read, and their output lines are empty",
            if args.text.is_empty() {
                "lines"
            } else {
                "texts"
            }
        ))),
    }
}

/// Source texts, read lazily, and their origin in messages.
type Sources<'a> = (String, Box<dyn Iterator<Item = Result<Vec<u8>>> + 'a>);

/// The texts of the command line, or the lines of a file or of standard input.
fn sources(args: &TranslateArgs) -> Result<Sources<'_>> {
    if !args.text.is_empty() {
        let texts = args.text.iter();
        let texts = texts.map(|text| -> Result<Vec<u8>> { Ok(text.clone().into_bytes()) });
        return Ok(("--text".into(), Box::new(texts)));
    }
    let lines = InputLines::open(args.input.as_deref().unwrap_or(Path::new("-")))?;
    Ok((lines.name(), Box::new(lines)))
}

/// The tokenizers of a run, set to the languages that the flags name.
fn with_languages(mut tokenizers: Tokenizers, args: &TranslateArgs) -> Result<Tokenizers> {
    let refused = |flag: &str, name: &str| {
        let said = format!("--{flag} {name}");
        move |why: String| Error::usage(format!("{said} {why}"))
    };
    if let (Some(name), Some(reads)) = (&args.source_language, &tokenizers.text) {
        // Targets without a separate tokenizer use that of the sources.
        if tokenizers.target.is_none() {
            tokenizers.target = Some(reads.clone());
        }
        let reads = reads.with_named_source_language(name);
        tokenizers.text = Some(reads.map_err(refused("source-language", name))?);
    }
    if let (Some(name), Some(writes)) = (&args.target_language, tokenizers.target_tokenizer()) {
        let writes = writes.with_named_target_language(name);
        tokenizers.target = Some(writes.map_err(refused("target-language", name))?);
    }
    Ok(tokenizers)
}

/// Formats one line per text, preceded by its score if several are requested.
fn format_texts(written: &[Vec<GeneratedText>], n_best: Option<usize>) -> String {
    let mut text = String::new();
    for best in written {
        match n_best {
            None => {
                let first = best.first().map_or("", |w| w.text.as_str());
                text.push_str(&one_line(first));
                text.push('\n');
            }
            // Prints as many lines as for any other source, so that lines can be counted.
            Some(n) if best.is_empty() => text.push_str(&"0.0000\t\n".repeat(n)),
            Some(_) => {
                for w in best {
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "{:.4}\t{}", w.score, one_line(&w.text));
                }
            }
        }
    }
    text
}

/// A text on one line.
fn one_line(text: &str) -> String {
    text.trim().replace(['\n', '\r'], " ")
}
