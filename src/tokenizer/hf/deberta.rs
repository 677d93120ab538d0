//! SentencePiece models as DeBERTa-v2 and v3 use them: pieces between `[CLS]` and `[SEP]`, and the transformers class's own
//! normalizer.

use serde_json::json;

use super::TokenizerDraft;
use super::pieces::Pieces;
use super::sentencepiece::{added, between_cls_and_sep, find, metaspace, unigram, vocab};
use super::settings::{AddedToken, Role, Settings, default_roles};

/// Makes the draft. The model's own normalizer is not used; a mask token that the pieces lack is appended.
pub(super) fn read(pieces: &Pieces, settings: &mut Settings) -> TokenizerDraft {
    let vocab = vocab(pieces);
    let roles = [
        (Role::Bos, "[CLS]"),
        (Role::Eos, "[SEP]"),
        (Role::Unk, "[UNK]"),
        (Role::Sep, "[SEP]"),
        (Role::Pad, "[PAD]"),
        (Role::Cls, "[CLS]"),
    ];
    default_roles(settings, |name| find(&vocab, name).is_some(), &roles);
    settings.default_role(Role::Mask, AddedToken::special("[MASK]"));
    let mut rules = Vec::new();
    if settings.flag("do_lower_case").unwrap_or(false) {
        rules.push(json!({"type": "Lowercase"}));
    }
    let blanks = json!({"Regex": r"\s{2,}|[\n\r\t]"});
    rules.extend([
        json!({"type": "Replace", "pattern": blanks, "content": " "}),
        json!({"type": "NFC"}),
        json!({"type": "Strip", "strip_left": false, "strip_right": true}),
    ]);
    let scheme = match settings.flag("add_prefix_space").unwrap_or(true) {
        true => "always",
        false => "first",
    };
    let mut cuts = vec![metaspace(scheme, true)];
    if settings.flag("split_by_punct").unwrap_or(false) {
        cuts.insert(0, json!({"type": "Punctuation", "behavior": "Isolated"}));
    }
    TokenizerDraft {
        normalizer: json!({"type": "Sequence", "normalizers": rules}),
        pre_tokenizer: json!({"type": "Sequence", "pretokenizers": cuts}),
        post_processor: between_cls_and_sep(&vocab, settings),
        decoder: metaspace(scheme, true),
        model: unigram(&vocab, pieces.unknown, false),
        added: added(pieces),
        notes: Vec::new(),
    }
}
