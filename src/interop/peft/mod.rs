//! Adapters in the format of `peft` (Hugging Face; LoRA, Hu et al. 2022): `adapter_config.json` with ranks and alpha,
//! and `adapter_model.safetensors` with A and B of each module under HF's names.
//!
//! A module that holds queries, keys and values in one matrix has one adapter there and up to three here. On writing,
//! the ranks add up: the A's are stacked, and each B occupies the rows of its own part. On reading, each part gets the
//! whole A and its rows of B. Both give the same product. `Conv1D` and `Linear` have factors of the same shapes.

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

/// The file of ranks and alpha.
pub const CONFIG: &str = "adapter_config.json";
/// The weight files, in the order in which they are looked for.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// The prefix of every tensor name.
const PREFIX: &str = "base_model.model.";
/// The endings of the names of a module's factors, A and B.
const FACTORS: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// An imported adapter, in our format.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The `[lora]` table of the experiment.
    pub lora: LoraConfig,
    /// The factors, and the parameters that were trained in full, by our dotted paths.
    pub arrays: BTreeMap<String, Array>,
    /// Settings in `peft`'s configuration that have no effect here.
    pub unsupported: Vec<String>,
}
