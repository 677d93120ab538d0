//! The state space of Mamba-2 by state-space duality (Dao and Gu 2024, arXiv:2405.21060, sections 6 and 7). Each head
//! carries a matrix of N elements by the P channels of the head, which decays by one scalar per position.
//!
//! ```text
//! Δ = softplus(raw), clamped to the limits
//! h' = exp(Δ·a)·h + b (Δ·x)ᵀ
//! y  = h'ᵀ c + skip·x
//! ```
//!
//! x has P elements per head, b and c have N per group of heads, raw has one per head; a and skip are parameters with
//! one number per head. Within a chunk of positions y is a matrix product, as in attention: y_t = Σ_s
//! (c_t·b_s)·exp(Σ_{s<r≤t} Δ_r·a)·Δ_s x_s. Between chunks the states are carried. A state starts at zero in each
//! sequence.

pub mod composed;
#[cfg(feature = "kernels")]
pub mod extension;
#[cfg(feature = "kernels")]
mod tracked;

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::recurrent::Sequences;
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::{cube, has_kernels};
#[cfg(feature = "kernels")]
use super::{extension::maybe, has_flex_kernels, recurrent::split_states};
#[cfg(feature = "kernels")]
use extension::SsdOps;

/// Number of positions of a chunk.
pub const CHUNK: usize = 64;

/// The tensors of a state space over `[batch, seq]` positions, with `heads` heads of P channels, `groups` groups, and
/// states of N × P elements per head. Channels are those of all heads, one head after another.
#[derive(Clone, Debug)]
pub struct Ssd {
    /// x of all heads, b of all groups, then c of all groups: `[batch, seq, heads·P + 2·groups·N]`.
    pub mixed: Tensor<3>,
    /// Steps before their softplus, `[batch, seq, heads]`.
    pub raw: Tensor<3>,
    /// a, negative, `[heads]`.
    pub decay: Tensor<1>,
    /// Factor of x that bypasses the states, `[heads]`.
    pub skip: Tensor<1>,
    /// States before the first position, `[batch, N·channels]`: N rows, each of all channels; zeros if absent. They
    /// receive no gradient.
    pub state: Option<Tensor<2>>,
    /// Number of groups of heads, each with a separate b and c.
    pub groups: usize,
    /// Number N of rows of a state.
    pub d_state: usize,
    /// Minimum and maximum step; no limits if absent. Steps that are clamped receive no gradient.
    pub limits: Option<[f64; 2]>,
}

/// The sizes of a state space.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of rows.
    pub batch: usize,
    /// Number of positions of a row.
    pub seq: usize,
    /// Number of heads.
    pub heads: usize,
    /// Number of channels of a head.
    pub d_head: usize,
    /// Number of groups.
    pub groups: usize,
    /// Number N of rows of a state.
    pub n: usize,
}

impl Sizes {
    /// Derives the sizes from inputs `[batch, seq, mixed]` of `heads` heads, in `groups` groups with directions of
    /// `n` elements.
    pub fn from_input(
        [batch, seq, mixed]: [usize; 3],
        heads: usize,
        [groups, n]: [usize; 2],
    ) -> Self {
        let channels = mixed.saturating_sub(2 * groups * n);
        Self {
            batch,
            seq,
            heads,
            d_head: channels / heads.max(1),
            groups,
            n,
        }
    }

    /// Checks the shapes of `what` against these sizes.
    ///
    /// # Panics
    /// If they do not fit.
    pub(super) fn require(&self, mixed: &Tensor<3>, state: Option<&Tensor<2>>, what: &str) {
        let Self {
            batch,
            seq,
            heads,
            groups,
            n,
            ..
        } = *self;
        let grouped = groups > 0 && heads > 0 && heads.is_multiple_of(groups);
        assert!(grouped, "heads and groups of {what}");
        assert_eq!(mixed.dims(), [batch, seq, self.mixed()], "inputs of {what}");
        if let Some(state) = state {
            let wanted = [batch, n * self.channels()];
            assert_eq!(state.dims(), wanted, "state of {what}");
        }
    }

    /// Returns the number of channels of all heads.
    pub fn channels(&self) -> usize {
        self.heads * self.d_head
    }

    /// Returns the number of elements of a position: x, b and c.
    pub fn mixed(&self) -> usize {
        self.channels() + 2 * self.groups * self.n
    }
}

impl Ssd {
    /// Returns the sizes.
    fn sizes(&self) -> Sizes {
        let [heads] = self.decay.dims();
        Sizes::from_input(self.mixed.dims(), heads, [self.groups, self.d_state])
    }

    /// Returns whether a kernel supports its tensors.
    #[cfg(feature = "kernels")]
    fn has_kernel(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        if has_kernels(&self.mixed) && cube::ssd::supports(&self.sizes()) {
            return true;
        }
        has_flex_kernels(&self.mixed)
    }

    fn require(&self) {
        let sizes = self.sizes();
        sizes.require(&self.mixed, self.state.as_ref(), "a state space");
        let steps = [sizes.batch, sizes.seq, sizes.heads];
        assert_eq!(self.raw.dims(), steps, "steps of a state space");
        assert_eq!(self.skip.dims(), [sizes.heads], "skip of a state space");
    }
}

/// Computes y `[batch, seq, channels]` and, if `last` is set, the states after each row's last position,
/// `[batch, N·channels]`, through which no gradient passes.
///
/// A sequence that begins within a row starts from zero. Past a row's length y is zero and the state does not change.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn ssd(ssd: Ssd, sequences: &Sequences, last: bool) -> (Tensor<3>, Option<Tensor<2>>) {
    ssd.require();
    let sizes @ Sizes { batch, seq, n, .. } = ssd.sizes();
    let channels = sizes.channels();
    sequences.require(batch, seq);
    if seq == 0 {
        return (ssd.mixed.narrow(2, 0, channels), ssd.state.filter(|_| last));
    }
    #[cfg(feature = "kernels")]
    if ssd.has_kernel() {
        let settings = extension::SsdSettings {
            sequences: sequences.clone(),
            last,
            groups: ssd.groups,
            n,
            limits: ssd.limits.map(|limits| limits.map(|limit| limit as f32)),
        };
        let out = Dispatch::ssd(
            ssd.mixed.into_dispatch(),
            ssd.raw.into_dispatch(),
            ssd.decay.into_dispatch(),
            ssd.skip.into_dispatch(),
            maybe(ssd.state.map(Tensor::detach)),
            settings,
        );
        return split_states(Tensor::from_dispatch(out), [batch, seq, channels], n, last);
    }
    let (y, state) = composed::ssd(ssd, sequences);
    (y, last.then(|| state.detach()))
}
