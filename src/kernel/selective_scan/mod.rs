//! The selective scan of state-space layers (Gu and Dao 2023, Mamba, arXiv:2312.00752, sections 3.2 and 3.3). Each
//! channel carries a state of N elements; each position determines how far it decays, what is written to it and what
//! is read from it.
//!
//! ```text
//! Δ = softplus(raw)
//! h' = exp(Δ·a)⊙h + (Δ·u)·b
//! y  = (c·h' + skip·u)·silu(gate)
//! ```
//!
//! u, raw, gate and y have one element per channel; b and c have one for each of the N elements of a state; a is a
//! parameter with one element per channel and state element. A state starts at zero in each sequence. The flex kernel
//! scans the positions of a strip of channels with their states in a core's cache. It keeps the states before each
//! chunk of positions and recomputes those within a chunk in the backward pass. The GPU kernel does the same, with
//! all chunks at once.

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
use extension::SelectiveScanOps;

/// The tensors of a scan over `[batch, seq]` positions and `channels` with states of `n` elements.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Values written to the states, `[batch, seq, channels]`.
    pub u: Tensor<3>,
    /// Steps before their softplus, `[batch, seq, channels]`.
    pub raw: Tensor<3>,
    /// Gates before their SiLU, `[batch, seq, channels]`.
    pub gate: Tensor<3>,
    /// Decay of each element of a state per step of 1, negative, `[channels, n]`.
    pub decay: Tensor<2>,
    /// b, then c: `[batch, seq, 2n]`.
    pub directions: Tensor<3>,
    /// Factor of u that bypasses the states, `[channels]`.
    pub skip: Tensor<1>,
    /// States before the first position, `[batch, n·channels]`: n rows, each of all channels; zeros if absent. They
    /// receive no gradient.
    pub state: Option<Tensor<2>>,
}

impl Scan {
    /// Returns the numbers of batch rows, positions, channels and state elements.
    fn dims(&self) -> [usize; 4] {
        let ([batch, seq, channels], [_, n]) = (self.u.dims(), self.decay.dims());
        [batch, seq, channels, n]
    }

    /// Returns whether a kernel supports its tensors.
    #[cfg(feature = "kernels")]
    fn has_kernel(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        if has_kernels(&self.u) && cube::selective_scan::supports(self.dims()) {
            return true;
        }
        has_flex_kernels(&self.u)
    }

    fn require(&self) {
        let [batch, seq, channels, n] = self.dims();
        let wide = [batch, seq, channels];
        assert_eq!(self.raw.dims(), wide, "steps of a scan");
        assert_eq!(self.gate.dims(), wide, "gates of a scan");
        assert_eq!(self.decay.dims(), [channels, n], "decay of a scan");
        let directions = self.directions.dims();
        assert_eq!(directions, [batch, seq, 2 * n], "directions of a scan");
        assert_eq!(self.skip.dims(), [channels], "skip of a scan");
        if let Some(state) = &self.state {
            assert_eq!(state.dims(), [batch, n * channels], "state of a scan");
        }
    }
}

/// Computes y `[batch, seq, channels]` and, if `last` is set, the states after each row's last position,
/// `[batch, n·channels]`, through which no gradient passes.
///
/// A sequence that begins within a row starts from zero. Past a row's length y is zero and the state does not change.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn selective_scan(
    scan: Scan,
    sequences: &Sequences,
    last: bool,
) -> (Tensor<3>, Option<Tensor<2>>) {
    scan.require();
    let [batch, seq, channels, n] = scan.dims();
    sequences.require(batch, seq);
    if seq == 0 {
        return (scan.u, scan.state.filter(|_| last));
    }
    #[cfg(feature = "kernels")]
    if scan.has_kernel() {
        let settings = extension::ScanSettings {
            sequences: sequences.clone(),
            last,
        };
        let out = Dispatch::selective_scan(
            scan.u.into_dispatch(),
            scan.raw.into_dispatch(),
            scan.gate.into_dispatch(),
            scan.decay.into_dispatch(),
            scan.directions.into_dispatch(),
            scan.skip.into_dispatch(),
            maybe(scan.state.map(Tensor::detach)),
            settings,
        );
        return split_states(Tensor::from_dispatch(out), [batch, seq, channels], n, last);
    }
    let (y, state) = composed::selective_scan(scan, sequences);
    (y, last.then(|| state.detach()))
}
