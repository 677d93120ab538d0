//! The sense of `[data]` and `[tokenizer]`, and whether their files are there.

use super::Sense;
use super::model::LONGEST;
use crate::data::{DataConfig, Places, Split};
use crate::error::Error;
use crate::tokenizer::TokenizerConfig;
use std::path::Path;

/// All faults of the data; the length of its inputs, when there are none.
pub(super) fn check(sense: &mut Sense, files: bool) -> Option<usize> {
    let experiment = &sense.loaded.experiment;
    let (data, tokenizer) = (&experiment.data, experiment.tokenizer.as_ref());
    let mut faults = data.faults(tokenizer);
    if faults.is_empty() && tokenizer.is_some() && !matches!(data, DataConfig::Text(_)) {
        let kind = data.kind();
        faults.push(format!(
            "[tokenizer] has no effect: data of kind `{kind}` brings its own tokens; leave it out"
        ));
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
    if files {
        paths(sense, data, tokenizer);
    }
    Some(context)
}

/// Whether the data has a split to measure on.
pub(super) fn has(data: &DataConfig, split: Split) -> bool {
    let items = |valid: usize, test: usize| match split {
        Split::Train => true,
        Split::Valid => valid > 0,
        Split::Test => test > 0,
    };
    match data {
        DataConfig::Text(c) => match split {
            Split::Train => true,
            Split::Valid => c.valid_path.is_some() || c.valid_fraction != Some(0.0),
            Split::Test => c.test_path.is_some() || c.test_fraction.is_some_and(|f| f > 0.0),
        },
        DataConfig::Arithmetic(c) => items(c.valid_items, c.test_items),
        DataConfig::Copy(c) => items(c.valid_items, c.test_items),
        DataConfig::Reverse(c) => items(c.valid_items, c.test_items),
        DataConfig::Sort(c) => items(c.valid_items, c.test_items),
        DataConfig::RandomTokens(c) => items(c.valid_items, 0),
    }
}

fn paths(sense: &mut Sense, data: &DataConfig, tokenizer: Option<&TokenizerConfig>) {
    let places = Places::new(sense.loaded.path.parent());
    let mut wanted: Vec<(&str, &Path)> = Vec::new();
    if let DataConfig::Text(c) = data {
        for (key, paths) in [
            ("data.path", Some(&c.path)),
            ("data.valid_path", c.valid_path.as_ref()),
            ("data.test_path", c.test_path.as_ref()),
        ] {
            let paths = paths.into_iter().flat_map(|p| &p.0);
            wanted.extend(paths.map(|path| (key, path.as_path())));
        }
    }
    if let Some(TokenizerConfig::Pretrained(c)) = tokenizer {
        wanted.push(("tokenizer.path", &c.path));
    }
    for (key, path) in wanted {
        let Err(error) = places.resolve(path) else {
            continue;
        };
        let message = match error {
            Error::Invalid(mut faults) => faults.pop().map(|f| f.message).unwrap_or_default(),
            other => other.to_string(),
        };
        sense.fault(&[key], message.strip_prefix("[data] ").unwrap_or(&message));
    }
}
