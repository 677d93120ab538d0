//! The state of a layer between two calls, as a value that the caller owns.
//!
//! Decoding keeps keys and values, segment recurrence (Dai et al. 2019, section 3.2) hidden states of earlier segments,
//! recurrent cells, state spaces and layers that look back the vectors that they carry. All are selected by row, cut off
//! from their gradients and emptied alike.

use super::attention::LayerCache;
use super::earlier::Earlier;
use crate::kernel;
use burn::tensor::{Int, Tensor, TensorData};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

/// What a layer keeps of the tokens already read while it decodes: keys and values in a form of its kind's own. It has
/// no gradients and is in no checkpoint.
pub trait Kept: Any + Debug + Send + Sync {
    /// The same for other rows: row i becomes that of `rows[i]`.
    fn select(&mut self, rows: &Tensor<1, Int>);

    /// The next growth makes room for so many positions in all at least.
    fn reserve(&mut self, positions: usize);

    /// A copy of it.
    fn cloned(&self) -> Box<dyn Kept>;
}

impl Clone for Box<dyn Kept> {
    fn clone(&self) -> Self {
        (**self).cloned()
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
    /// The tokens already read, in decoding.
    Kept(Box<dyn Kept>),
    /// Hidden states of earlier segments.
    Segment(Earlier),
    /// The vectors that a layer carries from position to position, each `[batch, width]` with a width of its own; none before the
    /// first position, which is the same as zeros.
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

/// Runs a layer from the vectors that were kept, if some are kept, and keeps those after it, which the layer gives when it is
/// asked for them.
pub(super) fn advanced(
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
    /// A state of decoding.
    pub fn keeping(kept: impl Kept) -> Self {
        Self::Kept(Box::new(kept))
    }

    /// What it keeps in decoding, when it is of this type.
    pub fn kept<T: Kept>(&self) -> Option<&T> {
        let Self::Kept(kept) = self else { return None };
        let kept: &dyn Any = &**kept;
        kept.downcast_ref()
    }

    /// What it keeps in decoding, when it is of this type.
    pub fn kept_mut<T: Kept>(&mut self) -> Option<&mut T> {
        let Self::Kept(kept) = self else { return None };
        let kept: &mut dyn Any = &mut **kept;
        kept.downcast_mut()
    }

    /// The keys and values that it keeps in decoding, when it does.
    pub fn cache(&mut self) -> Option<&mut LayerCache> {
        self.kept_mut()
    }

    /// The state of other rows: row i becomes that of `rows[i]`.
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

    /// The state of some consecutive rows.
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

    /// The states of one layer for several groups of rows as that of all rows. A cache of decoding is not joined.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
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
                Self::Segment(Earlier::joined(parts.iter().filter_map(of)))
            }
            Some(other) => (*other).clone(),
        }
    }

    /// Whether every value is a finite number; a cache of decoding is not looked at.
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

    /// Cuts the state off from the gradients of the steps that made it.
    pub fn detach(&mut self) {
        match self {
            // Earlier segments are kept without gradients.
            Self::None | Self::Kept(_) | Self::Segment(_) => {}
            Self::Recurrent(vectors) => {
                for x in vectors {
                    *x = x.clone().detach();
                }
            }
        }
    }

    /// Empties the state of a row where `kept` is false: carried vectors are zero, hidden states of earlier segments are hidden. A
    /// cache of decoding is not reset by row.
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
