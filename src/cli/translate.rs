//! `formwork translate`: a trained model writes a text for each line it reads.

use super::output;
use crate::error::{Error, Result};
use crate::experiment::open;
use crate::experiment::saved::Which;
use crate::files;
use crate::generate::beam::BeamConfig;
use crate::generate::decode::check_width;
use crate::generate::{Translator, Written};
use clap::Args;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `formwork translate`.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// The run folder.
    run: PathBuf,
    /// Hypotheses of a source; 1 takes the likeliest token each time. The experiment's when absent.
    #[arg(long, value_name = "B")]
    beam: Option<usize>,
    /// Texts of each source, the best first, one a line after its score and a tab.
    #[arg(long, value_name = "N")]
    n_best: Option<usize>,
    /// Sources, one a line; standard input when absent.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where the texts go, one a line; standard output when absent.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The checkpoint to use: best, latest, a step, or average:N for the mean of the newest N.
    #[arg(long, value_name = "WHICH", default_value = "best")]
    checkpoint: Which,
    /// Where to compute; the run's device when absent.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

/// Lines that are translated before the first of them is written out.
const AT_A_TIME: usize = 1024;

/// Runs `formwork translate`.
///
/// # Errors
/// Flags out of range, a run that writes no texts for texts, files that cannot be read or written.
pub fn run(args: TranslateArgs) -> Result<()> {
    check_width("--beam", args.beam)?;
    check_width("--n-best", args.n_best)?;
    let opened = open::open(&args.run, args.checkpoint, args.device.as_deref())?;
    let config = &opened.experiment.decode;
    let search = search(&args, &config.search)?;
    let longest = opened.shape.context;
    let Some(translator) = Translator::new(&opened.model, &opened.tokenizers, config, longest)
    else {
        return Err(Error::usage(format!(
            "{} was trained for {}, which writes no texts for texts",
            args.run.display(),
            opened.experiment.task.kind()
        )));
    };
    let began = Instant::now();
    let n_best = (args.n_best.is_some() || search.n_best > 1).then_some(search.n_best);
    let mut lines = lines(args.input.as_deref())?;
    let mut whole = String::new();
    let mut count = 0;
    loop {
        let some = lines
            .by_ref()
            .take(AT_A_TIME)
            .collect::<Result<Vec<String>>>()?;
        if some.is_empty() {
            break;
        }
        let sources: Vec<&str> = some.iter().map(String::as_str).collect();
        let text = shown(&translator.write_after(count, &sources, &search)?, n_best);
        count += some.len();
        match &args.output {
            Some(_) => whole.push_str(&text),
            None => output::part(text)?,
        }
    }
    if let Some(path) = &args.output {
        files::write_result(path, whole.as_bytes())?;
    }
    if translator.cut() > 0 {
        output::note(format!(
            "{} texts had more than {} tokens, the most that the model was trained on, and were cut short",
            translator.cut(),
            translator.longest()
        ));
    }
    let speed = count as f64 / began.elapsed().as_secs_f64();
    output::note(format!("{count} texts, {speed:.1} a second"));
    Ok(())
}

fn search(args: &TranslateArgs, config: &BeamConfig) -> Result<BeamConfig> {
    let n_best = args.n_best.unwrap_or(config.n_best);
    let search = BeamConfig {
        beam: args.beam.unwrap_or(config.beam).max(n_best),
        n_best,
        ..config.clone()
    };
    match search.faults("decode.search").into_iter().next() {
        Some(fault) => Err(Error::usage(fault)),
        None => Ok(search),
    }
}

type Lines = Box<dyn Iterator<Item = Result<String>>>;

/// The lines of a file, or of standard input.
fn lines(path: Option<&Path>) -> Result<Lines> {
    let (stream, name): (Box<dyn Read>, PathBuf) = match path {
        Some(path) => {
            let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
            (Box::new(file), path.to_path_buf())
        }
        None => (Box::new(std::io::stdin()), "standard input".into()),
    };
    let lines = BufReader::new(stream).lines().zip(1u64..);
    Ok(Box::new(lines.map(move |(line, number)| {
        line.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Error::usage(format!(
                "{}:{number}: the line is not UTF-8; convert it",
                name.display()
            )),
            _ => Error::io("read", &name)(error),
        })
    })))
}

/// One line a text; with a score before it when several are asked for.
fn shown(written: &[Vec<Written>], n_best: Option<usize>) -> String {
    let mut text = String::new();
    for best in written {
        match n_best {
            None => {
                let first = best.first().map_or("", |w| w.text.as_str());
                text.push_str(&one_line(first));
                text.push('\n');
            }
            // As many lines as of any other source, so that lines can be counted.
            Some(n) if best.is_empty() => text.push_str(&"0.0000\t\n".repeat(n)),
            Some(_) => {
                for w in best {
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "{:.4}\t{}", w.score, one_line(&w.text));
                }
            }
        }
    }
    text
}

/// A text as one line.
fn one_line(text: &str) -> String {
    text.trim().replace(['\n', '\r'], " ")
}
