//! `formwork check`: validates an experiment and prints it resolved, with where each value comes from.

use crate::error::{Error, Result};
use crate::experiment::{annotated_toml, check, load};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Validate an experiment; print the resolved file and where each value came from
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
    let mut out = std::io::stdout().lock();
    write!(out, "{}", annotated_toml(&loaded)).map_err(Error::io("write", "standard output"))
}
