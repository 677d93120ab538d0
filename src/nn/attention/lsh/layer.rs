//! The LSH attention layer: projections, hashing, planning of chunks, attention.

use super::hashing::HashRotations;
use super::state::HashedKeys;
use super::weights::WeightArgs;
use super::{AttentionShape, LshConfig};
use crate::kernel;
use crate::kernel::sorted_chunks::{ChunkSizes, SortedChunks, SortedSettings, sorted_chunks};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::state::{LayerState, StateUse};
use crate::rng::Purpose;
use burn::module::Module;
use burn::tensor::Tensor;
use std::borrow::Cow;

/// Added to a key's mean square under the root.
const EPS: f64 = 1e-6;

/// LSH attention with its parameters.
#[derive(Module, Debug)]
pub struct Lsh {
    /// The shared projection of queries and keys, from d_model to n_heads·d_head.
    pub query_key: Linear,
    /// Projection from d_model to n_heads·d_head.
    pub value: Linear,
    /// Projection from n_heads·d_head to d_model.
    pub output: Linear,
    d_head: usize,
    dropout: f64,
    context: usize,
    #[module(skip)]
    config: LshConfig,
    #[module(skip)]
    rotations: Option<HashRotations>,
}

impl Lsh {
    /// Builds the attention layer for this shape.
    pub fn new(config: &LshConfig, shape: &AttentionShape, init: &Init) -> Self {
        let (d_model, heads) = (shape.d_model, &config.heads);
        let d_head = heads.d_head(d_model);
        let width = heads.n_heads * d_head;
        let out_bias = heads.out_bias.unwrap_or(heads.bias);
        Self {
            query_key: Linear::new(
                d_model,
                width,
                heads.bias,
                MatrixRole::Query { d_head },
                init,
            ),
            value: Linear::new(d_model, width, heads.bias, MatrixRole::Value, init),
            output: Linear::new(width, d_model, out_bias, MatrixRole::Residual, init),
            d_head,
            dropout: shape.dropout,
            context: shape.context,
            config: config.clone(),
            rotations: None,
        }
    }

    /// Sets fixed rotations for every pass in place of drawn ones, for example those that another program drew.
    pub fn set_rotations(&mut self, rotations: HashRotations) {
        self.rotations = Some(rotations);
    }

    /// Splits `[batch, seq, heads·d_head]` into heads, `[batch, heads, seq, d_head]`.
    fn split(&self, x: Tensor<3>) -> Tensor<4> {
        let [batch, seq, width] = x.dims();
        let x = x.reshape([batch, seq, width / self.d_head, self.d_head]);
        x.swap_dims(1, 2)
    }

    /// Scales vectors `[batch, heads, seq, d_head]` to a mean square of 1. These are the keys, except for 1/√d_head, which is the
    /// scores' factor.
    fn normalised(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, heads, seq, d_head] = x.dims();
        let x = x.swap_dims(1, 2).reshape([batch, seq * heads, d_head]);
        let x = kernel::rms_norm(x, None, EPS);
        x.reshape([batch, seq, heads, d_head]).swap_dims(1, 2)
    }

    /// Plans the sorted order of the positions of queries `[batch, heads, tokens, d_head]`.
    fn plan(&self, q: &Tensor<4>, lengths: Option<&[usize]>, pass: &Pass) -> SortedChunks {
        let [rows, heads, tokens, d_head] = q.dims();
        let config = &self.config;
        if tokens <= config.chunk {
            return SortedChunks::single_chunk([rows, heads, tokens]);
        }
        let factors = config.factors(tokens, self.context);
        let rotations = self.rotations(&factors, [heads, d_head], pass);
        let buckets = rotations.buckets(q.clone());
        SortedChunks::new(self.sizes([rows, heads, tokens]), &buckets, lengths)
    }

    /// Returns the rotations of a pass, for buckets of these factors.
    fn rotations(
        &self,
        factors: &[usize],
        [heads, d_head]: [usize; 2],
        pass: &Pass,
    ) -> Cow<'_, HashRotations> {
        if let Some(given) = &self.rotations {
            return Cow::Borrowed(given);
        }
        let config = &self.config;
        let mut stream = pass.shared_stream(Purpose::Hashing, config.redraw);
        let sizes = [heads, config.rounds, d_head];
        Cow::Owned(HashRotations::draw(&mut stream, sizes, factors))
    }

    fn sizes(&self, [rows, heads, tokens]: [usize; 3]) -> ChunkSizes {
        let config = &self.config;
        ChunkSizes {
            rows,
            heads,
            tokens,
            rounds: config.rounds,
            chunk: config.chunk,
            back: config.look_back,
            ahead: config.look_ahead,
        }
    }

    /// Plans the order in which the newest queries meet all keys that decoding keeps: new positions are hashed once, and all
    /// positions are sorted again.
    fn plan_decoding(
        &self,
        q: &Tensor<4>,
        k: &Tensor<4>,
        kept: &mut HashedKeys,
        cx: &LayerContext,
    ) -> SortedChunks {
        let [rows, heads, tokens, d_head] = k.dims();
        if tokens <= self.config.chunk {
            return SortedChunks::single_chunk([rows, heads, tokens]);
        }
        let factors = self.config.factors(tokens, self.context);
        let drawn = || {
            self.rotations(&factors, [heads, d_head], cx.pass)
                .into_owned()
        };
        kept.hash(&factors, drawn, [q, k]);
        let (lengths, buckets) = (cx.visible.lengths.as_deref(), kept.buckets());
        let sizes = self.sizes([rows, heads, tokens]);
        SortedChunks::from_parts(sizes, |part| &buckets[part], lengths)
    }
}

impl Layer for Lsh {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let [batch, queries, _] = x.dims();
        assert!(
            cx.memory.is_none(),
            "cross-attention is multi-head attention"
        );
        assert!(cx.sources.is_none(), "keys are queries");
        let mut q = self.split(self.query_key.forward(x.clone()));
        let mut v = self.split(self.value.forward(x));
        if let Some(rotation) = &cx.prepared.rotation {
            q = rotation.rotate(q);
            if rotation.values {
                v = rotation.rotate(v);
            }
        }
        let mut k = self.normalised(q.clone());
        let mut state = cx.state.take();
        let plan = match state
            .as_deref_mut()
            .and_then(LayerState::decoding_state_mut::<HashedKeys>)
        {
            Some(kept) => {
                (k, v) = kept.append(k, v);
                self.plan_decoding(&q, &k, kept, cx)
            }
            None => {
                let lengths = cx.visible.lengths.as_deref();
                cx.pass.order(|| self.plan(&q, lengths, cx.pass))
            }
        };
        cx.state = state;
        let tokens = k.dims()[2];
        let settings = SortedSettings {
            plan,
            visible: cx.visible.clone(),
            scale: 1.0 / (self.d_head as f64).sqrt(),
            dropout: cx
                .pass
                .key("weights", self.dropout)
                .filter(|key| key.p > 0.0),
            first: tokens - queries,
        };
        WeightArgs {
            q: &q,
            k: &k,
            settings: &settings,
        }
        .observe(cx.pass, cx.layer);
        let y = sorted_chunks(q, k, v, settings);
        let width = self.config.heads.n_heads * self.d_head;
        self.output
            .forward(y.swap_dims(1, 2).reshape([batch, queries, width]))
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        match of {
            StateUse::Decoding => LayerState::decoding(HashedKeys::default()),
            StateUse::Segments => LayerState::None,
        }
    }
}
