//! `formwork check`: validates an experiment and prints it resolved, with where each value comes from.

use super::output;
use crate::error::Result;
use crate::experiment::{annotated_toml, check, load};
use clap::Args;
use std::path::PathBuf;

/// `formwork check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The experiment
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Override a key, as in train.steps=100
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// Prints the resolved experiment: TOML that loads back, each line with its origin as a comment.
///
/// # Errors
/// All faults of the experiment.
pub fn run(args: CheckArgs) -> Result<()> {
    let loaded = load(&args.file, &args.sets)?;
    check(&loaded)?;
    output::part(annotated_toml(&loaded))
}
