//! The state of a layer between two calls, as a value that the caller owns.
//!
//! Decoding keeps keys and values, segment recurrence (Dai et al. 2019, section 3.2) hidden states of earlier segments,
//! recurrent cells their state. All three are selected by row, cut off from their gradients and emptied alike.

use super::attention::LayerCache;
use burn::tensor::{Int, Tensor, TensorData};
use std::ops::Range;

/// The state of one layer.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each layer, and it holds its tensors elsewhere"
)]
pub enum LayerState {
    /// The layer keeps nothing.
    #[default]
    None,
    /// Keys and values of the tokens already read.
    KeyValue(LayerCache),
    /// Hidden states of earlier segments `[batch, memory, d_model]`; `None` before the first segment.
    Segment(Option<Tensor<3>>),
    /// The vectors of a recurrent cell, each `[batch, d]`; none before the first position.
    Recurrent(Vec<Tensor<2>>),
}

/// The use of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateUse {
    /// Texts are continued token by token.
    Decoding,
    /// Long texts are read segment by segment, in training or evaluation.
    Segments,
}

impl LayerState {
    /// The state of other rows: row i becomes that of `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        match self {
            Self::None | Self::Segment(None) => {}
            Self::KeyValue(cache) => cache.select(rows),
            Self::Segment(Some(states)) => *states = states.clone().select(0, rows.clone()),
            Self::Recurrent(vectors) => {
                for x in vectors {
                    *x = x.clone().select(0, rows.clone());
                }
            }
        }
    }

    /// The state of some consecutive rows.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        match self {
            Self::None | Self::Segment(None) | Self::KeyValue(_) => self.clone(),
            Self::Segment(Some(states)) => Self::Segment(Some(states.clone().slice(rows))),
            Self::Recurrent(vectors) => {
                let part = |x: &Tensor<2>| x.clone().slice(rows.clone());
                Self::Recurrent(vectors.iter().map(part).collect())
            }
        }
    }

    /// The states of one layer for several groups of rows as that of all rows. A cache of decoding is not joined.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let parts: Vec<&Self> = parts.collect();
        let vectors = |number: usize| -> Vec<Tensor<2>> {
            let of = |part: &&Self| match part {
                Self::Recurrent(vectors) => vectors.get(number).cloned(),
                Self::None | Self::Segment(_) | Self::KeyValue(_) => None,
            };
            parts.iter().filter_map(of).collect()
        };
        match parts.first() {
            None => Self::None,
            Some(Self::Recurrent(first)) => {
                let all = (0..first.len()).map(|number| Tensor::cat(vectors(number), 0));
                Self::Recurrent(all.collect())
            }
            Some(Self::Segment(Some(_))) => {
                let of = |part: &&Self| match part {
                    Self::Segment(states) => states.clone(),
                    Self::None | Self::Recurrent(_) | Self::KeyValue(_) => None,
                };
                Self::Segment(Some(Tensor::cat(parts.iter().filter_map(of).collect(), 0)))
            }
            Some(other) => (*other).clone(),
        }
    }

    /// Whether every value is a finite number; a cache of decoding is not looked at.
    pub fn is_finite(&self) -> bool {
        fn finite<const D: usize>(x: &Tensor<D>) -> bool {
            x.to_data().iter::<f32>().all(f32::is_finite)
        }
        match self {
            Self::None | Self::Segment(None) | Self::KeyValue(_) => true,
            Self::Segment(Some(states)) => finite(states),
            Self::Recurrent(vectors) => vectors.iter().all(finite),
        }
    }

    /// Cuts the state off from the gradients of the steps that made it.
    pub fn detach(&mut self) {
        match self {
            Self::None | Self::Segment(None) | Self::KeyValue(_) => {}
            Self::Segment(Some(states)) => *states = states.clone().detach(),
            Self::Recurrent(vectors) => {
                for x in vectors {
                    *x = x.clone().detach();
                }
            }
        }
    }

    /// Makes the state of a row zero where `kept` is false. Hidden states of zero are what a segment without a past has
    /// in its place; a cache of decoding is not reset by row.
    pub fn reset(&mut self, kept: &[bool]) {
        let factors = |device: &burn::tensor::Device| {
            let values: Vec<f32> = kept.iter().map(|kept| f32::from(u8::from(*kept))).collect();
            Tensor::<1>::from_data(TensorData::new(values, [kept.len()]), device)
        };
        match self {
            Self::None | Self::Segment(None) | Self::KeyValue(_) => {}
            Self::Segment(Some(states)) => {
                let rows = kept.len();
                let factors = factors(&states.device()).reshape([rows, 1, 1]);
                *states = states.clone() * factors;
            }
            Self::Recurrent(vectors) => {
                for x in vectors {
                    let factors = factors(&x.device()).reshape([kept.len(), 1]);
                    *x = x.clone() * factors;
                }
            }
        }
    }
}
