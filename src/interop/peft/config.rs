//! Reads `adapter_config.json`: the keys that say how factors become weights. Every other key must be one that changes
//! nothing.

use super::CONFIG;
use crate::error::{Error, Fault, Result};
use crate::interop::weights::duplicate_key;
use crate::train::lora::MAX_RANK;
use burn::module::{ParamGroup, ParamId};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Keys about an adapter's origin, initialisation or training; its weights tell the rest.
const HARMLESS: &[&str] = &[
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "megatron_core",
    "modules_to_save",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
];

/// The rank and scale of each module's factors.
#[derive(Debug)]
pub(super) struct Config {
    file: PathBuf,
    rank: usize,
    alpha: f64,
    /// Whether alpha is divided by √r instead of r (Kalajdzievski 2023, rsLoRA).
    rank_stabilized: bool,
    ranks: Vec<(ParamGroup, f64)>,
    alphas: Vec<(ParamGroup, f64)>,
    /// Settings that have no effect here.
    pub unsupported: Vec<String>,
}

impl Config {
    /// Reads the file in the folder.
    ///
    /// # Errors
    /// If the file is missing or damaged, and for every key that asks for an adapter other than LoRA's.
    pub(super) fn read(dir: &Path) -> Result<Self> {
        let file = dir.join(CONFIG);
        let text = crate::files::read(&file)?;
        let value: Value = serde_json::from_slice(&text)
            .map_err(|e| Error::Invalid(vec![fault(&file, format!("is not JSON: {e}"))]))?;
        if let Some(key) = duplicate_key(&text) {
            return Err(Error::Invalid(vec![fault(
                &file,
                format!("has `{key}` twice"),
            )]));
        }
        let Value::Object(mut keys) = value else {
            return Err(Error::Invalid(vec![fault(
                &file,
                "is not an object".into(),
            )]));
        };
        let mut faults = Vec::new();
        let kind = keys.remove("peft_type");
        if kind.as_ref().and_then(Value::as_str) != Some("LORA") {
            let kind = kind.unwrap_or_default();
            faults.push(format!(
                "`peft_type` = {kind} cannot be imported; \"LORA\" can"
            ));
            return Err(faults_error(&file, faults));
        }
        let mut number = |keys: &mut Map<String, Value>, key: &str, usual: f64| {
            let found = keys.remove(key).unwrap_or(Value::from(usual));
            positive(&found).unwrap_or_else(|| {
                faults.push(format!("`{key}` = {found} must be a number above 0"));
                usual
            })
        };
        let (rank, alpha) = (
            number(&mut keys, "r", 8.0),
            number(&mut keys, "lora_alpha", 8.0),
        );
        if rank.fract() != 0.0 || rank > MAX_RANK as f64 {
            faults.push(format!("`r` = {rank} is not between 1 and {MAX_RANK}"));
        }
        let ranks = patterns(&mut keys, "rank_pattern", &mut faults);
        let alphas = patterns(&mut keys, "alpha_pattern", &mut faults);
        let by_root = match keys.remove("use_rslora") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(by_root)) => by_root,
            Some(other) => {
                faults.push(format!("`use_rslora` = {other} must be true or false"));
                false
            }
        };
        let mut without_place = Vec::new();
        if let Some(dropout) = keys
            .remove("lora_dropout")
            .filter(|d| positive(d).is_some())
        {
            without_place.push(format!("{CONFIG}: lora_dropout = {dropout}"));
        }
        match keys.remove("bias") {
            None | Some(Value::Null) => {}
            Some(Value::String(bias)) if bias == "none" => {}
            Some(bias) => faults.push(format!(
                "`bias` = {bias} trains biases of the base model, which cannot be imported; \"none\" can"
            )),
        }
        // Initialisations that change the base are refused: its weights then differ from those in the folder.
        let draws = [
            Value::Bool(true),
            "gaussian".into(),
            "orthogonal".into(),
            "eva".into(),
        ];
        let init = keys.remove("init_lora_weights").filter(|v| !is_empty(v));
        if let Some(init) = init.filter(|init| !draws.contains(init)) {
            faults.push(format!(
                "`init_lora_weights` = {init} changes the weights of the base model and cannot be imported"
            ));
        }
        let others = keys.iter().filter(|(_, value)| !is_empty(value));
        for (key, value) in others.filter(|(key, _)| !HARMLESS.contains(&key.as_str())) {
            let mut shown = value.to_string();
            shown.truncate(shown.floor_char_boundary(60));
            faults.push(format!(
                "`{key}` = {shown} cannot be imported: it may change what the adapter computes"
            ));
        }
        match faults.is_empty() {
            true => Ok(Self {
                rank: rank as usize,
                alpha,
                rank_stabilized: by_root,
                ranks,
                alphas,
                unsupported: without_place,
                file,
            }),
            false => Err(faults_error(&file, faults)),
        }
    }

    /// The rank that the module must have, and the scale of its product `B·A`.
    pub(super) fn rank_and_scale(&self, module: &str) -> (usize, f64) {
        let found = |patterns: &[(ParamGroup, f64)]| {
            let mut patterns = patterns.iter();
            let hit = patterns.find(|(key, _)| key.matches(&ParamId::from(0), Some(module)));
            hit.map(|(_, value)| *value)
        };
        let rank = found(&self.ranks).map_or(self.rank, |rank| rank as usize);
        let alpha = found(&self.alphas).unwrap_or(self.alpha);
        let by = match self.rank_stabilized {
            true => (rank as f64).sqrt(),
            false => rank as f64,
        };
        (rank, alpha / by)
    }

    /// The file that was read.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

/// Reads numbers by patterns of module names, which `peft` matches at the end of a name, after a dot.
fn patterns(
    keys: &mut Map<String, Value>,
    key: &str,
    faults: &mut Vec<String>,
) -> Vec<(ParamGroup, f64)> {
    let found = match keys.remove(key) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Object(found)) => found,
        Some(other) => {
            faults.push(format!("`{key}` = {other} must be an object of numbers"));
            return Vec::new();
        }
    };
    let whole = key == "rank_pattern";
    let entries = found.iter().filter_map(|(pattern, value)| {
        let number = positive(value).filter(|x| !whole || x.fract() == 0.0 && *x <= MAX_RANK as f64);
        let group = ParamGroup::from_regex(format!(r"^(.*\.)?({pattern})$")).ok();
        let entry = group.zip(number);
        if entry.is_none() {
            faults.push(format!(
                "`{key}` has \"{pattern}\": {value}, which does not map a module pattern to a number above 0"
            ));
        }
        entry
    });
    entries.collect()
}

fn positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|x| *x > 0.0 && x.is_finite())
}

/// Whether a key with this value means the same as an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

pub(super) fn fault(file: &Path, message: String) -> Fault {
    Fault {
        file: Some(file.to_path_buf()),
        line: None,
        message,
    }
}

pub(super) fn faults_error(file: &Path, messages: Vec<String>) -> Error {
    let faults = messages.into_iter();
    Error::Invalid(faults.map(|message| fault(file, message)).collect())
}
