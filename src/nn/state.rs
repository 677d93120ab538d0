//! The state of a layer between two calls, as a value that the caller owns.
//!
//! Decoding keeps keys and values. Segment recurrence (Dai et al. 2019, section 3.2) keeps hidden states of earlier segments.
//! Recurrent cells, state-space layers and layers that look back keep the vectors that they carry. All kinds of state can be
//! selected by row, detached from their gradients and reset in the same way.

use super::attention::LayerCache;
use super::earlier::EarlierStates;
use crate::kernel;
use burn::tensor::{Int, Tensor, TensorData};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

/// What a layer keeps of the tokens already read during decoding: keys and values, in a form specific to the kind of layer. It
/// has no gradients and is not saved in checkpoints.
pub trait DecodingState: Any + Debug + Send + Sync {
    /// Reorders the rows: row i becomes the former row `rows[i]`.
    fn select(&mut self, rows: &Tensor<1, Int>);

    /// Makes the next growth reserve room for at least `positions` positions in total.
    fn reserve(&mut self, positions: usize);

    /// Returns a boxed copy.
    fn clone_box(&self) -> Box<dyn DecodingState>;
}

impl Clone for Box<dyn DecodingState> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

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
    /// The tokens already read, during decoding.
    Kept(Box<dyn DecodingState>),
    /// Hidden states of earlier segments.
    Segment(EarlierStates),
    /// The vectors that a layer carries from position to position, each `[batch, width]` with its own width. The list is empty
    /// before the first position, which is equivalent to zeros.
    Recurrent(Vec<Tensor<2>>),
}

/// The purpose of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateUse {
    /// Decoding: texts are continued token by token.
    Decoding,
    /// Segment recurrence: long texts are read segment by segment, in training or evaluation.
    Segments,
}

/// Runs a recurrent layer from the vectors kept in `state`, if any, and stores the vectors after its last position. `layer` takes
/// the vectors and whether it must return the new ones.
pub(super) fn run_recurrent(
    state: Option<&mut LayerState>,
    layer: impl FnOnce(Option<Vec<Tensor<2>>>, bool) -> (Tensor<3>, Option<Vec<Tensor<2>>>),
) -> Tensor<3> {
    let Some(kept) = state else {
        return layer(None, false).0;
    };
    let before = match kept {
        LayerState::Recurrent(vectors) if !vectors.is_empty() => Some(std::mem::take(vectors)),
        _ => None,
    };
    let (y, after) = layer(before, true);
    *kept = LayerState::Recurrent(after.unwrap_or_default());
    y
}

impl LayerState {
    /// Creates a decoding state.
    pub fn decoding(kept: impl DecodingState) -> Self {
        Self::Kept(Box::new(kept))
    }

    /// Returns what the layer keeps during decoding, if it is of type `T`.
    pub fn decoding_state<T: DecodingState>(&self) -> Option<&T> {
        let Self::Kept(kept) = self else { return None };
        let kept: &dyn Any = &**kept;
        kept.downcast_ref()
    }

    /// Returns what the layer keeps during decoding, if it is of type `T`, for changes.
    pub fn decoding_state_mut<T: DecodingState>(&mut self) -> Option<&mut T> {
        let Self::Kept(kept) = self else { return None };
        let kept: &mut dyn Any = &mut **kept;
        kept.downcast_mut()
    }

    /// Returns the KV cache, if the layer keeps one.
    pub fn cache(&mut self) -> Option<&mut LayerCache> {
        self.decoding_state_mut()
    }

    /// Reorders the rows: row i becomes the former row `rows[i]`.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        match self {
            Self::None => {}
            Self::Kept(kept) => kept.select(rows),
            Self::Segment(earlier) => earlier.select(rows),
            Self::Recurrent(vectors) => {
                for x in vectors {
                    *x = x.clone().select(0, rows.clone());
                }
            }
        }
    }

    /// Returns the state of some consecutive rows; a decoding state is returned whole.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        match self {
            Self::None | Self::Kept(_) => self.clone(),
            Self::Segment(earlier) => Self::Segment(earlier.rows(rows)),
            Self::Recurrent(vectors) => {
                let part = |x: &Tensor<2>| x.clone().slice(rows.clone());
                Self::Recurrent(vectors.iter().map(part).collect())
            }
        }
    }

    /// Concatenates the states of one layer for several groups of rows. Decoding states cannot be joined: the first one is
    /// returned.
    pub fn concat<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let parts: Vec<&Self> = parts.collect();
        let vectors = |number: usize| -> Vec<Tensor<2>> {
            let of = |part: &&Self| match part {
                Self::Recurrent(vectors) => vectors.get(number).cloned(),
                Self::None | Self::Segment(_) | Self::Kept(_) => None,
            };
            parts.iter().filter_map(of).collect()
        };
        match parts.first() {
            None => Self::None,
            Some(Self::Recurrent(first)) => {
                let all = (0..first.len()).map(|number| Tensor::cat(vectors(number), 0));
                Self::Recurrent(all.collect())
            }
            Some(Self::Segment(_)) => {
                let of = |part: &&'a Self| match part {
                    Self::Segment(earlier) => Some(earlier),
                    Self::None | Self::Recurrent(_) | Self::Kept(_) => None,
                };
                Self::Segment(EarlierStates::concat(parts.iter().filter_map(of)))
            }
            Some(other) => (*other).clone(),
        }
    }

    /// Whether every value is finite; decoding states are not checked.
    pub fn is_finite(&self) -> bool {
        fn finite<const D: usize>(x: &Tensor<D>) -> bool {
            kernel::read(x.clone()).iter::<f32>().all(f32::is_finite)
        }
        match self {
            Self::None | Self::Kept(_) => true,
            Self::Segment(earlier) => earlier.states.iter().all(finite),
            Self::Recurrent(vectors) => vectors.iter().all(finite),
        }
    }

    /// Detaches the state from the gradients of the steps that computed it.
    pub fn detach(&mut self) {
        match self {
            // Earlier segments are kept without gradients anyway.
            Self::None | Self::Kept(_) | Self::Segment(_) => {}
            Self::Recurrent(vectors) => {
                for x in vectors {
                    *x = x.clone().detach();
                }
            }
        }
    }

    /// Resets the state of each row for which `kept` is false: carried vectors become zero, hidden states of earlier segments are
    /// masked. Decoding states are not reset.
    pub fn reset(&mut self, kept: &[bool]) {
        let factors = |device: &burn::tensor::Device| {
            let values: Vec<f32> = kept.iter().map(|kept| f32::from(u8::from(*kept))).collect();
            Tensor::<1>::from_data(TensorData::new(values, [kept.len()]), device)
        };
        match self {
            Self::None | Self::Kept(_) => {}
            Self::Segment(earlier) => earlier.reset(kept),
            Self::Recurrent(vectors) => {
                for x in vectors {
                    let factors = factors(&x.device()).reshape([kept.len(), 1]);
                    *x = x.clone() * factors;
                }
            }
        }
    }
}
