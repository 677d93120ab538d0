//! The chat template of a folder: `chat_template.jinja`, `chat_template` in `tokenizer_config.json`, or `chat_template.json`, in
//! the order in which transformers looks for them. Of several templates, the one named `tool_use` writes conversations with
//! tools.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::files::{Folder, fault};
use super::settings::{Settings, TOKENIZER_CONFIG};
use crate::error::{Error, Result};
use crate::files;
use crate::tokenizer::ChatTemplate;

/// The file that holds only a template.
pub const NAME: &str = "chat_template.jinja";
const JSON: &str = "chat_template.json";
/// The key of the template in the JSON files.
const KEY: &str = "chat_template";
/// The name of the template that is used if a folder has several.
const DEFAULT: &str = "default";
/// The name of the template for conversations with tools.
const TOOL_USE: &str = "tool_use";
/// The subfolder of further templates, and the ending of their names.
const TEMPLATES_FOLDER: &str = "additional_chat_templates";
const ENDING: &str = ".jinja";

/// Reads the chat template of a tokenizer's folder, or of the folder that contains the tokenizer's file.
///
/// # Errors
/// If a file cannot be read or is damaged, or the template is not valid Jinja.
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

/// Reads the chat template of a folder; if one cannot be used, the reason is added to `notes`.
///
/// # Errors
/// The errors of [`chat_template`].
pub(super) fn read(
    folder: Folder,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<Option<ChatTemplate>> {
    let Some(Source {
        template,
        tool_use,
        others,
    }) = source(folder)?
    else {
        return Ok(None);
    };
    if !others.is_empty() {
        notes.push(format!(
            "its chat templates {} are not used: `{DEFAULT}` formats conversations, and `{TOOL_USE}` formats those with tools",
            others.join(", ")
        ));
    }
    let roles = settings.roles.iter();
    let tokens: BTreeMap<String, String> = roles
        .map(|(role, token)| (role.key().to_owned(), token.content.clone()))
        .collect();
    let template = match ChatTemplate::new(template, tokens) {
        Ok(template) => template,
        Err(why) => {
            notes.push(format!("its chat template is not used: {why}"));
            return Ok(None);
        }
    };
    let for_tools = tool_use.map(|tool_use| template.with_tool_use(tool_use));
    Ok(Some(match for_tools {
        None => template,
        Some(Ok(both)) => both,
        Some(Err(why)) => {
            notes.push(format!("its chat template `{TOOL_USE}` is not used: {why}"));
            template
        }
    }))
}

/// The templates that are used, and the names of the unused ones.
struct Source {
    template: String,
    tool_use: Option<String>,
    others: Vec<String>,
}

impl Source {
    fn alone(template: String) -> Self {
        Self {
            template,
            tool_use: None,
            others: Vec::new(),
        }
    }
}

/// The names of the files in the subfolder of templates that are not used here.
pub(super) fn unused_templates(folder: Folder) -> Vec<String> {
    let all = std::fs::read_dir(folder.path(TEMPLATES_FOLDER))
        .into_iter()
        .flatten();
    let names = all.flatten().map(|file| file.file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let names = names.filter(|name| name.strip_suffix(ENDING) != Some(TOOL_USE));
    names
        .map(|name| format!("{TEMPLATES_FOLDER}/{name}"))
        .collect()
}

/// The name of a template's file in the subfolder.
fn beside(name: &str) -> String {
    format!("{TEMPLATES_FOLDER}/{name}{ENDING}")
}

/// Reads the template for conversations with tools from the subfolder.
fn tool_use_beside(folder: Folder) -> Result<Option<String>> {
    let file = beside(TOOL_USE);
    folder.has(&file).then(|| folder.text(&file)).transpose()
}

fn source(folder: Folder) -> Result<Option<Source>> {
    if folder.has(NAME) {
        let text = folder.text(NAME)?;
        if !text.trim().is_empty() {
            return Ok(Some(Source {
                tool_use: tool_use_beside(folder)?,
                ..Source::alone(text)
            }));
        }
    }
    for name in [TOKENIZER_CONFIG, JSON] {
        let object = folder.object(name)?;
        if let Some(found) = object.as_ref().and_then(|all| all.get(KEY)).and_then(named) {
            let tool_use = match found.tool_use {
                None => tool_use_beside(folder)?,
                own => own,
            };
            return Ok(Some(Source { tool_use, ..found }));
        }
    }
    Ok(None)
}

/// The only template; of several the one named `default`, else the first.
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
    let for_tools = all.iter().position(|(name, _)| *name == TOOL_USE);
    let for_tools = for_tools.filter(|at| *at != used);
    let tool_use = for_tools.and_then(|at| all[at].1.as_str());
    let others = all.iter().enumerate();
    let others = others.filter(|(at, _)| *at != used && Some(*at) != for_tools);
    Some(Source {
        template,
        tool_use: tool_use.map(str::to_owned),
        others: others.map(|(_, (name, _))| format!("`{name}`")).collect(),
    })
}

/// Writes a template into the folder of a tokenizer.
///
/// # Errors
/// If a file cannot be written.
pub fn write_chat_template(dir: &Path, template: &ChatTemplate) -> Result<()> {
    files::write(&dir.join(NAME), template.template().as_bytes())?;
    let Some(tool_use) = template.tool_use() else {
        return Ok(());
    };
    let folder = dir.join(TEMPLATES_FOLDER);
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    files::write(&dir.join(beside(TOOL_USE)), tool_use.as_bytes())
}
