//! One token per byte: the id is the byte's value, so any file is a text and 256 tokens are enough.
//!
//! In the file it is a byte-level BPE without merges. Graves, arXiv:1308.0850; Al-Rfou et al.,
//! arXiv:1808.04444.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::format::{self, Segment, SpecialToken, Specials};

/// `kind = "byte"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ByteConfig {
    /// Token that ends a text and separates documents; the first id after the bytes.
    pub end_of_text: Option<String>,
    /// Further tokens that are never split.
    pub special_tokens: Vec<String>,
}

/// Faults of special tokens: those of keys with one token each, and those in `special_tokens`.
pub(super) fn special_faults(single: &[(&str, Option<&str>)], listed: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let given = single
        .iter()
        .filter_map(|(key, name)| Some((*key, (*name)?)));
    let listed = listed.iter().map(|name| ("special_tokens", name.as_str()));
    for (key, name) in given.chain(listed) {
        if name.is_empty() && key == "special_tokens" {
            faults
                .push("[tokenizer] special_tokens contains an empty name; remove that name".into());
        } else if name.is_empty() {
            faults.push(format!(
                "[tokenizer] {key} = \"\" is not a token; name a token or remove the key"
            ));
        } else if names.contains(&name) {
            faults.push(format!(
                "[tokenizer] the special token `{name}` is given twice"
            ));
        }
        names.push(name);
    }
    faults
}

/// Faults of a learned vocabulary with fixed special tokens of its own before those in `special_tokens`.
pub(super) fn learned_faults(vocab_size: usize, own: &[&str], listed: &[String]) -> Vec<String> {
    let single: Vec<_> = own
        .iter()
        .map(|name| ("special_tokens", Some(*name)))
        .collect();
    let mut faults = special_faults(&single, listed);
    let specials = own.len() + listed.len();
    if vocab_size <= specials {
        faults.push(format!(
            "[tokenizer] vocab_size = {vocab_size} is too small: there are {specials} special tokens"
        ));
    }
    faults
}

impl ByteConfig {
    pub(super) fn faults(&self) -> Vec<String> {
        let end = [("end_of_text", self.end_of_text.as_deref())];
        special_faults(&end, &self.special_tokens)
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let all = self.end_of_text.iter().chain(&self.special_tokens);
        all.map(String::as_str).collect()
    }

    pub(super) fn build(&self) -> Value {
        let added = format::specials(self.names(), 256, self.end_of_text.as_deref());
        let mut vocab = serde_json::Map::new();
        for byte in 0..=255u8 {
            vocab.insert(format::byte_char(byte).to_string(), json!(byte));
        }
        format::file(
            &added,
            Value::Null,
            format::byte_level(false),
            Value::Null,
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
            json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                   "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                   "vocab": vocab, "merges": []}),
        )
    }
}

/// A byte tokenizer that encodes without the general machinery.
pub(super) struct Bytes {
    specials: Specials,
    /// Special tokens: `names[i]` has the id `256 + i`.
    names: Vec<String>,
}

impl Bytes {
    /// Reads the file, if it is one that [`ByteConfig::build`] writes.
    pub(super) fn read(file: &Value, added: &[SpecialToken]) -> Option<Self> {
        let model = &file["model"];
        let plain = model["type"] == "BPE"
            && model["merges"].as_array()?.is_empty()
            && file["pre_tokenizer"] == format::byte_level(false)
            && file["normalizer"].is_null()
            && format::is_template(&file["post_processor"]);
        let vocab = model["vocab"].as_object()?;
        let bytes = vocab.len() == 256
            && (0..=255u8).all(|b| vocab.get(&format::byte_char(b).to_string()) == Some(&json!(b)));
        let consecutive = added
            .iter()
            .enumerate()
            .all(|(i, a)| a.id as usize == 256 + i);
        (plain && bytes && consecutive).then(|| Self {
            specials: Specials::new(added),
            names: added.iter().map(|a| a.content.clone()).collect(),
        })
    }

    pub(super) fn vocab_size(&self) -> usize {
        256 + self.names.len()
    }

    pub(super) fn encode(&self, text: &[u8]) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len());
        let Ok(()) = self.specials.split(text, |segment| {
            match segment {
                Segment::Plain(bytes) => ids.extend(bytes.iter().map(|b| u32::from(*b))),
                Segment::Special(id) => ids.push(id),
            }
            Ok::<_, std::convert::Infallible>(())
        });
        ids
    }

    /// Encodes the complete lines of a text that may continue; returns the ids and the number of bytes read. Encodes
    /// nothing if a special token may contain a line break.
    pub(super) fn encode_complete_lines(&self, text: &[u8]) -> (Vec<u32>, usize) {
        let lines = self.names.iter().all(|name| !name.contains('\n'));
        let end = text.iter().rposition(|byte| *byte == b'\n');
        match end.filter(|_| lines) {
            Some(at) => (self.encode(&text[..=at]), at + 1),
            None => (Vec::new(), 0),
        }
    }

    pub(super) fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::with_capacity(ids.len());
        for id in ids {
            match u8::try_from(*id) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    let name = self.names.get(*id as usize - 256);
                    bytes.extend_from_slice(name.map_or("\u{FFFD}", String::as_str).as_bytes());
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn token(&self, id: u32) -> Option<String> {
        match u8::try_from(id) {
            Ok(byte) => Some(format::byte_char(byte).to_string()),
            Err(_) => self.names.get(id as usize - 256).cloned(),
        }
    }

    pub(super) fn id(&self, token: &str) -> Option<u32> {
        if let Some(i) = self.names.iter().position(|n| n == token) {
            return Some(256 + i as u32);
        }
        (0..=255u8)
            .find(|b| format::byte_char(*b).encode_utf8(&mut [0; 4]) == token)
            .map(u32::from)
    }
}
