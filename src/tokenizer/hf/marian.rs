//! Marian's folders: `source.spm` and `target.spm` split texts, `vocab.json` gives the ids of the pieces of both.
//!
//! Differences from transformers, which looks pieces up after SentencePiece has split the text: there, a piece of the
//! model that vocab.json lacks is unknown; here, the text is split only into pieces that have an id. Of characters
//! that the model lacks, each is looked up by itself here, but a run of them as a whole there. A language code
//! (`>>fr<<`) is a token anywhere here, only at the beginning there. A `▁` written in the text itself does not become
//! a blank.

use std::collections::HashMap;

use serde_json::json;

use super::TokenizerDraft;
use super::files::{Folder, fault, numbered};
use super::frame::{Part, template};
use super::pieces::{Model, PieceKind, Pieces};
use super::sentencepiece::{metaspace, rules};
use super::settings::{AddedToken, Role, Settings, default_roles};
use crate::error::Result;

/// The SentencePiece models of both sides, and the ids.
pub const SIDES: [&str; 2] = ["source.spm", "target.spm"];
pub const VOCAB: &str = "vocab.json";
pub const OTHER_VOCAB: &str = "target_vocab.json";
/// Score per character of a piece that only the other side's model has: costs more than any text of known pieces.
pub const FOREIGN: f64 = -1e9;

/// Reads the tokenizers of sources and targets.
///
/// # Errors
/// If a file is missing or damaged, or ids are missing.
pub fn read(folder: Folder, settings: &mut Settings) -> Result<[TokenizerDraft; 2]> {
    let separate = folder.has(OTHER_VOCAB);
    let names = [VOCAB, if separate { OTHER_VOCAB } else { VOCAB }];
    let [source, target] = [0, 1].map(|side| side_of(folder, SIDES[side], names[side], settings));
    Ok([source?, target?])
}

/// The score of a token that the model of a side lacks.
pub(super) fn foreign_score(token: &str) -> f64 {
    FOREIGN
        * match token.chars().count() {
            1 => 1.0,
            n => n as f64 + 1.0,
        }
}

fn side_of(
    folder: Folder,
    model: &str,
    vocab_name: &str,
    settings: &mut Settings,
) -> Result<TokenizerDraft> {
    let path = folder.path(vocab_name);
    let pieces = Pieces::read(folder, model)?;
    if pieces.model != Model::Unigram {
        let message = "is of the type `bpe`; Marian's models are of the type `unigram`";
        return Err(fault(&folder.path(model), message));
    }
    let tokens = numbered(&path, &folder.object(vocab_name)?.unwrap_or_default())?;
    if let Some((at, (token, id))) = tokens
        .iter()
        .enumerate()
        .find(|(at, (_, id))| *id as usize != *at)
    {
        let message = format!("has no token with the id {at}; the next is `{token}` with {id}");
        return Err(fault(&path, message));
    }
    let scores: HashMap<&str, f64> = pieces
        .all
        .iter()
        .filter(|piece| matches!(piece.sort, PieceKind::Normal | PieceKind::UserDefined))
        .map(|piece| (piece.text.as_str(), piece.score))
        .collect();
    let numbers: HashMap<&str, u32> = tokens
        .iter()
        .map(|(token, id)| (token.as_str(), *id))
        .collect();
    let roles = [
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
        (Role::Pad, "<pad>"),
    ];
    default_roles(settings, |name| numbers.contains_key(name), &roles);
    let (unknown, end) = (
        settings.name(Role::Unk, "<unk>"),
        settings.name(Role::Eos, "</s>"),
    );
    let (Some(unknown), Some(end_id)) = (numbers.get(unknown), numbers.get(end)) else {
        return Err(fault(
            &path,
            format!("needs the tokens `{unknown}` and `{end}`"),
        ));
    };
    let vocab: Vec<(&str, f64)> = tokens
        .iter()
        .map(|(token, _)| {
            (
                token.as_str(),
                scores
                    .get(token.as_str())
                    .copied()
                    .unwrap_or_else(|| foreign_score(token)),
            )
        })
        .collect();
    let without = scores
        .keys()
        .filter(|text| !numbers.contains_key(*text))
        .count();
    let notes = (without > 0).then(|| {
        format!("{without} of {} pieces of {model} have no id in {vocab_name}: other pieces replace them", scores.len())
    });
    // `>>de<<` before a source names the language of its target.
    let codes = tokens
        .iter()
        .filter(|(token, _)| token.starts_with(">>") && token.ends_with("<<"));
    let codes = codes.map(|(token, id)| (*id, AddedToken::special(token.clone())));
    let end = Part::Token(end, *end_id);
    let (normalizer, pre_tokenizer) = rules(&pieces);
    Ok(TokenizerDraft {
        normalizer,
        pre_tokenizer,
        post_processor: template(
            &[(Part::A, 0), (end, 0)],
            &[(Part::A, 0), (Part::B, 0), (end, 0)],
        ),
        decoder: metaspace("always", true),
        model: json!({"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": false}),
        added: codes.collect(),
        notes: notes.into_iter().collect(),
    })
}
