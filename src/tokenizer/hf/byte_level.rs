//! Reads `vocab.json` and `merges.txt`: byte-level BPE as in GPT-2, RoBERTa and BART, and the BPE of OpenAI's GPT.

use serde_json::{Map, Value, json};

use super::TokenizerDraft;
use super::family::{Family, Files, NamedFamily};
use super::files::{Folder, numbered};
use super::frame;
use super::settings::{AddedToken, Role, Settings};
use crate::error::{Error, Fault, Result};

/// The names of the two files in Hugging Face's and OpenAI's folders.
pub const NAMES: [(&str, &str); 2] = [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")];

/// Qwen2's rule for splitting words.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The suffix of the last piece of a word in the vocabulary of OpenAI's GPT.
const WORD_END: &str = "</w>";
const END_OF_TEXT: &str = "<|endoftext|>";

/// Reads the two files.
///
/// # Errors
/// If an id is not a number or is given twice, a merge is not two tokens, or the class reads such files differently.
pub fn read(
    folder: Folder,
    (vocab_name, merges_name): (&str, &str),
    settings: &mut Settings,
) -> Result<TokenizerDraft> {
    let path = folder.path(vocab_name);
    let vocab = folder.object(vocab_name)?.unwrap_or_default();
    numbered(&path, &vocab)?;
    let merges = merges(folder, merges_name, &vocab)?;
    let family = match Family::named(settings, Files::Merges) {
        NamedFamily::Family(family) => family,
        NamedFamily::Unknown(class) => return Err(super::unknown_class(&path, class)),
        NamedFamily::Nothing => guess_family(&vocab),
    };
    for (role, token) in defaults(family) {
        if vocab.contains_key(&token.content) {
            settings.default_role(role, token);
        }
    }
    let unknown = settings.name(Role::Unk, "<unk>").to_owned();
    let prefix = settings.flag("add_prefix_space").unwrap_or(false);
    let id = |name: &str| Some(vocab.get(name)?.as_u64()? as u32);
    let token = |role: Role, default: &'static str| {
        let name = settings.name(role, default).to_owned();
        id(&name).map(|id| (name, id))
    };
    let post_processor = match family {
        Family::Deberta => match (token(Role::Cls, "[CLS]"), token(Role::Sep, "[SEP]")) {
            (Some(cls), Some(sep)) => frame::roberta((&cls.0, cls.1), (&sep.0, sep.1)),
            _ => Value::Null,
        },
        Family::Roberta => match (token(Role::Cls, "<s>"), token(Role::Sep, "</s>")) {
            (Some(cls), Some(sep)) => frame::roberta((&cls.0, cls.1), (&sep.0, sep.1)),
            _ => Value::Null,
        },
        _ => {
            let wanted = |key: &str, role: Role| {
                let on = settings.flag(key).unwrap_or(false);
                on.then(|| token(role, END_OF_TEXT)).flatten()
            };
            let (bos, eos) = (
                wanted("add_bos_token", Role::Bos),
                wanted("add_eos_token", Role::Eos),
            );
            frame::optional(
                bos.as_ref().map(|(n, id)| (n.as_str(), *id)),
                eos.as_ref().map(|(n, id)| (n.as_str(), *id)),
            )
        }
    };
    let gpt = family == Family::OpenAiGpt;
    let (normalizer, pre_tokenizer, decoder) = rules(family, prefix);
    Ok(TokenizerDraft {
        normalizer,
        pre_tokenizer,
        post_processor,
        decoder,
        model: json!({"type": "BPE", "dropout": null, "unk_token": gpt.then_some(unknown),
                      "continuing_subword_prefix": null, "end_of_word_suffix": gpt.then_some(WORD_END),
                      "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges}),
        added: Vec::new(),
        notes: Vec::new(),
    })
}

/// The normalizer, pre-tokenizer and decoder of a family.
fn rules(family: Family, prefix: bool) -> (Value, Value, Value) {
    let bytes = |words: bool| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": words});
    let nfc = json!({"type": "NFC"});
    match family {
        Family::OpenAiGpt => (
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true}),
            json!({"type": "BertPreTokenizer"}),
            json!({"type": "BPEDecoder", "suffix": WORD_END}),
        ),
        Family::Qwen2 => {
            let words = json!({"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": false});
            let both = json!({"type": "Sequence", "pretokenizers": [words, bytes(false)]});
            (nfc, both, bytes(true))
        }
        Family::GptNeox => (nfc, bytes(true), bytes(true)),
        _ => (Value::Null, bytes(true), bytes(true)),
    }
}

/// Replaces the rules in a `tokenizer.json` by those of Qwen2's class, if they differ.
pub(super) fn use_qwen2_rules(file: &mut Value, settings: &Settings) {
    if file["model"]["type"] != "BPE" {
        return;
    }
    let prefix = settings.flag("add_prefix_space").unwrap_or(false);
    let (normalizer, pre_tokenizer, decoder) = rules(Family::Qwen2, prefix);
    if file["normalizer"] != normalizer {
        file["normalizer"] = normalizer;
    }
    // Whether blanks are trimmed from token spans does not affect ids.
    let mut own = file["pre_tokenizer"].clone();
    if own["pretokenizers"][1].is_object() {
        own["pretokenizers"][1]["trim_offsets"] = json!(true);
    }
    if own != pre_tokenizer {
        (file["pre_tokenizer"], file["decoder"]) = (pre_tokenizer, decoder);
    }
}

/// Reads the merges, in order.
fn merges(folder: Folder, name: &str, vocab: &Map<String, Value>) -> Result<Vec<[String; 2]>> {
    let text = folder.text(name)?;
    let mut merges = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Only the first line is a comment; a later line that begins in the same way is a merge.
        if line.trim().is_empty() || number == 0 && line.starts_with("#version") {
            continue;
        }
        let wrong = |message: String| {
            Error::Invalid(vec![Fault::at(folder.path(name), number + 1, message)])
        };
        let mut parts = line.split(' ');
        let (Some(first), Some(second), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong(format!(
                "a merge must be two tokens separated by a space, but this line is `{line}`"
            )));
        };
        for token in [
            first.to_owned(),
            second.to_owned(),
            format!("{first}{second}"),
        ] {
            if !vocab.contains_key(&token) {
                return Err(wrong(format!(
                    "`{token}` of the merge `{line}` is not in the vocabulary"
                )));
            }
        }
        merges.push([first.to_owned(), second.to_owned()]);
    }
    Ok(merges)
}

/// Guesses the family of a vocabulary whose folder does not name it.
fn guess_family(vocab: &Map<String, Value>) -> Family {
    let has = |name: &str| vocab.contains_key(name);
    if has("<mask>") && has("<s>") && has("</s>") {
        Family::Roberta
    } else if has("[MASK]") && has("[CLS]") && has("[SEP]") {
        Family::Deberta
    } else if vocab.keys().any(|token| token.ends_with(WORD_END)) {
        Family::OpenAiGpt
    } else {
        Family::Gpt2
    }
}

/// The special tokens that the family's class has by default.
fn defaults(family: Family) -> Vec<(Role, AddedToken)> {
    let all = |names: &[(Role, &str)]| {
        let each = names
            .iter()
            .map(|(role, name)| (*role, AddedToken::special(*name)));
        each.collect::<Vec<_>>()
    };
    match family {
        Family::Roberta => {
            let mut all = all(&[
                (Role::Bos, "<s>"),
                (Role::Pad, "<pad>"),
                (Role::Eos, "</s>"),
                (Role::Unk, "<unk>"),
                (Role::Sep, "</s>"),
                (Role::Cls, "<s>"),
            ]);
            // A blank before a mask is part of it: released vocabularies say so, and the models were trained so.
            let mask = AddedToken {
                lstrip: true,
                ..AddedToken::special("<mask>")
            };
            all.push((Role::Mask, mask));
            all
        }
        Family::Deberta => all(&[
            (Role::Bos, "[CLS]"),
            (Role::Pad, "[PAD]"),
            (Role::Eos, "[SEP]"),
            (Role::Unk, "[UNK]"),
            (Role::Sep, "[SEP]"),
            (Role::Cls, "[CLS]"),
            (Role::Mask, "[MASK]"),
        ]),
        Family::OpenAiGpt => all(&[(Role::Unk, "<unk>")]),
        Family::Qwen2 => all(&[
            (Role::Eos, END_OF_TEXT),
            (Role::Unk, END_OF_TEXT),
            (Role::Pad, END_OF_TEXT),
        ]),
        Family::GptNeox => all(&[
            (Role::Bos, END_OF_TEXT),
            (Role::Eos, END_OF_TEXT),
            (Role::Unk, END_OF_TEXT),
            (Role::Pad, "<|padding|>"),
        ]),
        _ => all(&[
            (Role::Bos, END_OF_TEXT),
            (Role::Eos, END_OF_TEXT),
            (Role::Unk, END_OF_TEXT),
        ]),
    }
}
