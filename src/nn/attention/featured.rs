//! Attention by features of queries and keys, the common part of `linear` and `performer`: multi-head projections around sums of
//! features.
//!
//! No weight of a query and a key is computed, so there is none to drop, record or cap. In decoding a layer keeps the sums of
//! each head ([`RunningSums`]), whose size is constant; cross-attention keeps those of its memory.

use super::MultiHeadConfig;
use super::multi_head::MultiHead;
use super::random_features::RandomFeatures;
use super::{Abilities, AttentionInputs, AttentionShape, ReadingDirection};
use crate::faults::TableFaults;
use crate::kernel::Sequences;
use crate::kernel::linear_attention::{FeatureMap, Features, RunningSums, linear_attention};
use crate::nn::init::Init;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::position::HeadEffect;
use crate::nn::state::{LayerState, StateUse};
use burn::module::Module;
use burn::tensor::Tensor;

/// Attention by features, with its parameters.
#[derive(Module, Debug)]
pub struct Featured {
    /// Projections of queries, keys, values and outputs.
    pub heads: MultiHead,
    n_kv_heads: usize,
    d_head: usize,
    #[module(skip)]
    features: FeatureSource,
}

/// The source of the features.
#[derive(Clone, Debug)]
pub(super) enum FeatureSource {
    /// Features of the vectors themselves.
    Plain(Features),
    /// Features of products with random vectors.
    Random(RandomFeatures),
}

impl Featured {
    /// Builds the attention layer for this shape with features from `source`.
    pub(super) fn new(
        heads: &MultiHeadConfig,
        shape: &AttentionShape,
        init: &Init,
        source: FeatureSource,
    ) -> Self {
        Self {
            heads: MultiHead::new(heads, shape, init),
            n_kv_heads: heads.n_kv_heads(),
            d_head: heads.d_head(shape.d_model),
            features: source,
        }
    }

    /// Replaces the random vectors by these, row after row: one row per feature.
    ///
    /// # Panics
    /// If the features are not random, or `rows` does not consist of whole rows.
    #[must_use]
    pub fn with_random_vectors(mut self, rows: Vec<f32>) -> Self {
        match &mut self.features {
            FeatureSource::Random(random) => random.set_vectors(rows),
            FeatureSource::Plain(_) => unreachable!("these features have no projection"),
        }
        self
    }

    fn feature_map(&self, x: &Tensor<3>, cx: &LayerContext) -> FeatureMap {
        match &self.features {
            FeatureSource::Plain(features) => FeatureMap::plain(*features),
            FeatureSource::Random(random) => random.feature_map(cx.pass, &x.device()),
        }
    }

    /// Takes the kept sums out of the state, if there are any.
    fn take_sums(&self, state: Option<&mut LayerState>) -> Option<RunningSums> {
        match state {
            Some(LayerState::Recurrent(vectors)) => {
                RunningSums::from_vectors(std::mem::take(vectors), self.n_kv_heads, self.d_head)
            }
            _ => None,
        }
    }

    fn weigh(
        &self,
        attended: AttentionInputs,
        cx: &mut LayerContext,
        map: &FeatureMap,
    ) -> Tensor<4> {
        let AttentionInputs {
            q,
            k,
            v,
            positional: relations,
            is_cross: crossed,
            ..
        } = attended;
        let visible = relations.visible;
        let before = self.take_sums(cx.state.as_deref_mut());
        let Some(state @ LayerState::Recurrent(_)) = cx.state.as_deref_mut() else {
            return linear_attention(q, k, v, map, &visible);
        };
        let (y, after) = if crossed {
            let sums = RunningSums::from_keys(k, v, map, visible.lengths.as_deref());
            (sums.attend(q, map), sums)
        } else {
            let sequences = Sequences::from_visibility(cx.visible, cx.span);
            RunningSums::advance(before, [q, k, v], map, &sequences)
        };
        *state = LayerState::Recurrent(after.into_vectors());
        y
    }
}

impl Layer for Featured {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        let map = self.feature_map(&x, cx);
        // The sums of a memory are computed once.
        if cx.memory.is_some()
            && let Some(sums) = self.take_sums(cx.state.as_deref_mut())
        {
            let y = self.heads.forward_queries(x, |q| sums.attend(q, &map));
            if let Some(state) = cx.state.as_deref_mut() {
                *state = LayerState::Recurrent(sums.into_vectors());
            }
            return y;
        }
        self.heads
            .forward_with(x, cx, |attended, cx| self.weigh(attended, cx, &map))
    }

    fn reach(&self) -> Option<usize> {
        Some(0)
    }

    fn empty_state(&self, of: StateUse) -> LayerState {
        match of {
            StateUse::Decoding => LayerState::Recurrent(Vec::new()),
            StateUse::Segments => LayerState::None,
        }
    }
}

/// Returns the abilities of attention by features, with these ways for positions to act on its heads.
pub(super) fn abilities(positions: &'static [HeadEffect]) -> Abilities {
    Abilities {
        reads: ReadingDirection::Either,
        positions,
        rotated_values: true,
        documents: true,
        prefix: false,
        segments: false,
        across: true,
        weights: false,
        sinks: false,
    }
}

/// Returns the multiplications of a forward pass: those of the projections, and `of_each` for each head and position, for mapping
/// queries and keys and multiplying them with the sums.
pub(super) fn products(
    heads: &MultiHeadConfig,
    d_model: usize,
    [queries, sources, _]: [usize; 3],
    of_each: u128,
) -> u128 {
    let vectors = queries as u128 * heads.n_heads as u128;
    let vectors = vectors + sources as u128 * heads.n_kv_heads() as u128;
    heads.products(d_model, [queries, sources, 0]) + vectors * of_each
}

/// Reports invalid head settings of a kind that computes no scores.
pub(super) fn faults(
    heads: &MultiHeadConfig,
    kind: &str,
    d_model: Option<usize>,
    at: &mut TableFaults,
) -> Option<usize> {
    if let Some(cap) = heads.softcap {
        let rule = format!(
            "softcap = {cap:?} has no effect on kind = \"{kind}\", which computes no scores; remove it, or use multi_head"
        );
        at.fault(&["softcap", "kind"], rule);
    }
    heads.faults(d_model, at)
}
