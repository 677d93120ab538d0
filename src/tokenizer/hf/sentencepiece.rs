//! SentencePiece models as T5, ALBERT and XLM-RoBERTa use them: their pieces and rules as `tokenizer.json`. `llama` and
//! `deberta` handle those of their families, and `plain` those that no class reads.

use std::collections::HashMap;

use base64::Engine;
use serde_json::{Value, json};

use super::family::{Family, Files, NamedFamily};
use super::files::{Folder, fault};
use super::pieces::{Model, PieceKind, Pieces};
use super::settings::{AddedToken, Role, Settings, default_roles};
use super::{TokenizerDraft, deberta, frame, languages, llama, plain_sentencepiece};
use crate::error::Result;

/// The names under which folders have a SentencePiece model.
pub const NAMES: [&str; 4] = [
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spm.model",
];
/// Default number of sentinels that T5's class adds to its pieces, and the maximum accepted.
const SENTINELS: u64 = 100;
const MOST_SENTINELS: u64 = 100_000;

/// Reads the folder's SentencePiece model.
///
/// # Errors
/// If the file is not such a model, or its class numbers pieces differently.
pub fn read(folder: Folder, name: &str, settings: &mut Settings) -> Result<TokenizerDraft> {
    let path = folder.path(name);
    let pieces = Pieces::read(folder, name)?;
    let family = match Family::named(settings, Files::Pieces) {
        // If only the model's type is known, transformers uses a general class, which keeps the model's own rules.
        NamedFamily::Family(Family::Llama) if !settings.names_class() => None,
        NamedFamily::Family(family @ (Family::M2M100 | Family::Nllb)) => {
            return Err(languages::incomplete(&path, family));
        }
        NamedFamily::Family(family) => Some(family),
        NamedFamily::Unknown(class) => return Err(super::unknown_class(&path, class)),
        NamedFamily::Nothing => guess_family(name, &pieces),
    };
    let wanted = match family {
        Some(Family::Llama) => Some(Model::Bpe),
        Some(_) => Some(Model::Unigram),
        None => None,
    };
    if let Some(wanted) = wanted.filter(|model| *model != pieces.model) {
        let message = format!(
            "is of the type {:?}, but {family:?} needs {wanted:?}",
            pieces.model
        );
        return Err(fault(&path, message));
    }
    match family {
        Some(Family::T5) => t5(folder, pieces, settings),
        Some(Family::Albert) => Ok(albert(&pieces, settings)),
        Some(Family::DebertaV2) => Ok(deberta::read(&pieces, settings)),
        Some(Family::XlmRoberta) => Ok(xlm_roberta(pieces, settings)),
        Some(Family::MBart50) => Ok(languages::mbart_50(&pieces, settings)),
        Some(Family::Llama) => Ok(llama::read(&pieces, settings)),
        _ => Ok(plain_sentencepiece::read(pieces, settings)),
    }
}

fn guess_family(name: &str, pieces: &Pieces) -> Option<Family> {
    let is = |id: usize, text: &str| pieces.all.get(id).is_some_and(|piece| piece.text == text);
    match pieces.model {
        Model::Bpe => None,
        Model::Unigram if name == "sentencepiece.bpe.model" => Some(Family::XlmRoberta),
        Model::Unigram if is(0, "<pad>") && is(1, "</s>") && is(2, "<unk>") => Some(Family::T5),
        Model::Unigram if is(0, "<pad>") && is(2, "[CLS]") && is(3, "[SEP]") => {
            Some(Family::Albert)
        }
        Model::Unigram if is(0, "[PAD]") && is(1, "[CLS]") && is(2, "[SEP]") => {
            Some(Family::DebertaV2)
        }
        Model::Unigram => None,
    }
}

/// Pieces that are matched before the text is split: control pieces as special tokens, user-defined ones as text.
pub(super) fn added(pieces: &Pieces) -> Vec<(u32, AddedToken)> {
    let listed = pieces.all.iter().enumerate().filter_map(|(id, piece)| {
        let special = match piece.sort {
            PieceKind::Control => true,
            PieceKind::UserDefined => false,
            PieceKind::Normal | PieceKind::Unknown | PieceKind::Unused | PieceKind::Byte => {
                return None;
            }
        };
        let token = AddedToken {
            special,
            ..AddedToken::special(piece.text.clone())
        };
        Some((id as u32, token))
    });
    listed.collect()
}

pub(super) fn vocab(pieces: &Pieces) -> Vec<(String, f64)> {
    pieces
        .all
        .iter()
        .map(|p| (p.text.clone(), p.score))
        .collect()
}

pub(super) fn unigram(vocab: &[(String, f64)], unknown: usize, byte_fallback: bool) -> Value {
    json!({"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": byte_fallback})
}

pub fn metaspace(prepend: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": prepend, "split": split})
}

/// Splits words at blanks, each with `▁` before it.
pub(super) fn words() -> Value {
    word_splitting(true).0
}

/// The pre-tokenizer that splits words at blanks, with `▁` before each if `prefix`, and the decoder that joins them.
pub(super) fn word_splitting(prefix: bool) -> (Value, Value) {
    let words = metaspace(if prefix { "always" } else { "never" }, true);
    let both = json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, words]});
    (both, words)
}

/// The normalizer compiled into the model.
pub(super) fn charsmap(pieces: &Pieces) -> Option<Value> {
    let map = &pieces.charsmap;
    let encoded = || base64::engine::general_purpose::STANDARD.encode(map);
    (!map.is_empty()).then(|| json!({"type": "Precompiled", "precompiled_charsmap": encoded()}))
}

pub(super) fn find(vocab: &[(String, f64)], name: &str) -> Option<u32> {
    vocab
        .iter()
        .position(|(text, _)| text == name)
        .map(|id| id as u32)
}

fn t5(folder: Folder, pieces: Pieces, settings: &mut Settings) -> Result<TokenizerDraft> {
    let mut vocab = vocab(&pieces);
    let mut added = added(&pieces);
    let sentinels = settings.number("extra_ids").unwrap_or(SENTINELS);
    if sentinels > MOST_SENTINELS {
        let message = format!("`extra_ids` = {sentinels} must be at most {MOST_SENTINELS}");
        return Err(fault(&folder.path("tokenizer_config.json"), message));
    }
    let known: HashMap<String, u32> = vocab
        .iter()
        .enumerate()
        .filter(|(_, (text, _))| text.starts_with("<extra_id_"))
        .map(|(id, (text, _))| (text.clone(), id as u32))
        .collect();
    for number in (0..sentinels).rev() {
        let name = format!("<extra_id_{number}>");
        // mT5's pieces include the sentinels.
        let id = known.get(&name).copied().unwrap_or_else(|| {
            vocab.push((name.clone(), 0.0));
            vocab.len() as u32 - 1
        });
        if added.iter().all(|(other, _)| *other != id) {
            added.push((id, AddedToken::special(name)));
        }
    }
    let roles = [
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
        (Role::Pad, "<pad>"),
    ];
    default_roles(settings, |name| find(&vocab, name).is_some(), &roles);
    let end = settings.name(Role::Eos, "</s>");
    Ok(TokenizerDraft {
        normalizer: charsmap(&pieces).unwrap_or(Value::Null),
        pre_tokenizer: words(),
        post_processor: find(&vocab, end).map_or(Value::Null, |id| frame::t5((end, id))),
        decoder: metaspace("always", true),
        model: unigram(&vocab, pieces.unknown, pieces.byte_fallback),
        added,
        notes: Vec::new(),
    })
}

/// The frame `[CLS] … [SEP]`; null if the pieces lack one of the two.
pub(super) fn between_cls_and_sep(vocab: &[(String, f64)], settings: &Settings) -> Value {
    let (cls, sep) = (
        settings.name(Role::Cls, "[CLS]"),
        settings.name(Role::Sep, "[SEP]"),
    );
    match (find(vocab, cls), find(vocab, sep)) {
        (Some(cls_id), Some(sep_id)) => frame::bert((cls, cls_id), (sep, sep_id)),
        _ => Value::Null,
    }
}

fn albert(pieces: &Pieces, settings: &mut Settings) -> TokenizerDraft {
    let vocab = vocab(pieces);
    let roles = [
        (Role::Bos, "[CLS]"),
        (Role::Eos, "[SEP]"),
        (Role::Unk, "<unk>"),
        (Role::Sep, "[SEP]"),
        (Role::Pad, "<pad>"),
        (Role::Cls, "[CLS]"),
        (Role::Mask, "[MASK]"),
    ];
    default_roles(settings, |name| find(&vocab, name).is_some(), &roles);
    let keeps = settings.flag("keep_accents").unwrap_or(false);
    let rules = albert_rules(settings, [keeps, true], charsmap(pieces));
    let (pre_tokenizer, decoder) =
        word_splitting(settings.flag("add_prefix_space").unwrap_or(true));
    TokenizerDraft {
        normalizer: json!({"type": "Sequence", "normalizers": rules}),
        pre_tokenizer,
        post_processor: between_cls_and_sep(&vocab, settings),
        decoder,
        model: unigram(&vocab, pieces.unknown, pieces.byte_fallback),
        added: added(pieces),
        notes: Vec::new(),
    }
}

/// The steps of ALBERT's normalizer: whether accents are kept, and whether texts are lower-cased if `do_lower_case` is not set.
pub(super) fn albert_rules(
    settings: &Settings,
    [keeps_accents, lower]: [bool; 2],
    compiled: Option<Value>,
) -> Vec<Value> {
    let quote =
        |written: &str| json!({"type": "Replace", "pattern": {"String": written}, "content": "\""});
    let mut rules = vec![quote("``"), quote("''")];
    if !keeps_accents {
        rules.extend([json!({"type": "NFKD"}), json!({"type": "StripAccents"})]);
    }
    if settings.flag("do_lower_case").unwrap_or(lower) {
        rules.push(json!({"type": "Lowercase"}));
    }
    rules.extend(compiled);
    rules
}

/// Fairseq replaces the first pieces, `<unk> <s> </s>`, by `<s> <pad> </s> <unk>`, and appends a mask.
fn xlm_roberta(pieces: Pieces, settings: &mut Settings) -> TokenizerDraft {
    let first = [
        (Role::Bos, "<s>"),
        (Role::Pad, "<pad>"),
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
    ];
    for (role, name) in first
        .into_iter()
        .chain([(Role::Cls, "<s>"), (Role::Sep, "</s>")])
    {
        settings.default_role(role, AddedToken::special(name));
    }
    let mask = AddedToken {
        lstrip: true,
        ..AddedToken::special("<mask>")
    };
    settings.default_role(Role::Mask, mask);
    let mut vocab: Vec<(String, f64)> = first
        .map(|(role, name)| (settings.name(role, name).to_owned(), 0.0))
        .to_vec();
    vocab.extend(pieces.all.iter().skip(3).map(|p| (p.text.clone(), p.score)));
    vocab.push((settings.name(Role::Mask, "<mask>").to_owned(), 0.0));
    let (bos, eos) = (vocab[0].0.clone(), vocab[2].0.clone());
    let (pre_tokenizer, decoder) =
        word_splitting(settings.flag("add_prefix_space").unwrap_or(true));
    TokenizerDraft {
        normalizer: charsmap(&pieces).unwrap_or(Value::Null),
        pre_tokenizer,
        post_processor: frame::roberta((&bos, 0), (&eos, 2)),
        decoder,
        model: unigram(&vocab, 3, pieces.byte_fallback),
        added: Vec::new(),
        notes: Vec::new(),
    }
}

/// The normalizer and pre-tokenizer that prepare a text as SentencePiece does: the model's own normalizer, then blanks.
pub fn rules(pieces: &Pieces) -> (Value, Value) {
    let mut normalizers: Vec<Value> = charsmap(pieces).into_iter().collect();
    let replace =
        |from: Value, to: &str| json!({"type": "Replace", "pattern": from, "content": to});
    let pre_tokenizer = match (pieces.add_dummy_prefix, pieces.remove_extra_whitespaces) {
        (true, true) => {
            let words = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": false});
            json!({"type": "Sequence", "pretokenizers": [words, metaspace("always", true)]})
        }
        (true, false) => {
            normalizers.push(json!({"type": "Prepend", "prepend": "▁"}));
            normalizers.push(replace(json!({"String": " "}), "▁"));
            Value::Null
        }
        (false, true) => {
            normalizers.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
            normalizers.push(replace(json!({"Regex": " {2,}"}), " "));
            metaspace("never", true)
        }
        (false, false) => metaspace("never", true),
    };
    let normalizer = match normalizers.is_empty() {
        true => Value::Null,
        false => json!({"type": "Sequence", "normalizers": normalizers}),
    };
    (normalizer, pre_tokenizer)
}
