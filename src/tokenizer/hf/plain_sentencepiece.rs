//! SentencePiece models that are read by their own rules, because no transformers class is named: as by the SentencePiece
//! library (Kudo and Richardson, arXiv:1808.06226), and by transformers from version 5.24 on.
//!
//! The compiled normalizer is applied first. Then blanks at the edges and repeated ones are dropped
//! (`remove_extra_whitespaces`), one is put before the text (`add_dummy_prefix`), and each is written `▁`. User-defined
//! symbols are neither normalised nor split. BPE joins the pair whose piece has the highest score.
//!
//! Differences from SentencePiece: A text that consists of a single user-defined symbol becomes only that symbol, without the
//! `▁` before it. The compiled normalizer looks up a character together with the marks that follow it (`tokenizers` reads
//! graphemes), while SentencePiece looks up the longest text that it knows: combining marks that have no composed form can be
//! lost. A special token such as `</s>` that is written in a text becomes that token, and the text after it is treated as a new
//! text. Unigram models keep blanks that a text itself writes as `▁`, while SentencePiece drops them at the end of the text.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

use super::family::{Family, Files, NamedFamily};
use super::pieces::{Model, PieceKind, Pieces};
use super::sentencepiece::{charsmap, find, metaspace, rules, unigram, vocab};
use super::settings::{AddedToken, Role, Settings, default_roles};
use super::{TokenizerDraft, llama};
use crate::tokenizer::validate;

/// The last private-use character. It and those before it stand for symbols while a text is normalised.
const LAST_PRIVATE: u32 = 0x0010_FFFD;
/// More blanks than any text begins with.
const MOST_BLANKS: usize = 1 << 16;
/// Characters with a special meaning in a regular expression.
const SYNTAX: &str = r"\.+*?()|[]{}^$";

/// Makes the draft of a tokenizer over its pieces, without special tokens around a text unless the files ask for them.
pub(super) fn read(mut pieces: Pieces, settings: &mut Settings) -> TokenizerDraft {
    let vocab = vocab(&pieces);
    let roles = [
        (Role::Bos, "<s>"),
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
        (Role::Pad, "<pad>"),
    ];
    default_roles(settings, |name| find(&vocab, name).is_some(), &roles);
    if let Some(prefix) = settings.flag("add_prefix_space") {
        pieces.add_dummy_prefix = prefix;
    }
    let symbols = Symbols::of(&pieces);
    let mut notes: Vec<String> = symbols
        .lost
        .iter()
        .map(|name| lost_symbol_note(name))
        .collect();
    if Family::named(settings, Files::Pieces) == NamedFamily::Family(Family::Llama) {
        notes.extend(llama::unspecified_begin_note(settings));
    }
    let plain = pieces.model == Model::Unigram && symbols.found.is_empty();
    let (normalizer, pre_tokenizer) = match plain {
        true => rules(&pieces),
        false => (normalizer(&pieces, &symbols), words(&pieces)),
    };
    let decoder = match pieces.model == Model::Unigram && !pieces.byte_fallback {
        true => metaspace("always", true),
        false => decoder(pieces.byte_fallback, first_blanks(&pieces)),
    };
    TokenizerDraft {
        normalizer,
        pre_tokenizer,
        post_processor: llama::frame_of(settings, |name| find(&vocab, name)),
        decoder,
        model: match pieces.model {
            Model::Unigram => unigram(&vocab, pieces.unknown, pieces.byte_fallback),
            Model::Bpe => bpe(&pieces, &merges(&pieces)),
        },
        added: added(&pieces, &symbols),
        notes,
    }
}

fn lost_symbol_note(name: &str) -> String {
    format!(
        "the user-defined symbol {name:?} is never found in texts: the whitespace rules change it first"
    )
}

/// Pieces that are matched before the text is split: control pieces in the original text, symbols in the normalised one.
fn added(pieces: &Pieces, symbols: &Symbols) -> Vec<(u32, AddedToken)> {
    let listed = pieces.all.iter().enumerate().filter_map(|(id, piece)| {
        let special = piece.sort == PieceKind::Control;
        let token = AddedToken {
            special,
            normalized: !special,
            ..AddedToken::special(piece.text.clone())
        };
        let is_found = special || symbols.found.contains(&piece.text.as_str());
        is_found.then_some((id as u32, token))
    });
    listed.collect()
}

/// A BPE model over the pieces, with these merges in order.
pub(super) fn bpe(pieces: &Pieces, merges: &[[&str; 2]]) -> Value {
    let numbered = pieces.all.iter().enumerate();
    let vocab: Map<String, Value> = numbered
        .map(|(id, piece)| (piece.text.clone(), json!(id)))
        .collect();
    json!({"type": "BPE", "dropout": null, "unk_token": pieces.all[pieces.unknown].text,
           "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
           "byte_fallback": pieces.byte_fallback, "ignore_merges": false,
           "vocab": vocab, "merges": merges})
}

/// The number of blanks to strip from the beginning of a decoded text, because they are not in the text itself.
fn first_blanks(pieces: &Pieces) -> usize {
    match (pieces.remove_extra_whitespaces, pieces.add_dummy_prefix) {
        (true, _) => MOST_BLANKS,
        (false, prefix) => usize::from(prefix),
    }
}

/// The decoder: `▁` becomes a blank, byte pieces (`<0x41>`) become bytes, and `blanks` blanks at the beginning are stripped.
pub(super) fn decoder(bytes: bool, blanks: usize) -> Value {
    let mut steps = vec![json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "})];
    if bytes {
        steps.push(json!({"type": "ByteFallback"}));
    }
    steps.push(json!({"type": "Fuse"}));
    if blanks > 0 {
        steps.push(json!({"type": "Strip", "content": " ", "start": blanks, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}

/// The pairs that BPE joins: those of the piece with the highest score first, as SentencePiece chooses them.
fn merges(pieces: &Pieces) -> Vec<[&str; 2]> {
    let joins = |sort: PieceKind| matches!(sort, PieceKind::Normal | PieceKind::Unused);
    let mut order: Vec<(&str, f64)> = pieces
        .all
        .iter()
        .filter(|piece| joins(piece.sort))
        .map(|piece| (piece.text.as_str(), piece.score))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let known: HashSet<&str> = order.iter().map(|(text, _)| *text).collect();
    let mut merges = Vec::new();
    for (text, _) in order {
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if known.contains(left) && known.contains(right) {
                merges.push([left, right]);
            }
        }
    }
    merges
}

/// Splits words together with the blanks before them, unless some piece extends from one word into the next.
fn words(pieces: &Pieces) -> Value {
    let reaches = |text: &str| text.trim_start_matches('▁').contains('▁');
    let mut normal = pieces.all.iter().filter(|p| p.sort == PieceKind::Normal);
    match normal.any(|piece| reaches(&piece.text)) {
        true => Value::Null,
        false => {
            json!({"type": "Split", "pattern": {"Regex": "▁*[^▁]+|▁+"}, "behavior": "Isolated", "invert": false})
        }
    }
}

/// The user-defined symbols of a model.
#[derive(Default)]
struct Symbols<'a> {
    /// Symbols that are found in texts.
    found: Vec<&'a str>,
    /// Symbols in `found` that the compiled normalizer would change.
    kept: Vec<&'a str>,
    /// Symbols that the rules for blanks change, so that they are found in no text.
    lost: Vec<&'a str>,
}

impl<'a> Symbols<'a> {
    fn of(pieces: &'a Pieces) -> Self {
        let all = pieces
            .all
            .iter()
            .filter(|p| p.sort == PieceKind::UserDefined);
        let all: Vec<&str> = all.map(|piece| piece.text.as_str()).collect();
        // A damaged character map is reported when the whole file is read.
        let damaged = !pieces.charsmap.is_empty() && validate::charsmap(&pieces.charsmap).is_some();
        if all.is_empty() || damaged {
            return Self::default();
        }
        let compiled = charsmap(pieces).and_then(|map| NormalizerRules::of(&map));
        let changed = |name: &&str| {
            compiled
                .as_ref()
                .is_some_and(|rules| !rules.leaves_unchanged(name))
        };
        let every = Symbols {
            kept: all.iter().copied().filter(changed).collect(),
            found: all.clone(),
            lost: Vec::new(),
        };
        let rules = NormalizerRules::of(&normalizer(pieces, &every));
        let (found, lost): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|name| {
            // A text writes a blank as `▁`, the symbol as a blank.
            !name.contains(' ')
                && rules
                    .as_ref()
                    .is_some_and(|rules| rules.leaves_unchanged(name))
        });
        Self {
            kept: found.iter().copied().filter(changed).collect(),
            found,
            lost,
        }
    }
}

/// A normalizer that can be run.
struct NormalizerRules(NormalizerWrapper);

impl NormalizerRules {
    fn of(rules: &Value) -> Option<Self> {
        serde_json::from_value(rules.clone()).ok().map(Self)
    }

    /// Whether the normalizer leaves a text unchanged.
    fn leaves_unchanged(&self, text: &str) -> bool {
        let mut normalized = NormalizedString::from(text);
        self.0.normalize(&mut normalized).is_ok() && normalized.get() == text
    }
}

fn replace(from: Value, to: &str) -> Value {
    json!({"type": "Replace", "pattern": from, "content": to})
}

/// The compiled normalizer, then the rules for blanks. Symbols that would change are replaced by private-use characters
/// meanwhile.
fn normalizer(pieces: &Pieces, symbols: &Symbols) -> Value {
    let mut kept = symbols.kept.clone();
    kept.sort_by_key(|name| Reverse(name.len()));
    let private = (0..=LAST_PRIVATE).rev().filter_map(char::from_u32);
    let kept: Vec<(&str, String)> = kept.into_iter().zip(private.map(String::from)).collect();
    let as_it_is = |text: &str| json!({"String": text});
    let rule = |rule: &str| json!({"Regex": rule});
    let mut steps: Vec<Value> = Vec::new();
    steps.extend(kept.iter().map(|(name, c)| replace(as_it_is(name), c)));
    steps.extend(charsmap(pieces));
    if pieces.remove_extra_whitespaces {
        steps.push(replace(rule(r"\A +| +\z"), ""));
        steps.push(replace(rule(" {2,}"), " "));
    }
    if pieces.add_dummy_prefix {
        steps.push(json!({"type": "Prepend", "prepend": "▁"}));
    }
    steps.push(replace(as_it_is(" "), "▁"));
    if pieces.remove_extra_whitespaces {
        steps.push(replace(rule(r"▁+\z"), ""));
    }
    steps.extend(kept.iter().map(|(name, c)| replace(as_it_is(c), name)));
    if pieces.add_dummy_prefix && !symbols.found.is_empty() {
        // The library also normalises the symbols themselves, which must not change.
        let names: Vec<String> = symbols.found.iter().map(|name| escaped(name)).collect();
        let alone = format!(r"\A▁(?=(?:{})\z)", names.join("|"));
        steps.push(replace(rule(&alone), ""));
    }
    json!({"type": "Sequence", "normalizers": steps})
}

/// A regular expression that matches exactly this text.
fn escaped(text: &str) -> String {
    let mut rule = String::with_capacity(text.len());
    for c in text.chars() {
        if SYNTAX.contains(c) {
            rule.push('\\');
        }
        rule.push(c);
    }
    rule
}
