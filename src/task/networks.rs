//! The networks of a trained task by their use.

use super::{
    Captioning, Ctc, ImageClassification, ImageText, InferenceTask, MaskedLm, MultiLabel,
    PermutedLm, PrefixLm, QuestionAnswering, Regression, ReplacedToken, Reward, TextClassification,
    TextEmbedding, TokenClassification, Transcription,
};
use crate::model::recurrent::RecurrentEncoderDecoder;
use crate::model::{EncoderDecoder, LanguageModel};

/// The uses of a trained task; a command asks for the entry that it needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Networks<'a> {
    /// Continues texts.
    pub language_model: Option<&'a dyn LanguageModel>,
    /// Predicts masked tokens.
    pub masked_lm: Option<&'a MaskedLm>,
    /// Predicts tokens in any order.
    pub permuted_lm: Option<&'a PermutedLm>,
    /// Writes a text for a text.
    pub text_to_text: Option<TextToText<'a>>,
    /// Detects tokens that were replaced.
    pub replaced_token: Option<&'a ReplacedToken>,
    /// Predicts the classes of texts.
    pub text_classifier: Option<&'a TextClassification>,
    /// Predicts any number of classes for each text.
    pub multi_label: Option<&'a MultiLabel>,
    /// Predicts a number for each text.
    pub text_regression: Option<&'a Regression>,
    /// Assigns rewards to texts.
    pub reward: Option<&'a Reward>,
    /// Computes text embeddings.
    pub embedder: Option<&'a TextEmbedding>,
    /// Answers questions.
    pub answerer: Option<&'a QuestionAnswering>,
    /// Predicts the tags of words.
    pub token_classifier: Option<&'a TokenClassification>,
    /// Predicts the classes of images.
    pub image_classifier: Option<&'a ImageClassification>,
    /// Scores images against texts.
    pub image_text: Option<&'a ImageText>,
    /// Writes captions for images.
    pub captioning: Option<&'a Captioning>,
    /// Transcribes recordings.
    pub transcription: Option<&'a Transcription>,
    /// Finds characters along recordings (CTC).
    pub ctc: Option<&'a Ctc>,
    /// Maps input arrays to output arrays, for any task.
    pub infers: Option<&'a dyn InferenceTask>,
    /// Reads single texts, if `infers` reads something else.
    pub reads: Option<&'a dyn InferenceTask>,
}

/// A network that writes a text for a text.
#[derive(Clone, Copy, Debug)]
pub enum TextToText<'a> {
    /// An encoder reads the source, a decoder writes the target.
    EncoderDecoder(&'a EncoderDecoder),
    /// A decoder continues after the source.
    Prefix(&'a PrefixLm),
    /// Recurrent cells read the source and write the target.
    Recurrent(&'a RecurrentEncoderDecoder),
}
