//! Import and export of Hugging Face (HF) model folders: the one place that knows HF's names.
//!
//! A family (one file in `families/`) reads a `config.json` into our configs and gives the table between HF's tensor
//! names and the paths of our parameters. [`read_hf`] opens a folder, [`HfModel::source`] reads our parameters from it
//! one at a time, and [`to_hf`] converts parameters to HF's tensors.

mod canonical;
mod differences;
pub mod export;
mod exported_tensors;
pub mod families;
pub mod feature_extractor;
pub mod first_position;
pub mod generation;
mod harmless;
mod hf_config;
mod hf_keys;
mod hf_rotary;
pub mod image_processor;
mod load;
mod parameters;
pub mod peft;
mod pickled;
pub mod rename;
mod rule;
pub mod sample_extractor;
pub mod sentence_transformers;
mod shards;
pub mod stream;
mod ties;
pub mod weights;

use crate::error::{Error, Fault, Result, nearest, printable, suggestion};
use crate::faults::Faults;
use crate::files::json;
use crate::nn::attention::AttentionConfig;
use crate::nn::position::PositionConfig;
use crate::stack::StackConfig;
pub use differences::{computation_differences, layer_computation_differences};
use families::{FAMILIES, Family, HfShape, REFUSED, image_heads};
pub use hf_config::HfConfig;
pub use hf_keys::hf_keys;
pub use load::Source;
pub use parameters::{Parameters, arrays, arrays_of, shapes, to_hf};
use rename::Table;
use sentence_transformers::Modules;
use serde_json::Value;
use std::path::{Path, PathBuf};
use weights::Weights;

/// An opened HF folder: the model it holds, and where its weights lie.
#[derive(Debug)]
pub struct HfModel {
    /// The folder.
    pub dir: PathBuf,
    /// The architecture that its config.json names.
    pub family: Family,
    /// The network, its task and the shape of its inputs.
    pub shape: HfShape,
    /// Ignored keys of config.json: they do not change the forward pass, or the caller asked to ignore them.
    pub ignored_keys: Vec<String>,
    /// Notes on where the transformers class computes something other than config.json says.
    pub notes: Vec<String>,
    /// How hidden states become text embeddings, if this is a folder of sentence-transformers.
    pub modules: Option<Modules>,
    /// Whether this is an image network without a classifier; the task's classifier is then initialised randomly.
    pub headless: bool,
    /// The weights, not read yet.
    pub weights: Weights,
}

impl HfModel {
    /// Returns the table between HF's names and the paths of the task's parameters.
    pub fn table(&self) -> Table {
        let table = self.family.rules(&self.shape);
        match self.headless {
            true => image_heads::without(table),
            false => table,
        }
    }
}

/// Opens an HF folder: `config.json` with `model.safetensors` or its shards. Keys in `ignore` are skipped.
///
/// # Errors
/// If a file is missing or damaged, an architecture or option is not supported, or a key is unknown.
pub fn read_hf(dir: &Path, ignore: &[String]) -> Result<HfModel> {
    let path = dir.join("config.json");
    let text = json::encode_infinity(crate::files::read(&path)?);
    let mut value: Value = serde_json::from_slice(&text)
        .map_err(|e| Error::Invalid(vec![fault(&path, format!("is not JSON: {e}"))]))?;
    if let Some(twice) = weights::duplicate_key(&text) {
        return Err(Error::Invalid(vec![fault(
            &path,
            format!("has `{twice}` twice"),
        )]));
    }
    // Before the weights: the folder of an unsupported architecture need not have weights in a form we can read.
    family_of(&path, &value)?;
    let modules = sentence_transformers::read(dir)?;
    if modules.is_some() {
        without_head(&mut value);
    }
    let weights = Weights::open(dir)?;
    let mut read = read_config(&path, value, ignore, Some(&weights))?;
    if let Some(modules) = &modules
        && !modules.apply(&mut read.shape)
    {
        let message = format!(
            "has pooling for text embeddings, which a `{}` does not produce here",
            read.family.model_type
        );
        let file = dir.join("modules.json");
        return Err(Error::Invalid(vec![fault(&file, message)]));
    }
    Ok(HfModel {
        dir: dir.to_path_buf(),
        family: read.family,
        shape: read.shape,
        ignored_keys: read.ignored_keys,
        notes: read.notes,
        modules,
        headless: read.headless,
        weights,
    })
}

/// Names the class without a head: sentence-transformers loads the body of a model, whichever class its file names.
fn without_head(config: &mut Value) {
    let class = config["architectures"][0].as_str().unwrap_or_default();
    let name = match (class.strip_suffix("LMHeadModel"), class.ends_with("Model")) {
        (Some(name), _) => name,
        (None, true) => return,
        // The name `RoFormer` itself contains "For".
        (None, false) => class.rsplit_once("For").map_or("", |(name, _)| name),
    };
    let class = serde_json::json!([format!("{name}Model")]);
    // A value that is not an object is reported when the config is read.
    if let Some(object) = config.as_object_mut() {
        object.insert("architectures".into(), class);
    }
}

/// Number of unknown keys or tensors that a message lists before it only counts the rest.
const LISTED: usize = 20;

/// The contents of a config.json.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    /// The architecture.
    pub family: Family,
    /// The network, its task and the shape of its inputs.
    pub shape: HfShape,
    /// Keys that were ignored.
    pub ignored_keys: Vec<String>,
    /// Notes on where the transformers class computes something other than the file says.
    pub notes: Vec<String>,
    /// Whether the class is an image network without a classifier.
    pub headless: bool,
}

/// Reads a parsed config.json; `file` is named in errors. Keys in `ignore` are skipped. `weights` are the weights
/// beside the file: some files do not say whether the head has a matrix of its own.
///
/// # Errors
/// If the `model_type` is unknown; else one fault for every unsupported option and every unknown key.
pub fn read_config(
    file: &Path,
    mut value: Value,
    ignore: &[String],
    weights: Option<&Weights>,
) -> Result<ReadConfig> {
    let family = family_of(file, &value)?;
    let ignored = without(file, &mut value, ignore)?;
    let config = HfConfig::new(file, value, weights);
    let mut shape = family.shape(&config);
    // A placeholder for a faulty value would cause faults of its own.
    if !config.is_faulty() {
        let networks = shape.model.networks().into_iter();
        for network in networks.filter_map(|network| network.transformer()) {
            let depth = network.depths().next();
            let attention = depth.map(|depth| network.stack.attention_of(&depth));
            let attention = attention.unwrap_or(&network.stack.attention);
            check_heads(&config, network.stack, attention);
        }
        check_class(&config, family, &shape);
    }
    let switches = config.unread();
    for key in switches.iter().filter(|key| harmless::is_harmless_off(key)) {
        config.only(key, false);
    }
    let (harmless, unknown): (Vec<String>, Vec<String>) = config
        .unread()
        .into_iter()
        .partition(|key| harmless::is_harmless(key));
    let read = config.requested_keys();
    for key in unknown.iter().take(LISTED) {
        let near = nearest(key, read.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        config.fault(format!(
            "`{key}` is not known for \"{}\": it may change what the model computes{near}; if it does not, pass --ignore-key {key}",
            family.model_type
        ));
    }
    if let Some(more) = unknown.len().checked_sub(LISTED + 1) {
        let more = more + 1;
        config.fault(format!("and {more} more keys that are not known"));
    }
    if let (Some(weights), false) = (weights, config.is_faulty())
        && let Some(note) = ties::untie(family, &mut shape, weights)?
    {
        config.warn(note);
    }
    let notes = config.warnings();
    let headless = image_heads::is_without(&config, &shape);
    match config.into_faults() {
        faults if faults.is_empty() => Ok(ReadConfig {
            notes,
            headless,
            family: *family,
            shape,
            ignored_keys: ignored.into_iter().chain(harmless).collect(),
        }),
        faults => Err(Error::Invalid(faults)),
    }
}

/// Returns the family that a config.json names.
fn family_of(file: &Path, value: &Value) -> Result<&'static Family> {
    let refused = |message: String| Err(Error::Invalid(vec![fault(file, message)]));
    let Some(model_type) = value["model_type"].as_str() else {
        return refused("has no `model_type`, the name of the architecture".into());
    };
    let said = format!("`model_type` \"{model_type}\" cannot be imported");
    if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == model_type) {
        return refused(format!("{said}: {why}"));
    }
    let family = FAMILIES.iter().find(|f| f.model_type == model_type);
    family.map_or_else(
        || {
            let known = FAMILIES.iter().map(|f| f.model_type);
            let hint = suggestion(model_type, known);
            let rest = match hint.contains("allowed:") {
                true => " (docs/pretrain_and_fine_tune.md lists all)",
                false => "",
            };
            refused(format!("{said}{hint}{rest}"))
        },
        Ok,
    )
}

/// Removes keys from a config.json and returns them; a key that it does not have is a fault.
fn without(file: &Path, value: &mut Value, keys: &[String]) -> Result<Vec<String>> {
    let Some(object) = value.as_object_mut() else {
        return Ok(Vec::new());
    };
    let mut faults = Vec::new();
    for key in keys {
        if key == "model_type" || object.shift_remove(key).is_none() {
            let hint = suggestion(key, object.keys().map(String::as_str));
            faults.push(fault(
                file,
                format!("--ignore-key {key}: there is no such key{hint}"),
            ));
        }
    }
    match faults.is_empty() {
        true => Ok(keys.to_vec()),
        false => Err(Error::Invalid(faults)),
    }
}

/// Reports a fault if the weights are of another class than the family has for this task. Weights of a body without a
/// head are accepted; the head must then be tied to the embeddings.
fn check_class(hf: &HfConfig, family: &Family, shape: &HfShape) {
    let Some(class) = hf.architecture() else {
        return;
    };
    let written = family.config_json(shape).unwrap_or_default();
    let ours = written["architectures"][0].as_str().unwrap_or_default();
    let body = class.ends_with("Model") && !class.ends_with("LMHeadModel");
    // Classes that the family itself refuses have their own message; T5's decoder by itself has no class.
    let refused = shape.model.kind() == "decoder" && family.model_type != "t5";
    if !refused || body || class == ours {
        return;
    }
    if ours.is_empty() {
        // A network that can be read but not written back has no class to compare with.
        if !families::decoder_heads::is_language_model(class) {
            hf.fault(format!(
                "`architectures` = [\"{class}\"] cannot be imported with the other keys of this \"{}\"; the class of its language model can",
                family.model_type
            ));
        }
    } else {
        let known = families::decoder_heads::classes(family, ours);
        hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported; {known} can"
        ));
    }
}

/// Reports faults of a network that cannot be built: heads that do not divide the width, a rotation of an odd width.
fn check_heads(hf: &HfConfig, stack: &StackConfig, kind: &AttentionConfig) {
    let attention = kind.heads();
    let (heads, kv_heads) = (attention.n_heads, attention.n_kv_heads());
    if !heads.is_multiple_of(kv_heads) {
        hf.fault(format!(
            "{heads} query heads are not a multiple of {kv_heads} key-value heads{}",
            hf.quote_keys("n_heads n_kv_heads")
        ));
    }
    let width = stack.d_model;
    if attention.d_head.is_none() && !width.is_multiple_of(heads) {
        hf.fault(format!(
            "the hidden size {width} is not a multiple of {heads} heads{}",
            hf.quote_keys("d_model n_heads")
        ));
        return;
    }
    if let PositionConfig::Rotary(rotary) = &stack.position {
        let d_head = kind.d_head(width);
        let fraction = rotary.fraction;
        if d_head % 2 == 1 || !(0.0..=1.0).contains(&fraction) {
            hf.fault(format!(
                "rotary positions need an even head size and a rotated fraction of at most 1; the head size is {d_head} and the \
                 fraction is {fraction}{}",
                hf.quote_keys("d_model n_heads d_head fraction")
            ));
        } else {
            let (pairs, mut faults) = (rotary.rotated_width(d_head) / 2, Faults::default());
            let mut at = faults.of("rope_scaling");
            rotary.scaling.pair_faults(pairs, &mut at);
            for (_, rule) in faults.found {
                hf.fault(format!("rope scaling: {rule}"));
            }
        }
    }
}

/// Makes a fault of one of the folder's files, kept to one line whatever names the file contains.
fn fault(file: &Path, message: impl AsRef<str>) -> Fault {
    Fault {
        file: Some(file.to_path_buf()),
        line: None,
        message: printable(message.as_ref()),
    }
}
