//! Runs any task on arrays, named as in Hugging Face's models: `formwork infer`.
//!
//! A task declares the arrays that it reads ([`Input`]), runs some rows of them ([`InputArrays`]) and returns scores, which
//! can be compared with labels. Last hidden states, hidden states and attention weights are those that the pass has
//! recorded ([`arrays`]). The caller has checked the arrays against the [`Input`]s.

mod captioning;
mod causal_lm;
mod contrastive_speech;
mod ctc;
mod image_classification;
mod image_text;
mod input_arrays;
mod masked_lm;
mod multi_label;
mod names;
mod pairs;
mod pass_outputs;
mod permuted_lm;
mod question_answering;
mod regression;
mod replaced_token;
mod reward;
mod text_classification;
mod text_embedding;
mod token_classification;
mod transcription;
mod unlabelled_images;

use crate::data::{Shape, SpeechShape};
use crate::kernel;
use crate::nn::pass::Pass;
use burn::tensor::{Tensor, TensorData};
pub use image_text::{IMAGE_EMBEDS, TEXT_EMBEDS};
pub use input_arrays::{DecoderStart, InputArrays, IntMatrix};
pub use names::arrays;
pub use pass_outputs::{LabelCounts, PassOutputs, run_pass};
use std::fmt::Debug;

/// Token ids `[rows, tokens]`; for an encoder-decoder those of the source.
pub const INPUT_IDS: &str = "input_ids";
/// 1 at the tokens of `input_ids`, 0 at padding.
pub const ATTENTION_MASK: &str = "attention_mask";
/// 1 at the global tokens of `input_ids`, 0 at all other tokens.
pub const GLOBAL_ATTENTION_MASK: &str = "global_attention_mask";
/// Segment numbers of `input_ids`.
pub const TOKEN_TYPE_IDS: &str = "token_type_ids";
/// Token ids that the decoder reads `[rows, tokens]`.
pub const DECODER_INPUT_IDS: &str = "decoder_input_ids";
/// 1 at the tokens of `decoder_input_ids`, 0 at padding.
pub const DECODER_ATTENTION_MASK: &str = "decoder_attention_mask";
/// Log-mel features of recordings `[rows, n_mels, frames]`.
pub const INPUT_FEATURES: &str = "input_features";
/// Samples of recordings `[rows, samples]`.
pub const INPUT_VALUES: &str = "input_values";
/// Images `[rows, channels, height, width]`.
pub const PIXEL_VALUES: &str = "pixel_values";
/// Labels: tokens or tags `[rows, tokens]`, classes or numbers `[rows]`, class indicators `[rows, classes]`.
pub const LABELS: &str = "labels";
/// Whether the second segment of a row follows the first (0) or not (1), `[rows]`.
pub const NEXT_SENTENCE_LABEL: &str = "next_sentence_label";
/// Whether the two segments of a row are in order (0) or swapped (1), `[rows]`.
pub const SENTENCE_ORDER_LABEL: &str = "sentence_order_label";

const LOGITS: &str = "logits";
const PAIR_LOGITS: &str = "seq_relationship_logits";
const ORDER_LOGITS: &str = "sop_logits";
const POOLER_OUTPUT: &str = "pooler_output";
/// The embeddings of a `text_embedding` run.
pub const SENTENCE_EMBEDDING: &str = "sentence_embedding";

/// An array that a task reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Name of the array.
    pub name: &'static str,
    /// Content of the array.
    pub content: ArrayContent,
    /// Whether the array must be given.
    pub requirement: Requirement,
}

/// Whether an array must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// It must always be given.
    Always,
    /// It must be given unless this other array is given, from which it can be made.
    UnlessGiven(&'static str),
    /// It must be given if this other array is given.
    IfGiven(&'static str),
    /// It is optional.
    Never,
}

/// The content of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayContent {
    /// Token ids `[rows, tokens]`.
    Tokens {
        /// Upper bound of the ids, exclusive.
        below: usize,
        /// Maximum number of tokens in a row, if the model has a limit.
        longest: Option<usize>,
        /// The other array whose tokens count towards the maximum, if both are read as one row.
        beside: Option<&'static str>,
    },
    /// 1 at the tokens of another array, then 0 at padding; same shape as that array.
    Mask {
        /// The other array.
        of: &'static str,
    },
    /// 1 at some tokens of another array, 0 at the others; same shape as that array.
    Marks {
        /// The other array.
        of: &'static str,
    },
    /// Segment numbers, of the same shape as another array.
    Segments {
        /// The other array.
        of: &'static str,
        /// Upper bound of the segment numbers, exclusive.
        below: usize,
    },
    /// Token ids or tags to be predicted, or −100; of the same shape as another array, if that is given.
    Targets {
        /// The other array.
        of: &'static str,
        /// Upper bound of the ids, exclusive.
        below: usize,
    },
    /// Class numbers or −100, `[rows]`.
    Classes {
        /// Upper bound of the class numbers, exclusive.
        below: usize,
    },
    /// A position of each row of another array, or −100, `[rows]`.
    Position {
        /// The other array.
        of: &'static str,
    },
    /// Finite numbers, `[rows]`.
    Numbers,
    /// 1 for each class that a row has, otherwise 0, `[rows, classes]`.
    Indicators {
        /// Number of classes.
        classes: usize,
    },
    /// Pixels as the model reads them, `[rows, channels, height, width]`.
    Pixels {
        /// Number of channels of an image.
        channels: usize,
        /// Height and width; any when absent.
        size: Option<[usize; 2]>,
    },
    /// Log-mel features of recordings as the model reads them, `[rows, n_mels, frames]`.
    Features(SpeechShape),
    /// Samples of recordings as the model reads them, `[rows, samples]`.
    Samples,
}

impl ArrayContent {
    /// Returns whether the array holds labels.
    pub fn is_labels(self) -> bool {
        match self {
            Self::Targets { .. }
            | Self::Classes { .. }
            | Self::Position { .. }
            | Self::Numbers
            | Self::Indicators { .. } => true,
            Self::Tokens { .. }
            | Self::Mask { .. }
            | Self::Marks { .. }
            | Self::Segments { .. }
            | Self::Pixels { .. }
            | Self::Features(_)
            | Self::Samples => false,
        }
    }
}

impl Input {
    fn new(name: &'static str, holds: ArrayContent, needed: Requirement) -> Self {
        Self {
            name,
            content: holds,
            requirement: needed,
        }
    }

    /// Returns token ids, which must be given, and their optional mask.
    fn tokens(below: usize, longest: Option<usize>) -> [Self; 2] {
        let mask = ArrayContent::Mask { of: INPUT_IDS };
        let ids = ArrayContent::Tokens {
            below,
            longest,
            beside: None,
        };
        [
            Self::new(INPUT_IDS, ids, Requirement::Always),
            Self::new(ATTENTION_MASK, mask, Requirement::Never),
        ]
    }

    /// Returns the optional mask of global tokens.
    fn global_mask() -> Self {
        let marks = ArrayContent::Marks { of: INPUT_IDS };
        Self::new(GLOBAL_ATTENTION_MASK, marks, Requirement::Never)
    }

    /// Returns optional labels with this content.
    fn labels(holds: ArrayContent) -> Self {
        Self::new(LABELS, holds, Requirement::Never)
    }
}

/// Logits over classes or a vocabulary from a forward pass.
#[derive(Clone, Debug)]
pub struct Scores {
    /// Name of the array in the output.
    pub name: &'static str,
    /// Logits `[n, classes]`; with one class, the logit of that class against 0.
    pub values: Tensor<2>,
    /// Shape of the array in the output, batch first.
    pub shape: Vec<usize>,
    /// Name of the input that holds the labels.
    pub labels: &'static str,
}

/// Results of a forward pass, without those that the pass records.
#[derive(Clone, Debug, Default)]
pub struct InferenceOutputs {
    /// Scores of the task's heads.
    pub scores: Vec<Scores>,
    /// The pooled vector of each text or image, if the model has a pooler.
    pub pooled: Option<TensorData>,
}

/// A task as a function of arrays.
pub trait InferenceTask: Debug {
    /// Returns the arrays that the task reads, for a run whose data has this shape.
    fn inputs(&self, shape: &Shape) -> Vec<Input>;

    /// Runs the task on some rows.
    fn infer(&self, given: &InputArrays, pass: &Pass) -> InferenceOutputs;

    /// Runs the network on some rows only for what the pass records, without scores if these are expensive. If a run
    /// reads the two texts of a pair separately, the rows are single texts.
    fn run_for_records(&self, given: &InputArrays, pass: &Pass) {
        self.infer(given, pass);
    }

    /// Returns the labels of scores from the array of this name, one for each score or −100; `None` if the array is not
    /// given.
    fn targets(&self, given: &InputArrays, labels: &str) -> Option<Vec<i32>> {
        given.values(labels).map(<[i32]>::to_vec)
    }

    /// Returns the number of labels in the array of this name that are scored; `None` if the array is not given.
    fn count_labels(&self, given: &InputArrays, labels: &str) -> Option<usize> {
        let targets = self.targets(given, labels)?;
        Some(targets.iter().filter(|target| **target >= 0).count())
    }

    /// Returns the sum of the losses of scores against their labels, `[1]`; `None` if the labels are not given.
    fn loss(&self, scores: &Scores, given: &InputArrays) -> Option<Tensor<1>> {
        Some(scores.loss(self.targets(given, scores.labels)?))
    }

    /// Returns whether the last of `hidden_states.N` is the one after the final norm. This is so in Hugging Face's text
    /// models, but not in its vision transformers, and not in Reformer, which returns its two streams side by side.
    fn last_hidden_is_normed(&self) -> bool {
        true
    }
}

impl Scores {
    /// Returns the sum of the cross-entropies against `targets`, `[1]`.
    pub fn loss(&self, targets: Vec<i32>) -> Tensor<1> {
        let [n, classes] = self.values.dims();
        if classes == 1 {
            return super::replaced_token::binary(self.values.clone().reshape([n]), &targets);
        }
        let targets = super::host::vector(&targets, &self.values.device());
        kernel::cross_entropy_sum(self.values.clone(), targets, 0.0)
    }

    /// Returns the scores over the vocabulary at every position, `[rows, tokens, vocab]`.
    fn for_tokens(logits: Tensor<3>) -> Self {
        let [rows, tokens, vocab] = logits.dims();
        Self {
            name: LOGITS,
            values: logits.reshape([rows * tokens, vocab]),
            shape: vec![rows, tokens, vocab],
            labels: LABELS,
        }
    }

    /// Returns the scores over the classes for every row, `[rows, classes]`.
    fn for_rows(name: &'static str, values: Tensor<2>, labels: &'static str) -> Self {
        Self {
            name,
            shape: values.dims().to_vec(),
            values,
            labels,
        }
    }
}

impl InferenceOutputs {
    fn of(scores: Scores) -> Self {
        Self {
            scores: vec![scores],
            pooled: None,
        }
    }
}

/// Reads a tensor to the host as 32-bit floats, untracked.
fn floats<const D: usize>(x: Tensor<D>) -> TensorData {
    kernel::read(kernel::untracked(x)).convert::<f32>()
}
