//! A model and a batch make a loss: burn-train's steps live here and only here.

pub mod causal_lm;
mod host;
pub mod image_classification;
mod init;
pub mod masked_lm;
pub mod objective;
pub mod output;
pub mod prefix_lm;
pub mod text_classification;
pub mod translation;

use crate::data::loader::Batch;
use crate::nn::Kind;
use burn::train::{InferenceStep, LearnerModel, TrainStep};
pub use causal_lm::{CausalLm, CausalLmConfig};
pub use image_classification::{ImageClassification, ImageClassificationConfig};
pub use masked_lm::{MaskedLm, MaskedLmConfig};
pub use objective::Objective;
pub use output::{StepOutput, Sum};
pub use prefix_lm::PrefixLm;
use serde::{Deserialize, Serialize};
pub use text_classification::{TextClassification, TextClassificationConfig};
pub use translation::{Translation, TranslationConfig};

/// The kinds of `[task]`.
pub const KINDS: &[Kind] = &[
    causal_lm::KIND,
    masked_lm::KIND,
    translation::KIND,
    text_classification::KIND,
    image_classification::KIND,
];

/// What an experiment trains for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskConfig {
    /// Next-token prediction.
    CausalLm(CausalLmConfig),
    /// Masked tokens.
    MaskedLm(MaskedLmConfig),
    /// Text to text.
    Translation(TranslationConfig),
    /// Classes of texts.
    TextClassification(TextClassificationConfig),
    /// Classes of images.
    ImageClassification(ImageClassificationConfig),
}

/// What the step loop trains: a burn-train model whose steps take batches and give sums.
pub trait Task:
    LearnerModel
    + TrainStep<Input = Batch, Output = StepOutput>
    + InferenceStep<Input = Batch, Output = StepOutput>
{
}
