//! `formwork tokenize`: prints the tokens of a text and their ids.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::output;
use crate::error::{Error, Result};
use crate::experiment::{assemble, check, load, run_contents};
use crate::files;
use crate::report::render::table::table;
use crate::tokenizer::{PRETRAINED_FILES, Tokenizer};
use crate::train::run_dir;

/// `formwork tokenize`.
#[derive(Args, Debug)]
pub struct TokenizeArgs {
    /// A run's folder, a tokenizer's file or folder as `kind = "pretrained"` reads them, or an experiment, whose tokenizer is
    /// made as in training.
    #[arg(value_name = "RUN|FILE", value_parser = super::flags::run_folder())]
    pub from: PathBuf,
    /// The text, or a file that contains it; standard input when absent.
    #[arg(value_name = "TEXT|FILE")]
    pub text: Option<String>,
    /// Use the target vocabulary of a run with two vocabularies.
    #[arg(long)]
    pub target: bool,
    /// Include the special tokens around a text.
    #[arg(long)]
    pub framed: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Prints a row for each token.
///
/// # Errors
/// If the run has no tokenizer, or the tokenizer cannot encode the text.
pub fn run(args: TokenizeArgs) -> Result<()> {
    let tokenizer = tokenizer(&args).map_err(Error::into_usage_error)?;
    tokenizer.notes().iter().for_each(output::note);
    let text = text(args.text)?;
    let ids = match args.framed {
        true => tokenizer.encode_framed(&text),
        false => tokenizer.encode(&text),
    };
    let ids = ids.map_err(Error::into_usage_error)?;
    let piece = |id: u32| tokenizer.token(id).unwrap_or_default();
    if args.json {
        let pieces: Vec<String> = ids.iter().map(|id| piece(*id)).collect();
        let all: Value = json!({
            "ids": ids,
            "pieces": pieces,
            "text": tokenizer.decode(&ids),
            "vocab_size": tokenizer.vocab_size(),
        });
        return output::line(all.to_string());
    }
    let mut rows = vec![["id", "piece", "text"].map(str::to_owned).to_vec()];
    for id in &ids {
        let text = tokenizer.decode(&[*id]);
        rows.push(vec![id.to_string(), piece(*id), format!("{text:?}")]);
    }
    output::line_part(table(&rows, None))?;
    output::note(format!(
        "{} of {}, vocabulary of {}",
        output::count_of(ids.len(), "token"),
        output::count_of(text.chars().count(), "character"),
        tokenizer.vocab_size()
    ));
    Ok(())
}

/// The text: the argument, the content of the file of that name, or standard input.
fn text(given: Option<String>) -> Result<String> {
    let text = match given {
        Some(text) if !Path::new(&text).is_file() => return Ok(text),
        Some(file) => {
            output::note(format!("the text is read from the file {file}"));
            let text = std::fs::read_to_string(&file);
            let text = text
                .map_err(Error::io("read", Path::new(&file)))
                .map_err(Error::into_usage_error)?;
            files::refuse_utf16(&file, text.as_bytes())?;
            text
        }
        None => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(Error::io("read", "standard input"))?;
            text
        }
    };
    // The final line break is not part of the text.
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

/// The requested tokenizer.
fn tokenizer(args: &TokenizeArgs) -> Result<Tokenizer> {
    let is_experiment = args.from.extension().is_some_and(|ending| ending == "toml");
    if !(is_experiment && args.from.is_file()) {
        return tokenizer_of_files(args);
    }
    let loaded = load(&args.from, &[])?;
    check(&loaded)?;
    let tokenizers = assemble::training_data(&loaded)?.tokenizers;
    let own = match args.target {
        true => tokenizers.target,
        false => tokenizers.text,
    };
    own.ok_or_else(|| {
        Error::usage(format!(
            "{} has no such tokenizer: its data consists of token ids, or it has only one vocabulary",
            args.from.display()
        ))
    })
}

/// The tokenizer of a run, or of files from elsewhere.
fn tokenizer_of_files(args: &TokenizeArgs) -> Result<Tokenizer> {
    let from = &args.from;
    if !from.exists() {
        return Err(Error::usage(format!(
            "there is no run or tokenizer {}; give a run's folder, a tokenizer's file or folder, or an experiment",
            from.display()
        )));
    }
    let name = match args.target {
        true => run_dir::TARGET_TOKENIZER,
        false => run_dir::TOKENIZER,
    };
    let is_run = run_dir::is_run(from);
    let file = from.join(name);
    if is_run {
        let of_run = run_contents::framed_tokenizers(from)?;
        let wanted = match args.target {
            true => of_run.target,
            false => of_run.text,
        };
        if let Some(tokenizer) = wanted {
            return Ok(tokenizer);
        }
    } else if file.is_file() {
        return Tokenizer::load(&file);
    }
    if from.is_dir() && (args.target || is_run) {
        return Err(Error::usage(format!(
            "{} has no {name}: its data consists of token ids, or it has only one vocabulary",
            from.display()
        )));
    }
    Tokenizer::pretrained(from)?.ok_or_else(|| {
        Error::usage(format!(
            "{} is not a run and contains no tokenizer (none of {PRETRAINED_FILES})",
            from.display()
        ))
    })
}
