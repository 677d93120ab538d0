//! What a folder says of its tokenizer beside the ids: the tokens of roles, languages, the side that is filled up. A run keeps it, so
//! that a folder which is made of the run says the same.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::family::{Family, Files, Named};
use super::files::Folder;
use super::languages::LEGACY;
use super::settings::{Role, SPECIAL_TOKENS, Settings, TOKENIZER_CONFIG};
use crate::error::Result;
use crate::files;
use crate::tokenizer::format;

/// Keys of tokenizer_config.json that change no id. Those that are strings are kept.
pub(super) const KEPT: [&str; 6] = [
    "source_lang",
    "target_lang",
    "src_lang",
    "tgt_lang",
    "padding_side",
    "truncation_side",
];

/// The roles with their tokens, and the other keys that are kept.
pub(super) fn said(settings: &Settings) -> Map<String, Value> {
    let roles = settings.roles.iter();
    let roles = roles.map(|(role, token)| (role.key().to_owned(), json!(token.content)));
    let words = KEPT
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), json!(settings.word(key)?))));
    let mut all: Map<String, Value> = roles.chain(words).collect();
    all.extend(languages(settings));
    all
}

/// What a class says that puts a language around texts, so that the class reads a folder which is made of it, and languages can be
/// chosen there.
fn languages(settings: &Settings) -> Map<String, Value> {
    let mut all = Map::new();
    let class = settings.class.as_ref().filter(|_| {
        let named = Family::named(settings, Files::Pieces);
        [Family::MBart50, Family::Nllb]
            .map(Named::Family)
            .contains(&named)
    });
    let Some(class) = class else {
        return all;
    };
    all.insert("tokenizer_class".into(), json!(class));
    if let Some(legacy) = settings.flag(LEGACY) {
        all.insert(LEGACY.into(), json!(legacy));
    }
    let extra: Vec<&str> = settings
        .extra
        .iter()
        .map(|token| token.content.as_str())
        .collect();
    if !extra.is_empty() {
        all.insert("extra_special_tokens".into(), json!(extra));
    }
    all
}

/// Makes the files beside a tokenizer that was written into `dir` say what the folder said that it was imported from (`kept`): its
/// roles and no others, where it named any, and its further keys.
///
/// # Errors
/// The disk's.
pub fn restore(dir: &Path, kept: &Map<String, Value>) -> Result<()> {
    let is_role = |key: &str| Role::ALL.iter().any(|role| role.key() == key);
    let names_roles = kept.keys().any(|key| is_role(key));
    for name in [TOKENIZER_CONFIG, SPECIAL_TOKENS] {
        let Some(mut file) = Folder(dir).object(name)? else {
            continue;
        };
        if names_roles {
            file.retain(|key, _| !is_role(key));
        }
        for (key, value) in kept {
            if is_role(key) || name == TOKENIZER_CONFIG {
                file.insert(key.clone(), value.clone());
            }
        }
        files::write(&dir.join(name), &format::to_bytes(&Value::Object(file))?)?;
    }
    Ok(())
}
