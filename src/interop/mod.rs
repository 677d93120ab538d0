//! HF model folders in and out: the one place that knows HF's names.
//!
//! A family (one file in `families/`) reads a `config.json` into our config and gives the table between
//! HF's tensor names and our parameter paths. [`read_hf`] opens a folder; [`HfModel::decoder`] builds the
//! network with its weights; [`to_hf`] goes back.

pub mod families;
pub mod generation;
mod hf_config;
pub mod image_processor;
mod load;
pub mod rename;
pub mod weights;

use crate::error::{Error, Fault, Result, suggestion};
use crate::model::{Decoder, DecoderConfig};
use crate::nn::position::PositionConfig;
use burn::tensor::Device;
use families::{FAMILIES, Family, HfShape};
pub use hf_config::HfConfig;
pub use load::to_hf;
use rename::Table;
use serde_json::Value;
use std::path::{Path, PathBuf};
use weights::Weights;

/// An HF folder that was opened: what model it holds, and where its weights lie.
#[derive(Debug)]
pub struct HfModel {
    /// The folder.
    pub dir: PathBuf,
    /// The architecture that its config.json names.
    pub family: Family,
    /// The model as ours.
    pub config: DecoderConfig,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Longest input of its pre-training in tokens.
    pub context: usize,
    /// Its weights, not read yet.
    pub weights: Weights,
}

impl HfModel {
    /// The table between HF's names and ours.
    pub fn table(&self) -> Table {
        (self.family.table)(&self.config)
    }

    /// The network with the folder's weights as 32-bit floats.
    ///
    /// # Errors
    /// Every tensor that is missing, unused or of another shape, all at once; a file that cannot be read.
    pub fn decoder(&self, device: &Device) -> Result<Decoder> {
        load::decoder(self, device)
    }
}

/// Opens an HF folder: `config.json` with `model.safetensors` or its shards.
///
/// # Errors
/// A file that is missing or damaged, an architecture or an option that we do not have.
pub fn read_hf(dir: &Path) -> Result<HfModel> {
    let path = dir.join("config.json");
    let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|e| Error::Invalid(vec![fault(&path, format!("is not JSON: {e}"))]))?;
    let (family, shape) = read_config(&path, value)?;
    Ok(HfModel {
        dir: dir.to_path_buf(),
        family,
        config: shape.config,
        vocab_size: shape.vocab_size,
        context: shape.context,
        weights: Weights::open(dir)?,
    })
}

/// The family and the shape that a parsed config.json describes; `file` is named in errors.
///
/// # Errors
/// An unknown `model_type`; every option that we do not have.
pub fn read_config(file: &Path, value: Value) -> Result<(Family, HfShape)> {
    let known = FAMILIES.iter().map(|f| f.model_type);
    let Some(model_type) = value["model_type"].as_str() else {
        let message = "has no `model_type`, the name of the architecture".into();
        return Err(Error::Invalid(vec![fault(file, message)]));
    };
    let Some(family) = FAMILIES.iter().find(|f| f.model_type == model_type) else {
        let hint = suggestion(model_type, known);
        let message = format!("`model_type` \"{model_type}\" cannot be imported{hint}");
        return Err(Error::Invalid(vec![fault(file, message)]));
    };
    let config = HfConfig::new(file, value);
    let shape = (family.read)(&config);
    check_heads(&config, &shape.config);
    match config.into_faults() {
        faults if faults.is_empty() => Ok((*family, shape)),
        faults => Err(Error::Invalid(faults)),
    }
}

/// What a network cannot be built with: heads that do not divide what they split, an odd rotation.
fn check_heads(hf: &HfConfig, config: &DecoderConfig) {
    let attention = config.stack.attention.heads();
    let (heads, kv_heads) = (attention.n_heads, attention.n_kv_heads());
    if !heads.is_multiple_of(kv_heads) {
        hf.fault(format!(
            "{heads} query heads are not a multiple of {kv_heads} key-value heads"
        ));
    }
    let width = config.stack.d_model;
    if attention.d_head.is_none() && !width.is_multiple_of(heads) {
        hf.fault(format!(
            "a width of {width} is not a multiple of {heads} heads"
        ));
        return;
    }
    if let PositionConfig::Rotary(rotary) = &config.stack.position {
        let d_head = attention.d_head(width);
        let fraction = rotary.fraction;
        if d_head % 2 == 1 || !(0.0..=1.0).contains(&fraction) {
            hf.fault(format!(
                "rotary positions need heads of an even width and a part of at most 1; \
                 here heads are {d_head} wide and the part is {fraction}"
            ));
        }
    }
}

fn fault(file: &Path, message: String) -> Fault {
    Fault {
        file: Some(file.to_path_buf()),
        line: None,
        message,
    }
}
