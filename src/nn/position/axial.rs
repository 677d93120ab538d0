//! Axial positions: a learned table of many positions composed of two small ones (Kitaev et al. 2020, Reformer, and its released
//! code).
//!
//! With a shape of r rows and c columns, position p is in row ⌊p/c⌋ and column p mod c. Its vector is the row's vector followed
//! by the column's: r·w₁ + c·w₂ parameters in place of r·c·(w₁ + w₂). With `joined = "sum"` both vectors are as wide as the model
//! and added, as in the embeddings of the Sparse Transformer (Child et al. 2019, section 5.3).

use super::facts::{ActsOn, KnownSizes, PositionFacts};
use super::learned_2d::Joined;
use super::{Kind, PositionScheme, PositionShape, TokenPositions};
use crate::faults::{MAX_POSITIONS, MAX_WIDTH, TableFaults};
use crate::kernel;
use crate::nn::init::Init;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "axial",
    summary: "a learned table as one of rows and one of columns of positions, side by side or added",
    source: "Kitaev et al. 2020, released code; Child et al. 2019, section 5.3",
    example: "{ kind = \"axial\", axial_shape = [16, 16] }",
};

/// Settings of axial positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AxialConfig {
    /// Rows and columns, whose product is the length of the longest input; the data's context, nearly square, when absent.
    /// Source: Kitaev et al. 2020, released code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axial_shape: Option<[usize; 2]>,
    /// Widths of the row and column vectors, whose sum is d_model; a half each when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axial_widths: Option<[usize; 2]>,
    /// Whether the row and column vectors are concatenated or added.
    #[serde(skip_serializing_if = "are_halves")]
    pub joined: Joined,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn are_halves(joined: &Joined) -> bool {
    *joined == Joined::Halves
}

impl AxialConfig {
    /// Returns the rows and columns for inputs of `context` tokens.
    pub fn shape(&self, context: usize) -> [usize; 2] {
        self.axial_shape.unwrap_or_else(|| {
            let columns = ((context as f64).sqrt().ceil() as usize).max(1);
            [context.div_ceil(columns).max(1), columns]
        })
    }
}

impl AxialConfig {
    /// Returns the widths of the row and column vectors in a model of this width.
    pub fn widths(&self, d_model: usize) -> [usize; 2] {
        if self.joined == Joined::Sum {
            return [d_model; 2];
        }
        let half = d_model / 2;
        self.axial_widths.unwrap_or([half, d_model - half])
    }
}

impl PositionFacts for AxialConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Embeddings
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
        let KnownSizes {
            d_model,
            context,
            is_image: of_images,
            ..
        } = *known;
        if let Some([rows, columns]) = self.axial_shape {
            let sound = [rows, columns].map(|n| at.count("axial_shape", n, MAX_POSITIONS));
            let places = rows.saturating_mul(columns);
            if let Some(context) = context.filter(|context| sound == [true; 2] && *context > places)
            {
                let (what, keys) = match of_images {
                    true => (
                        format!("{context} positions of an image"),
                        &["axial_shape"][..],
                    ),
                    false => (
                        format!("context of {context} tokens"),
                        &["axial_shape", "data.context"][..],
                    ),
                };
                let rule = format!(
                    "axial_shape = [{rows}, {columns}] has {places} positions, fewer than the {what}; remove it to follow the data"
                );
                at.fault(keys, rule);
            }
        }
        if self.joined == Joined::Sum {
            if self.axial_widths.is_some() {
                let rule = "axial_widths has no effect with joined = \"sum\", where both tables have the width d_model; remove it";
                at.fault(&["axial_widths", "joined"], rule);
            }
            return;
        }
        match (self.axial_widths, d_model) {
            (Some([row, column]), d_model) => {
                let sound = [row, column].map(|n| at.count("axial_widths", n, MAX_WIDTH));
                let sum = row.saturating_add(column);
                if let Some(d_model) = d_model.filter(|d| sound == [true; 2] && sum != *d) {
                    let rule = format!(
                        "axial_widths = [{row}, {column}] sum to {sum}, not to d_model = {d_model}; remove it for two halves"
                    );
                    at.fault(&["axial_widths", "model.d_model"], rule);
                }
            }
            (None, Some(1)) => {
                let rule = "d_model = 1 cannot be split into two widths, as kind = \"axial\" needs; make it 2 or more";
                at.fault(&["model.d_model", "kind"], rule);
            }
            (None, _) => {}
        }
    }

    fn embedding_width_fault(&self, width: usize, d_model: usize) -> Option<String> {
        let narrow = width == 1 && self.joined == Joined::Halves;
        let wrong = width != d_model && (self.axial_widths.is_some() || narrow);
        wrong.then(|| {
            format!(
                "axial positions are added to vectors of d_embedding = {width} elements, but their widths sum to d_model = \
                 {d_model}; remove axial_widths, and make d_embedding 2 or more"
            )
        })
    }
}

/// Roles of the parameters of [`Axial`].
pub const ROLES: Roles = Roles::new("Axial", &[("rows", TABLE), ("columns", TABLE)]);

/// Adds the row and column vectors of each position to the embeddings.
#[derive(Module, Debug)]
pub struct Axial {
    /// `[rows, w₁]`.
    pub rows: Param<Tensor<2>>,
    /// `[columns, w₂]`.
    pub columns: Param<Tensor<2>>,
    n_rows: usize,
    n_columns: usize,
    added: bool,
}

impl Axial {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &AxialConfig, shape: &PositionShape, init: &Init) -> Self {
        let [rows, columns] = config.shape(shape.context);
        let [first, second] = config.widths(shape.d_model);
        Self {
            rows: init.table(rows, first),
            columns: init.table(columns, second),
            n_rows: rows,
            n_columns: columns,
            added: config.joined == Joined::Sum,
        }
    }

    /// Combines row and column vectors into vectors of positions.
    fn joined(&self, rows: Tensor<3>, columns: Tensor<3>) -> Tensor<3> {
        match self.added {
            true => rows + columns,
            false => Tensor::cat(vec![rows, columns], 2),
        }
    }

    /// Returns the vectors of positions `from..from + seq`, `[seq, d_model]`, computed only for the rows that contain them.
    fn vectors(&self, from: usize, seq: usize) -> Tensor<2> {
        let columns = self.n_columns;
        let (first, end) = (from / columns, (from + seq).div_ceil(columns));
        let rows = self.rows.val().narrow(0, first, end - first);
        let ([n, w1], [_, w2]) = (rows.dims(), self.columns.dims());
        let rows = rows.reshape([n, 1, w1]).expand([n, columns, w1]);
        let of_columns = self.columns.val().reshape([1, columns, w2]);
        let of_columns = of_columns.expand([n, columns, w2]);
        let vectors = self.joined(rows, of_columns);
        let vectors = vectors.reshape([n * columns, if self.added { w1 } else { w1 + w2 }]);
        vectors.narrow(0, from - first * columns, seq)
    }
}

impl PositionScheme for Axial {
    fn embed(&self, x: Tensor<3>, at: &TokenPositions) -> Tensor<3> {
        let [_, seq, _] = x.dims();
        x + match &at.ids {
            Some(ids) => {
                let columns = self.n_columns as i32;
                let row = ids.clone() / columns;
                let column = ids.clone() - row.clone() * columns;
                let rows = kernel::embedding(self.rows.val(), row);
                self.joined(rows, kernel::embedding(self.columns.val(), column))
            }
            None => {
                assert!(
                    at.offset + seq <= self.n_rows.saturating_mul(self.n_columns),
                    "positions {}..{} of {} x {}",
                    at.offset,
                    at.offset + seq,
                    self.n_rows,
                    self.n_columns
                );
                self.vectors(at.offset, seq).unsqueeze_dim(0)
            }
        }
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.n_rows.saturating_mul(self.n_columns))
    }
}
