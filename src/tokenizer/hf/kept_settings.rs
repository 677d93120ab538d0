//! Settings of a tokenizer's folder that do not affect ids: the tokens of roles, languages, the side of padding. A run keeps
//! them, so that a folder exported from the run has the same settings.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::family::{Family, Files, NamedFamily};
use super::files::Folder;
use super::languages::LEGACY;
use super::settings::{Role, SPECIAL_TOKENS, Settings, TOKENIZER_CONFIG};
use crate::error::Result;
use crate::files;
use crate::tokenizer::format;

/// Keys of tokenizer_config.json that do not affect ids; they are kept if their values are strings.
pub(super) const KEPT: [&str; 6] = [
    "source_lang",
    "target_lang",
    "src_lang",
    "tgt_lang",
    "padding_side",
    "truncation_side",
];

/// The tokens of roles, and the other keys that are kept.
pub(super) fn collect(settings: &Settings) -> Map<String, Value> {
    let roles = settings.roles.iter();
    let roles = roles.map(|(role, token)| (role.key().to_owned(), json!(token.content)));
    let words = KEPT
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), json!(settings.word(key)?))));
    let mut all: Map<String, Value> = roles.chain(words).collect();
    all.extend(languages(settings));
    all
}

/// The settings of a class that puts a language around texts, so that this class also reads a folder exported from the run, and
/// languages can be chosen there.
fn languages(settings: &Settings) -> Map<String, Value> {
    let mut all = Map::new();
    let class = settings.class.as_ref().filter(|_| {
        let named = Family::named(settings, Files::Pieces);
        [Family::MBart50, Family::Nllb]
            .map(NamedFamily::Family)
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

/// Restores the settings `kept` from an imported folder in the files beside a tokenizer written into `dir`: its roles, and no
/// others, if it named any; and its other kept keys.
///
/// # Errors
/// If a file cannot be read or written.
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
