//! LLaMA's tokenizers: SentencePiece's byte-pair encoding with bytes for what no piece has (Touvron et al. 2023, section 2.1).

use serde_json::{Map, Value, json};

use super::family::Family;
use super::pieces::Pieces;
use super::sentencepiece::{added, charsmap, metaspace};
use super::settings::{Role, Settings, default_roles};
use super::{Draft, frame};

/// The draft of a tokenizer over its pieces.
pub(super) fn read(pieces: &Pieces, settings: &mut Settings) -> Draft {
    let vocab: Map<String, Value> = pieces
        .all
        .iter()
        .enumerate()
        .map(|(id, piece)| (piece.text.clone(), json!(id)))
        .collect();
    let roles = [
        (Role::Bos, "<s>"),
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
    ];
    default_roles(settings, |name| vocab.contains_key(name), &roles);
    let id = |name: &str| Some(vocab.get(name)?.as_u64()? as u32);
    let around = |key: &str, default: bool, role: Role, name: &str| {
        let name = settings.name(role, name).to_owned();
        let on = settings.flag(key).unwrap_or(default);
        on.then(|| id(&name)).flatten().map(|id| (name, id))
    };
    let mut notes = Vec::new();
    if settings.flag("add_bos_token").is_none() {
        notes.push(
            "no file says `add_bos_token`, so no begin mark is put before a text, as in transformers 5; LLaMA's own code puts one"
                .into(),
        );
    }
    let bos = around("add_bos_token", false, Role::Bos, "<s>");
    let eos = around("add_eos_token", false, Role::Eos, "</s>");
    // Without the name of a class transformers 5 takes a general tokenizer, which puts no blank before a text.
    let class = settings.class.as_deref();
    let named = class.is_some_and(|class| !Family::is_general(class));
    let prefix = settings.flag("add_prefix_space").unwrap_or(named);
    if !prefix && settings.flag("add_prefix_space").is_none() {
        notes.push(
            "no file says `tokenizer_class`, so no blank is put before a text, as in transformers 5; LLaMA's own code puts one"
                .into(),
        );
    }
    let scheme = match (prefix, settings.flag("legacy").unwrap_or(false)) {
        (true, true) => "always",
        (true, false) => "first",
        (false, _) => "never",
    };
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Draft {
        normalizer: charsmap(pieces).unwrap_or(Value::Null),
        pre_tokenizer: metaspace(scheme, false),
        post_processor: frame::optional(
            bos.as_ref().map(|(name, id)| (name.as_str(), *id)),
            eos.as_ref().map(|(name, id)| (name.as_str(), *id)),
        ),
        decoder: json!({"type": "Sequence", "decoders": steps}),
        model: json!({"type": "BPE", "dropout": null, "unk_token": pieces.all[pieces.unknown].text,
                      "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
                      "byte_fallback": pieces.byte_fallback, "ignore_merges": false,
                      "vocab": vocab, "merges": pieces.merges()}),
        added: added(pieces),
        notes,
    }
}
