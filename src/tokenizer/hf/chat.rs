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
    let Some(Source { template, others }) = source(folder)? else {
        return Ok(None);
    };
    if !others.is_empty() {
        notes.push(format!(
            "of its chat templates {} are not used: conversations are written by one alone",
            others.join(", ")
        ));
    }
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

/// The template that is used, and the names of those beside it.
struct Source {
    template: String,
    others: Vec<String>,
}

impl Source {
    fn alone(template: String) -> Self {
        let others = Vec::new();
        Self { template, others }
    }
}

fn source(folder: Folder) -> Result<Option<Source>> {
    if folder.has(NAME) {
        let text = folder.text(NAME)?;
        if !text.trim().is_empty() {
            return Ok(Some(Source::alone(text)));
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

/// The one template, or of several the default one, else the first.
fn named(value: &Value) -> Option<Source> {
    let all: Vec<(&str, &Value)> = match value {
        Value::Array(all) => {
            let each = all
                .iter()
                .map(|one| (one["name"].as_str().unwrap_or_default(), &one["template"]));
            each.collect()
        }
        Value::Object(all) => all
            .iter()
            .map(|(name, text)| (name.as_str(), text))
            .collect(),
        other => return other.as_str().map(|text| Source::alone(text.to_owned())),
    };
    let used = all
        .iter()
        .position(|(name, _)| *name == DEFAULT)
        .unwrap_or(0);
    let template = all.get(used)?.1.as_str()?.to_owned();
    let others = all.iter().enumerate().filter(|(number, _)| *number != used);
    Some(Source {
        template,
        others: others.map(|(_, (name, _))| format!("`{name}`")).collect(),
    })
}

/// Puts a template into a folder that has a tokenizer.
///
/// # Errors
/// The disk's.
pub fn write_chat_template(dir: &Path, template: &ChatTemplate) -> Result<()> {
    files::write(&dir.join(NAME), template.template().as_bytes())
}
