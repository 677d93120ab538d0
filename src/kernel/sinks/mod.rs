//! Attention sinks: one extra score per head that stands beside the scores of all its queries and has no value, so
//! that a query can attend to nothing (Miller 2023, "Attention is off by one", with score 0; OpenAI 2025, gpt-oss
//! model card, section 2.2, with learned scores). The weights are `exp(s_j)/(exp(sink) + Σ exp(s_i))`.
//!
//! With `L` the log-sum-exp of a query's scores, the output is that of attention without sinks times `σ(L − sink)`.
//! Gradients are those of attention's own backward pass with `L − ln σ(L − sink)` in place of `L`. So every attention
//! kernel supports sinks.

pub mod extension;
mod tracked;

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;

use super::extension::{AttentionSaved, AttentionSettings, BackwardOps, Maybe};

/// Runs attention with sinks `[H]` and keeps the values its backward pass needs.
fn saving<B: BackwardOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    bias: Maybe<B>,
    sinks: FloatTensor<B>,
    settings: AttentionSettings,
) -> AttentionSaved<B> {
    let saved = B::attention_saving(q, k, v, bias, settings);
    let [rows, heads, queries] = saved.lse.shape().dims();
    let above = B::float_sub(saved.lse.clone(), by_head::<B>(sinks));
    let log_share = B::log_sigmoid(above);
    let share = B::float_exp(log_share.clone());
    let share = B::float_reshape(share, Shape::from([rows, heads, queries, 1]));
    AttentionSaved {
        out: B::float_mul(saved.out, share),
        lse: B::float_sub(saved.lse, log_share),
        ..saved
    }
}

/// Returns the gradient of the sinks, `[H]`, given the output gradient: `−Σ w·(dy·y)` over the queries of a head,
/// where w is the sink's weight.
fn gradient<B: Backend>(
    saved: &AttentionSaved<B>,
    sinks: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let dims: [usize; 3] = saved.lse.shape().dims();
    let products = B::float_sum_dim(B::float_mul(grad, saved.out.clone()), 3);
    let products = B::float_reshape(products, Shape::from(dims));
    let weights = B::float_exp(B::float_sub(by_head::<B>(sinks), saved.lse.clone()));
    let each = B::float_neg(B::float_mul(weights, products));
    let sum = B::float_sum_dim(B::float_sum_dim(each, 0), 2);
    B::float_reshape(sum, Shape::from([dims[1]]))
}

/// Reshapes `[H]` to `[1, H, 1]`.
fn by_head<B: Backend>(sinks: FloatTensor<B>) -> FloatTensor<B> {
    let heads = sinks.shape().num_elements();
    B::float_reshape(sinks, Shape::from([1, heads, 1]))
}
