//! Refuses flags of `formwork eval` that have no effect for a run.

use super::EvalArgs;
use crate::data::ExampleForm;
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;

/// Returns an error for flags that have no effect for this run.
///
/// # Errors
/// The first such flag.
pub(super) fn require_effective(args: &EvalArgs, opened: &OpenedRun) -> Result<()> {
    if args.predictions.is_some() && args.names.is_given() {
        return Err(Error::usage(
            "--predictions has no effect with --class or --prompt; use `classify` for single images",
        ));
    }
    let task = &opened.experiment.task;
    let without = |flag: &str, what: &str| {
        let kind = task.kind();
        Err(Error::usage(format!(
            "{flag} has no effect: a run of {kind} {what}; remove it"
        )))
    };
    // A replaced-token detector distinguishes two classes of tokens: replaced and original.
    let classes = opened.model.networks().replaced_token.is_some();
    if args.beam.is_some() && !task.compares_texts() {
        return without("--beam", "has no reference texts to compare with");
    }
    let of_decoding = args
        .sets
        .iter()
        .find(|set| set.trim_start().starts_with("decode"));
    if let Some(set) = of_decoding.filter(|_| !task.compares_texts()) {
        return without(
            &format!("--set {set}"),
            "has no reference texts to compare with",
        );
    }
    // With class names, images are classified by texts.
    let confusion = args.confusion && !args.names.is_given();
    match task.example_form() {
        ExampleForm::Pairs
        | ExampleForm::Numbered
        | ExampleForm::Questions
        | ExampleForm::Captioned
        | ExampleForm::Spoken
        | ExampleForm::Preferences
            if confusion =>
        {
            without("--confusion", "does not predict classes")
        }
        ExampleForm::ManyLabelled if confusion => without(
            "--confusion",
            "has no confusion matrix: a text may have several classes",
        ),
        ExampleForm::Text if confusion && !classes => {
            without("--confusion", "does not predict classes")
        }
        ExampleForm::Text
        | ExampleForm::Labelled
        | ExampleForm::ManyLabelled
        | ExampleForm::Numbered
        | ExampleForm::Tagged
        | ExampleForm::Questions
        | ExampleForm::Pairs
        | ExampleForm::Images
        | ExampleForm::Captioned
        | ExampleForm::Spoken
        | ExampleForm::Preferences => Ok(()),
    }
}
