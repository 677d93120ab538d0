//! `formwork check`: validates an experiment and prints it resolved, with the origin of each value.
//!
//! It performs the same steps as `train` and `sweep` up to the first training step, so that neither refuses what it accepted:
//! data is read and encoded (into the caches that a run then uses), and models are built without their weights. `--keys-only`
//! considers only the files of the experiment. Messages, such as the size of the data, go to standard error.

use super::flags::Keys;
use super::output;
use crate::ablation::planner;
use crate::error::Result;
use crate::experiment::preflight::{self, PreflightResult};
use crate::experiment::{annotated_toml, check, dropped_keys, load, locate_error};
use clap::Args;
use std::path::PathBuf;

/// `formwork check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The experiment
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Check only the keys and whether files exist: do not read the data, build no model
    #[arg(long)]
    pub keys_only: bool,
}

/// Prints the resolved experiment: TOML that loads back, each line with its origin as a comment.
///
/// # Errors
/// If the experiment has errors, or a run of it, or of one of its arms, would be refused.
pub fn run(args: CheckArgs) -> Result<()> {
    let sets = args.keys.sets();
    let loaded = load(&args.file, &sets)?;
    check(&loaded)?;
    for note in dropped_keys::notes(&loaded, &sets) {
        output::note(note);
    }
    let rehearsed = match loaded.experiment.ablation {
        Some(_) if args.keys_only => PreflightResult {
            with_steps: None,
            messages: planner::check(&args.file, &sets)?,
        },
        None if args.keys_only => PreflightResult::default(),
        Some(_) => PreflightResult {
            with_steps: None,
            messages: planner::preflight(&args.file, &sets)?,
        },
        None => preflight::preflight(&loaded).map_err(|error| locate_error(&loaded, error))?,
    };
    for said in &rehearsed.messages {
        output::note(said);
    }
    output::line_part(annotated_toml(
        rehearsed.with_steps.as_ref().unwrap_or(&loaded),
    ))
}
