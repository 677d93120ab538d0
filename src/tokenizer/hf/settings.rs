//! Settings of a folder's tokenizer besides the vocabulary: `tokenizer_config.json`, `special_tokens_map.json`,
//! `added_tokens.json`, and `config.json`.
//!
//! They are read as by transformers 5: with `added_tokens_decoder` the first file is complete; without it, the
//! second file overrides special tokens, and the third gives ids.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::family::Family;
use super::files::{Folder, fault};
use super::kept_settings::KEPT;
use crate::error::Result;

/// The roles of special tokens in these files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Bos,
    Eos,
    Unk,
    Sep,
    Pad,
    Cls,
    Mask,
}

impl Role {
    pub const ALL: [Self; 7] = [
        Self::Bos,
        Self::Eos,
        Self::Unk,
        Self::Sep,
        Self::Pad,
        Self::Cls,
        Self::Mask,
    ];

    pub fn key(self) -> &'static str {
        match self {
            Self::Bos => "bos_token",
            Self::Eos => "eos_token",
            Self::Unk => "unk_token",
            Self::Sep => "sep_token",
            Self::Pad => "pad_token",
            Self::Cls => "cls_token",
            Self::Mask => "mask_token",
        }
    }
}

/// A token that is matched before the text is split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedToken {
    /// The token as written in a text.
    pub content: String,
    /// Whether blanks before it are part of it.
    pub lstrip: bool,
    /// Whether blanks after it are part of it.
    pub rstrip: bool,
    /// Whether it matches only as a whole word.
    pub single_word: bool,
    /// Whether it is matched in the normalised text.
    pub normalized: bool,
    /// Whether it is a special token rather than text.
    pub special: bool,
}

impl AddedToken {
    /// A special token of this name.
    pub fn special(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            special: true,
            ..Self::default()
        }
    }

    /// The token's entry in `added_tokens`.
    pub fn entry(&self, id: u32) -> Value {
        serde_json::json!({
            "id": id, "content": self.content, "single_word": self.single_word, "lstrip": self.lstrip,
            "rstrip": self.rstrip, "normalized": self.normalized, "special": self.special,
        })
    }

    fn read(value: &Value, special: bool) -> Option<Self> {
        if let Some(content) = value.as_str() {
            return Some(Self {
                special,
                ..Self::special(content)
            });
        }
        let flag = |key: &str| value[key].as_bool();
        Some(Self {
            content: value["content"].as_str()?.to_owned(),
            lstrip: flag("lstrip").unwrap_or(false),
            rstrip: flag("rstrip").unwrap_or(false),
            single_word: flag("single_word").unwrap_or(false),
            normalized: flag("normalized").unwrap_or(!special),
            special: flag("special").unwrap_or(special),
        })
    }
}

/// The contents of the files.
#[derive(Debug, Default)]
pub struct Settings {
    /// The class that transformers reads the folder with, without the suffix `Fast`.
    pub class: Option<String>,
    /// `model_type` of config.json.
    pub model_type: Option<String>,
    /// Tokens by role.
    pub roles: Vec<(Role, AddedToken)>,
    /// Tokens with given ids.
    pub added: BTreeMap<u32, AddedToken>,
    /// Further special tokens.
    pub extra: Vec<AddedToken>,
    /// The maximum input length in tokens.
    pub max_length: Option<usize>,
    /// Keys and files that are not used here.
    pub ignored: Vec<String>,
    values: Map<String, Value>,
}

/// Keys of tokenizer_config.json that are read, besides those of roles.
const READ: [&str; 21] = [
    "chat_template",
    "tokenizer_class",
    "additional_special_tokens",
    "extra_special_tokens",
    "added_tokens_decoder",
    "model_max_length",
    "do_lower_case",
    "strip_accents",
    "tokenize_chinese_chars",
    "keep_accents",
    "add_prefix_space",
    "add_bos_token",
    "add_eos_token",
    "extra_ids",
    "legacy",
    "split_by_punct",
    "language_codes",
    "legacy_behaviour",
    // Extra rows of an embedding table, which the model's config.json counts.
    "num_madeup_words",
    "word_delimiter_token",
    "replace_word_delimiter_char",
];
/// The file with most of the keys.
pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The file with only the roles.
pub const SPECIAL_TOKENS: &str = "special_tokens_map.json";
const ADDED_TOKENS: &str = "added_tokens.json";
/// The files with settings that no vocabulary has.
pub const FILES: [&str; 3] = [TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS];
/// A length above this means no limit: transformers writes 10^30.
const NO_LENGTH: f64 = 1e9;

impl Settings {
    /// Reads those of the files that exist.
    ///
    /// # Errors
    /// If a file is not a JSON object, or a token or an id is invalid.
    pub fn read(folder: Folder) -> Result<Self> {
        let config = folder.object("config.json")?.unwrap_or_default();
        let values = folder.object(TOKENIZER_CONFIG)?.unwrap_or_default();
        let word = |map: &Map<String, Value>, key: &str| map.get(key)?.as_str().map(str::to_owned);
        let class = word(&values, "tokenizer_class").or_else(|| word(&config, "tokenizer_class"));
        let length = values.get("model_max_length").and_then(Value::as_f64);
        let mut settings = Self {
            class: class.map(|name| name.strip_suffix("Fast").unwrap_or(&name).to_owned()),
            model_type: word(&config, "model_type"),
            max_length: length
                .filter(|n| (1.0..NO_LENGTH).contains(n))
                .map(|n| n as usize),
            ignored: ignored(folder, &values),
            ..Self::default()
        };
        settings.tokens(folder, TOKENIZER_CONFIG, &values)?;
        if let Some(decoder) = values
            .get("added_tokens_decoder")
            .and_then(Value::as_object)
        {
            settings.decoder(folder, decoder)?;
        } else {
            if let Some(map) = folder.object(SPECIAL_TOKENS)? {
                settings.tokens(folder, SPECIAL_TOKENS, &map)?;
            }
            if let Some(map) = folder.object(ADDED_TOKENS)? {
                settings.added_tokens(folder, &map)?;
            }
        }
        settings.values = values;
        Ok(settings)
    }

    /// Whether the files name a class with its own way of reading vocabulary files.
    pub fn names_class(&self) -> bool {
        let class = self.class.as_deref();
        class.is_some_and(|class| !Family::is_general(class))
    }

    /// The token of a role.
    pub fn role(&self, role: Role) -> Option<&AddedToken> {
        self.roles
            .iter()
            .find(|(r, _)| *r == role)
            .map(|(_, token)| token)
    }

    /// The name of a role's token, or the class's default.
    pub fn name<'a>(&'a self, role: Role, default: &'a str) -> &'a str {
        self.role(role)
            .map_or(default, |token| token.content.as_str())
    }

    /// Sets the class's default token for a role, unless the files name one.
    pub fn default_role(&mut self, role: Role, token: AddedToken) {
        if self.role(role).is_none() {
            self.roles.push((role, token));
        }
    }

    /// A boolean of tokenizer_config.json; `None` if it is absent or null.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.values.get(key).and_then(Value::as_bool)
    }

    /// A number of tokenizer_config.json; `None` if it is absent.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.values.get(key).and_then(Value::as_u64)
    }

    /// A string of tokenizer_config.json; `None` if it is absent.
    pub fn word(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(Value::as_str)
    }

    /// Reads the roles and further special tokens of a file.
    fn tokens(&mut self, folder: Folder, name: &str, map: &Map<String, Value>) -> Result<()> {
        let wrong = |key: &str, value: &Value| {
            let message = format!(
                "`{key}` = {value} is not a token; write it as a text or an object with `content`"
            );
            fault(&folder.path(name), message)
        };
        for role in Role::ALL {
            let Some(value) = map.get(role.key()).filter(|v| !v.is_null()) else {
                continue;
            };
            let token = AddedToken::read(value, true).ok_or_else(|| wrong(role.key(), value))?;
            self.roles.retain(|(r, _)| *r != role);
            // Early LLaMA folders write "" for a role without a token.
            if token.content.is_empty() {
                continue;
            }
            self.roles.push((
                role,
                AddedToken {
                    special: true,
                    ..token
                },
            ));
        }
        for key in ["additional_special_tokens", "extra_special_tokens"] {
            let list: Vec<&Value> = match map.get(key) {
                Some(Value::Array(list)) => list.iter().collect(),
                Some(Value::Object(named)) => named.values().collect(),
                Some(Value::Null) | None => continue,
                Some(other) => return Err(wrong(key, other)),
            };
            for value in list {
                let token = AddedToken::read(value, true).ok_or_else(|| wrong(key, value))?;
                if !token.content.is_empty()
                    && self.extra.iter().all(|e| e.content != token.content)
                {
                    self.extra.push(token);
                }
            }
        }
        Ok(())
    }

    /// Reads `added_tokens_decoder`, tokens by id. The attributes of a token also apply to its role.
    fn decoder(&mut self, folder: Folder, decoder: &Map<String, Value>) -> Result<()> {
        for (id, value) in decoder {
            let token = AddedToken::read(value, false);
            let (Ok(id), Some(token)) = (id.parse(), token) else {
                let message = format!(
                    "`added_tokens_decoder` has the entry \"{id}\": {value}, which is not an id with its token"
                );
                return Err(fault(&folder.path(TOKENIZER_CONFIG), message));
            };
            for (_, known) in &mut self.roles {
                if known.content == token.content {
                    *known = AddedToken {
                        special: true,
                        ..token.clone()
                    };
                }
            }
            self.added.insert(id, token);
        }
        Ok(())
    }

    /// Reads `added_tokens.json`, ids by token.
    fn added_tokens(&mut self, folder: Folder, map: &Map<String, Value>) -> Result<()> {
        let path = folder.path(ADDED_TOKENS);
        for (content, id) in super::files::numbered(&path, map)? {
            let named = self.roles.iter().map(|(_, token)| token);
            let known = named
                .chain(&self.extra)
                .find(|token| token.content == content);
            let token = known.cloned().unwrap_or(AddedToken {
                content,
                normalized: true,
                ..AddedToken::default()
            });
            self.added.insert(id, token);
        }
        Ok(())
    }
}

/// Keys and files that are not used here.
fn ignored(folder: Folder, values: &Map<String, Value>) -> Vec<String> {
    let is_read = |key: &str| READ.contains(&key) || Role::ALL.iter().any(|role| role.key() == key);
    let is_kept = |key: &str, value: &Value| KEPT.contains(&key) && value.is_string();
    let keys = values
        .iter()
        .filter(|(key, value)| !is_read(key) && !is_kept(key, value) && !value.is_null());
    let mut names: Vec<String> = keys
        .map(|(key, _)| format!("{TOKENIZER_CONFIG}: {key}"))
        .collect();
    names.extend(super::chat::unused_templates(folder));
    names.sort();
    names
}

/// Sets the default tokens of a class for the roles, if the vocabulary has them.
pub fn default_roles(settings: &mut Settings, has: impl Fn(&str) -> bool, names: &[(Role, &str)]) {
    for (role, name) in names {
        if has(name) {
            settings.default_role(*role, AddedToken::special(*name));
        }
    }
}
