//! The files of `eval --data` as data of the run's kind, with errors that name them.

use super::{EvalArgs, sets_of};
use crate::data::text::unencoded;
use crate::data::{Data, DataConfig, Gives, Split};
use crate::error::{Error, Fault, Result};
use crate::experiment::open::Opened;
use crate::experiment::tried::{self, with_keys};
use crate::experiment::{Experiment, assemble};
use std::path::{Path, PathBuf};

/// The key that messages about tables of an experiment name.
const HEADER: &str = "set [data] header = true";
/// A larger file is not read to see whether it holds blanks alone.
const LOOKED_AT: u64 = 1 << 20;

/// The data in the files, with the classes, vocabulary and images of the run.
///
/// # Errors
/// A run that reads no such files; files that hold nothing, or not what the run's kind of data reads.
pub(super) fn data(args: &EvalArgs, opened: &Opened) -> Result<Data> {
    let (experiment, places) = (&opened.experiment, &opened.places);
    let keys = args
        .sets
        .iter()
        .filter_map(|set| tried::key(set).strip_prefix("data."));
    let data = supposed(args, opened, given(&args.data, opened)?)?;
    let experiment = Experiment {
        data: data.answered_by(keys),
        ..experiment.clone()
    };
    let experiment = with_keys(&experiment, &args.run, &sets_of(args, true))?;
    assemble::data(&experiment, places, &opened.tokenizers, Some(&opened.shape))
        .map_err(|error| of_files(&args.data, error))
}

/// The same with the answers' column that an imported run supposes as the keys say that tables are written: under its name, or by its
/// number.
fn supposed(args: &EvalArgs, opened: &Opened, data: DataConfig) -> Result<DataConfig> {
    let mut form = sets_of(args, true);
    form.retain(|set| ["data.header", "data.format"].contains(&tried::key(set)));
    if form.is_empty() || !opened.experiment.data.is_imported() {
        return Ok(data);
    }
    // Without its answers no key is at odds with it.
    let experiment = Experiment {
        data: data.clone().answered_by(["label"].into_iter()),
        ..opened.experiment.clone()
    };
    let form = with_keys(&experiment, &args.run, &form)?;
    Ok(data.supposed_in(&form.data))
}

/// The files as data of the run's kind.
fn given(files: &[PathBuf], opened: &Opened) -> Result<DataConfig> {
    let data = &opened.experiment.data;
    // Grey values stand for no text, and are read from files all the same.
    let reads_text = data.set().gives() != Gives::Images && data.set().paths().is_empty();
    if opened.tokenizers.text.is_none() && reads_text {
        return Err(Error::usage(
            "--data: the run has no tokenizer, so that it reads no text; import it from a folder that has one",
        ));
    }
    let absolute = |file: &PathBuf| std::path::absolute(file).map_err(Error::io("find", file));
    let absolute = files.iter().map(absolute).collect::<Result<Vec<_>>>()?;
    let config = data.of_files(&absolute, &opened.shape)?;
    match files.iter().find(|file| is_empty(file)) {
        Some(file) => Err(Error::usage(format!(
            "--data {}: the file is empty",
            file.display()
        ))),
        None => Ok(config),
    }
}

/// Whether a file holds nothing but blanks.
fn is_empty(file: &Path) -> bool {
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() && found.len() <= LOOKED_AT => {
            std::fs::read(file).is_ok_and(|bytes| bytes.trim_ascii().is_empty())
        }
        Ok(_) | Err(_) => false,
    }
}

/// Splits that are too small are the files; no key makes them larger. Texts that cannot be read or encoded are bad input.
fn of_files(files: &[PathBuf], error: Error) -> Error {
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

/// A message without the name of the split that the files stand for: they are no split of a person's.
fn without_split(message: &str) -> String {
    for split in Split::ALL {
        if let Some(rest) = message.strip_prefix(&unencoded::of(split)) {
            return rest.to_owned();
        }
        if let Some((place, rest)) = message.split_once(&unencoded::within(split)) {
            return format!("{place}{rest}");
        }
    }
    message.to_owned()
}
