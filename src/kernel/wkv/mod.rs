//! The weighted average of RWKV's time mixing (Peng et al. 2023, arXiv:2305.13048, equations 16 and 17): each channel
//! averages the values of all positions up to its own, with weights that decay with distance.
//!
//! ```text
//! wkv_t = (Σ_{i<t} e^{(t−1−i)·decay + k_i} v_i + e^{first + k_t} v_t) / (Σ_{i<t} e^{(t−1−i)·decay + k_i} + e^{first + k_t})
//! y     = σ(r)·wkv
//! ```
//!
//! The two sums of earlier positions are carried as (a, b, p): the sums are a·eᵖ and b·eᵖ, with p the largest
//! exponent so far, so that no exponential exceeds 1. Once a position has been read, b is at least 1; empty sums are
//! zeros, and their p is meaningless. A sequence starts with empty sums. The kernels keep the sums before each chunk
//! of positions and recompute those within a chunk in the backward pass. The gradients of the sums are carried in the
//! same form, from later positions to earlier ones.

pub mod composed;
#[cfg(feature = "kernels")]
pub mod extension;
#[cfg(feature = "kernels")]
mod tracked;

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use super::recurrent::Sequences;
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::{cube, has_kernels};
#[cfg(feature = "kernels")]
use super::{extension::maybe, has_flex_kernels, recurrent::split_states};
#[cfg(feature = "kernels")]
use extension::WkvOps;

/// Stands for p if b is 0: far below every other exponent, and finite so that differences are not NaN.
pub(super) const EMPTY_EXPONENT: f32 = -1e30;

/// Number of vectors of a state: a, b and p.
pub(super) const STATE_VECTORS: usize = 3;

/// The tensors of an average over `[batch, seq]` positions and `channels`.
#[derive(Clone, Debug)]
pub struct Wkv {
    /// Receptances before their sigmoid, `[batch, seq, channels]`.
    pub r: Tensor<3>,
    /// Exponents of the weights, `[batch, seq, channels]`.
    pub k: Tensor<3>,
    /// Values, `[batch, seq, channels]`.
    pub v: Tensor<3>,
    /// Added to the exponents of earlier positions at each position, negative, `[channels]`.
    pub decay: Tensor<1>,
    /// Added to a position's own exponent (the bonus), `[channels]`.
    pub bonus: Tensor<1>,
    /// a, then b, then p before the first position, `[batch, 3·channels]`; zeros if absent. They receive no gradient.
    pub state: Option<Tensor<2>>,
}

impl Wkv {
    /// Returns whether a kernel supports its tensors.
    #[cfg(feature = "kernels")]
    fn has_kernel(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        if has_kernels(&self.k) && cube::wkv::supports(self.k.dims()) {
            return true;
        }
        has_flex_kernels(&self.k)
    }

    fn require(&self) {
        let wide @ [batch, _, channels] = self.k.dims();
        assert_eq!(self.r.dims(), wide, "receptances of an average");
        assert_eq!(self.v.dims(), wide, "values of an average");
        assert_eq!(self.decay.dims(), [channels], "decay of an average");
        assert_eq!(self.bonus.dims(), [channels], "bonus of an average");
        if let Some(state) = &self.state {
            assert_eq!(
                state.dims(),
                [batch, STATE_VECTORS * channels],
                "state of an average"
            );
        }
    }

    /// Returns the state before the first position.
    fn initial_state(&self) -> Tensor<2> {
        if let Some(state) = &self.state {
            return state.clone();
        }
        let ([batch, _, channels], device) = (self.k.dims(), self.k.device());
        Tensor::zeros([batch, STATE_VECTORS * channels], (&device, self.k.dtype()))
    }

    /// Converts all tensors to another dtype.
    fn cast(self, dtype: DType) -> Self {
        Self {
            r: self.r.cast(dtype),
            k: self.k.cast(dtype),
            v: self.v.cast(dtype),
            decay: self.decay.cast(dtype),
            bonus: self.bonus.cast(dtype),
            state: self.state.map(|state| state.cast(dtype)),
        }
    }
}

/// Computes y `[batch, seq, channels]` and, if `last` is set, the state after each row's last position,
/// `[batch, 3·channels]`, through which no gradient passes.
///
/// A sequence that begins within a row starts from empty sums. Past a row's length y is zero and the state does not
/// change.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn wkv(wkv: Wkv, sequences: &Sequences, last: bool) -> (Tensor<3>, Option<Tensor<2>>) {
    wkv.require();
    let [batch, seq, channels] = wkv.k.dims();
    sequences.require(batch, seq);
    if seq == 0 {
        return (wkv.k.clone(), last.then(|| wkv.initial_state()));
    }
    #[cfg(feature = "kernels")]
    if wkv.has_kernel() {
        let settings = extension::WkvSettings {
            sequences: sequences.clone(),
            last,
        };
        let out = Dispatch::wkv(
            wkv.r.into_dispatch(),
            wkv.k.into_dispatch(),
            wkv.v.into_dispatch(),
            wkv.decay.into_dispatch(),
            wkv.bonus.into_dispatch(),
            maybe(wkv.state.map(Tensor::detach)),
            settings,
        );
        return split_states(
            Tensor::from_dispatch(out),
            [batch, seq, channels],
            STATE_VECTORS,
            last,
        );
    }
    let (y, state) = composed::wkv(wkv, sequences);
    (y, last.then(|| state.detach()))
}
