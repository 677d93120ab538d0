//! Fingerprints of the files of a run's data: kept in its folder, compared when it is resumed.

use std::io::ErrorKind;

use super::options::Options;
use crate::data::Places;
use crate::data::catalog::fingerprint::{self, Fingerprint};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::train::run_dir::{FILES, RunDir};

/// Writes the fingerprints of the files.
///
/// # Errors
/// A file that cannot be read, a folder that cannot be written to.
pub fn keep(run: &RunDir, experiment: &Experiment, places: &Places) -> Result<()> {
    let now = fingerprint::of(&experiment.data, places, &[])?;
    write(run, &now)
}

/// Compares the files with the fingerprints in the run's folder. A run of an earlier version, which has none, is taken
/// to have its files still.
///
/// # Errors
/// A file with another content, unless `options` allow it; a file that cannot be read.
pub fn same(
    run: &RunDir,
    experiment: &Experiment,
    places: &Places,
    options: &Options,
) -> Result<()> {
    let path = run.path(FILES);
    let before: Vec<Fingerprint> = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|e| Error::run(format!("{} is damaged: {e}", path.display())))?,
        Err(e) if e.kind() == ErrorKind::NotFound => return keep(run, experiment, places),
        Err(e) => return Err(Error::io("read", &path)(e)),
    };
    let now = fingerprint::of(&experiment.data, places, &before)?;
    if let Some(other) = fingerprint::changed(&before, &now) {
        let what = format!(
            "[data] {} = {} is not what the run began with",
            other.key,
            other.path.display()
        );
        if !options.other_data {
            return Err(Error::usage(format!(
                "{what}: its content changed; bring it back, begin another run, or resume with the changed file: \
                 formwork resume {} --other-data",
                run.root().display()
            )));
        }
        (options.notice)(&format!("{what}; resuming with the changed file"));
    }
    match now == before {
        true => Ok(()),
        false => write(run, &now),
    }
}

fn write(run: &RunDir, files: &[Fingerprint]) -> Result<()> {
    let text = serde_json::to_string_pretty(files)
        .map_err(|e| Error::run(format!("cannot describe the files of the data: {e}")))?;
    run.write(FILES, format!("{text}\n").as_bytes())
}
