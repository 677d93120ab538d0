//! Softmax attention: `softmax(softcap(scale·q·kᵀ) + bias, hidden)·v` (Vaswani et al. 2017), with key-value
//! heads shared by groups of query heads (Ainslie et al. 2023), dropout on the weights, and attention sinks.
//!
//! The flex kernel works on tiles and keeps one log-sum-exp per query (Dao et al. 2022, arXiv:2205.14135), so its
//! memory grows with the length, not with its square, apart from a dense bias.

#[cfg(feature = "kernels")]
use burn::backend::Dispatch;
use burn::tensor::Tensor;

#[cfg(feature = "kernels")]
use super::relative::extension::RelativeOps;
#[cfg(feature = "kernels")]
use super::sinks::extension::SinkOps;
use super::{DropKey, Relative, ScoreBias, Span, Visibility, composed};
#[cfg(feature = "kernels")]
use super::{
    extension::{AttentionSettings, KernelOps, Maybe},
    has_flex_kernels, has_kernels,
    precision::operand,
};

/// The positional side of attention: which keys each query sees, and biases by position.
#[derive(Clone, Debug, Default)]
pub struct Positional {
    /// Which keys a query sees.
    pub visible: Visibility,
    /// Position of the first query; keys start at 0.
    pub offset: usize,
    /// Bias added to the scores.
    pub bias: ScoreBias,
    /// Vectors by distance that contribute to scores and values.
    pub relative: Option<Relative>,
    /// One extra score per head that every query has besides those of the keys, with no value vector (an attention
    /// sink), `[H]`. Not supported together with `relative`.
    pub sinks: Option<Tensor<1>>,
}

impl Positional {
    /// Returns the [`Span`] of queries `[B, H, Q, D]` and keys `[B, H_kv, K, D]`.
    pub(super) fn span(&self, q: &Tensor<4>, k: &Tensor<4>) -> Span {
        Span {
            queries: q.dims()[2],
            keys: k.dims()[2],
            offset: self.offset,
        }
    }
}

/// How scores become weights: scale, soft cap and dropout.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions {
    /// Factor of the scores, usually `1/√d_head`.
    pub scale: f64,
    /// Soft cap: scores become `cap·tanh(score/cap)`.
    pub softcap: Option<f64>,
    /// Dropout of individual weights.
    pub dropout: Option<DropKey>,
}

/// Attention of q `[B, H, Q, D]` over k and v `[B, H_kv, K, D]`, where H_kv divides H. Every float argument may be
/// differentiated. The result is `[B, H, Q, D]`; a query that sees no key gives zeros.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    relations: Positional,
    options: AttentionOptions,
) -> Tensor<4> {
    assert_eq!(v.dims(), k.dims(), "values of attention");
    require_shapes(&q, &k, &relations);
    #[cfg(feature = "kernels")]
    if has_flex_kernels(&q) || has_kernels(&q) && fits_indices(&relations.bias, [&q, &k]) {
        return fused([q, k, v], relations, options);
    }
    composed::attention(q, k, v, relations, options)
}

/// Some queries of one row of the batch.
#[derive(Clone, Copy, Debug)]
pub struct QuerySelection<'a> {
    /// Index of the row in the batch.
    pub row: usize,
    /// Indices of the queries, counted from the first one of the pass.
    pub queries: &'a [usize],
}

/// Returns the entropy −Σ w ln w of the attention weights w of chosen queries, before dropout, in nats,
/// `[H, chosen]`. It is 0 for a query that sees no key. All weights of these queries are held in memory.
pub fn attention_entropy(
    q: Tensor<4>,
    k: Tensor<4>,
    relations: &Positional,
    options: AttentionOptions,
    chosen: QuerySelection,
) -> Tensor<2> {
    require_shapes(&q, &k, relations);
    composed::attention_entropy(q, k, relations, options, chosen)
}

/// Returns the attention weights before dropout, `[B, H, Q, K]`; those of a query that sees no key are 0. All of them
/// are held in memory.
pub fn attention_weights(
    q: Tensor<4>,
    k: Tensor<4>,
    relations: &Positional,
    options: AttentionOptions,
) -> Tensor<4> {
    require_shapes(&q, &k, relations);
    composed::attention_weights(q, k, relations, options)
}

fn require_shapes(q: &Tensor<4>, k: &Tensor<4>, relations: &Positional) {
    let ([batch, heads, n_q, d_head], [_, kv_heads, n_k, _]) = (q.dims(), k.dims());
    let keys = [batch, kv_heads, n_k, d_head];
    assert_eq!(k.dims(), keys, "keys of attention");
    assert_eq!(heads % kv_heads, 0, "key-value heads divide the heads");
    let distances = relations.span(q, k).distances();
    match &relations.bias {
        ScoreBias::None => {}
        ScoreBias::ByDistance(bias) => {
            assert_eq!(bias.dims(), [heads, distances], "bias of attention");
        }
        ScoreBias::Dense(bias) => {
            let dims = bias.dims();
            let rows = dims[0] == 1 || dims[0] == batch;
            assert!(rows && dims[1..] == [heads, n_q, n_k], "bias of attention");
        }
    }
    if let Some(relative) = &relations.relative {
        let fits = relative.fits(relations.span(q, k), [heads, d_head]);
        assert!(fits, "relative positions of attention");
    }
    if let Some(sinks) = &relations.sinks {
        assert_eq!(sinks.dims(), [heads], "sinks of attention");
        let alone = relations.relative.is_none();
        assert!(alone, "sinks stand beside no vectors of distances");
    }
    let fits = relations.visible.fits([batch, heads], n_k);
    assert!(fits, "visibility of attention");
}

/// Returns whether the scores fit the GPU kernel's 32-bit indices: per batch row because of dropout, or all of them
/// with a dense bias.
#[cfg(feature = "kernels")]
fn fits_indices(bias: &ScoreBias, [q, k]: [&Tensor<4>; 2]) -> bool {
    let [rows, heads, queries, _] = q.dims();
    let counted = match bias {
        ScoreBias::Dense(_) => rows,
        ScoreBias::None | ScoreBias::ByDistance(_) => 1,
    };
    counted * heads * queries * k.dims()[2] <= super::MAX_INDEXED
}

#[cfg(feature = "kernels")]
fn fused(inputs: [Tensor<4>; 3], relations: Positional, options: AttentionOptions) -> Tensor<4> {
    let factor = relations.relative.as_ref().map_or(1.0, Relative::factor);
    let settings = AttentionSettings {
        visible: relations.visible,
        offset: relations.offset,
        scale: options.scale * factor,
        softcap: options.softcap,
        dropout: options.dropout.filter(|key| key.p > 0.0),
    };
    let bias = match relations.bias {
        ScoreBias::None => Maybe::None,
        ScoreBias::ByDistance(bias) => Maybe::Some(bias.into_dispatch()),
        ScoreBias::Dense(bias) => Maybe::Some(bias.into_dispatch()),
    };
    let [q, k, v] = inputs.map(|x| operand(x).into_dispatch());
    let out = match (relations.relative, relations.sinks) {
        (None, None) => Dispatch::fused_attention(q, k, v, bias, settings),
        (None, Some(sinks)) => {
            let sinks = sinks.into_dispatch();
            Dispatch::attention_beside_sinks(q, k, v, bias, sinks, settings)
        }
        (Some(relative), _) => {
            let (tensors, settings) = relative.into_tensors(settings);
            Dispatch::relative_attention(q, k, v, bias, tensors, settings)
        }
    };
    Tensor::from_dispatch(out)
}
