//! `formwork import`: a Hugging Face folder becomes a run.

use super::output;
use crate::error::Result;
use crate::experiment::import;
use clap::Args;
use std::path::PathBuf;

/// `formwork import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The Hugging Face folder: config.json, weights, and a tokenizer when there is one.
    folder: PathBuf,
    /// The run folder to make.
    run: PathBuf,
    /// A key of config.json that is not known and changes nothing; may be given several times.
    #[arg(long, value_name = "KEY")]
    ignore_key: Vec<String>,
}

/// Runs `formwork import`.
///
/// # Errors
/// A folder that is damaged or holds a model that formwork does not have, a run folder that exists.
pub fn run(args: ImportArgs) -> Result<()> {
    let imported = import::import(&args.folder, &args.run, &args.ignore_key)?;
    if !imported.ignored_keys.is_empty() {
        output::note(format!(
            "keys of config.json without an effect on the model: {}",
            imported.ignored_keys.join(", ")
        ));
    }
    if !imported.passed_over.is_empty() {
        output::note(format!(
            "tensors that are no parameters of the model: {}",
            imported.passed_over.join(", ")
        ));
    }
    if !imported.tokenizer {
        output::note(
            "the folder has no tokenizer: `formwork infer` takes token ids, and commands that read text need one",
        );
    }
    output::line(format!(
        "{}: {} with {} parameters",
        args.run.display(),
        imported.family,
        imported.params
    ))
}
