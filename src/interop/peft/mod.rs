//! Adapters in the format of `peft` (Hugging Face; LoRA, Hu et al. 2022): `adapter_config.json` with ranks and α, and
//! `adapter_model.safetensors` with A and B of each module under HF's names.
//!
//! A module that holds queries, keys and values in one matrix has one adapter there and up to three here. Written, the
//! ranks add up: A's are stacked, and B's stand in the rows of their own part; read, each part has A whole and its rows
//! of B. Both are the same product. `Conv1D` and `Linear` have factors of the same shapes.

mod config;
mod experts;
mod factors;
mod read;
mod write;

use super::weights::Array;
use crate::train::lora::LoraConfig;
pub use read::{Base, read};
use std::collections::BTreeMap;
pub use write::write;

/// The file of ranks and α.
pub const CONFIG: &str = "adapter_config.json";
/// The files of weights, in the order in which they are looked for.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// The beginning of every name.
const PREFIX: &str = "base_model.model.";
/// The endings of the factors of a module, A and B.
const FACTORS: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// An adapter as ours.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its `[lora]`.
    pub lora: LoraConfig,
    /// Its factors and the parameters that were trained in full, by our dotted paths.
    pub arrays: BTreeMap<String, Array>,
    /// What its configuration says that has no place here.
    pub without_place: Vec<String>,
}
