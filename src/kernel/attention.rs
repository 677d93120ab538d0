//! Softmax attention: `softmax(softcap(scale·q·kᵀ) + bias, masked)·v` (Vaswani et al. 2017), with key-value
//! heads shared by groups of query heads (Ainslie et al. 2023) and dropout on the weights.
//!
//! The flex kernel works on tiles and keeps one log-sum-exp per query (Dao et al. 2022, arXiv:2205.14135):
//! memory grows with the length, not with its square, apart from what `bias` and `blocked` hold themselves.

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
use burn::tensor::{Bool, Tensor};

use super::{DropKey, composed};
#[cfg(feature = "flex")]
use super::{
    extension::{AttentionSettings, KernelOps, MaybeMask, maybe},
    has_kernels,
};

/// Which pairs of query and key may attend.
#[derive(Clone, Debug, Default)]
pub struct AttentionMask {
    /// Query `i` sits at position `offset + i`; keys start at 0; keys after the query are blocked.
    pub causal: bool,
    /// Position of the first query, used by `causal` only.
    pub offset: usize,
    /// `[B or 1, 1, Q, K]`; true may not attend.
    pub blocked: Option<Tensor<4, Bool>>,
}

/// How scores become weights.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions {
    /// Factor of the scores, usually `1/√d_head`.
    pub scale: f64,
    /// Scores become `cap·tanh(score/cap)`.
    pub softcap: Option<f64>,
    /// Dropout of single weights.
    pub dropout: Option<DropKey>,
}

/// Attention of q `[B, H, Q, D]` over k and v `[B, H_kv, K, D]` (H_kv divides H), plus `bias`
/// `[1 or B, H, Q, K]` after scale and soft cap; every float argument may be differentiated. The result is
/// `[B, H, Q, D]`; a query with nothing to attend to gives zeros.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    bias: Option<Tensor<4>>,
    mask: AttentionMask,
    options: AttentionOptions,
) -> Tensor<4> {
    assert_eq!(v.dims(), k.dims(), "values of attention");
    require_shapes(&q, &k, bias.as_ref(), &mask);
    #[cfg(feature = "flex")]
    if has_kernels(&q) {
        return fused(q, k, v, bias, mask, options);
    }
    composed::attention(q, k, v, bias, mask, options)
}

/// Entropy −Σ w ln w of the weights w of each query before dropout, in nats, `[B, H, Q]`; 0 for a query with
/// nothing to attend to. It is for looking at a few queries: all of their weights are in memory.
pub fn attention_entropy(
    q: Tensor<4>,
    k: Tensor<4>,
    bias: Option<Tensor<4>>,
    mask: AttentionMask,
    options: AttentionOptions,
) -> Tensor<3> {
    require_shapes(&q, &k, bias.as_ref(), &mask);
    composed::attention_entropy(q, k, bias, mask, options)
}

fn require_shapes(q: &Tensor<4>, k: &Tensor<4>, bias: Option<&Tensor<4>>, mask: &AttentionMask) {
    let ([batch, heads, n_q, d_head], [_, kv_heads, n_k, _]) = (q.dims(), k.dims());
    assert_eq!(
        k.dims(),
        [batch, kv_heads, n_k, d_head],
        "keys of attention"
    );
    assert_eq!(heads % kv_heads, 0, "key-value heads divide the heads");
    if let Some(bias) = bias {
        let dims = bias.dims();
        assert!(
            dims[0] == 1 || dims[0] == batch,
            "batch of attention's bias"
        );
        assert_eq!(dims[1..], [heads, n_q, n_k], "bias of attention");
    }
    if let Some(blocked) = &mask.blocked {
        let dims = blocked.dims();
        assert!(
            dims[0] == 1 || dims[0] == batch,
            "batch of attention's mask"
        );
        assert_eq!(dims[1..], [1, n_q, n_k], "mask of attention");
    }
}

#[cfg(feature = "flex")]
fn fused(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    bias: Option<Tensor<4>>,
    mask: AttentionMask,
    options: AttentionOptions,
) -> Tensor<4> {
    let blocked = match mask.blocked {
        Some(blocked) => MaybeMask::Some(blocked.into_dispatch()),
        None => MaybeMask::None,
    };
    let settings = AttentionSettings {
        causal: mask.causal,
        offset: mask.offset,
        scale: options.scale,
        softcap: options.softcap,
        dropout: options.dropout.filter(|key| key.p > 0.0),
    };
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_attention(
        q,
        k,
        v,
        maybe(bias),
        blocked,
        settings,
    ))
}
