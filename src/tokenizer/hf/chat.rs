//! The chat template of a folder: `chat_template.jinja`, `chat_template` in `tokenizer_config.json`, or `chat_template.json`, in
//! the order in which transformers asks them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::files::{Folder, fault};
use super::settings::{Settings, TOKENIZER_CONFIG};
use crate::error::Result;
use crate::files;
use crate::tokenizer::ChatTemplate;

/// The file of its own.
pub const NAME: &str = "chat_template.jinja";
const JSON: &str = "chat_template.json";
/// The key in the files of JSON.
const KEY: &str = "chat_template";
/// The template that is used where a folder names several.
const DEFAULT: &str = "default";

/// The chat template of a tokenizer's folder, or of the folder around its file.
///
/// # Errors
/// Files that cannot be read or are damaged, a template that is no Jinja.
pub fn chat_template(path: &Path) -> Result<Option<ChatTemplate>> {
    let folder = match path.is_file() {
        true => path.parent().unwrap_or(Path::new("")),
        false => path,
    };
    let folder = Folder(folder);
    let mut notes = Vec::new();
    let found = read(folder, &Settings::read(folder)?, &mut notes)?;
    match notes.into_iter().next() {
        Some(why) if found.is_none() => Err(fault(folder.0, why)),
        _ => Ok(found),
    }
}

/// The chat template of a folder; `notes` get the reason why one cannot be used.
///
/// # Errors
/// As [`chat_template`].
pub(super) fn read(
    folder: Folder,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<Option<ChatTemplate>> {
    let Some(template) = source(folder)? else {
        return Ok(None);
    };
    let roles = settings.roles.iter();
    let tokens: BTreeMap<String, String> = roles
        .map(|(role, token)| (role.key().to_owned(), token.content.clone()))
        .collect();
    match ChatTemplate::new(template, tokens) {
        Ok(template) => Ok(Some(template)),
        Err(why) => {
            notes.push(format!("its chat template is not used: {why}"));
            Ok(None)
        }
    }
}

fn source(folder: Folder) -> Result<Option<String>> {
    if folder.has(NAME) {
        let text = folder.text(NAME)?;
        if !text.trim().is_empty() {
            return Ok(Some(text));
        }
    }
    for name in [TOKENIZER_CONFIG, JSON] {
        let object = folder.object(name)?;
        if let Some(found) = object.as_ref().and_then(|all| all.get(KEY)).and_then(named) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The one template, or the default one of several.
fn named(value: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(all) => {
            let default = all.iter().find(|one| one["name"] == DEFAULT);
            text(&default.or(all.first())?["template"])
        }
        Value::Object(all) => text(all.get(DEFAULT).or_else(|| all.values().next())?),
        other => text(other),
    }
}

/// Puts a template into a folder that has a tokenizer.
///
/// # Errors
/// The disk's.
pub fn write_chat_template(dir: &Path, template: &ChatTemplate) -> Result<()> {
    files::write(&dir.join(NAME), template.template().as_bytes())
}
