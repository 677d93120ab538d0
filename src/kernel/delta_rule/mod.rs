//! The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464; without decay, the delta rule of Yang et
//! al. 2024, arXiv:2406.06484). Each head carries a matrix S that maps keys to values. A position decays it, corrects
//! the value it returns for the position's key towards the position's value, and reads it with the query.
//!
//! ```text
//! u_t = β_t (v_t − α_t S_{t−1} k_t)
//! S_t = α_t S_{t−1} + u_t k_tᵀ = α_t S_{t−1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ
//! o_t = S_t q_t / √K
//! ```
//!
//! q and k have K elements and are normalised to length 1 here; v has V elements. β, and α between 0 and 1, are one
//! number per head.
//!
//! Within a chunk of positions the corrections u depend on each other through a triangular system, (I + A) U =
//! diag(β) (V − E K Sᵀ), where A_ts = β_t (k_t·k_s) Π_{s<r≤t} α_r for s before t and E holds the decays since the
//! chunk's beginning. Everything else is matrix products. Between chunks the states are carried. A state starts at
//! zero in each sequence.

pub mod composed;
#[cfg(feature = "kernels")]
pub mod extension;
#[cfg(feature = "kernels")]
mod tracked;

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::recurrent::Sequences;
use super::ssd::Sizes;
#[cfg(all(feature = "gpu", not(feature = "fusion")))]
use super::{cube, has_kernels};
#[cfg(feature = "kernels")]
use super::{extension::maybe, has_flex_kernels, recurrent::split_states};
#[cfg(feature = "kernels")]
use extension::DeltaRuleOps;

/// Number of positions of a chunk.
pub use super::ssd::CHUNK;

/// Added to the squared length of queries and keys. Source: `l2norm` of the authors' flash-linear-attention.
pub const EPS: f64 = 1e-6;

/// The tensors of a delta rule over `[batch, seq]` positions of `heads` heads, with queries and keys of `n_key_heads`
/// heads. Equally many consecutive heads read each key head.
#[derive(Clone, Debug)]
pub struct DeltaRule {
    /// q of all key heads, k of all key heads, then v of all heads: `[batch, seq, 2·n_key_heads·K + heads·V]`.
    pub mixed: Tensor<3>,
    /// β, `[batch, seq, heads]`.
    pub beta: Tensor<3>,
    /// ln α, at most 0, `[batch, seq, heads]`; α is 1 if absent.
    pub decay: Option<Tensor<3>>,
    /// States before the first position, `[batch, K·heads·V]`: K rows, each of all channels; zeros if absent. They
    /// receive no gradient.
    pub state: Option<Tensor<2>>,
    /// Number of heads of queries and keys.
    pub n_key_heads: usize,
    /// Width K of a query and a key.
    pub d_key: usize,
}

impl DeltaRule {
    /// Returns the sizes: a group is the heads of one key head, and a state has K rows.
    fn sizes(&self) -> Sizes {
        let [_, _, heads] = self.beta.dims();
        Sizes::from_input(self.mixed.dims(), heads, [self.n_key_heads, self.d_key])
    }

    /// Returns whether a kernel supports its tensors.
    #[cfg(feature = "kernels")]
    fn has_kernel(&self) -> bool {
        #[cfg(all(feature = "gpu", not(feature = "fusion")))]
        if has_kernels(&self.mixed) && cube::delta_rule::supports(&self.sizes()) {
            return true;
        }
        has_flex_kernels(&self.mixed)
    }

    fn require(&self) {
        let sizes = self.sizes();
        sizes.require(&self.mixed, self.state.as_ref(), "a delta rule");
        let gates = [sizes.batch, sizes.seq, sizes.heads];
        assert_eq!(self.beta.dims(), gates, "β of a delta rule");
        if let Some(decay) = &self.decay {
            assert_eq!(decay.dims(), gates, "decay of a delta rule");
        }
    }
}

/// Computes o `[batch, seq, heads·V]` and, if `last` is set, the states after each row's last position,
/// `[batch, K·heads·V]`, through which no gradient passes.
///
/// A sequence that begins within a row starts from zero. Past a row's length o is zero and the state does not change.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn delta_rule(
    rule: DeltaRule,
    sequences: &Sequences,
    last: bool,
) -> (Tensor<3>, Option<Tensor<2>>) {
    rule.require();
    let sizes @ Sizes { batch, seq, n, .. } = rule.sizes();
    let channels = sizes.channels();
    sequences.require(batch, seq);
    if seq == 0 {
        return (
            rule.mixed.narrow(2, 0, channels),
            rule.state.filter(|_| last),
        );
    }
    #[cfg(feature = "kernels")]
    if rule.has_kernel() {
        let settings = extension::DeltaRuleSettings {
            sequences: sequences.clone(),
            last,
            groups: rule.n_key_heads,
            n,
        };
        let decay = rule.decay.unwrap_or_else(|| rule.beta.zeros_like());
        let out = Dispatch::delta_rule(
            rule.mixed.into_dispatch(),
            rule.beta.into_dispatch(),
            decay.into_dispatch(),
            maybe(rule.state.map(Tensor::detach)),
            settings,
        );
        return split_states(Tensor::from_dispatch(out), [batch, seq, channels], n, last);
    }
    let (y, state) = composed::delta_rule(rule, sequences);
    (y, last.then(|| state.detach()))
}
