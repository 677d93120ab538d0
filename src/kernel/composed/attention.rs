//! Softmax attention with all scores in memory.

use burn::tensor::{Bool, Device, FloatDType, Int, Tensor, TensorData, activation};

use super::drop_elements;
use crate::kernel::precision::product;
use crate::kernel::{AttentionOptions, Positional, QuerySelection, Relative, ScoreBias, Span};

/// Softmax attention.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    relations: Positional,
    options: AttentionOptions,
) -> Tensor<4> {
    let heads = q.dims()[1];
    let span = relations.span(&q, &k);
    let v = repeat_heads(v, heads);
    let weights = attention_weights(q, k, &relations, options);
    let weights = match options.dropout {
        Some(key) => drop_elements(weights, key),
        None => weights,
    };
    let of_distances = relations
        .relative
        .and_then(|relative| relative.weighted_values(&weights, span));
    match of_distances {
        Some(x) => x + product(weights, v),
        None => product(weights, v),
    }
}

/// Returns the attention weights before dropout, `[B, H, Q, K]`.
pub fn attention_weights(
    q: Tensor<4>,
    k: Tensor<4>,
    relations: &Positional,
    options: AttentionOptions,
) -> Tensor<4> {
    let ([rows, heads, _, _], span) = (q.dims(), relations.span(&q, &k));
    let hidden = relations
        .visible
        .dense_mask([rows, heads], span, &q.device());
    let k = repeat_heads(k, heads);
    let terms = Terms::new(relations.relative.as_ref(), q, k, |relative, q, k| {
        relative.scores(q, k, span)
    });
    let sinks = relations.sinks.as_ref();
    weights(terms, relations.bias.dense(span), hidden, sinks, &options)
}

/// The tensors that scores are computed from.
struct Terms {
    /// Queries, in the form in which they are multiplied with keys.
    q: Tensor<4>,
    /// Keys, repeated for each query head.
    k: Tensor<4>,
    /// Scores added to the products of queries and keys.
    added: Option<Tensor<4>>,
    /// Factor of the sum.
    factor: f64,
}

impl Terms {
    fn new(
        relative: Option<&Relative>,
        q: Tensor<4>,
        k: Tensor<4>,
        scores: impl FnOnce(&Relative, &Tensor<4>, &Tensor<4>) -> Option<Tensor<4>>,
    ) -> Self {
        let added = relative.and_then(|relative| scores(relative, &q, &k));
        let factor = relative.map_or(1.0, Relative::factor);
        let q = match relative {
            Some(relative) => relative.content_queries(q),
            None => q,
        };
        Self {
            q,
            k,
            added,
            factor,
        }
    }
}

/// Returns the weights before dropout, `[B, H, Q, K]`; `hidden` is true if a query does not see a key.
fn weights(
    Terms {
        q,
        k,
        added,
        factor,
    }: Terms,
    bias: Option<Tensor<4>>,
    hidden: Option<Tensor<4, Bool>>,
    sinks: Option<&Tensor<1>>,
    options: &AttentionOptions,
) -> Tensor<4> {
    let ([batch, heads, n_q, _], n_k) = (q.dims(), k.dims()[2]);
    let mut scores = product(q, k.transpose());
    if let Some(added) = added {
        scores = scores + added;
    }
    scores = scores * (options.scale * factor);
    if let Some(cap) = options.softcap {
        scores = (scores / cap).tanh() * cap;
    }
    if let Some(bias) = bias {
        scores = scores + bias;
    }
    match hidden {
        None => softmax(scores, sinks),
        Some(hidden) => {
            // Masked twice: a finite value before softmax keeps rows that see no key free of NaN, and the zero after
            // it makes them (and their gradients) zero.
            let hidden = hidden.expand([batch, heads, n_q, n_k]);
            softmax(scores.mask_fill(hidden.clone(), -1e30), sinks).mask_fill(hidden, 0.0)
        }
    }
}

/// Softmax over the keys and, if there are sinks, the sink of each head.
fn softmax(scores: Tensor<4>, sinks: Option<&Tensor<1>>) -> Tensor<4> {
    let Some(sinks) = sinks else {
        return activation::softmax(scores, 3);
    };
    let [batch, heads, queries, keys] = scores.dims();
    let sinks = sinks.clone().cast(scores.dtype()).reshape([1, heads, 1, 1]);
    let sinks = sinks.expand([batch, heads, queries, 1]);
    activation::softmax(Tensor::cat(vec![scores, sinks], 3), 3).narrow(3, 0, keys)
}

/// Returns the entropy in nats of the weights of chosen queries, `[H, chosen]`; a weight of 0 adds nothing.
pub fn attention_entropy(
    q: Tensor<4>,
    k: Tensor<4>,
    relations: &Positional,
    options: AttentionOptions,
    chosen: QuerySelection,
) -> Tensor<2> {
    let QuerySelection { row, queries } = chosen;
    let (heads, span) = (q.dims()[1], relations.span(&q, &k));
    let device = q.device();
    let places: Vec<i32> = queries.iter().map(|q| *q as i32).collect();
    let places = TensorData::new(places, [queries.len()]);
    let places = Tensor::<1, Int>::from_data(places, &device);
    let bias = chosen_bias(&relations.bias, chosen, span);
    let hidden = hidden_keys(relations, chosen, heads, span, &device);
    let q = q.narrow(0, row, 1).select(2, places);
    let k = repeat_heads(k.narrow(0, row, 1), heads);
    let terms = Terms::new(relations.relative.as_ref(), q, k, |relative, q, k| {
        relative.chosen_scores(q, k, chosen, span)
    });
    let sinks = relations.sinks.as_ref();
    let weights = weights(terms, bias, Some(hidden), sinks, &options).cast(FloatDType::F32);
    // The smallest normal number replaces weights below it, whose contribution is negligible.
    let logs = weights.clone().clamp_min(f32::MIN_POSITIVE).log();
    let entropy = (weights * logs).sum_dim(3) * -1.0;
    entropy.reshape([heads, queries.len()])
}

/// Returns true for keys that the chosen queries do not see, `[1, H, chosen, K]`.
fn hidden_keys(
    relations: &Positional,
    QuerySelection { row, queries }: QuerySelection,
    heads: usize,
    span: Span,
    device: &Device,
) -> Tensor<4, Bool> {
    let of_head = |head| {
        relations
            .visible
            .mask_of_queries([row, head], queries, span)
    };
    let hidden: Vec<bool> = (0..heads).flat_map(of_head).collect();
    let data = TensorData::new(hidden, [1, heads, queries.len(), span.keys]);
    Tensor::from_data(data, device)
}

/// Returns the bias on the scores of the chosen queries, `[1, H, chosen, K]`.
fn chosen_bias(
    bias: &ScoreBias,
    QuerySelection { row, queries }: QuerySelection,
    span: Span,
) -> Option<Tensor<4>> {
    let rows: Vec<Tensor<4>> = match bias {
        ScoreBias::None => return None,
        ScoreBias::ByDistance(bias) => {
            let of_query = |i: &usize| bias.clone().narrow(1, span.queries - 1 - i, span.keys);
            let heads = bias.dims()[0];
            let each = queries.iter().map(of_query);
            each.map(|x| x.reshape([1, heads, 1, span.keys])).collect()
        }
        ScoreBias::Dense(bias) => {
            let row = if bias.dims()[0] == 1 { 0 } else { row };
            let bias = bias.clone().narrow(0, row, 1);
            let each = queries.iter();
            each.map(|i| bias.clone().narrow(2, *i, 1)).collect()
        }
    };
    Some(Tensor::cat(rows, 2))
}

/// Repeats each key-value head for every query head that reads it.
fn repeat_heads(x: Tensor<4>, heads: usize) -> Tensor<4> {
    let [batch, kv_heads, seq, d_head] = x.dims();
    if kv_heads == heads {
        return x;
    }
    let group = heads / kv_heads;
    x.reshape([batch, kv_heads, 1, seq, d_head])
        .expand([batch, kv_heads, group, seq, d_head])
        .reshape([batch, heads, seq, d_head])
}
