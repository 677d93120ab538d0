//! The generalised delta rule of RWKV-7 (Peng et al. 2025, arXiv:2503.14456, section 4.1): each head carries a matrix S that maps
//! keys to values. At a position each number of a key decays at a rate of its own, what S says of a direction a is written under
//! another one, b, and a value is added under a key.
//!
//! ```text
//! S_t = S_{t−1} (diag(w_t) + a_t b_tᵀ) + v_t k_tᵀ
//! o_t = S_t r_t
//! ```
//!
//! All six have N numbers a head, and each w lies between 0 and 1. With a = −κ and b = η⊙κ for a κ of length 1, as RWKV-7 has them,
//! a position takes away the share η of what S says of κ. Where w is 1, η one number and k = ηκ, it is the delta rule.
//!
//! A state begins at zero in each sequence. The flex kernel walks the positions of a head with its state in a core's cache. It keeps
//! the states before each chunk of positions, and computes those within a chunk once more on the way back.

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
use super::{extension::maybe, has_flex_kernels, recurrent::with_states};
#[cfg(feature = "flex")]
use extension::GeneralizedDeltaOps;

/// Positions between two states that the flex kernel keeps.
pub const CHUNK: usize = 16;

/// The tensors of a generalised delta rule over `[batch, seq]` positions of `heads` heads of N numbers.
#[derive(Clone, Debug)]
pub struct GeneralizedDelta {
    /// r, by which states are read, `[batch, seq, heads·N]`.
    pub r: Tensor<3>,
    /// ln w, not above 0, `[batch, seq, heads·N]`.
    pub decay: Tensor<3>,
    /// k, under which values are added, `[batch, seq, heads·N]`.
    pub k: Tensor<3>,
    /// v, `[batch, seq, heads·N]`.
    pub v: Tensor<3>,
    /// a, the direction that states are asked for, `[batch, seq, heads·N]`.
    pub a: Tensor<3>,
    /// b, under which the answer is added, `[batch, seq, heads·N]`.
    pub b: Tensor<3>,
    /// The states before the first position, `[batch, N·heads·N]`: head after head, the numbers of a key in each, N numbers of a value for
    /// each of them; zeros when absent. No gradient goes to them.
    pub state: Option<Tensor<2>>,
    /// N.
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

    /// The states before the first position.
    fn before(&self) -> Tensor<2> {
        if let Some(state) = &self.state {
            return state.clone();
        }
        let ([batch, _, channels], device) = (self.r.dims(), self.r.device());
        Tensor::zeros([batch, self.d_head * channels], (&device, self.r.dtype()))
    }

    /// The same in another number format.
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

/// o `[batch, seq, heads·N]` and, if `last` is wanted, the states after each row's last position, `[batch, N·heads·N]`, through
/// which no gradient passes.
///
/// A sequence that begins within a row begins from zero; beyond a row's length o is zero and the state stays as it is.
///
/// # Panics
/// Where shapes do not fit each other.
pub fn generalized_delta(
    rule: GeneralizedDelta,
    sequences: &Sequences,
    last: bool,
) -> (Tensor<3>, Option<Tensor<2>>) {
    rule.require();
    let [batch, seq, _] = rule.r.dims();
    sequences.require(batch, seq);
    if seq == 0 {
        return (rule.r.clone(), last.then(|| rule.before()));
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
        return with_states(Tensor::from_dispatch(out), shape, n, last);
    }
    let (y, state) = composed::generalized_delta(rule, sequences);
    (y, last.then(|| state.detach()))
}
