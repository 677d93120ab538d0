//! Multi-head latent attention: keys and values of all heads are computed from one narrow vector (the latent) of each position,
//! which is all that decoding keeps of it (DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 2.1):
//!
//! c = norm(W_DKV x), k_i = [W_UK,i c ; turn(W_KR x)], v_i = W_UV,i c, q_i = [q_i^C ; turn(q_i^R)],
//! head_i = softmax(q_i k_iᵀ/√(d_nope + d_rope)) v_i.
//!
//! Positions rotate only the last `d_rope` elements of a head, whose key is shared by all heads. Queries are computed from the
//! input or, with `q_rank`, from a separate latent vector.
//!
//! In decoding the state is c with the rotated shared key, [`LatentCache`]. The first tokens are read as in training. Later queries
//! attend to the state itself, as multi-query attention whose single head is (c ; rotated key): W_UK is absorbed into the query,
//! q_i^C W_UK,i, and W_UV is applied after the weighted sum of vectors c (section 2.1.2). Both ways agree up to rounding.
//!
//! This kind can attend neither to earlier segments nor to a memory: cross-attention beside it is multi-head attention with heads
//! of the same width.

mod config;
mod state;

use super::{AttentionInputs, AttentionShape, Kind};
use crate::kernel::{AttentionOptions, Operand, Positional};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::linear::Linear;
use crate::nn::norm::{Norm, NormConfig};
use crate::nn::position::recording;
use crate::nn::state::{LayerState, StateUse};
use burn::module::Module;
use burn::tensor::Tensor;
pub use config::LatentConfig;
pub use state::LatentCache;

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "latent",
    summary: "keys and values of all heads from one narrow vector per position, the only cache in decoding (MLA)",
    source: "DeepSeek-AI 2024, DeepSeek-V2, section 2.1",
    example: "{ kind = \"latent\", n_heads = 4, d_nope = 32, d_rope = 16, d_value = 32, kv_rank = 64 }",
};

/// Latent attention with its parameters.
#[derive(Module, Debug)]
pub struct Latent {
    /// W_DQ, from d_model to q_rank, if queries are computed from a latent vector.
    pub query_latent: Option<Linear>,
    /// Norm on the latent vector of queries.
    pub query_norm: Norm,
    /// W_UQ and W_QR, from d_model or q_rank to n_heads·(d_nope + d_rope), head by head.
    pub query: Linear,
    /// W_DKV, from d_model to kv_rank.
    pub latent: Linear,
    /// Norm on the latent vector of keys and values.
    pub latent_norm: Norm,
    /// W_KR, from d_model to d_rope.
    pub shared_key: Linear,
    /// W_UK, from kv_rank to n_heads·d_nope.
    pub key: Linear,
    /// W_UV, from kv_rank to n_heads·d_value.
    pub value: Linear,
    /// Output map, from n_heads·d_value to d_model.
    pub output: Linear,
    n_heads: usize,
    d_nope: usize,
    d_rope: usize,
    d_value: usize,
    kv_rank: usize,
    scale: f64,
    dropout: f64,
}

impl LatentConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Latent {
        let (d_model, heads, rank) = (shape.d_model, self.n_heads, self.kv_rank);
        let d_key = self.d_key();
        let down = |d_out| Linear::new(d_model, d_out, self.bias, MatrixRole::Inner, init);
        let up = |d_out, role| Linear::new(rank, heads * d_out, false, role, init);
        let of_query = self.q_rank.unwrap_or(d_model);
        let role = MatrixRole::Query { d_head: d_key };
        let query_norm = match self.q_rank {
            Some(rank) => self.norm.init(rank, init),
            None => NormConfig::none().init(0, init),
        };
        Latent {
            query_latent: self.q_rank.map(down),
            query_norm,
            query: Linear::new(of_query, heads * d_key, false, role, init),
            latent: down(rank),
            latent_norm: self.norm.init(rank, init),
            shared_key: down(self.d_rope),
            key: up(self.d_nope, MatrixRole::Inner),
            value: up(self.d_value, MatrixRole::Value),
            output: Linear::new(
                heads * self.d_value,
                d_model,
                self.bias,
                MatrixRole::Residual,
                init,
            ),
            n_heads: heads,
            d_nope: self.d_nope,
            d_rope: self.d_rope,
            d_value: self.d_value,
            kv_rank: rank,
            scale: self.scale(),
            dropout: shape.dropout,
        }
    }
}

impl Latent {
    /// Splits `[batch, seq, heads·d]` into heads, `[batch, heads, seq, d]`.
    fn split(&self, x: Tensor<3>) -> Tensor<4> {
        let [batch, seq, width] = x.dims();
        let d = width / self.n_heads;
        x.reshape([batch, seq, self.n_heads, d]).swap_dims(1, 2)
    }

    /// Returns the two parts of all queries: the part without rotation, and the part rotated by positions.
    fn queries(&self, x: Operand, cx: &LayerContext) -> [Tensor<4>; 2] {
        let q = match &self.query_latent {
            Some(down) => self
                .query
                .forward(self.query_norm.forward(down.forward_operand(x))),
            None => self.query.forward_operand(x),
        };
        let q = self.split(q);
        let plain = q.clone().narrow(3, 0, self.d_nope);
        [plain, rotate(q.narrow(3, self.d_nope, self.d_rope), cx)]
    }

    /// Returns normalised latents `[batch, seq, kv_rank]` and rotated shared keys `[batch, 1, seq, d_rope]`.
    fn latents(&self, x: Operand, cx: &LayerContext) -> (Tensor<3>, Tensor<4>) {
        let latent = self
            .latent_norm
            .forward(self.latent.forward_operand(x.clone()));
        let shared = self.shared_key.forward_operand(x).unsqueeze_dim(1);
        (latent, rotate(shared, cx))
    }

    /// Returns the result of attention over the keys and values of all heads, `[batch, heads, queries, d_value]`.
    fn attend_by_heads(
        &self,
        [plain, turned]: [Tensor<4>; 2],
        latent: Tensor<3>,
        shared: Tensor<4>,
        cx: &LayerContext,
    ) -> Tensor<4> {
        let source = Operand::new(latent);
        let k = self.split(self.key.forward_operand(source.clone()));
        let v = self.split(self.value.forward_operand(source));
        let [batch, heads, keys, _] = k.dims();
        let shared = shared.expand([batch, heads, keys, self.d_rope]);
        let k = Tensor::cat(vec![k, shared], 3);
        let q = Tensor::cat(vec![plain, turned], 3);
        // The kernels need values as wide as keys: padding zeros change no score, and the excess of the results is cut off.
        let width = (self.d_nope + self.d_rope).max(self.d_value);
        let [q, k, v] = [q, k, v].map(|x| pad_width(x, width));
        let y = self.attend([q, k, v], cx);
        y.narrow(3, 0, self.d_value)
    }

    /// Like [`Self::by_heads`], over the stored state of all positions, `[batch, 1, keys, kv_rank + d_rope]`, which serves as
    /// both key and value.
    fn attend_absorbed(
        &self,
        [plain, turned]: [Tensor<4>; 2],
        kept: Tensor<4>,
        cx: &LayerContext,
    ) -> Tensor<4> {
        let of_heads = |map: &Linear, d: usize| {
            let weight: Tensor<4> = map.weight.val().reshape([1, self.n_heads, d, self.kv_rank]);
            weight
        };
        let plain = plain.matmul(of_heads(&self.key, self.d_nope));
        let q = Tensor::cat(vec![plain, turned], 3);
        let y = self.attend([q, kept.clone(), kept], cx);
        let y = y.narrow(3, 0, self.kv_rank);
        y.matmul(of_heads(&self.value, self.d_value).swap_dims(2, 3))
    }

    /// Applies softmax attention to the visible keys of the context.
    fn attend(&self, [q, k, v]: [Tensor<4>; 3], cx: &LayerContext) -> Tensor<4> {
        let relations = Positional {
            visible: cx.visible.clone(),
            offset: cx.span.offset,
            bias: cx.prepared.score_bias.clone(),
            ..Positional::default()
        };
        recording::note_bias(cx.pass, cx.layer, q.dims()[2], &relations.bias);
        let options = AttentionOptions {
            scale: self.scale,
            softcap: None,
            dropout: cx.pass.key("weights", self.dropout),
        };
        let attended = AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            options,
            is_cross: false,
            first_key: 0,
        };
        attended.softmax(cx)
    }
}

/// Rotates parts of heads by the positions of the pass.
fn rotate(x: Tensor<4>, cx: &LayerContext) -> Tensor<4> {
    match &cx.prepared.rotation {
        Some(rotation) => rotation.rotate(x),
        None => x,
    }
}

/// Pads the last dimension of `x` with zeros up to `width`.
fn pad_width(x: Tensor<4>, width: usize) -> Tensor<4> {
    let [batch, heads, positions, own] = x.dims();
    if own == width {
        return x;
    }
    let zeros = Tensor::<4>::zeros([batch, heads, positions, width - own], &x.device());
    let zeros = zeros.cast(x.dtype());
    Tensor::cat(vec![x, zeros], 3)
}

impl Layer for Latent {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let [batch, seq, _] = x.dims();
        let others = cx.sources.take().map(Operand::new);
        let x = Operand::new(x);
        let queries = self.queries(x.clone(), cx);
        let (latent, shared) = self.latents(others.unwrap_or(x), cx);
        let state = cx.state.as_deref_mut();
        let y = match state.and_then(LayerState::decoding_state_mut::<LatentCache>) {
            Some(kept) => {
                let new = Tensor::cat(vec![latent.clone().unsqueeze_dim(1), shared.clone()], 3);
                let first = kept.is_empty();
                let all = kept.append(new);
                match first {
                    true => self.attend_by_heads(queries, latent, shared, cx),
                    false => self.attend_absorbed(queries, all, cx),
                }
            }
            None => self.attend_by_heads(queries, latent, shared, cx),
        };
        let y = y.swap_dims(1, 2);
        self.output
            .forward(y.reshape([batch, seq, self.n_heads * self.d_value]))
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        match of {
            StateUse::Decoding => LayerState::decoding(LatentCache::default()),
            StateUse::Segments => LayerState::None,
        }
    }
}
