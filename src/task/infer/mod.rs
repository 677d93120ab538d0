//! Any task from arrays to arrays, under the names that Hugging Face's models give them: `formwork infer`.
//!
//! A task says which arrays it reads ([`Input`]), runs some rows of them ([`Given`]) and gives scores, which labels may
//! be held against. Last hidden states, hidden states and attention weights are those that the pass has recorded
//! ([`arrays`]). The caller has checked the arrays against the [`Input`]s.

mod captioning;
mod causal_lm;
mod ctc;
mod given;
mod image_classification;
mod image_text;
mod masked_lm;
mod multi_label;
mod names;
mod pairs;
mod passed;
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
pub use given::{Given, Matrix, Start};
pub use image_text::{IMAGE_EMBEDS, TEXT_EMBEDS};
pub use names::arrays;
pub use passed::{Passed, Scored, passed};
use std::fmt::Debug;

/// Token ids `[rows, tokens]`; of an encoder-decoder the source's.
pub const INPUT_IDS: &str = "input_ids";
/// 1 at the tokens of `input_ids`, 0 behind them.
pub const ATTENTION_MASK: &str = "attention_mask";
/// 1 at the global tokens of `input_ids`, 0 at the others.
pub const GLOBAL_ATTENTION_MASK: &str = "global_attention_mask";
/// Segments of `input_ids`.
pub const TOKEN_TYPE_IDS: &str = "token_type_ids";
/// Token ids that the decoder reads `[rows, tokens]`.
pub const DECODER_INPUT_IDS: &str = "decoder_input_ids";
/// 1 at the tokens of `decoder_input_ids`, 0 behind them.
pub const DECODER_ATTENTION_MASK: &str = "decoder_attention_mask";
/// Log-mel features of recordings `[rows, n_mels, frames]`.
pub const INPUT_FEATURES: &str = "input_features";
/// Samples of recordings `[rows, samples]`.
pub const INPUT_VALUES: &str = "input_values";
/// Images `[rows, channels, height, width]`.
pub const PIXEL_VALUES: &str = "pixel_values";
/// Right answers: tokens or tags `[rows, tokens]`, classes or numbers `[rows]`, indicators of classes `[rows, classes]`.
pub const LABELS: &str = "labels";
/// Whether the second segment of a row follows the first (0) or not (1), `[rows]`.
pub const NEXT_SENTENCE_LABEL: &str = "next_sentence_label";
/// Whether the two segments of a row stand in their order (0) or are swapped (1), `[rows]`.
pub const SENTENCE_ORDER_LABEL: &str = "sentence_order_label";

const LOGITS: &str = "logits";
const PAIR_LOGITS: &str = "seq_relationship_logits";
const ORDER_LOGITS: &str = "sop_logits";
const POOLER_OUTPUT: &str = "pooler_output";
/// The vectors of a run of `text_embedding`.
pub const SENTENCE_EMBEDDING: &str = "sentence_embedding";

/// An array that a task reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// Its content.
    pub holds: Holds,
    /// Whether the task can do without it.
    pub needed: Needed,
}

/// Whether a task can do without an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// It cannot.
    Always,
    /// It can where this other one is given, from which it is made.
    Unless(&'static str),
    /// It can where this other one is not given.
    With(&'static str),
    /// It can.
    Never,
}

/// The content of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Token ids `[rows, tokens]`.
    Tokens {
        /// Ids are below this.
        below: usize,
        /// Tokens of a row at most, when the model has a limit.
        longest: Option<usize>,
        /// The other array whose tokens count as well, where both stand in one row.
        beside: Option<&'static str>,
    },
    /// 1 at the tokens of another array, then 0 where rows are filled up; of its shape.
    Mask {
        /// The other array.
        of: &'static str,
    },
    /// 1 at some tokens of another array, 0 at the others; of its shape.
    Marks {
        /// The other array.
        of: &'static str,
    },
    /// Numbers of segments, of the shape of another array.
    Segments {
        /// The other array.
        of: &'static str,
        /// Numbers are below this.
        below: usize,
    },
    /// Token ids or tags to be predicted or −100, of the shape of another array where that is given.
    Targets {
        /// The other array.
        of: &'static str,
        /// Ids are below this.
        below: usize,
    },
    /// Numbers of classes or −100, `[rows]`.
    Classes {
        /// Numbers are below this.
        below: usize,
    },
    /// A position of each row of another array, or −100, `[rows]`.
    Position {
        /// The other array.
        of: &'static str,
    },
    /// Finite numbers, `[rows]`.
    Numbers,
    /// 1 for each class that a row has and 0 for each other, `[rows, classes]`.
    Indicators {
        /// How many classes.
        classes: usize,
    },
    /// Pixels as the model sees them, `[rows, channels, height, width]`.
    Pixels {
        /// Planes of an image.
        channels: usize,
        /// Height and width; any when absent.
        size: Option<[usize; 2]>,
    },
    /// Log-mel features of recordings as the model sees them, `[rows, n_mels, frames]`.
    Features(SpeechShape),
    /// Samples of recordings as the model sees them, `[rows, samples]`.
    Samples,
}

impl Holds {
    /// Whether it is the right answers to scores.
    pub fn is_answers(self) -> bool {
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
    fn new(name: &'static str, holds: Holds, needed: Needed) -> Self {
        Self {
            name,
            holds,
            needed,
        }
    }

    /// Token ids that a task cannot do without, and their mask.
    fn tokens(below: usize, longest: Option<usize>) -> [Self; 2] {
        let mask = Holds::Mask { of: INPUT_IDS };
        let ids = Holds::Tokens {
            below,
            longest,
            beside: None,
        };
        [
            Self::new(INPUT_IDS, ids, Needed::Always),
            Self::new(ATTENTION_MASK, mask, Needed::Never),
        ]
    }

    /// The marks of global tokens.
    fn globals() -> Self {
        let marks = Holds::Marks { of: INPUT_IDS };
        Self::new(GLOBAL_ATTENTION_MASK, marks, Needed::Never)
    }

    /// Labels of this content.
    fn labels(holds: Holds) -> Self {
        Self::new(LABELS, holds, Needed::Never)
    }
}

/// Scores of classes or of a vocabulary that a forward pass gives.
#[derive(Clone, Debug)]
pub struct Scores {
    /// The name that they are written under.
    pub name: &'static str,
    /// `[n, classes]`; with one class the scores of yes, where no has 0.
    pub values: Tensor<2>,
    /// The shape that they are written in, batch first.
    pub shape: Vec<usize>,
    /// The input that holds the right answers.
    pub labels: &'static str,
}

/// The results of a forward pass, without those that it records.
#[derive(Clone, Debug, Default)]
pub struct Inferred {
    /// Scores.
    pub scores: Vec<Scores>,
    /// The vector of each whole text or image, where the model has one.
    pub pooled: Option<TensorData>,
}

/// A task as a function of arrays.
pub trait Infers: Debug {
    /// The arrays that it reads, for a run whose data is of this shape.
    fn inputs(&self, shape: &Shape) -> Vec<Input>;

    /// Runs some rows.
    fn infer(&self, given: &Given, pass: &Pass) -> Inferred;

    /// Runs the network on some rows for what the pass records, without scores where these cost much. Where a run compares
    /// two texts that it reads apart, the rows are single ones.
    fn read(&self, given: &Given, pass: &Pass) {
        self.infer(given, pass);
    }

    /// The right answers to scores, one for each of them or −100, from the array of this name; `None` when it is not given.
    fn targets(&self, given: &Given, labels: &str) -> Option<Vec<i32>> {
        given.values(labels).map(<[i32]>::to_vec)
    }

    /// The answers to scores that count, in the array of this name; `None` when it is not given.
    fn answers(&self, given: &Given, labels: &str) -> Option<usize> {
        let targets = self.targets(given, labels)?;
        Some(targets.iter().filter(|target| **target >= 0).count())
    }

    /// The sum of the losses of scores against the answers to them, `[1]`; `None` when these are not given.
    fn loss(&self, scores: &Scores, given: &Given) -> Option<Tensor<1>> {
        Some(scores.loss(self.targets(given, scores.labels)?))
    }

    /// Whether the last of `hidden_states.N` is the one behind the last norm. Hugging Face's text models have it so, and
    /// its vision transformers do not; nor has Reformer, whose streams stand side by side there.
    fn ends_normed(&self) -> bool {
        true
    }
}

impl Scores {
    /// The sum of the cross-entropies against `targets`, `[1]`.
    pub fn loss(&self, targets: Vec<i32>) -> Tensor<1> {
        let [n, classes] = self.values.dims();
        if classes == 1 {
            return super::replaced_token::binary(self.values.clone().reshape([n]), &targets);
        }
        let targets = super::host::vector(&targets, &self.values.device());
        kernel::cross_entropy_sum(self.values.clone(), targets, 0.0)
    }

    /// Of the vocabulary at every position, `[rows, tokens, vocab]`.
    fn of_tokens(logits: Tensor<3>) -> Self {
        let [rows, tokens, vocab] = logits.dims();
        Self {
            name: LOGITS,
            values: logits.reshape([rows * tokens, vocab]),
            shape: vec![rows, tokens, vocab],
            labels: LABELS,
        }
    }

    /// Of the classes of every row, `[rows, classes]`.
    fn of_rows(name: &'static str, values: Tensor<2>, labels: &'static str) -> Self {
        Self {
            name,
            shape: values.dims().to_vec(),
            values,
            labels,
        }
    }
}

impl Inferred {
    fn of(scores: Scores) -> Self {
        Self {
            scores: vec![scores],
            pooled: None,
        }
    }
}

/// A tensor on the host as 32-bit floats, without what gradients need.
fn floats<const D: usize>(x: Tensor<D>) -> TensorData {
    kernel::read(kernel::untracked(x)).convert::<f32>()
}
