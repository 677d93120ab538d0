//! The position bias of a window: numbers added to scores by the rows and columns between query and key. They come from a table,
//! or from a small network that reads these distances (Liu et al. 2022, Swin V2, section 3.3):
//!
//! ```text
//! B = 16·σ(W₂·relu(W₁·c + b₁))      c = sign(Δ)·log₂(1 + 8|Δ|) / log₂ 8, Δ = distance / (side − 1)
//! ```
//!
//! The network generalises to distances that training never saw. For windows of another side than it was trained with,
//! `trained_windows` gives the side of which Δ is a fraction.

use super::config::StageShape;
use crate::kernel::replay;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::position::relative_bias_2d::{RelativeBias2d, lookup_biases};
use crate::nn::position::{Grid, PositionScheme, PositionShape, Prepared, Span};
use burn::module::Module;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, FloatDType, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of a window's position bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PositionBias {
    /// One learned number per head and distance (Liu et al. 2021).
    #[default]
    Table,
    /// A network that reads distances on a logarithmic scale (Liu et al. 2022).
    Continuous,
}

/// Hidden width of the network of distances. Source: Liu et al. 2022, released code.
const HIDDEN_WIDTH: usize = 512;
/// Maximum bias of the network. Source: Liu et al. 2022, released code.
const MAX_BIAS: f64 = 16.0;
/// Factor on distances before the logarithm. Source: Liu et al. 2022, released code.
const DISTANCE_SCALE: f64 = 8.0;

/// The position bias of a block's windows.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a block has one of them, and it holds its tensors elsewhere"
)]
pub enum WindowBias {
    /// Bias from a table.
    Table(RelativeBias2d),
    /// Bias from a network.
    Continuous(ContinuousBias),
}

impl WindowBias {
    /// Builds the bias for a block of a stage.
    pub(super) fn new(kind: PositionBias, trained: usize, stage: &StageShape, init: &Init) -> Self {
        match kind {
            PositionBias::Table => Self::Table(RelativeBias2d::new(&shape(stage), init)),
            PositionBias::Continuous => Self::Continuous(ContinuousBias::new(trained, stage, init)),
        }
    }

    /// Returns the bias that all windows of a pass share.
    pub(super) fn prepared(&self, span: Span, device: &Device) -> Prepared {
        match self {
            Self::Table(table) => table.prepare(span, device),
            Self::Continuous(network) => network.prepared(span, device),
        }
    }
}

/// The grid of positions in a window.
fn grid(stage: &StageShape) -> Grid {
    Grid {
        rows: stage.window,
        cols: stage.window,
        class_token: false,
    }
}

/// The shape of a window for a position scheme.
fn shape(stage: &StageShape) -> PositionShape {
    PositionShape {
        d_model: stage.width,
        n_heads: stage.heads,
        d_head: stage.width / stage.heads.max(1),
        n_layers: 1,
        context: stage.window * stage.window,
        causal: false,
        grid: Some(grid(stage)),
        layers_without_attention: Vec::new(),
        layers_sharing_parameters: Vec::new(),
        dropout: 0.0,
    }
}

/// A network of two linear maps that reads distances.
#[derive(Module, Debug)]
pub struct ContinuousBias {
    /// First map, `[2, 512]`, with a bias.
    pub up: Linear,
    /// Second map, `[512, heads]`.
    pub down: Linear,
    side: usize,
    trained: usize,
}

impl ContinuousBias {
    fn new(trained: usize, stage: &StageShape, init: &Init) -> Self {
        Self {
            up: Linear::new(2, HIDDEN_WIDTH, true, MatrixRole::Input, init),
            down: Linear::new(HIDDEN_WIDTH, stage.heads, false, MatrixRole::Inner, init),
            side: stage.window,
            trained: match trained {
                0 => stage.window,
                trained => trained,
            },
        }
    }

    /// Returns row and column of all distances on the logarithmic scale, `[distances, 2]`.
    fn distances(&self) -> Vec<f32> {
        let most = self.side as i64 - 1;
        let whole = (self.trained as f64 - 1.0).max(1.0);
        let scaled = |distance: i64| {
            let share = DISTANCE_SCALE * distance as f64 / whole;
            (share.signum() * (share.abs() + 1.0).log2() / DISTANCE_SCALE.log2()) as f32
        };
        let along = || -most..=most;
        let pairs = along().flat_map(|row| along().map(move |column| [row, column]));
        pairs.flatten().map(scaled).collect()
    }

    fn prepared(&self, span: Span, device: &Device) -> Prepared {
        let distances = self.distances();
        let rows = distances.len() / 2;
        let distances = replay::floats::<2>(TensorData::new(distances, [rows, 2]), device);
        let inner = relu(self.up.forward(distances.unsqueeze_dim::<3>(0)));
        let table = self.down.forward(inner).cast(FloatDType::F32);
        let table = sigmoid(table) * MAX_BIAS;
        let heads = table.dims()[2];
        let grid = Grid {
            rows: self.side,
            cols: self.side,
            class_token: false,
        };
        Prepared {
            score_bias: lookup_biases(table.reshape([rows, heads]), grid, span, device),
            ..Prepared::default()
        }
    }
}

/// Multiplications of a block's network of distances, once per pass.
pub(super) fn products(kind: PositionBias, stage: &StageShape) -> u128 {
    let along = (2 * stage.window).saturating_sub(1) as u128;
    match kind {
        PositionBias::Table => 0,
        PositionBias::Continuous => {
            along * along * HIDDEN_WIDTH as u128 * (2 + stage.heads as u128)
        }
    }
}

/// Elements kept by a block's network of distances for the backward pass, once per pass.
pub(super) fn activations(kind: PositionBias, stage: &StageShape) -> u128 {
    let along = (2 * stage.window).saturating_sub(1) as u128;
    match kind {
        PositionBias::Table => 0,
        PositionBias::Continuous => {
            along * along * (HIDDEN_WIDTH as u128 + 2 * stage.heads as u128)
        }
    }
}
