//! The sense of `[data]` and `[tokenizer]`, and whether their files are there.

use super::{For, Sense};
use crate::data::DataConfig;
use crate::error::Error;
use crate::experiment::transfer;
use crate::faults::LONGEST;
use crate::tokenizer::TokenizerConfig;
use std::path::Path;

/// All faults of the data; the length of its inputs, when there are none.
pub(super) fn check(sense: &mut Sense, what: For) -> Option<usize> {
    let experiment = &sense.loaded.experiment;
    let (data, tokenizer) = (&experiment.data, experiment.tokenizer.as_ref());
    let inherited = tokenizer.is_none() && experiment.init.from.is_some();
    let mut faults = match inherited {
        true => data.set().faults(),
        false => data.faults(tokenizer),
    };
    if faults.is_empty() && tokenizer.is_some() && !data.set().needs_tokenizer() {
        let kind = data.kind();
        faults.push(format!(
            "[tokenizer] has no effect: data of kind `{kind}` brings its own tokens; leave it out"
        ));
    }
    if faults.is_empty() {
        faults.extend(data.set().view_faults(&experiment.task.view()));
    }
    for fault in &faults {
        sense.sentence("data", fault);
    }
    if !faults.is_empty() {
        return None;
    }
    let context = data.context();
    if context > LONGEST {
        sense.fault(
            &["data.context"],
            format!("an input of {context} tokens is longer than {LONGEST}"),
        );
        return None;
    }
    // A run that is resumed may have moved; its files are looked for by their content.
    if what == For::Beginning {
        paths(sense, data, tokenizer);
    }
    if what == For::Beginning {
        let places = sense.loaded.places();
        if let Err(error) = transfer::folder(experiment, &places) {
            let message = error.to_string();
            sense.fault(
                &["init.from"],
                message.strip_prefix("[init] ").unwrap_or(&message),
            );
        }
    }
    Some(context)
}

fn paths(sense: &mut Sense, data: &DataConfig, tokenizer: Option<&TokenizerConfig>) {
    let places = sense.loaded.places();
    let files = data.set().paths();
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
