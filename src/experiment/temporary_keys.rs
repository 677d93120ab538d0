//! Keys of a finished run that can be changed for one command: `--set decode.search.length_penalty.alpha=1`.

use super::Experiment;
use super::file::{UNSET, load_text, resolved_toml};
use crate::error::{Error, Fault, Result, suggestion};
use crate::train::run_dir;
use std::path::Path;

/// The keys of `[data]` that only affect how a file is read, not the network.
const READ_KEYS: &[&str] = &[
    "text",
    "pair",
    "label",
    "labels",
    "indicators",
    "label_separator",
    "score",
    "word",
    "tag",
    "messages",
    "turns",
    "columns",
    "date",
    "prompt",
    "chosen",
    "rejected",
    "overlap",
    "header",
    "quoting",
    "format",
    "field",
    "document_separator",
    "documents",
    "source_field",
    "target_field",
    "image",
    "caption",
    "leave_out",
];

/// Whether a `--set` argument sets a key of `[data]`.
pub fn is_of_data(set: &str) -> bool {
    key(set).starts_with("data.")
}

/// Returns the key of a `--set` argument.
pub fn key(set: &str) -> &str {
    set.split('=').next().unwrap_or_default().trim()
}

/// Checks that the keys can be changed for a finished run. `data` says whether `--data` is given, if the command has it: if so,
/// keys that affect how a file is read are allowed, too.
///
/// # Errors
/// If there is a key that cannot be changed.
pub fn require(sets: &[String], data: Option<bool>) -> Result<()> {
    for set in sets {
        let key = key(set);
        if let Some((name, given)) = key.strip_prefix("data.").zip(data) {
            if !given {
                return Err(Error::usage(format!(
                    "--set {set} says how the file of --data is read; give --data, or leave it out"
                )));
            }
            if !READ_KEYS.contains(&name) {
                let hint = suggestion(name, READ_KEYS.iter().copied());
                return Err(Error::usage(format!(
                    "--set {set}: `{name}` does not say how a file is read{hint}"
                )));
            }
        } else if !key.starts_with("decode.") {
            let or = match data {
                Some(true) => " or `data.`",
                Some(false) | None => "",
            };
            return Err(Error::usage(format!(
                "--set {set}: the run is trained; keys that can be tried out begin with `decode.`{or}"
            )));
        } else if let Some(why) = no_effect_reason(key, data.is_some()) {
            return Err(Error::usage(format!(
                "--set {set} has no effect: {why}; leave it out"
            )));
        }
    }
    Ok(())
}

/// Why a key of `[decode]` has no effect on commands that generate texts with finished text-to-text runs; `measures` says
/// whether the command scores them.
fn no_effect_reason(key: &str, measures: bool) -> Option<&'static str> {
    match key.strip_prefix("decode.")?.split('.').next()? {
        "sampling" | "beam_search" => Some("texts are searched for, as [decode.search] says"),
        "valid_beam" | "valid_items" => Some("evaluations of training alone read it"),
        "metrics" if !measures => Some("no text is measured; `eval` does that"),
        _ => None,
    }
}

/// Returns an error if keys of a run are unset: its resolved file has all of them, and a job that is restarted would find them
/// gone.
///
/// # Errors
/// If a key is unset.
pub fn require_no_unset(sets: &[String]) -> Result<()> {
    match sets.iter().any(|set| key(set) == UNSET) {
        true => Err(Error::usage(
            "a run has a value for every key: give another one with --set; keys are unset in experiment files and where a run begins",
        )),
        false => Ok(()),
    }
}

/// Returns the experiment of a run with these keys set, without writing anything. Only `[decode]` and `[data]` are checked for
/// errors.
///
/// # Errors
/// If keys are unknown, or the two tables have errors.
pub fn with_keys(experiment: &Experiment, folder: &Path, sets: &[String]) -> Result<Experiment> {
    if sets.is_empty() {
        return Ok(experiment.clone());
    }
    let text = resolved_toml(experiment);
    let tried = load_text(&folder.join(run_dir::RESOLVED), text, sets)?.experiment;
    let mut faults = tried.decode.faults();
    faults.extend(tried.data.own_faults());
    match faults.is_empty() {
        true => Ok(tried),
        false => Err(Error::Invalid(faults.into_iter().map(Fault::new).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::require;

    #[test]
    fn keys_of_reading_files_may_be_tried_out() {
        let tried = |set: &str| require(&[set.to_owned()], Some(true));
        for key in [
            "documents=\"wikitext\"",
            "document_separator=\"%%\"",
            "field=\"body\"",
            "word=\"tokens\"",
            "tag=\"ner_tags\"",
            "messages=\"turns\"",
            "overlap=16",
        ] {
            assert!(tried(&format!("data.{key}")).is_ok(), "{key}");
        }
        assert!(tried("data.context=8").is_err());
    }

    #[test]
    fn keys_of_draws_and_of_training_have_no_effect_on_texts_for_texts() {
        let tried = |set: &str, data| require(&[set.to_owned()], data).is_ok();
        for set in [
            "decode.sampling.temperature=0.5",
            "decode.beam_search.beam=2",
            "decode.valid_beam=2",
            "decode.valid_items=3",
        ] {
            assert!(!tried(set, None) && !tried(set, Some(false)), "{set}");
        }
        let metrics = "decode.metrics=[\"ter\"]";
        assert!(!tried(metrics, None) && tried(metrics, Some(false)));
        assert!(tried("decode.search.beam=2", None) && tried("decode.batch_size=2", None));
    }
}
