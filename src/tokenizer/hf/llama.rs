//! LLaMA's tokenizers: SentencePiece's byte-pair encoding, with byte tokens for text that no piece covers (Touvron et al.
//! 2023, section 2.1), read as by the transformers class. Without a class, models are read by their own rules (`plain`).

use serde_json::Value;

use super::pieces::Pieces;
use super::sentencepiece::{added, charsmap, metaspace};
use super::settings::{Role, Settings, default_roles};
use super::{TokenizerDraft, frame, plain_sentencepiece};

/// Makes the draft of a tokenizer over its pieces.
pub(super) fn read(pieces: &Pieces, settings: &mut Settings) -> TokenizerDraft {
    let id = |name: &str| {
        let at = pieces.all.iter().position(|piece| piece.text == name);
        at.map(|id| id as u32)
    };
    let roles = [
        (Role::Bos, "<s>"),
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
    ];
    default_roles(settings, |name| id(name).is_some(), &roles);
    TokenizerDraft {
        normalizer: charsmap(pieces).unwrap_or(Value::Null),
        pre_tokenizer: pre_tokenizer(settings),
        post_processor: frame_of(settings, id),
        decoder: plain_sentencepiece::decoder(true, usize::from(prefixes(settings))),
        model: plain_sentencepiece::bpe(pieces, &pieces.merges()),
        added: added(pieces),
        notes: unspecified_begin_note(settings).into_iter().collect(),
    }
}

/// Whether a blank is added before a text.
fn prefixes(settings: &Settings) -> bool {
    settings.flag("add_prefix_space").unwrap_or(true)
}

/// The pre-tokenizer, which puts that blank only before the text, or also after each special token in it (`legacy`).
pub(super) fn pre_tokenizer(settings: &Settings) -> Value {
    let legacy = settings.flag("legacy").unwrap_or(false);
    let scheme = match (prefixes(settings), legacy) {
        (true, true) => "always",
        (true, false) => "first",
        (false, _) => "never",
    };
    metaspace(scheme, false)
}

/// The template of the special tokens around each text that the files ask for.
pub(super) fn frame_of(settings: &Settings, id: impl Fn(&str) -> Option<u32>) -> Value {
    let around = |key: &str, role: Role, name: &str| {
        let name = settings.name(role, name).to_owned();
        let on = settings.flag(key).unwrap_or(false);
        on.then(|| id(&name)).flatten().map(|id| (name, id))
    };
    let bos = around("add_bos_token", Role::Bos, "<s>");
    let eos = around("add_eos_token", Role::Eos, "</s>");
    frame::optional(
        bos.as_ref().map(|(name, id)| (name.as_str(), *id)),
        eos.as_ref().map(|(name, id)| (name.as_str(), *id)),
    )
}

/// A note, if no file says whether a special token begins a text.
pub(super) fn unspecified_begin_note(settings: &Settings) -> Option<String> {
    settings.flag("add_bos_token").is_none().then(|| {
        "no file sets `add_bos_token`, so texts get no begin token, as in transformers 5; LLaMA's original code adds one"
            .into()
    })
}
