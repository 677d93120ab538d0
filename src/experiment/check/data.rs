//! Checks `[data]` and `[tokenizer]`, and whether their files exist.

use super::{Checker, Purpose};
use crate::data::DataConfig;
use crate::error::Error;
use crate::experiment::{teacher, transfer};
use crate::faults::MAX_POSITIONS;
use crate::tokenizer::TokenizerConfig;
use crate::train::run_dir;
use std::path::Path;

/// Reports everything wrong with the data; returns the length of its inputs if there are no errors.
pub(super) fn check(sense: &mut Checker, what: Purpose) -> Option<usize> {
    let experiment = &sense.loaded.experiment;
    let (data, tokenizer) = (&experiment.data, experiment.tokenizer.as_ref());
    let init = &experiment.init;
    let begins = init.from.is_some() || init.text.is_some();
    let has_other = begins || teacher::frozen_run(experiment).is_some();
    let inherited = tokenizer.is_none() && has_other;
    let mut faults = match inherited {
        true => data.own_faults(),
        false => data.faults(tokenizer),
    };
    if what.is_new_run() {
        faults.extend(data.data_set().new_run_faults());
    }
    if faults.is_empty() && tokenizer.is_some() && !data.data_set().needs_tokenizer() {
        let kind = data.kind();
        faults.push(format!(
            "[tokenizer] has no effect: data of kind `{kind}` has its own tokens; remove it"
        ));
    }
    let view = experiment.task.view();
    if faults.is_empty() {
        faults.extend(data.data_set().view_faults(&view));
    }
    if faults.is_empty() && what.is_new_run() {
        faults.extend(view.new_run_faults(data.context()));
    }
    for fault in &faults {
        sense.add_worded("data", fault);
    }
    if !faults.is_empty() {
        return None;
    }
    let context = data.context();
    if context > MAX_POSITIONS {
        sense.fault(
            &["data.context"],
            format!("an input of {context} tokens is longer than {MAX_POSITIONS}"),
        );
        return None;
    }
    // A resumed run may have been moved; its files are then found by their content.
    if what.is_new_run() {
        paths(sense, data, tokenizer);
        let places = sense.loaded.places();
        for (key, found) in transfer::folders(experiment, &places) {
            report_missing_run(sense, key, found.err(), what);
        }
    }
    Some(context)
}

/// Reports a required run that does not exist; if it is named by an experiment file, with the command that trains it.
pub(super) fn report_missing_run(
    sense: &mut Checker,
    key: &str,
    error: Option<Error>,
    what: Purpose,
) {
    let Some(error) = error else {
        return;
    };
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let message = error.to_string();
    let message = message.strip_prefix(&format!("[{table}] "));
    let message = message.map_or_else(|| error.to_string(), str::to_string);
    match sense.loaded.prerequisite(key) {
        Some(_) if what == Purpose::NewRunWithPrerequisites => {}
        Some(before) if !run_dir::is_run(&sense.loaded.places().anchored(&before.run)) => {
            let (run, file) = (before.run.display(), before.file.display());
            let rule = format!(
                "{name}: {file} has not made its run {run} yet; train it first: formwork train {file}"
            );
            sense.fault(&[key], rule);
        }
        Some(_) | None => sense.fault(&[key], message),
    }
}

fn paths(sense: &mut Checker, data: &DataConfig, tokenizer: Option<&TokenizerConfig>) {
    let places = sense.loaded.places();
    let files = data.data_set().paths();
    let mut wanted: Vec<(String, &Path)> = files
        .into_iter()
        .map(|(key, path)| (format!("data.{key}"), path))
        .collect();
    let of_tokenizer = tokenizer.and_then(TokenizerConfig::path);
    wanted.extend(of_tokenizer.map(|path| ("tokenizer.path".into(), path)));
    for (key, path) in wanted {
        let Err(error) = places.resolve(path) else {
            continue;
        };
        let message = match error {
            Error::Invalid(mut faults) => faults.pop().map(|f| f.message).unwrap_or_default(),
            other => other.to_string(),
        };
        sense.fault(&[&key], message.strip_prefix("[data] ").unwrap_or(&message));
    }
}
