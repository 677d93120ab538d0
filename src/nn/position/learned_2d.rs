//! Learned positions on a grid: a vector for each row and one for each column, added to the embeddings (Dosovitskiy et al. 2021,
//! ViT, appendix D.4; Carion et al. 2020, DETR).
//!
//! A patch gets `[columns[x], rows[y]]`, each of half the model's width, or their sum. A class token has a separate vector. A text
//! is a grid of one row.

use super::facts::{ActsOn, PositionFacts, RowsOf};
use super::{Grid, Kind, PositionScheme, PositionShape, TokenPositions, lookup_rows};
use crate::nn::init::Init;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "learned_2d",
    summary: "a learned vector for each row and each column of an image's patches, added to the embeddings",
    source: "Dosovitskiy et al. 2021, appendix D.4; Carion et al. 2020",
    example: "{ kind = \"learned_2d\", joined = \"halves\" }",
};

/// Settings of learned positions on a grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Learned2dConfig {
    /// How the vectors of row and column are combined.
    pub joined: Joined,
}

/// How the vectors of row and column are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Joined {
    /// Concatenated: the column's vector is the first half, the row's the second.
    #[default]
    Halves,
    /// Added: both vectors are as wide as the model.
    Sum,
}

impl PositionFacts for Learned2dConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Embeddings
    }

    fn text_counterpart(&self) -> Option<Kind> {
        Some(super::learned::KIND)
    }

    fn rows_of(&self, parameter: &str) -> Option<RowsOf> {
        match parameter {
            "rows" => Some(RowsOf::GridRows),
            "columns" => Some(RowsOf::GridColumns),
            _ => None,
        }
    }

    fn divides_width(&self) -> usize {
        match self.joined {
            Joined::Halves => 2,
            Joined::Sum => 1,
        }
    }
}

/// Roles of the parameters of [`Learned2d`].
pub const ROLES: Roles = Roles::new(
    "Learned2d",
    &[("columns", TABLE), ("rows", TABLE), ("class_token", TABLE)],
);

/// Adds the vectors of row and column to the embeddings.
#[derive(Module, Debug)]
pub struct Learned2d {
    /// Vectors of columns `[columns, d]`, with d the model's width or half of it.
    pub columns: Param<Tensor<2>>,
    /// Vectors of rows `[rows, d]`.
    pub rows: Param<Tensor<2>>,
    /// Vector of the class token, `[1, d_model]`.
    pub class_token: Option<Param<Tensor<2>>>,
    #[module(skip)]
    grid: Grid,
    #[module(skip)]
    joined: Joined,
}

impl Learned2d {
    /// Builds the scheme for a model of this shape, whose width must be even for halves.
    pub fn new(config: &Learned2dConfig, shape: &PositionShape, init: &Init) -> Self {
        let grid = shape.grid.unwrap_or(Grid {
            rows: 1,
            cols: shape.context,
            class_token: false,
        });
        let d = shape.d_model;
        let width = match config.joined {
            Joined::Halves => d / 2,
            Joined::Sum => d,
        };
        Self {
            columns: init.table(grid.cols, width),
            rows: init.table(grid.rows, width),
            class_token: grid.class_token.then(|| init.table(1, d)),
            grid,
            joined: config.joined,
        }
    }

    /// Returns the vector for each position, `[positions, d_model]`.
    fn table(&self) -> Tensor<2> {
        let Grid { rows, cols, .. } = self.grid;
        let (of_rows, of_columns) = (self.rows.val(), self.columns.val());
        let [_, width] = of_rows.dims();
        let of_rows = of_rows.reshape([rows, 1, width]);
        let of_rows = of_rows.expand([rows, cols, width]);
        let of_columns = of_columns.reshape([1, cols, width]);
        let of_columns = of_columns.expand([rows, cols, width]);
        let patches = match self.joined {
            Joined::Halves => Tensor::cat(vec![of_columns, of_rows], 2),
            Joined::Sum => of_columns + of_rows,
        };
        let [_, _, d_model] = patches.dims();
        let patches = patches.reshape([rows * cols, d_model]);
        match &self.class_token {
            Some(token) => Tensor::cat(vec![token.val(), patches], 0),
            None => patches,
        }
    }
}

impl PositionScheme for Learned2d {
    fn embed(&self, x: Tensor<3>, at: &TokenPositions) -> Tensor<3> {
        let [_, seq, _] = x.dims();
        x + lookup_rows(self.table(), seq, at)
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.grid.positions())
    }
}
