//! `formwork check`: validates an experiment and prints it resolved, with where each value came from.
//!
//! It goes the way of `train` and `sweep` up to the first step, so that neither refuses what it passed: data is read and
//! encoded (into the caches that a run then uses), models are built without their weights. `--keys-only` stays with
//! what the files of the experiment say. Messages, as the size of the data, go to standard error.

use super::flags::Keys;
use super::output;
use crate::ablation::planner;
use crate::error::Result;
use crate::experiment::rehearse::{self, Rehearsed};
use crate::experiment::{annotated_toml, check, load, located, replaced};
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
    /// Look at keys and for files alone: do not read the data, build no model
    #[arg(long)]
    pub keys_only: bool,
}

/// Prints the resolved experiment: TOML that loads back, each line with its origin as a comment.
///
/// # Errors
/// All faults of the experiment; what a run of it, or of an arm, would be refused with.
pub fn run(args: CheckArgs) -> Result<()> {
    let sets = args.keys.sets();
    let loaded = load(&args.file, &sets)?;
    check(&loaded)?;
    for note in replaced::notes(&loaded, &sets) {
        output::note(note);
    }
    let rehearsed = match loaded.experiment.ablation {
        Some(_) if args.keys_only => Rehearsed {
            settled: None,
            said: planner::check(&args.file, &sets)?,
        },
        None if args.keys_only => Rehearsed::default(),
        Some(_) => Rehearsed {
            settled: None,
            said: planner::rehearse(&args.file, &sets)?,
        },
        None => rehearse::rehearse(&loaded).map_err(|error| located(&loaded, error))?,
    };
    for said in &rehearsed.said {
        output::note(said);
    }
    output::part(annotated_toml(
        rehearsed.settled.as_ref().unwrap_or(&loaded),
    ))
}
