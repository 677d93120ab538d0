//! Reads `tokenizer.json` of a folder: kept byte for byte unless the files beside it change something.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use super::family::{Family, Files, NamedFamily};
use super::files::{Folder, fault};
use super::kept_settings::collect;
use super::settings::Settings;
use super::{HfTokenizer, add, chat, llama, rebuilt, with_roles};
use crate::error::Result;
use crate::tokenizer::{Tokenizer, format};

/// The name of the file.
pub const NAME: &str = "tokenizer.json";

/// Reads the file.
///
/// # Errors
/// If the file is not a tokenizer, or an added token's id differs from the one that the vocabulary gives it.
pub fn read(folder: Folder) -> Result<HfTokenizer> {
    let path = folder.path(NAME);
    let settings = Settings::read(folder)?;
    let bytes = folder.bytes(NAME)?;
    let wrong = |e: serde_json::Error| fault(&path, format!("is not a tokenizer: {e}"));
    let mut file: Value = serde_json::from_slice(&bytes).map_err(wrong)?;
    let before = file.clone();
    rebuilt::apply_class_rules(&mut file, &settings);
    let given = settings
        .added
        .iter()
        .map(|(id, token)| (*id, token.clone()));
    let missing = settings
        .roles
        .iter()
        .map(|(_, token)| token)
        .chain(&settings.extra);
    let present = entries(&file);
    let has = |content: &str| present.iter().any(|e| e["content"] == *content);
    let lacking = given.clone().any(|(_, token)| !has(&token.content))
        || missing.clone().any(|t| !has(&t.content));
    if lacking {
        add(&path, &mut file, given.collect(), &settings)?;
    }
    let bytes = if file == before {
        bytes
    } else {
        format::to_bytes(&file)?
    };
    let tokenizer = Tokenizer::from_json(bytes, &path).map_err(|e| e.into_usage_error())?;
    for entry in entries(&file) {
        let (Some(content), Some(id)) = (entry["content"].as_str(), entry["id"].as_u64()) else {
            return Err(fault(
                &path,
                format!("has the added token {entry}, which lacks `id` or `content`"),
            ));
        };
        let found = tokenizer.id(content).map(u64::from);
        if found != Some(id) {
            let found = found.map_or("none".to_owned(), |id| id.to_string());
            let message = format!(
                "gives the added token `{content}` the id {id}, but its vocabulary gives it {found}"
            );
            return Err(fault(&path, message));
        }
    }
    let mut notes: Vec<String> = blank_rules_note(&file, &settings).into_iter().collect();
    if settings.class.as_deref().is_some_and(Family::is_general) {
        let model_type = settings.model_type.as_deref().unwrap_or_default();
        notes.extend(rebuilt::rebuild_note(&tokenizer, model_type));
    }
    Ok(HfTokenizer {
        tokenizer: with_roles(&path, tokenizer, &settings)?,
        target: None,
        chat: chat::read(folder, &settings, &mut notes)?,
        files: vec![NAME],
        ignored: settings.ignored.clone(),
        notes,
        max_length: settings.max_length,
        kept_settings: collect(&settings),
    })
}

/// A note, if LLaMA's class in transformers 5 would rebuild the rules for blanks, and the file has different ones.
fn blank_rules_note(file: &Value, settings: &Settings) -> Option<String> {
    let named = settings.names_class()
        && Family::named(settings, Files::Pieces) == NamedFamily::Family(Family::Llama);
    let (own, words) = (llama::pre_tokenizer(settings), &file["pre_tokenizer"]);
    let mut keys = ["type", "prepend_scheme", "split"].into_iter();
    let same = file["normalizer"].is_null() && keys.all(|key| words[key] == own[key]);
    (named && file["model"]["byte_fallback"] == true && !same).then(|| {
        format!(
            "{NAME} has different whitespace rules from LLaMA's class in transformers 5, which rebuilds them (`legacy`, `add_prefix_space`): those \
             of the file are kept, so ids at the beginning of a text and after special tokens can differ"
        )
    })
}

/// The entries of `added_tokens`.
pub fn entries(file: &Value) -> Vec<Value> {
    file["added_tokens"].as_array().cloned().unwrap_or_default()
}

/// The tokens of a file with their ids, and the counter for ids of added tokens.
pub struct Vocabulary {
    ids: HashMap<String, u32>,
    /// Size of the model's vocabulary, without added tokens.
    size: u32,
    highest_added: Option<u32>,
}

impl Vocabulary {
    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The id that the next added token gets, as the library counts.
    pub fn next(&self) -> u32 {
        match self.highest_added {
            Some(highest) if highest >= self.size || self.size == 0 => highest.saturating_add(1),
            _ => self.size,
        }
    }

    /// Adds a token at the end; returns its id.
    pub fn add(&mut self, token: &str) -> u32 {
        let id = self.next();
        self.ids.insert(token.to_owned(), id);
        self.highest_added = Some(self.highest_added.unwrap_or(id).max(id));
        id
    }
}

/// Reads the tokens of a file.
pub fn vocabulary(file: &Value) -> Vocabulary {
    let number = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let mut ids: HashMap<String, u32> = HashMap::new();
    match &file["model"]["vocab"] {
        Value::Object(map) => {
            ids.extend(
                map.iter()
                    .filter_map(|(token, id)| Some((token.clone(), number(id)?))),
            );
        }
        Value::Array(list) => {
            let named = list.iter().enumerate();
            ids.extend(
                named.filter_map(|(id, pair)| Some((pair[0].as_str()?.to_owned(), id as u32))),
            );
        }
        _ => {}
    }
    let size = ids.len() as u32;
    let added: Vec<(String, u32)> = entries(file)
        .iter()
        .filter_map(|e| Some((e["content"].as_str()?.to_owned(), number(&e["id"])?)))
        .collect();
    let highest_added = added.iter().map(|(_, id)| *id).max();
    ids.extend(added);
    Vocabulary {
        ids,
        size,
        highest_added,
    }
}

/// Marks the token with this id as the end of a text.
pub fn with_end_of_text(path: &Path, tokenizer: &Tokenizer, id: u32) -> Result<Tokenizer> {
    let wrong = |e: serde_json::Error| fault(path, format!("is not a tokenizer: {e}"));
    let mut file: Value = serde_json::from_slice(tokenizer.json()).map_err(wrong)?;
    for entry in file["added_tokens"].as_array_mut().into_iter().flatten() {
        let ends = entry["id"] == id;
        let Some(entry) = entry.as_object_mut() else {
            continue;
        };
        entry.remove("end_of_text");
        if ends {
            entry.insert("end_of_text".into(), json!(true));
        }
    }
    Tokenizer::from_json(format::to_bytes(&file)?, path)
}
