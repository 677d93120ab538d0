//! Reads and writes the files that sentence-transformers puts beside a model: how hidden states become a text embedding.
//!
//! `modules.json` lists the steps: a transformer, a pooling whose settings lie in a folder of its own, and a step that
//! scales embeddings to length 1. Versions before 5.2 have one key per way of pooling; later ones name the way in one key.
//! Both are read, and the older form is written, which all versions read.

use super::families::{HfShape, decoder_heads};
use super::fault;
use crate::error::{Error, Fault, Result, suggestion};
use crate::files;
use crate::task::TaskConfig;
use crate::task::text_embedding::TextEmbeddingConfig;
use crate::task::whole_text::Pooling;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const MODULES: &str = "modules.json";
const POOLING: &str = "1_Pooling";
const NORMALIZE: &str = "2_Normalize";
const LIMITS: &str = "sentence_bert_config.json";
const TOKENIZER: &str = "tokenizer_config.json";
const PROMPTS: &str = "config_sentence_transformers.json";

/// The names of the ways of pooling, with their keys in earlier versions.
const POOLING_KEYS: [(&str, &str); 6] = [
    ("cls", "pooling_mode_cls_token"),
    ("mean", "pooling_mode_mean_tokens"),
    ("max", "pooling_mode_max_tokens"),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    ("weightedmean", "pooling_mode_weightedmean_tokens"),
    ("lasttoken", "pooling_mode_lasttoken"),
];

/// How hidden states become a text embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Modules {
    /// How the hidden states of a text are pooled into one.
    pub pooling: Pooling,
    /// Whether embeddings are scaled to length 1.
    pub normalize: bool,
    /// Length in tokens to which texts are truncated, if a file gives it.
    pub max_length: Option<usize>,
    /// Settings that have no counterpart here.
    pub ignored: Vec<String>,
}

impl Modules {
    /// Applies the settings to the task of a model's body; returns whether the model can have a text embedding task.
    pub fn apply(&self, of: &mut HfShape) -> bool {
        decoder_heads::set_text_embedding(of);
        let TaskConfig::TextEmbedding(config) = &mut of.task else {
            return false;
        };
        config.pooling = self.pooling;
        config.normalize = self.normalize;
        true
    }
}

/// Reads a folder's files; `None` if it is not a folder of sentence-transformers.
///
/// # Errors
/// If a file is damaged, or a step is not supported.
pub fn read(dir: &Path) -> Result<Option<Modules>> {
    let path = dir.join(MODULES);
    if !path.is_file() {
        return Ok(None);
    }
    let steps = match json_of(&path)? {
        Value::Array(steps) => steps,
        _ => return Err(wrong(&path, "is not a list of modules")),
    };
    let mut found = Modules {
        pooling: Pooling::Mean,
        normalize: false,
        max_length: None,
        ignored: Vec::new(),
    };
    let mut kinds = Vec::new();
    for step in &steps {
        let kind = step["type"].as_str().unwrap_or_default();
        let kind = kind.rsplit('.').next().unwrap_or_default();
        let folder = step["path"].as_str().unwrap_or_default();
        match kind {
            "Transformer" if !folder.is_empty() => {
                let message = format!(
                    "has its transformer in the folder `{folder}`: import that folder, and set [task] pooling as in `{POOLING}`"
                );
                return Err(wrong(&path, message));
            }
            "Pooling" => found.pooling = pooling(&dir.join(inside(&path, folder)?))?,
            "Normalize" => found.normalize = true,
            _ => {}
        }
        kinds.push(kind);
    }
    let known =
        kinds == ["Transformer", "Pooling"] || kinds == ["Transformer", "Pooling", "Normalize"];
    if !known {
        let message = format!(
            "has the modules {}; those that can be imported are Transformer and Pooling, optionally followed by Normalize",
            kinds.join(", ")
        );
        return Err(wrong(&path, message));
    }
    let limits = object(&dir.join(LIMITS))?;
    // Later versions leave the limit to the tokenizer, which has a huge number if there is no limit.
    let longest = match limits.get("max_seq_length").and_then(Value::as_u64) {
        Some(longest) => Some(longest),
        None => object(&dir.join(TOKENIZER))?
            .get("model_max_length")
            .and_then(Value::as_u64),
    };
    found.max_length = longest.filter(|n| *n > 0).map(|n| n as usize);
    if limits.get("do_lower_case") == Some(&json!(true)) {
        let said = format!(
            "{LIMITS}: do_lower_case = true (convert texts to lower case before they are read)"
        );
        found.ignored.push(said);
    }
    found.ignored.extend(prompts(&object(&dir.join(PROMPTS))?));
    Ok(Some(found))
}

/// Checks that the folder of a module lies inside the folder of its list.
fn inside(list: &Path, folder: &str) -> Result<PathBuf> {
    let path = PathBuf::from(folder);
    let plain = path
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    match plain && !folder.is_empty() {
        true => Ok(path),
        false => Err(wrong(
            list,
            format!("names the module folder `{folder}`, which must be next to this file"),
        )),
    }
}

/// Reads the way of pooling from a module's folder.
fn pooling(dir: &Path) -> Result<Pooling> {
    let path = dir.join("config.json");
    if !path.is_file() {
        return Err(wrong(&path, "is missing: it sets the pooling"));
    }
    let config = object(&path)?;
    let names: Vec<String> = match config.get("pooling_mode") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => {
            let text = |name: &Value| {
                name.as_str()
                    .map_or_else(|| name.to_string(), str::to_owned)
            };
            names.iter().map(text).collect()
        }
        Some(other) => vec![other.to_string()],
        None => {
            let on = POOLING_KEYS
                .iter()
                .filter(|(_, key)| config.get(*key) == Some(&json!(true)));
            on.map(|(name, _)| (*name).to_owned()).collect()
        }
    };
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["mean"] => Ok(Pooling::Mean),
        ["cls"] => Ok(Pooling::First),
        ["lasttoken"] => Ok(Pooling::Last),
        ["max"] => Ok(Pooling::Max),
        [name] if POOLING_KEYS.iter().all(|(known, _)| *known != name) => {
            let hint = suggestion(name, ["cls", "mean", "lasttoken", "max"]);
            Err(wrong(
                &path,
                format!("`pooling_mode` = \"{name}\" is not known{hint}"),
            ))
        }
        ref names => Err(wrong(
            &path,
            format!(
                "uses the pooling {}; the kinds that can be imported are cls, mean, lasttoken and max",
                names.join(" and ")
            ),
        )),
    }
}

/// Describes the prompts that the library puts before texts.
fn prompts(config: &Map<String, Value>) -> Vec<String> {
    let prompts = config.get("prompts").and_then(Value::as_object);
    let usual = config.get("default_prompt_name").and_then(Value::as_str);
    let given = prompts.into_iter().flatten().filter_map(|(name, text)| {
        let text = text.as_str().filter(|text| !text.is_empty())?;
        let when = match usual == Some(name) {
            true => "is placed before every text",
            false => "is placed before texts that request it",
        };
        Some(format!("{PROMPTS}: the prompt `{name}`, {text:?}, {when}"))
    });
    given.collect()
}

/// Writes the files beside a text embedding model of this width; does nothing for other tasks.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dir: &Path, task: &TaskConfig, width: usize) -> Result<()> {
    let TaskConfig::TextEmbedding(config) = task else {
        return Ok(());
    };
    let TextEmbeddingConfig {
        pooling, normalize, ..
    } = config;
    let way = match pooling {
        Pooling::First => "cls",
        Pooling::Mean => "mean",
        Pooling::Last => "lasttoken",
        Pooling::Max => "max",
    };
    let mut settings = Map::new();
    settings.insert("word_embedding_dimension".into(), json!(width));
    for (name, key) in POOLING_KEYS {
        settings.insert(key.into(), json!(name == way));
    }
    let mut steps = vec![("", "Transformer"), (POOLING, "Pooling")];
    if *normalize {
        steps.push((NORMALIZE, "Normalize"));
    }
    let steps = steps.iter().enumerate().map(|(number, (path, kind))| {
        json!({
            "idx": number,
            "name": number.to_string(),
            "path": path,
            "type": format!("sentence_transformers.models.{kind}"),
        })
    });
    let folder = dir.join(POOLING);
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    write_json(&folder.join("config.json"), &Value::Object(settings))?;
    write_json(&dir.join(MODULES), &steps.collect())
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    files::write(path, format!("{value:#}\n").as_bytes())
}

/// Reads a JSON object; an empty one if there is no such file.
fn object(path: &Path) -> Result<Map<String, Value>> {
    if !path.is_file() {
        return Ok(Map::new());
    }
    match json_of(path)? {
        Value::Object(object) => Ok(object),
        _ => Err(wrong(path, "is not a JSON object")),
    }
}

fn json_of(path: &Path) -> Result<Value> {
    let text = files::read(path)?;
    serde_json::from_slice(&text).map_err(|e| wrong(path, format!("is not JSON: {e}")))
}

fn wrong(path: &Path, message: impl AsRef<str>) -> Error {
    let fault: Fault = fault(path, message);
    Error::Invalid(vec![fault])
}
