//! The facts of the data that a model is built for: `data.json` of a run.

use super::{SpeechShape, images};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The facts of the data that a model is built for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// Maximum length of an input in tokens; of pairs, of the longer side.
    pub context: usize,
    /// The longest texts that the model was made for, if it began from a run that reads longer ones; an
    /// exported folder states them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Upper bound of the ids of texts and of targets, exclusive.
    pub vocab_size: usize,
    /// Upper bound of the ids of sources, exclusive, if sources have their own vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_vocab_size: Option<usize>,
    /// Whether the texts of pairs get the special tokens that the tokenizer's file puts around a text.
    /// Otherwise a source gets an end token and a target a begin and an end token, as in all runs of earlier
    /// versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub framed: bool,
    /// Whether files are distinguished by what they are: in a folder with files of rows only those are its
    /// text, a `.json` file that begins with an object is JSON lines, and a folder with the files of several
    /// splits is refused. Otherwise all files of a folder are read and `.json` is plain text, as in all runs
    /// of earlier versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub files_distinguished: bool,
    /// Whether a chat template wrote the examples of a reward model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub templated: bool,
    /// Channels, height and width of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// Mel bands and frames of recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speech: Option<SpeechShape>,
    /// Id of the blank token, if texts are aligned with recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<usize>,
    /// Names of the classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Weights of the classes, computed from their shares of the training examples, if a task asks for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f32>,
    /// How tables write the classes, in order of the classes, if it differs from their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Whether questions may have no answer, if there are questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswerable: Option<bool>,
    /// Mean of each image channel that was subtracted, of values from 0 to 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mean: Vec<f32>,
    /// Standard deviation of each image channel that was divided by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub std: Vec<f32>,
    /// How images of another size are fitted, if they are not stretched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<images::Fit>,
    /// Checksum of the database in which neighbours of texts are found, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

impl Shape {
    /// The shape of data of texts.
    pub fn of_text(context: usize, vocab_size: usize) -> Self {
        Self {
            context,
            vocab_size,
            ..Self::default()
        }
    }

    /// Whether images of this shape and of another one differ in their normalisation, and in how they are
    /// brought to one size. Images that are stretched bilinearly in both can differ only by rounding.
    pub fn images_differ(&self, other: &Self) -> [bool; 2] {
        let (Some([channels, ..]), Some(_)) = (other.image, self.image) else {
            return [false; 2];
        };
        let [from, to] = [other, self].map(|shape| [&shape.mean[..], &shape.std[..]]);
        let turned = images::normalise::Renormalise::between(from, to, channels);
        let [own, others] = [self, other].map(|shape| shape.fit.unwrap_or_default());
        [turned.is_some(), own != others]
    }
}

/// The longest texts that a model was made for, independent of the length that a run cuts its examples to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Number of token positions that the model has: `max_position_embeddings` of a folder.
    pub positions: usize,
    /// Number of tokens that texts are cut to: `model_max_length` of a folder. sentence-transformers may cut
    /// below the number of positions.
    pub read: usize,
}

impl Limit {
    /// Returns the larger of each number.
    #[must_use]
    pub fn elementwise_max(self, other: Self) -> Self {
        Self {
            positions: self.positions.max(other.positions),
            read: self.read.max(other.read),
        }
    }
}
