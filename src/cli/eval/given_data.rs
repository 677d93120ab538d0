//! Reads the files of `eval --data` as data of the run's kind, with errors that name the files.

use super::{EvalArgs, sets_of};
use crate::data::text::encoding_errors;
use crate::data::{Data, DataConfig, ExampleForm, Split};
use crate::error::{Error, Fault, Result};
use crate::experiment::open::OpenedRun;
use crate::experiment::temporary_keys::{self, with_keys};
use crate::experiment::{Experiment, assemble};
use std::path::{Path, PathBuf};

/// The key that messages about tables suggest for experiments.
const HEADER: &str = "set [data] header = true";
/// Maximum size in bytes of a file that is read to see whether it only holds whitespace.
const MAX_BLANK_SIZE: u64 = 1 << 20;

/// Reads the data in the files, with the classes, vocabulary and image shape of the run.
///
/// # Errors
/// If the run reads no such files; if files are empty, or not what the run's kind of data reads.
pub(super) fn data(args: &EvalArgs, opened: &OpenedRun) -> Result<Data> {
    let (experiment, places) = (&opened.experiment, &opened.places);
    let keys = args
        .sets
        .iter()
        .filter_map(|set| temporary_keys::key(set).strip_prefix("data."));
    let data = with_label_column(args, opened, data_config(&args.data, opened)?)?;
    let experiment = Experiment {
        data: data.without_assumed_answers(keys),
        ..experiment.clone()
    };
    let experiment = with_keys(&experiment, &args.run, &sets_of(args, true))?;
    assemble::data(&experiment, places, &opened.tokenizers, Some(&opened.shape))
        .map_err(|error| reword_error(&args.data, error))
}

/// For an imported run, names the assumed label column as the form of the table requires: by its name, or by its number.
fn with_label_column(args: &EvalArgs, opened: &OpenedRun, data: DataConfig) -> Result<DataConfig> {
    let mut form = sets_of(args, true);
    form.retain(|set| ["data.header", "data.format"].contains(&temporary_keys::key(set)));
    if form.is_empty() || !opened.experiment.data.is_imported() {
        return Ok(data);
    }
    // Without its label column, no key can contradict the data.
    let experiment = Experiment {
        data: data.clone().without_assumed_answers(["label"].into_iter()),
        ..opened.experiment.clone()
    };
    let form = with_keys(&experiment, &args.run, &form)?;
    Ok(data.with_named_answer_column(&form.data))
}

/// Describes the files as data of the run's kind.
fn data_config(files: &[PathBuf], opened: &OpenedRun) -> Result<DataConfig> {
    let data = &opened.experiment.data;
    // Grey values do not stand for text, but are read from files as well.
    let reads_text =
        data.data_set().example_form() != ExampleForm::Images && data.data_set().paths().is_empty();
    if opened.tokenizers.text.is_none() && reads_text {
        return Err(Error::usage(
            "--data: the run has no tokenizer, so it cannot read text; import it from a folder that has one",
        ));
    }
    let absolute = |file: &PathBuf| std::path::absolute(file).map_err(Error::io("find", file));
    let absolute = files.iter().map(absolute).collect::<Result<Vec<_>>>()?;
    let config = data.for_evaluation_files(&absolute, &opened.shape)?;
    match files.iter().find(|file| is_empty(file)) {
        Some(file) => Err(Error::usage(format!(
            "--data {}: the file is empty",
            file.display()
        ))),
        None => Ok(config),
    }
}

/// Whether a file holds nothing but whitespace.
fn is_empty(file: &Path) -> bool {
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() && found.len() <= MAX_BLANK_SIZE => {
            std::fs::read(file).is_ok_and(|bytes| bytes.trim_ascii().is_empty())
        }
        Ok(_) | Err(_) => false,
    }
}

/// Rewords errors: a split that is too small means that the files are, which no key changes. Texts that cannot be read or
/// encoded are input errors.
fn reword_error(files: &[PathBuf], error: Error) -> Error {
    let set = |message: &str| message.replace(HEADER, "add --set data.header=true");
    let faults = match error {
        Error::Invalid(faults) => faults,
        Error::Run(message) => return Error::usage(without_split(&set(&message))),
        other => return other,
    };
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let told = faults.into_iter().map(|fault| {
        let split = ["train", "valid"].iter().find_map(|split| {
            let begins = format!("[data] the {split} split ");
            fault.message.strip_prefix(&begins)
        });
        match split.and_then(|rest| rest.split_once("; use more")) {
            Some((what, _)) => Fault::new(format!(
                "--data {}: it {what}; give a larger file",
                names.join(" ")
            )),
            None => Fault {
                message: set(&fault.message),
                ..fault
            },
        }
    });
    Error::Invalid(told.collect())
}

/// Removes the name of the split from a message: the user's files are not a split.
fn without_split(message: &str) -> String {
    for split in Split::ALL {
        if let Some(rest) = message.strip_prefix(&encoding_errors::error_prefix(split)) {
            return rest.to_owned();
        }
        if let Some((place, rest)) = message.split_once(&encoding_errors::split_clause(split)) {
            return format!("{place}{rest}");
        }
    }
    message.to_owned()
}
