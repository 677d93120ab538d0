//! Attention weights of one example, head by head, and the layout of its positions.

use crate::data::batch::Item;
use crate::model::ModelConfig;
use crate::nn::pass::Pass;
use crate::nn::record::{AttentionKey, RecordSelection, RecordedValues};
use crate::task::InferenceTask;
use crate::task::infer::InputArrays;
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// The attention weights of one layer for one example.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// Number of heads.
    pub heads: usize,
    /// Number of queries per head.
    pub queries: usize,
    /// Number of keys per query.
    pub keys: usize,
    /// Weights `[heads, queries, keys]`.
    pub values: Vec<f32>,
}

impl Weights {
    /// Takes the first row of `[rows, heads, queries, keys]`.
    pub fn of(data: &TensorData) -> Self {
        let [_, heads, queries, keys] = data.shape()[..] else {
            unreachable!("attention weights have four dimensions")
        };
        Self {
            heads,
            queries,
            keys,
            values: data.iter().take(heads * queries * keys).collect(),
        }
    }

    /// Returns the weights of each query of a head.
    pub fn rows(&self, head: usize) -> impl Iterator<Item = &[f32]> {
        let size = self.queries * self.keys;
        self.values[head * size..][..size].chunks(self.keys.max(1))
    }

    /// Returns the mean over the heads, `[queries, keys]`.
    pub fn mean(&self) -> Vec<f64> {
        let size = self.queries * self.keys;
        let mut mean = vec![0.0; size];
        for head in self.values.chunks(size.max(1)) {
            let both = mean.iter_mut().zip(head);
            both.for_each(|(sum, weight)| *sum += f64::from(*weight) / self.heads as f64);
        }
        mean
    }

    /// Returns whether there are as many keys as queries, so that each position is both and distances are defined.
    pub fn is_square(&self) -> bool {
        self.queries == self.keys
    }

    /// Returns whether no query attends to a later key.
    pub fn is_causal(&self) -> bool {
        let later = |row: (usize, &[f32])| row.1.iter().skip(row.0 + 1).all(|w| *w == 0.0);
        self.is_square() && (0..self.heads).all(|head| self.rows(head).enumerate().all(later))
    }
}

/// Records a pass without dropout over one example. Documents packed into one text are not masked from each other.
pub fn record_pass(
    model: &dyn InferenceTask,
    example: &Item,
    keep: RecordSelection,
) -> RecordedValues {
    let pass = Pass::evaluation().with_record(keep);
    model.run_for_records(&InputArrays::of(std::slice::from_ref(example)), &pass);
    pass.take_recorded()
}

/// Returns the weights of each attention layer of a network for one example.
pub fn attention_weights(
    model: &dyn InferenceTask,
    example: &Item,
) -> BTreeMap<AttentionKey, Weights> {
    let keep = RecordSelection {
        attentions: true,
        ..RecordSelection::default()
    };
    let recorded = record_pass(model, example, keep).attentions.into_iter();
    recorded
        .map(|(at, data)| (at, Weights::of(&data)))
        .collect()
}

/// Layout of an example's positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// In a line, one after the other.
    Sequence,
    /// In a grid, like the patches of an image, row by row.
    Grid {
        /// Number of rows of patches.
        rows: usize,
        /// Number of columns of patches.
        cols: usize,
        /// Number of tokens before the patches.
        first: usize,
        /// Whether the first of these is a class token.
        class_token: bool,
        /// Height and width of a patch in pixels.
        pixels: [f64; 2],
    },
}

impl Layout {
    /// Returns the layout of a network's inputs; `image` is the height and width of the images that it reads, if it
    /// reads images.
    pub fn of(config: &ModelConfig, image: Option<[usize; 2]>) -> Self {
        let patches = image.and_then(|[height, width]| {
            let (grid, first) = config.patches(height, width)?;
            let side = |pixels: usize, patches: usize| pixels as f64 / patches.max(1) as f64;
            Some(Self::Grid {
                rows: grid.rows,
                cols: grid.cols,
                first,
                class_token: grid.class_token,
                pixels: [side(height, grid.rows), side(width, grid.cols)],
            })
        });
        patches.unwrap_or(Self::Sequence)
    }

    /// Returns the number of tokens before the patches of an image.
    pub fn leading_tokens(self) -> usize {
        match self {
            Self::Sequence => 0,
            Self::Grid { first, .. } => first,
        }
    }

    /// Returns whether a class token comes first.
    pub fn has_class_token(self) -> bool {
        match self {
            Self::Sequence => false,
            Self::Grid { class_token, .. } => class_token,
        }
    }

    /// Returns the distance of two positions: in tokens, or between the centres of two patches in pixels. Tokens before
    /// patches have none.
    pub fn distance(self, a: usize, b: usize) -> Option<f64> {
        match self {
            Self::Sequence => Some(a.abs_diff(b) as f64),
            Self::Grid {
                cols,
                first,
                pixels,
                ..
            } => {
                let (a, b) = (a.checked_sub(first)?, b.checked_sub(first)?);
                let by = |a: usize, b: usize, side: f64| a.abs_diff(b) as f64 * side;
                let [high, wide] = pixels;
                Some(f64::hypot(
                    by(a / cols, b / cols, high),
                    by(a % cols, b % cols, wide),
                ))
            }
        }
    }
}
