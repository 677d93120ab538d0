//! The files of a run's data, as they were when it began: kept in its folder, compared when it goes on.

use std::io::ErrorKind;

use super::options::Options;
use crate::data::Places;
use crate::data::catalog::fingerprint::{self, Fingerprint};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::train::run_dir::{FILES, RunDir};

/// Writes down what the files are.
///
/// # Errors
/// A file that cannot be read, a folder that cannot be written to.
pub fn keep(run: &RunDir, experiment: &Experiment, places: &Places) -> Result<()> {
    let now = fingerprint::of(&experiment.data, places, &[])?;
    write(run, &now)
}

/// Compares the files with what was written down; a run of an earlier version, which has nothing written down, is
/// believed.
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
                "{what}: its content changed; bring it back, begin another run, or go on all the same with: formwork \
                 resume {} --other-data",
                run.root().display()
            )));
        }
        (options.notice)(&format!("{what}; going on all the same"));
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
