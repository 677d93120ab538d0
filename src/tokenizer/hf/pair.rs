//! Writes the tokenizers of sources and targets as the files of transformers' `MarianTokenizer`: `source.spm` and
//! `target.spm` split texts, `vocab.json` gives the ids of the pieces of both. If the ids of targets differ, they are in
//! `target_vocab.json`. `marian` reads the files back.
//!
//! A SentencePiece model can represent a unigram model over pieces with one of SentencePiece's own normalizers (Kudo and
//! Richardson, arXiv:1808.06226). Other tokenizers cannot be written as such a file, and a folder has no other place for
//! a second tokenizer.

use std::path::Path;

use base64::Engine;
use prost::Message;
use serde_json::{Map, Value, json};

use super::files::fault;
use super::marian::{FOREIGN, OTHER_VOCAB, SIDES, VOCAB};
use super::pieces::{Model, PieceKind, Pieces};
use super::proto::{ModelProto, NormalizerSpec, SentencePiece, TrainerSpec};
use super::sentencepiece;
use super::settings::Role;
use super::write::{ModelInputs, roles};
use crate::error::Result;
use crate::files;
use crate::tokenizer::{Tokenizer, format, unigram};

/// The number of the unigram type in SentencePiece's format.
const UNIGRAM: i32 = 1;

/// Writes the tokenizers of sources and targets; the inner result says why Marian's files cannot represent them.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    dir: &Path,
    [source, target]: [&Tokenizer; 2],
    by: ModelInputs,
) -> Result<std::result::Result<(), String>> {
    let mut sides = Vec::new();
    for (tokenizer, name) in [(source, "sources"), (target, "targets")] {
        let path = dir.join(super::tokenizer_json::NAME);
        let wrong = |e: serde_json::Error| fault(&path, format!("is not a tokenizer: {e}"));
        let file: Value = serde_json::from_slice(tokenizer.json()).map_err(wrong)?;
        match Side::of(tokenizer, &file) {
            Ok(side) => sides.push(side),
            Err(why) => return Ok(Err(format!("the tokenizer of {name} {why}"))),
        }
    }
    let [source, target] = &sides[..] else {
        unreachable!("both sides were read")
    };
    if source.roles != target.roles || source.ids_of_roles() != target.ids_of_roles() {
        return Ok(Err(
            "the two tokenizers do not have the same special tokens with the same ids".into(),
        ));
    }
    let separate = source.ids != target.ids;
    let mut config = Map::new();
    config.insert("tokenizer_class".into(), json!("MarianTokenizer"));
    config.extend(source.roles.clone());
    config.insert("separate_vocabs".into(), json!(separate));
    if !source.extra.is_empty() {
        config.insert("additional_special_tokens".into(), json!(source.extra));
    }
    if let Some(length) = by.max_length {
        config.insert("model_max_length".into(), json!(length));
    }
    let object = |keys: &Map<String, Value>| format::to_bytes(&Value::Object(keys.clone()));
    files::write(&dir.join(VOCAB), &object(&source.ids)?)?;
    if separate {
        files::write(&dir.join(OTHER_VOCAB), &object(&target.ids)?)?;
    }
    for (side, name) in sides.iter().zip(SIDES) {
        files::write(&dir.join(name), &side.model)?;
    }
    files::write(&dir.join("tokenizer_config.json"), &object(&config)?)?;
    files::write(
        &dir.join("special_tokens_map.json"),
        &object(&sides[0].roles)?,
    )?;
    Ok(Ok(()))
}

/// The files of one of the two tokenizers.
struct Side {
    /// The bytes of its SentencePiece model.
    model: Vec<u8>,
    /// The id of every token, in the order of the ids.
    ids: Map<String, Value>,
    /// Special tokens by the keys of their roles.
    roles: Map<String, Value>,
    /// Special tokens without a role, except for language codes, which the class recognises by their spelling.
    extra: Vec<String>,
}

impl Side {
    fn of(tokenizer: &Tokenizer, file: &Value) -> std::result::Result<Self, String> {
        let model = &file["model"];
        if model["type"] != "Unigram" || model["byte_fallback"] == true {
            return Err("is not a unigram model over pieces like SentencePiece's".into());
        }
        let spec = normalizer(file)
            .ok_or("normalises texts in a way that SentencePiece does not support")?;
        let tokens = (0..tokenizer.vocab_size() as u32).map(|id| (tokenizer.token(id), id));
        let ids: Map<String, Value> = tokens
            .filter_map(|(token, id)| Some((token?, json!(id))))
            .collect();
        let roles = roles(tokenizer, tokenizer.begin_of_pairs(), file);
        let marks: Vec<&str> = roles.values().filter_map(Value::as_str).collect();
        for role in [Role::Unk, Role::Eos] {
            if !roles.contains_key(role.key()) {
                return Err(format!("has no `{}`", role.key()));
            }
        }
        let added = file["added_tokens"].as_array().into_iter().flatten();
        let added: Vec<&str> = added.filter_map(|e| e["content"].as_str()).collect();
        let code = |token: &str| token.starts_with(">>") && token.ends_with("<<");
        let extra = added
            .iter()
            .filter(|token| !marks.contains(token) && !code(token));
        let unknown = roles[Role::Unk.key()].as_str().unwrap_or_default();
        let piece = |text: &str, score: f64, sort: PieceKind| SentencePiece {
            piece: Some(text.to_owned()),
            score: Some(score as f32),
            r#type: Some(sort.number()),
        };
        let listed = model["vocab"].as_array().into_iter().flatten();
        let pieces = listed
            .filter_map(|entry| Some((entry[0].as_str()?, entry[1].as_f64()?)))
            .filter(|(text, score)| *score > FOREIGN && !added.contains(text) && *text != unknown)
            .map(|(text, score)| piece(text, score, PieceKind::Normal));
        let pieces = std::iter::once(piece(unknown, 0.0, PieceKind::Unknown)).chain(pieces);
        let proto = ModelProto {
            pieces: pieces.collect(),
            trainer_spec: Some(TrainerSpec {
                model_type: Some(UNIGRAM),
                byte_fallback: Some(false),
                ..TrainerSpec::default()
            }),
            normalizer_spec: Some(spec),
        };
        Ok(Self {
            model: proto.encode_to_vec(),
            ids,
            extra: extra.map(|token| (*token).to_owned()).collect(),
            roles,
        })
    }

    /// The ids of the special tokens with roles.
    fn ids_of_roles(&self) -> Vec<Option<&Value>> {
        let names = self.roles.values().filter_map(Value::as_str);
        names.map(|name| self.ids.get(name)).collect()
    }
}

/// SentencePiece's settings that are equivalent to a file's normalizer and pre-tokenizer; `None` if there are none.
fn normalizer(file: &Value) -> Option<NormalizerSpec> {
    let found = (file["normalizer"].clone(), file["pre_tokenizer"].clone());
    let own = (Value::Null, unigram::pre_tokenizer());
    let encoded = file["normalizer"]["normalizers"][0]["precompiled_charsmap"].as_str();
    let charsmap = match encoded {
        Some(text) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()?,
        None => Vec::new(),
    };
    let flags = [(true, true), (true, false), (false, true), (false, false)];
    let (prefix, single_blanks) = flags.into_iter().find(|(prefix, single_blanks)| {
        let pieces = Pieces {
            all: Vec::new(),
            model: Model::Unigram,
            unknown: 0,
            byte_fallback: false,
            charsmap: charsmap.clone(),
            add_dummy_prefix: *prefix,
            remove_extra_whitespaces: *single_blanks,
        };
        // Our own pre-tokenizer also splits at line breaks; no piece of ours crosses one, so that makes no difference.
        found == sentencepiece::rules(&pieces) || (!prefix && !single_blanks && found == own)
    })?;
    Some(NormalizerSpec {
        precompiled_charsmap: Some(charsmap),
        add_dummy_prefix: Some(prefix),
        remove_extra_whitespaces: Some(single_blanks),
        escape_whitespaces: Some(true),
    })
}
