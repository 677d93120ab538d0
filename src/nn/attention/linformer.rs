//! Linformer: keys and values are projected along positions to k of them before queries meet them, so that time and memory grow
//! linearly with the length (Wang et al. 2020, section 4): head_i = softmax(scale·Q_i(E_i K_i)ᵀ)·(F_i V_i), E and F
//! `[k, context]`.
//!
//! Each position has its own column of E and F: a text shorter than the context uses the first columns. Keys and values of
//! padding are zeroed before the projection, so that padding changes nothing. Every projected key mixes all positions. Hence no
//! query can be kept from later keys, from other documents or from distant keys, and positions can act only through the
//! embeddings.
//!
//! Sharing (section 4, "additional efficiency techniques"): `none` gives each head its own E and F, `headwise` one E and one F
//! for all heads of a layer, `key_value` one E = F for a layer, `layerwise` one E = F for all layers with the same settings,
//! stored in the first of them. E and F are drawn from normals of variance 1/k, as the random projections of the paper's proof
//! (theorem 2), whatever scheme initialises the other matrices.

use super::multi_head::{MultiHead, MultiHeadConfig};
use super::{Abilities, AttentionFacts, AttentionInputs, AttentionShape, Kind, ReadingDirection};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{self, Positional};
use crate::nn::init::Init;
use crate::nn::layer::{Layer, LayerContext};
use crate::nn::padding;
use crate::nn::role::{Roles, WEIGHT};
use crate::one_table::one_table;
use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "linformer",
    summary: "keys and values projected along positions to k of them; linear time and memory; bidirectional",
    source: "Wang et al. 2020, section 4",
    example: "{ kind = \"linformer\", n_heads = 4, k = 64, sharing = \"headwise\" }",
};

/// Which heads and layers share a projection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each head has one projection for keys and one for values.
    None,
    /// The heads of a layer share one projection for keys and one for values.
    #[default]
    Headwise,
    /// A layer has one projection for both keys and values.
    KeyValue,
    /// All layers with the same settings share one projection.
    Layerwise,
}

/// Settings of Linformer: those of multi-head attention, the number of projected keys and the sharing of projections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct LinformerConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Number of keys and values that positions are projected to. Source: Wang et al. 2020, section 4.
    #[schemars(range(min = 1, max = crate::faults::MAX_POSITIONS))]
    pub k: usize,
    /// Which heads and layers share a projection. Source: Wang et al. 2020, section 4.
    pub sharing: Sharing,
}

impl Default for LinformerConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            k: 256,
            sharing: Sharing::default(),
        }
    }
}

one_table!(LinformerConfig, heads: MultiHeadConfig, |_| &[]);

/// Roles of the parameters of [`Projection`].
pub const ROLES: Roles = Roles::new("Projection", &[("weight", WEIGHT)]);

/// A linear map along positions.
#[derive(Module, Debug)]
pub struct Projection {
    /// `[k, context]`, or `[kv heads·k, context]`, head after head, if each head has its own.
    pub weight: Param<Tensor<2>>,
}

impl Projection {
    fn new(maps: usize, k: usize, context: usize, init: &Init) -> Self {
        Self {
            weight: init.random_projection(context, k, maps),
        }
    }
}

/// Linformer attention with its parameters.
#[derive(Module, Debug)]
pub struct Linformer {
    /// Projections of queries, keys, values and the output.
    pub heads: MultiHead,
    /// The projection of keys, and of values too if they have none of their own; absent if an earlier layer lends it.
    pub project_keys: Option<Projection>,
    /// The separate projection of values.
    pub project_values: Option<Projection>,
    k: usize,
    context: usize,
    #[module(skip)]
    sharing: Sharing,
}

impl LinformerConfig {
    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Linformer {
        let heads = MultiHead::new(&self.heads, shape, init);
        let maps = match self.sharing {
            Sharing::None => self.heads.n_kv_heads(),
            Sharing::Headwise | Sharing::KeyValue | Sharing::Layerwise => 1,
        };
        let own = self.sharing != Sharing::Layerwise || shape.lender == shape.layer;
        let of_values = matches!(self.sharing, Sharing::None | Sharing::Headwise);
        let projection = || Projection::new(maps, self.k, shape.context, init);
        Linformer {
            heads,
            project_keys: own.then(projection),
            project_values: of_values.then(projection),
            k: self.k,
            context: shape.context,
            sharing: self.sharing,
        }
    }
}

impl AttentionFacts for LinformerConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        self.heads = heads;
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            reads: ReadingDirection::Bidirectional,
            positions: &[],
            rotated_values: false,
            documents: false,
            prefix: false,
            segments: false,
            across: false,
            weights: true,
            sinks: false,
        }
    }

    fn keys(&self, _tokens: usize, _causal: bool) -> usize {
        self.k
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("k", self.k, MAX_POSITIONS);
        self.heads.faults(d_model, at)
    }

    /// Besides what all heads keep: keys and values once more, transposed for the projection.
    fn activations(&self, d_model: usize) -> u128 {
        self.heads.activations(d_model) + 2 * self.kv_width(d_model)
    }

    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        let [_, sources, keys] = pairs;
        let projected = 2 * sources as u128 * keys as u128 * self.kv_width(d_model);
        self.heads.products(d_model, pairs) + projected
    }
}

impl LinformerConfig {
    fn kv_width(&self, d_model: usize) -> u128 {
        self.heads.n_kv_heads() as u128 * self.heads.d_head(d_model) as u128
    }
}

impl Linformer {
    /// Projects `x` `[batch, kv heads, positions, d_head]` to `[batch, kv heads, k, d_head]`.
    fn project_positions(&self, x: Tensor<4>, weight: &Tensor<2>) -> Tensor<4> {
        let [batch, heads, positions, d_head] = x.dims();
        assert!(
            positions <= self.context,
            "a projection has a column for each of {} positions",
            self.context
        );
        let weight = weight.clone().narrow(1, 0, positions);
        let by_columns = x.swap_dims(2, 3);
        let map = |x: Tensor<4>, weight: Tensor<2>| {
            let [_, heads, ..] = x.dims();
            let x = x.reshape([batch, heads * d_head, positions]);
            let y = kernel::linear(x, weight, None);
            y.reshape([batch, heads, d_head, self.k])
        };
        let projected = match self.sharing {
            Sharing::None => {
                let each = (0..heads).map(|head| {
                    let weight = weight.clone().narrow(0, head * self.k, self.k);
                    map(by_columns.clone().narrow(1, head, 1), weight)
                });
                Tensor::cat(each.collect(), 1)
            }
            Sharing::Headwise | Sharing::KeyValue | Sharing::Layerwise => map(by_columns, weight),
        };
        projected.swap_dims(2, 3)
    }

    fn attend(&self, attended: AttentionInputs, cx: &LayerContext) -> Tensor<4> {
        let lent = || cx.lent.clone();
        let own = |map: &Option<Projection>| map.as_ref().map(|map| map.weight.val());
        let Some(of_keys) = own(&self.project_keys).or_else(lent) else {
            unreachable!("the first layer with these keys has a projection and lends it")
        };
        let of_values = own(&self.project_values).unwrap_or_else(|| of_keys.clone());
        let lengths = attended.positional.visible.lengths.as_deref();
        let k = self.project_positions(zero_padding(attended.k, lengths), &of_keys);
        let v = self.project_positions(zero_padding(attended.v, lengths), &of_values);
        let attended = AttentionInputs {
            k,
            v,
            positional: Positional::default(),
            ..attended
        };
        attended.softmax_over_summaries(cx)
    }
}

/// Returns `x` `[batch, heads, positions, d_head]` with zeros at the positions beyond the rows' lengths.
pub(super) fn zero_padding(x: Tensor<4>, lengths: Option<&[usize]>) -> Tensor<4> {
    let [batch, _, positions, _] = x.dims();
    let Some(factors) = padding::token_mask(lengths, positions) else {
        return x;
    };
    let factors = TensorData::new(factors, [batch, 1, positions, 1]);
    let factors = Tensor::<4>::from_data(factors, &x.device()).cast(x.dtype());
    x * factors
}

impl Layer for Linformer {
    fn forward(&self, x: Tensor<3>, cx: &mut LayerContext) -> Tensor<3> {
        self.heads
            .forward_with(x, cx, |attended, cx| self.attend(attended, cx))
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.context)
    }

    fn lent_matrix(&self) -> Option<Tensor<2>> {
        let lends = self.sharing == Sharing::Layerwise;
        let map = self.project_keys.as_ref().filter(|_| lends);
        map.map(|map| map.weight.val())
    }
}
