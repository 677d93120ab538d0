//! The generalised delta rule of RWKV-7 (Peng et al. 2025, arXiv:2503.14456, section 4.1). Each head carries a matrix
//! S that maps keys to values. At each position, every element of a key decays at a separate rate; the value that S
//! returns for a direction a is added under another direction b, and a new value is added under a key.
//!
//! ```text
//! S_t = S_{t−1} (diag(w_t) + a_t b_tᵀ) + v_t k_tᵀ
//! o_t = S_t r_t
//! ```
//!
//! All six have N elements per head, and each element of w is between 0 and 1. In RWKV-7, a = −κ and b = η⊙κ for a κ
//! of length 1, so a position removes the fraction η of the value that S returns for κ. If w is 1, η one number and k
//! = ηκ, it is the delta rule.
//!
//! A state starts at zero in each sequence. The flex kernel scans the positions of a head with its state in a core's
//! cache. It keeps the states before each chunk of positions and recomputes those within a chunk in the backward
//! pass.

pub mod composed;
#[cfg(feature = "flex")]
pub mod extension;
#[cfg(feature = "flex")]
mod tracked;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use super::recurrent::Sequences;
#[cfg(feature = "flex")]
use super::{extension::maybe, has_flex_kernels, recurrent::split_states};
#[cfg(feature = "flex")]
use extension::GeneralizedDeltaOps;

/// Number of positions between two states that the flex kernel keeps.
pub const CHUNK: usize = 16;

/// The tensors of a generalised delta rule over `[batch, seq]` positions of `heads` heads of width N.
#[derive(Clone, Debug)]
pub struct GeneralizedDelta {
    /// r, with which states are read, `[batch, seq, heads·N]`.
    pub r: Tensor<3>,
    /// ln w, at most 0, `[batch, seq, heads·N]`.
    pub decay: Tensor<3>,
    /// k, under which values are added, `[batch, seq, heads·N]`.
    pub k: Tensor<3>,
    /// v, `[batch, seq, heads·N]`.
    pub v: Tensor<3>,
    /// a, the direction for which states are queried, `[batch, seq, heads·N]`.
    pub a: Tensor<3>,
    /// b, under which the result of that query is added, `[batch, seq, heads·N]`.
    pub b: Tensor<3>,
    /// States before the first position, `[batch, N·heads·N]`: for each head and element of a key, the N elements of
    /// a value; zeros if absent. They receive no gradient.
    pub state: Option<Tensor<2>>,
    /// Width N of a head.
    pub d_head: usize,
}

impl GeneralizedDelta {
    fn require(&self) {
        let wide @ [batch, _, channels] = self.r.dims();
        for (x, what) in [
            (&self.decay, "decay"),
            (&self.k, "keys"),
            (&self.v, "values"),
            (&self.a, "questions"),
            (&self.b, "answers"),
        ] {
            assert_eq!(x.dims(), wide, "{what} of a generalised delta rule");
        }
        assert!(
            self.d_head > 0 && channels.is_multiple_of(self.d_head),
            "heads of a generalised delta rule"
        );
        if let Some(state) = &self.state {
            let wanted = [batch, self.d_head * channels];
            assert_eq!(state.dims(), wanted, "state of a generalised delta rule");
        }
    }

    /// Returns the states before the first position.
    fn initial_state(&self) -> Tensor<2> {
        if let Some(state) = &self.state {
            return state.clone();
        }
        let ([batch, _, channels], device) = (self.r.dims(), self.r.device());
        Tensor::zeros([batch, self.d_head * channels], (&device, self.r.dtype()))
    }

    /// Converts all tensors to another dtype.
    fn cast(self, dtype: DType) -> Self {
        Self {
            r: self.r.cast(dtype),
            decay: self.decay.cast(dtype),
            k: self.k.cast(dtype),
            v: self.v.cast(dtype),
            a: self.a.cast(dtype),
            b: self.b.cast(dtype),
            state: self.state.map(|state| state.cast(dtype)),
            d_head: self.d_head,
        }
    }
}

/// Computes o `[batch, seq, heads·N]` and, if `last` is set, the states after each row's last position,
/// `[batch, N·heads·N]`, through which no gradient passes.
///
/// A sequence that begins within a row starts from zero. Past a row's length o is zero and the state does not change.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn generalized_delta(
    rule: GeneralizedDelta,
    sequences: &Sequences,
    last: bool,
) -> (Tensor<3>, Option<Tensor<2>>) {
    rule.require();
    let [batch, seq, _] = rule.r.dims();
    sequences.require(batch, seq);
    if seq == 0 {
        return (rule.r.clone(), last.then(|| rule.initial_state()));
    }
    #[cfg(feature = "flex")]
    if has_flex_kernels(&rule.r) {
        let (shape, n) = (rule.r.dims(), rule.d_head);
        let settings = extension::GeneralizedDeltaSettings {
            sequences: sequences.clone(),
            last,
            n,
        };
        let out = Dispatch::generalized_delta(
            rule.r.into_dispatch(),
            rule.decay.into_dispatch(),
            rule.k.into_dispatch(),
            rule.v.into_dispatch(),
            rule.a.into_dispatch(),
            rule.b.into_dispatch(),
            maybe(rule.state.map(Tensor::detach)),
            settings,
        );
        return split_states(Tensor::from_dispatch(out), shape, n, last);
    }
    let (y, state) = composed::generalized_delta(rule, sequences);
    (y, last.then(|| state.detach()))
}
