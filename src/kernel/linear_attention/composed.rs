//! Attention by features from plain tensor operations, for devices without kernels and as the reference for the
//! kernel. It holds the weights of all queries and keys in memory.

use burn::tensor::{Bool, Tensor};

use super::{FeatureMap, Features, MAX_EXPONENT, MIN_SHIFT};
use crate::kernel::{Span, Visibility, replay};

/// Returns the products of vectors with the rows of a projection, `[.., features]`.
fn project(x: Tensor<4>, map: &FeatureMap, scale: f64) -> Tensor<4> {
    let Some(w) = map.projection.clone() else {
        unreachable!("projected features have a projection")
    };
    let ([a, b, c, d], [features, _]) = (x.dims(), w.dims());
    let rows = (x * scale.sqrt()).reshape([a * b * c, d]);
    rows.matmul(w.transpose()).reshape([a, b, c, features])
}

/// Returns half of |x̂|², `[.., 1]`.
fn half(x: Tensor<4>, scale: f64) -> Tensor<4> {
    x.square().sum_dim(3) * (0.5 * scale)
}

fn elu(x: Tensor<4>) -> Tensor<4> {
    x.clone().clamp_max(0.0).exp() + x.clamp_min(0.0)
}

/// Returns the features of queries `[.., features]` and, for exponential ones, the share `[.., 1]` that every key
/// gets regardless of its content.
pub(super) fn query_features(x: Tensor<4>, map: &FeatureMap) -> (Tensor<4>, Option<Tensor<4>>) {
    match map.features {
        Features::Identity => (x, None),
        Features::Elu => (elu(x), None),
        Features::Rectified { scale, eps } => (project(x, map, scale).clamp_min(0.0) + eps, None),
        Features::Exponential { scale, eps } => {
            let p = project(x.clone(), map, scale);
            let largest = p.clone().detach().max_dim(3);
            let f = (p - half(x, scale) - largest).exp() + eps;
            let share = f.clone().sum_dim(3) * eps;
            (f, Some(share))
        }
    }
}

/// Returns the features of keys `[.., features]`. Exponential ones are without c and eps and come with the largest
/// product of each key, `[.., 1]`.
pub(super) fn key_features(x: Tensor<4>, map: &FeatureMap) -> (Tensor<4>, Option<Tensor<4>>) {
    match map.features {
        Features::Exponential { scale, .. } => {
            let p = project(x.clone(), map, scale);
            let largest = p.clone().detach().max_dim(3);
            let f = (p - half(x, scale))
                .clamp_max(f64::from(MAX_EXPONENT))
                .exp();
            (f, Some(largest))
        }
        Features::Identity | Features::Elu | Features::Rectified { .. } => query_features(x, map),
    }
}

/// Appends a one to each value: its weighted sum is the sum of the weights.
pub(super) fn with_ones(v: Tensor<4>) -> Tensor<4> {
    let [batch, heads, keys, _] = v.dims();
    let ones = Tensor::ones([batch, heads, keys, 1], (&v.device(), v.dtype()));
    Tensor::cat(vec![v, ones], 3)
}

/// Divides weighted sums `[.., E + 1]` by their last element, `[.., E]`; zeros where that is 0.
pub(super) fn normalise(sums: Tensor<4>) -> Tensor<4> {
    let width = sums.dims()[3] - 1;
    let total = sums.clone().narrow(3, width, 1);
    let nothing = total.clone().equal_elem(0.0);
    sums.narrow(3, 0, width) / total.mask_fill(nothing, 1.0)
}

/// Returns the largest of the products of keys `[B, H_kv, 1, K]` that each of `rows` queries sees,
/// `[B, H_kv, rows, 1]`.
pub(super) fn largest_seen(
    of_keys: Tensor<4>,
    rows: usize,
    hidden: Option<&Tensor<4, Bool>>,
) -> Tensor<4> {
    let [batch, heads, _, keys] = of_keys.dims();
    let all = of_keys.expand([batch, heads, rows, keys]);
    let seen = match hidden {
        Some(hidden) => {
            let hidden = hidden.clone().expand([batch, heads, rows, keys]);
            all.mask_fill(hidden, f64::from(MIN_SHIFT))
        }
        None => all,
    };
    seen.max_dim(3).clamp_min(f64::from(MIN_SHIFT)).detach()
}

/// Reshapes the heads of a group to additional queries of their key-value head.
pub(super) fn by_group(q: Tensor<4>, kv_heads: usize) -> Tensor<4> {
    let [batch, heads, queries, d] = q.dims();
    q.reshape([batch, kv_heads, heads / kv_heads * queries, d])
}

/// Same as the public function.
pub fn linear_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    map: &FeatureMap,
    visible: &Visibility,
) -> Tensor<4> {
    let ([batch, heads, queries, _], [_, kv_heads, keys, width]) = (q.dims(), v.dims());
    if keys == 0 {
        return Tensor::zeros([batch, heads, queries, width], (&q.device(), q.dtype()));
    }
    let group = heads / kv_heads;
    let hidden = hidden_keys(visible, [batch, group, queries, keys], &q);
    let (f_q, share) = query_features(by_group(q, kv_heads), map);
    let (f_k, largest) = key_features(k, map);
    let mut weights = f_q.matmul(f_k.swap_dims(2, 3));
    if let (Some(share), Some(largest)) = (share, largest) {
        let c = largest_seen(largest.swap_dims(2, 3), group * queries, hidden.as_ref());
        weights = weights * c.neg().exp() + share;
    }
    if let Some(hidden) = hidden {
        let hidden = hidden.expand([batch, kv_heads, group * queries, keys]);
        weights = weights.mask_fill(hidden, 0.0);
    }
    let y = normalise(weights.matmul(with_ones(v)));
    y.reshape([batch, heads, queries, width])
}

/// Returns true where a query of a group of heads does not see a key, `[B, 1, group·queries, keys]`.
fn hidden_keys(
    visible: &Visibility,
    [batch, group, queries, keys]: [usize; 4],
    like: &Tensor<4>,
) -> Option<Tensor<4, Bool>> {
    if *visible == Visibility::ALL {
        return None;
    }
    let span = Span {
        queries,
        keys,
        offset: 0,
    };
    let all: Vec<usize> = (0..queries).collect();
    let mut hidden = Vec::with_capacity(batch * group * queries * keys);
    for row in 0..batch {
        let of_row = visible.mask_of_queries([row, 0], &all, span);
        (0..group).for_each(|_| hidden.extend_from_slice(&of_row));
    }
    let dims = [batch, 1, group * queries, keys];
    Some(replay::flags(hidden, dims, &like.device()))
}
