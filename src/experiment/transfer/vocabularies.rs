//! Compares the vocabularies of another run and this one, to decide whether embedding rows can be taken.

use crate::data::{Shape, Tokenizers};
use crate::error::{Error, Result};
use crate::experiment::run_contents;
use crate::nn::role::Place;
use crate::task::Objective;
use crate::tokenizer::Tokenizer;
use crate::train::parameters::{self, Parameter};
use crate::train::transfer::{GrownTables, PathMapping, TransferConfig};
use crate::train::{lora, run_dir};
use std::path::Path;

/// A vocabulary in relation to that of the other run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VocabularyRelation {
    /// The same tokens.
    Same,
    /// The same tokens, followed by additional ones.
    Longer,
    /// Other tokens.
    Other,
}

impl VocabularyRelation {
    fn of(theirs: Option<&Tokenizer>, own: Option<&Tokenizer>) -> Self {
        match (theirs, own) {
            (None, _) => Self::Same,
            (Some(theirs), Some(own)) if own.encodes_like(theirs) => Self::Same,
            (Some(theirs), Some(own)) if own.extends(theirs) => Self::Longer,
            (Some(_), _) => Self::Other,
        }
    }
}

/// Returns the parameters with one row per token of a vocabulary that extends the other run's, with the row counts there and
/// here.
///
/// # Errors
/// If embedding rows would be taken that belong to other tokens.
pub(super) fn extended_tables(
    (rules, way): (&TransferConfig, Option<&PathMapping>),
    folder: &Path,
    own: &Tokenizers,
    [there, here]: [&Shape; 2],
    model: &Objective,
) -> Result<GrownTables> {
    let theirs = run_contents::tokenizers(folder)?;
    let reads = VocabularyRelation::of(theirs.text.as_ref(), own.text.as_ref());
    let writes = VocabularyRelation::of(theirs.target_tokenizer(), own.target_tokenizer());
    let all = parameters::list_with_state(model);
    // Adapters are not shared with the other run.
    let all: Vec<_> = all
        .into_iter()
        .filter(|p| !lora::is_adapter(&p.path))
        .filter(|p| way.is_none_or(|way| way.maps_to(&p.path)))
        .collect();
    let of_source = |p: &Parameter| p.role.place == Some(Place::SourceTokens);
    let one = !all.iter().any(of_source);
    let vocabulary = |p: &Parameter| match p.role.place {
        Some(Place::SourceTokens) => reads,
        // With a single vocabulary, the output embedding table is also the input embedding table.
        Some(Place::Tokens) if one => writes.max(reads),
        _ => writes,
    };
    let of_tokens = || all.iter().filter(|p| p.role.has_row_per_token());
    let foreign = of_tokens().filter(|p| vocabulary(p) == VocabularyRelation::Other);
    let foreign = rules.taken_paths(foreign.map(|p| p.path.as_str()))?;
    if !foreign.is_empty() {
        return Err(mismatch_error(folder, &foreign));
    }
    let rows = |p: &Parameter| {
        [there, here].map(|shape| match of_source(p) {
            true => shape.source_vocab_size.unwrap_or(shape.vocab_size),
            false => shape.vocab_size,
        })
    };
    let longer = of_tokens().filter(|p| vocabulary(p) == VocabularyRelation::Longer);
    Ok(longer.map(|p| (p.path.clone(), rows(p))).collect())
}

fn mismatch_error(folder: &Path, foreign: &[&str]) -> Error {
    let anew: Vec<String> = foreign.iter().map(|path| format!("{path:?}")).collect();
    Error::usage(format!(
        "[init] the other run has a different vocabulary, so its embeddings belong to other tokens; to use the run's vocabulary, \
         remove [tokenizer] or, if it comes from another file, set [tokenizer] kind = \"pretrained\", path = {:?} (a copy with \
         tokens added at the end also fits); or initialise the parameters of the tokens anew: add {} to new",
        folder.join(run_dir::TOKENIZER),
        anew.join(", ")
    ))
}
