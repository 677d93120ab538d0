//! The facts of the data that a model is built for: `data.json` of a run.

use super::{SpeechShape, images};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The facts of the data that a model is built for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// Tokens of the longest input; of pairs, of the longer side.
    pub context: usize,
    /// The longest texts that the model was made for, where it began from a run that reads longer ones; an exported folder says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Ids of texts, and of targets, are below this.
    pub vocab_size: usize,
    /// Ids of sources are below this, where sources have a vocabulary of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_vocab_size: Option<usize>,
    /// Whether texts that become other texts stand in what the tokenizer's file puts around a text; else a source has the end mark
    /// behind it and a target the marks around it, as in all runs of earlier versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub framed: bool,
    /// Whether files are told apart by what they are: of a folder with files of rows those alone are its text, a `.json` file that
    /// begins with an object is JSON lines, and a folder with the files of several splits is refused; else all files of a folder
    /// are read and `.json` is plain text, as in all runs of earlier versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub told_apart: bool,
    /// Whether a chat template wrote the examples of a model of rewards.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub templated: bool,
    /// Channels, height and width of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// Mel bands and frames of recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speech: Option<SpeechShape>,
    /// The token that stands for no character, where texts are found along recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<usize>,
    /// Names of the classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The weights of the classes that follow from their shares of the training examples, where a task asks for such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f32>,
    /// How tables write the classes, in their order, where it is not their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Whether questions may have no answer, where there are questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswerable: Option<bool>,
    /// Of images: the mean of each channel that was subtracted, of values from 0 to 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mean: Vec<f32>,
    /// The standard deviation of each channel that was divided by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub std: Vec<f32>,
    /// How images of another size are fitted, where they are not stretched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<images::Fit>,
    /// The sum of the database that neighbours of texts are found in, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

impl Shape {
    /// Of texts.
    pub fn of_text(context: usize, vocab_size: usize) -> Self {
        Self {
            context,
            vocab_size,
            ..Self::default()
        }
    }

    /// Whether images of this and of another shape differ in their normalisation, and in how they became those of one size: of
    /// images that are stretched bilinearly in both, the rounding alone may differ.
    pub fn other_images(&self, other: &Self) -> [bool; 2] {
        let (Some([channels, ..]), Some(_)) = (other.image, self.image) else {
            return [false; 2];
        };
        let [from, to] = [other, self].map(|shape| [&shape.mean[..], &shape.std[..]]);
        let turned = images::normalise::Renormalise::between(from, to, channels);
        let [own, others] = [self, other].map(|shape| shape.fit.unwrap_or_default());
        [turned.is_some(), own != others]
    }
}

/// The longest texts that a model was made for, whatever a run cuts its examples to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Tokens that it has positions for: `max_position_embeddings` of a folder.
    pub positions: usize,
    /// Tokens that texts are cut to: `model_max_length` of a folder. sentence-transformers cuts them before positions end.
    pub read: usize,
}

impl Limit {
    /// The larger one of each number.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            positions: self.positions.max(other.positions),
            read: self.read.max(other.read),
        }
    }
}
