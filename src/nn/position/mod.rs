//! Position schemes: how a model knows the position of each token.
//!
//! A scheme can act at up to four points: it is added to the embeddings (once, or before every layer), rotates queries and keys,
//! is added to attention scores, or is added to attention values. Everything that depends only on the span of positions is
//! prepared once per forward pass ([`Prepared`]) and shared by all layers. Everything that depends on a layer, or multiplies
//! queries and keys, is computed in every layer ([`PositionScheme::relative`]).

pub mod alibi;
pub mod axial;
pub mod disentangled;
pub mod dynamic_bias;
pub mod facts;
pub mod fire;
pub mod kerple;
pub mod learned;
pub mod learned_2d;
pub mod learned_per_layer;
pub mod none;
pub(crate) mod recording;
pub mod relative_bias;
pub mod relative_bias_2d;
pub mod relative_bias_2d_per_layer;
pub mod resample;
pub mod rotary;
pub mod rotary_2d;
pub mod rotary_centred;
pub mod scheme;
pub mod shaw;
pub mod sinusoidal;
pub mod sinusoidal_2d;
pub mod transformer_xl;
pub mod xpos;

use super::Kind;
use super::init::Init;
pub use crate::kernel::{Relative, ScoreBias, Span};
use alibi::{Alibi, AlibiConfig};
use axial::{Axial, AxialConfig};
use burn::module::Module;
use disentangled::{Disentangled, DisentangledConfig};
use dynamic_bias::{DynamicBias, DynamicBiasConfig};
pub use facts::{ActsOn, HeadEffect, KnownSizes, RowsOf};
use fire::{Fire, FireConfig};
use kerple::{Kerple, KerpleConfig};
use learned::{Learned, LearnedConfig};
use learned_2d::{Learned2d, Learned2dConfig};
use learned_per_layer::{LearnedPerLayer, LearnedPerLayerConfig};
use none::{NoPosition, NoPositionConfig};
use relative_bias::{RelativeBias, RelativeBiasConfig};
use relative_bias_2d::{RelativeBias2d, RelativeBias2dConfig};
use relative_bias_2d_per_layer::{RelativeBias2dPerLayer, RelativeBias2dPerLayerConfig};
use rotary::{Rotary, RotaryConfig};
use rotary_2d::{Rotary2d, Rotary2dConfig};
use rotary_centred::{RotaryCentred, RotaryCentredConfig};
use schemars::JsonSchema;
pub use scheme::{
    AttentionView, FROM_START, HeadProjections, PositionScheme, Prepared, Rotation, SegmentVectors,
    TokenPositions,
};
pub(crate) use scheme::{lookup_rows, split_heads};
use serde::{Deserialize, Serialize};
use shaw::{Shaw, ShawConfig};
use sinusoidal::{Sinusoidal, SinusoidalConfig};
use sinusoidal_2d::{Sinusoidal2d, Sinusoidal2dConfig};
use transformer_xl::{TransformerXl, TransformerXlConfig};
use xpos::{Xpos, XposConfig};

/// The kinds of `[model] position`.
pub const KINDS: &[Kind] = &[
    none::KIND,
    sinusoidal::KIND,
    sinusoidal_2d::KIND,
    learned::KIND,
    learned_per_layer::KIND,
    learned_2d::KIND,
    axial::KIND,
    rotary::KIND,
    rotary_2d::KIND,
    rotary_centred::KIND,
    xpos::KIND,
    alibi::KIND,
    kerple::KIND,
    relative_bias::KIND,
    relative_bias_2d::KIND,
    relative_bias_2d_per_layer::KIND,
    dynamic_bias::KIND,
    fire::KIND,
    shaw::KIND,
    transformer_xl::KIND,
    disentangled::KIND,
];

/// The position scheme of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PositionConfig {
    /// No position information.
    None(NoPositionConfig),
    /// Fixed sines and cosines, added to the embeddings.
    Sinusoidal(SinusoidalConfig),
    /// Fixed sines and cosines of an image's columns and rows.
    #[serde(rename = "sinusoidal_2d")]
    Sinusoidal2d(Sinusoidal2dConfig),
    /// A learned table, added to the embeddings.
    Learned(LearnedConfig),
    /// A learned table for each layer, added to the layer's input.
    LearnedPerLayer(LearnedPerLayerConfig),
    /// Learned tables of an image's rows and columns.
    #[serde(rename = "learned_2d")]
    Learned2d(Learned2dConfig),
    /// A learned table composed of two small ones.
    Axial(AxialConfig),
    /// Queries and keys rotated by their position.
    Rotary(RotaryConfig),
    /// Queries and keys of an image rotated by column and row.
    #[serde(rename = "rotary_2d")]
    Rotary2d(Rotary2dConfig),
    /// Queries and keys of an image rotated by the centres of patches.
    RotaryCentred(RotaryCentredConfig),
    /// Queries and keys rotated, with scores that fade with distance.
    Xpos(XposConfig),
    /// Scores lowered in proportion to distance.
    Alibi(AlibiConfig),
    /// Scores lowered by a learned function of distance.
    Kerple(KerpleConfig),
    /// A learned scalar for each head and distance bucket.
    RelativeBias(RelativeBiasConfig),
    /// A learned scalar for each head and distance by rows and columns of an image.
    #[serde(rename = "relative_bias_2d")]
    RelativeBias2d(RelativeBias2dConfig),
    /// Like `relative_bias_2d`, with a table for each layer.
    #[serde(rename = "relative_bias_2d_per_layer")]
    RelativeBias2dPerLayer(RelativeBias2dPerLayerConfig),
    /// A bias that a small network computes from the distance.
    DynamicBias(DynamicBiasConfig),
    /// A bias that a small network computes from the distance relative to the query's position.
    Fire(FireConfig),
    /// Learned vectors of clipped distances for keys and values.
    Shaw(ShawConfig),
    /// Projected sines and cosines of distances.
    TransformerXl(TransformerXlConfig),
    /// Projected learned vectors of distances for queries and keys.
    Disentangled(DisentangledConfig),
}

impl Default for PositionConfig {
    fn default() -> Self {
        Self::Learned(LearnedConfig::default())
    }
}

/// The model's shape, as far as position schemes depend on it.
#[derive(Clone, Debug)]
pub struct PositionShape {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Width of a head.
    pub d_head: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Longest training input in tokens.
    pub context: usize,
    /// Whether a query sees only earlier keys.
    pub causal: bool,
    /// The layout of the positions in an image; `None` for a text.
    pub grid: Option<Grid>,
    /// Layers without attention, which need nothing from a scheme that acts on heads.
    pub layers_without_attention: Vec<usize>,
    /// Layers whose attention uses the parameters of another layer, including what a scheme learns for it.
    pub layers_sharing_parameters: Vec<usize>,
    /// Dropout on the embeddings.
    pub dropout: f64,
}

impl PositionShape {
    /// Returns the width of all query heads together.
    fn width(&self) -> u128 {
        self.n_heads as u128 * self.d_head as u128
    }

    /// Returns the number of layers with attention.
    fn attending_layers(&self) -> usize {
        self.n_layers - self.layers_without_attention.len()
    }
}

/// Builds a part for each layer that has its own attention parameters, at the layer's index.
fn per_layer<T>(shape: &PositionShape, part: impl Fn() -> T) -> Vec<Option<T>> {
    let lacks = [
        &shape.layers_without_attention,
        &shape.layers_sharing_parameters,
    ];
    let has = |layer: &usize| lacks.iter().all(|layers| !layers.contains(layer));
    let layers = 0..shape.n_layers;
    layers.map(|layer| has(&layer).then(&part)).collect()
}

/// The patches of an image, row by row, after a class token if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Patches from top to bottom.
    pub rows: usize,
    /// Patches from left to right.
    pub cols: usize,
    /// Whether a class token comes first.
    pub class_token: bool,
}

impl Grid {
    /// Returns the number of positions, the class token's included.
    pub fn positions(self) -> usize {
        usize::from(self.class_token) + self.rows * self.cols
    }
}

impl PositionConfig {
    /// Builds the scheme for a model of this shape.
    pub fn init(&self, shape: &PositionShape, init: &Init) -> Position {
        match self {
            Self::None(_) => Position::None(NoPosition {}),
            Self::Sinusoidal(c) => Position::Sinusoidal(Sinusoidal::new(c, shape)),
            Self::Sinusoidal2d(c) => Position::Sinusoidal2d(Sinusoidal2d::new(c, shape)),
            Self::Learned(c) => Position::Learned(Learned::new(c, shape, init)),
            Self::LearnedPerLayer(c) => {
                Position::LearnedPerLayer(LearnedPerLayer::new(c, shape, init))
            }
            Self::Rotary(c) => Position::Rotary(Rotary::new(c, shape)),
            Self::Rotary2d(c) => Position::Rotary2d(Rotary2d::new(c, shape)),
            Self::RotaryCentred(c) => Position::RotaryCentred(RotaryCentred::new(c, shape)),
            Self::Xpos(c) => Position::Xpos(Xpos::new(c, shape)),
            Self::Alibi(c) => Position::Alibi(Alibi::new(c, shape)),
            Self::Kerple(c) => Position::Kerple(Kerple::new(c, shape, init)),
            Self::DynamicBias(c) => Position::DynamicBias(DynamicBias::new(c, shape, init)),
            Self::Fire(c) => Position::Fire(Fire::new(c, shape, init)),
            Self::RelativeBias(c) => Position::RelativeBias(RelativeBias::new(c, shape, init)),
            Self::RelativeBias2d(_) => Position::RelativeBias2d(RelativeBias2d::new(shape, init)),
            Self::RelativeBias2dPerLayer(_) => {
                Position::RelativeBias2dPerLayer(RelativeBias2dPerLayer::new(shape, init))
            }
            Self::Learned2d(c) => Position::Learned2d(Learned2d::new(c, shape, init)),
            Self::Axial(c) => Position::Axial(Axial::new(c, shape, init)),
            Self::Shaw(c) => Position::Shaw(Shaw::new(c, shape, init)),
            Self::TransformerXl(c) => Position::TransformerXl(TransformerXl::new(c, shape, init)),
            Self::Disentangled(c) => Position::Disentangled(Disentangled::new(c, shape, init)),
        }
    }
}

/// A position scheme with its parameters.
#[derive(Module, Debug)]
pub enum Position {
    /// No position information.
    None(NoPosition),
    /// Fixed sines and cosines.
    Sinusoidal(Sinusoidal),
    /// Fixed sines and cosines of an image's columns and rows.
    Sinusoidal2d(Sinusoidal2d),
    /// A learned table.
    Learned(Learned),
    /// A learned table for each layer.
    LearnedPerLayer(LearnedPerLayer),
    /// Rotated queries and keys.
    Rotary(Rotary),
    /// Queries and keys rotated by column and row.
    Rotary2d(Rotary2d),
    /// Queries and keys rotated by the centres of patches.
    RotaryCentred(RotaryCentred),
    /// Rotated queries and keys whose scores fade with distance.
    Xpos(Xpos),
    /// Linear biases.
    Alibi(Alibi),
    /// Learned functions of distance.
    Kerple(Kerple),
    /// Bucketed biases.
    RelativeBias(RelativeBias),
    /// Biases by rows and columns.
    RelativeBias2d(RelativeBias2d),
    /// Biases by rows and columns, with a table for each layer.
    RelativeBias2dPerLayer(RelativeBias2dPerLayer),
    /// Biases that a network computes from the distance.
    DynamicBias(DynamicBias),
    /// Biases that a network computes from the distance relative to the query's position.
    Fire(Fire),
    /// Learned tables of rows and columns.
    Learned2d(Learned2d),
    /// A learned table composed of two small ones.
    Axial(Axial),
    /// Vectors of clipped distances.
    Shaw(Shaw),
    /// Projected sines and cosines of distances.
    TransformerXl(TransformerXl),
    /// Projected learned vectors of distances.
    Disentangled(Disentangled),
}

impl Position {
    /// Returns the variant's scheme.
    pub fn scheme(&self) -> &dyn PositionScheme {
        match self {
            Self::None(scheme) => scheme,
            Self::Sinusoidal(scheme) => scheme,
            Self::Sinusoidal2d(scheme) => scheme,
            Self::Learned(scheme) => scheme,
            Self::LearnedPerLayer(scheme) => scheme,
            Self::Rotary(scheme) => scheme,
            Self::Rotary2d(scheme) => scheme,
            Self::RotaryCentred(scheme) => scheme,
            Self::Xpos(scheme) => scheme,
            Self::Alibi(scheme) => scheme,
            Self::Kerple(scheme) => scheme,
            Self::DynamicBias(scheme) => scheme,
            Self::Fire(scheme) => scheme,
            Self::RelativeBias(scheme) => scheme,
            Self::RelativeBias2d(scheme) => scheme,
            Self::RelativeBias2dPerLayer(scheme) => scheme,
            Self::Learned2d(scheme) => scheme,
            Self::Axial(scheme) => scheme,
            Self::Shaw(scheme) => scheme,
            Self::TransformerXl(scheme) => scheme,
            Self::Disentangled(scheme) => scheme,
        }
    }
}
