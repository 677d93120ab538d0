//! Writes the files that describe a run, before its first step.

use super::{data_files, initial, resolved_toml};
use crate::data::Data;
use crate::error::{Error, Result};
use crate::experiment::teacher::WeightsId;
use crate::experiment::{Experiment, LoadedExperiment, unset_comment};
use crate::train::machine::Machine;
use crate::train::run_dir::{self, RunDir};
use crate::train::run_manifest;
use crate::train::transfer::{INIT, InitialCheckpoint};
use std::path::Path;

/// Writes the files; returns the warning about files that training and evaluation share.
pub(super) fn describe(
    run: &RunDir,
    loaded: &LoadedExperiment,
    data: &Data,
    [teacher, reward]: &[Option<WeightsId>; 2],
    checkpoints: &[InitialCheckpoint],
) -> Result<Option<String>> {
    let (experiment, places) = (&loaded.experiment, loaded.places());
    let shape = serde_json::to_string_pretty(&data.shape)
        .map_err(|e| Error::run(format!("cannot describe the data: {e}")))?;
    let (prints, shared) = data_files::files_json(experiment, &places)?;
    let mut files = vec![
        (run_dir::FILES, prints),
        (run_dir::MACHINE, machine(experiment)?),
        (run_dir::DATA, format!("{shape}\n").into_bytes()),
    ];
    for (file, print) in [(run_dir::TEACHER, teacher), (run_dir::REWARD, reward)] {
        if let Some(print) = print {
            files.push((file, print.text()?));
        }
    }
    if !checkpoints.is_empty() {
        let text = initial::init_json(checkpoints, experiment, &places, run.root())?;
        files.push((INIT, text));
    }
    for (tokenizer, file) in [
        (&data.tokenizers.text, run_dir::TOKENIZER),
        (&data.tokenizers.target, run_dir::TARGET_TOKENIZER),
    ] {
        if let Some(tokenizer) = tokenizer {
            files.push((file, tokenizer.json().to_vec()));
        }
    }
    if let Some(template) = &data.tokenizers.chat {
        files.push((run_dir::CHAT, template.json()?));
    }
    files.push((run_dir::EXPERIMENT, loaded.source.clone().into_bytes()));
    let resolved = resolved_toml(&experiment.with_portable_paths(&places, run.root())?);
    let resolved = unset_comment(loaded) + &resolved;
    files.push((run_dir::RESOLVED, resolved.into_bytes()));
    run_manifest::write_new(run, &files)?;
    Ok(shared)
}

/// The comment lines at the top of a run's resolved file, which list the unset keys.
pub(super) fn comment(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join(run_dir::RESOLVED)).unwrap_or_default();
    let lines = text.lines().take_while(|line| line.starts_with("# "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Content of `machine.json` for this machine.
fn machine(experiment: &Experiment) -> Result<Vec<u8>> {
    let machine = serde_json::to_string_pretty(&Machine::detect(&experiment.train.device))
        .map_err(|e| Error::run(format!("cannot describe the machine: {e}")))?;
    Ok(format!("{machine}\n").into_bytes())
}

/// Recreates `machine.json` for a run that has lost it, with a notice. Runs of earlier versions are left unchanged.
pub(super) fn restore_machine_json(
    folder: &Path,
    experiment: &Experiment,
    notice: fn(&str),
) -> Result<Option<(&'static str, Vec<u8>)>> {
    let path = folder.join(run_dir::MACHINE);
    if path.exists() || !folder.join(run_manifest::NAME).exists() {
        return Ok(None);
    }
    notice(&format!(
        "{} was missing: it has been rewritten and describes this machine",
        path.display()
    ));
    Ok(Some((run_dir::MACHINE, machine(experiment)?)))
}
