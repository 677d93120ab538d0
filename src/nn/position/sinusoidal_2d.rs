//! Fixed sinusoidal positions on a grid, added to the embeddings (Chen et al. 2021, MoCo v3, section 5; He et al. 2022, MAE, and
//! its released code).
//!
//! Of d dimensions the first half encodes the column and the second half the row; each half is [sin(pω₀) … sin(pω_{d/4−1}),
//! cos(pω₀) … cos(pω_{d/4−1})] with ω_i = base^(−i/(d/4)). A class token gets zeros. A text is a grid of one row.

use super::facts::{ActsOn, KnownSizes, PositionFacts};
use super::{
    Grid, Kind, PositionConfig, PositionScheme, PositionShape, TokenPositions, lookup_rows,
};
use crate::faults::TableFaults;
use crate::kernel::replay;
use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "sinusoidal_2d",
    summary: "fixed sines and cosines of an image's columns and rows, added to the embeddings",
    source: "Chen et al. 2021, section 5; He et al. 2022",
    example: "{ kind = \"sinusoidal_2d\", base = 10000.0 }",
};

/// Settings of sinusoidal positions on a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sinusoidal2dConfig {
    /// Longest wavelength divided by 2π.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub base: f64,
}

impl Default for Sinusoidal2dConfig {
    fn default() -> Self {
        Self { base: 10_000.0 }
    }
}

impl From<Sinusoidal2dConfig> for PositionConfig {
    fn from(config: Sinusoidal2dConfig) -> Self {
        Self::Sinusoidal2d(config)
    }
}

impl PositionFacts for Sinusoidal2dConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Embeddings
    }

    fn faults(&self, _: &KnownSizes, at: &mut TableFaults) {
        at.positive("base", self.base);
    }

    fn text_counterpart(&self) -> Option<Kind> {
        Some(super::sinusoidal::KIND)
    }

    fn divides_width(&self) -> usize {
        4
    }
}

/// Adds fixed sines and cosines of column and row to the embeddings.
#[derive(Module, Debug)]
pub struct Sinusoidal2d {
    d_model: usize,
    base: f64,
    #[module(skip)]
    grid: Grid,
}

impl Sinusoidal2d {
    /// Builds the scheme for a model of this shape, whose width must be a multiple of 4.
    pub fn new(config: &Sinusoidal2dConfig, shape: &PositionShape) -> Self {
        Self {
            d_model: shape.d_model,
            base: config.base,
            grid: shape.grid.unwrap_or(Grid {
                rows: 1,
                cols: shape.context,
                class_token: false,
            }),
        }
    }
}

/// Returns the table of a grid, row-major `[positions, d]`, with the class token's zeros first.
pub fn table(grid: Grid, d: usize, base: f64) -> Vec<f32> {
    let quarter = d / 4;
    let mut values = vec![0.0; usize::from(grid.class_token) * d];
    for row in 0..grid.rows {
        for col in 0..grid.cols {
            for place in [col, row] {
                let angle = |i: usize| place as f64 / base.powf(i as f64 / quarter as f64);
                values.extend((0..quarter).map(|i| angle(i).sin() as f32));
                values.extend((0..quarter).map(|i| angle(i).cos() as f32));
            }
        }
    }
    values
}

impl PositionScheme for Sinusoidal2d {
    fn embed(&self, x: Tensor<3>, at: &TokenPositions) -> Tensor<3> {
        let [_, seq, d] = x.dims();
        let values = table(self.grid, self.d_model, self.base);
        let data = TensorData::new(values, [self.grid.positions(), d]);
        x.clone() + lookup_rows(replay::floats(data, &x.device()), seq, at)
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.grid.positions())
    }
}
