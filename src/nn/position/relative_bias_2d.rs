//! Relative position bias on a grid: a learned scalar for each head and each pair of row and column distances (Liu et al. 2021,
//! Swin, section 3.2; Bao et al. 2022, BEiT, with three more scalars for a class token: as query, as key, and to itself). All
//! layers share one table. A text is a grid of one row.

use super::facts::{ActsOn, HeadEffect, PositionFacts, RowsOf};
use super::{Grid, Kind, PositionScheme, PositionShape, Prepared, ScoreBias, Span};
use crate::kernel::{self, replay};
use crate::nn::init::{Init, MatrixRole};
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "relative_bias_2d",
    summary: "a learned scalar for each head and each distance by rows and columns, added to the scores",
    source: "Liu et al. 2021, section 3.2; Bao et al. 2022",
    example: "{ kind = \"relative_bias_2d\" }",
};

/// `relative_bias_2d` has no settings: the image's size determines the number of distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelativeBias2dConfig {}

impl PositionFacts for RelativeBias2dConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Heads(HeadEffect::PairBias)
    }

    fn text_counterpart(&self) -> Option<Kind> {
        Some(super::relative_bias::KIND)
    }

    fn rows_of(&self, _parameter: &str) -> Option<RowsOf> {
        Some(RowsOf::GridDistances(CLASS_TOKEN_ROWS))
    }
}

/// Roles of the parameters of [`RelativeBias2d`].
pub const ROLES: Roles = Roles::new("RelativeBias2d", &[("table", TABLE)]);

/// Adds biases by row and column distance between query and key to the scores.
#[derive(Module, Debug)]
pub struct RelativeBias2d {
    /// `[distances, heads]`: row (rows + R − 1)·(2C − 1) + columns + C − 1 is for a query that is `rows` rows below and `columns`
    /// columns to the right of its key, in a grid of R rows and C columns. The three rows of a class token come last.
    pub table: Param<Tensor<2>>,
    #[module(skip)]
    grid: Grid,
}

/// Returns the number of distances between the patches of a grid.
fn distances(grid: Grid) -> usize {
    (2 * grid.rows).saturating_sub(1) * (2 * grid.cols).saturating_sub(1)
}

/// Number of table rows for a class token.
pub(super) const CLASS_TOKEN_ROWS: usize = 3;

impl RelativeBias2d {
    /// Builds the scheme for a model of this shape.
    pub fn new(shape: &PositionShape, init: &Init) -> Self {
        let grid = shape.grid.unwrap_or(Grid {
            rows: 1,
            cols: shape.context,
            class_token: false,
        });
        let more = usize::from(grid.class_token) * CLASS_TOKEN_ROWS;
        Self {
            table: {
                let role = MatrixRole::ScoreBias {
                    d_model: shape.d_model,
                };
                init.table_of(distances(grid) + more, shape.n_heads, role)
            },
            grid,
        }
    }
}

/// Returns the table row for a query and a key.
fn table_row(grid: Grid, query: usize, key: usize) -> usize {
    let Grid {
        rows,
        cols,
        class_token,
    } = grid;
    let patch = |position: usize| position.checked_sub(usize::from(class_token));
    match (patch(query), patch(key)) {
        (Some(query), Some(key)) => {
            let below = query / cols + rows - 1 - key / cols;
            let right = query % cols + cols - 1 - key % cols;
            below * (2 * cols - 1) + right
        }
        (None, Some(_)) => distances(grid),
        (Some(_), None) => distances(grid) + 1,
        (None, None) => distances(grid) + 2,
    }
}

/// Looks up the rows of a table `[distances, heads]` for each pair of a query and a key of a grid.
pub(crate) fn lookup_biases(
    table: Tensor<2>,
    grid: Grid,
    span: Span,
    device: &Device,
) -> ScoreBias {
    let Span {
        queries,
        keys,
        offset,
    } = span;
    let pairs = (offset..offset + queries).flat_map(|i| (0..keys).map(move |j| (i, j)));
    let ids: Vec<i32> = pairs.map(|(i, j)| table_row(grid, i, j) as i32).collect();
    let ids = replay::integers::<2>(TensorData::new(ids, [queries, keys]), device);
    let bias = kernel::embedding(table, ids);
    ScoreBias::Dense(bias.permute([2, 0, 1]).unsqueeze_dim::<4>(0))
}

impl PositionScheme for RelativeBias2d {
    fn prepare(&self, span: Span, device: &Device) -> Prepared {
        Prepared {
            score_bias: lookup_biases(self.table.val(), self.grid, span, device),
            ..Prepared::default()
        }
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.grid.positions())
    }
}
