//! `formwork tokenize`: the pieces of a text and their ids.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::output;
use crate::error::{Error, Result};
use crate::report::render::table::table;
use crate::tokenizer::Tokenizer;
use crate::train::run_dir;

/// `formwork tokenize`.
#[derive(Args, Debug)]
pub struct TokenizeArgs {
    /// A run's folder, or a tokenizer.json.
    #[arg(value_name = "RUN|FILE")]
    pub from: PathBuf,
    /// The text; standard input when absent.
    pub text: Option<String>,
    /// The vocabulary of targets, where a run has two.
    #[arg(long)]
    pub target: bool,
    /// With the special tokens that frame a text.
    #[arg(long)]
    pub framed: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Prints a row for each token.
///
/// # Errors
/// A run without a tokenizer, a text that the tokenizer cannot encode.
pub fn run(args: TokenizeArgs) -> Result<()> {
    let tokenizer = Tokenizer::load(&file(&args)?)?;
    let text = match args.text {
        Some(text) => text,
        None => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(Error::io("read", "standard input"))?;
            // What a shell adds is no part of the text.
            text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
        }
    };
    let ids = match args.framed {
        true => tokenizer.encode_framed(&text),
        false => tokenizer.encode(&text),
    };
    let ids = ids.map_err(Error::before_running)?;
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
    output::part(table(&rows, None))?;
    output::note(format!(
        "{} of {}, vocabulary of {}",
        output::many(ids.len(), "token"),
        output::many(text.chars().count(), "character"),
        tokenizer.vocab_size()
    ));
    Ok(())
}

/// The file of the vocabulary that is asked for.
fn file(args: &TokenizeArgs) -> Result<PathBuf> {
    let bare = Path::new("checkpoints").join(&args.from);
    let from = match args.from.exists() {
        true => args.from.clone(),
        false if bare.is_dir() => bare,
        false => {
            return Err(Error::usage(format!(
                "no run or tokenizer {}; a run's folder or a tokenizer.json",
                args.from.display()
            )));
        }
    };
    if !from.is_dir() {
        return Ok(from);
    }
    let name = match args.target {
        true => run_dir::TARGET_TOKENIZER,
        false => run_dir::TOKENIZER,
    };
    let file = from.join(name);
    match file.is_file() {
        true => Ok(file),
        false => Err(Error::usage(format!(
            "{} has no {name}: its data brings ids, or it has one vocabulary",
            from.display()
        ))),
    }
}
