//! A learned table of positions, added to the embeddings (Gehring et al. 2017; GPT, BERT).

use super::facts::{ActsOn, KnownSizes, PositionFacts, RowsOf};
use super::resample::resample_grid;
use super::{Grid, Kind, PositionScheme, PositionShape, TokenPositions, lookup_rows};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::nn::init::Init;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "learned",
    summary: "a learned vector for each position, added to the embeddings",
    source: "Gehring et al. 2017; Radford et al. 2018",
    example: "{ kind = \"learned\" }",
};

/// Settings of learned positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearnedConfig {
    /// Number of rows of the table; the data's context when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_len: Option<usize>,
    /// Row of the first position; the rows before it belong to no position (RoBERTa and BART: 2).
    pub first: usize,
}

impl PositionFacts for LearnedConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Embeddings
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
        table_faults(self.max_len, self.first, known, at);
    }

    fn rows_of(&self, _parameter: &str) -> Option<RowsOf> {
        Some(RowsOf::Positions)
    }

    fn reads_smaller_grids(&self) -> bool {
        self.max_len.is_none() && self.first == 0
    }

    fn reserved_rows(&self) -> usize {
        self.first
    }
}

/// Roles of the parameters of [`Learned`].
pub const ROLES: Roles = Roles::new("Learned", &[("table", TABLE)]);

/// Adds a learned vector for each position to the embeddings.
#[derive(Module, Debug)]
pub struct Learned {
    /// `[max_len, d_model]`.
    pub table: Param<Tensor<2>>,
    max_len: usize,
    first: usize,
}

impl Learned {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &LearnedConfig, shape: &PositionShape, init: &Init) -> Self {
        let first = config.first;
        let max_len = config.max_len.unwrap_or(shape.context + first);
        Self {
            table: init.table(max_len, shape.d_model),
            max_len,
            first,
        }
    }
}

impl PositionScheme for Learned {
    fn embed(&self, x: Tensor<3>, at: &TokenPositions) -> Tensor<3> {
        let [_, seq, _] = x.dims();
        let at = TokenPositions {
            offset: at.offset + self.first,
            ids: at.ids.clone().map(|ids| match self.first {
                0 => ids,
                first => ids + first as i64,
            }),
            segments: None,
        };
        x + lookup_rows(self.table.val(), seq, &at)
    }

    fn embed_smaller(&self, x: Tensor<3>, from: Grid, to: Grid) -> Tensor<3> {
        let [from_sides, to_sides] = [from, to].map(|grid| [grid.rows, grid.cols]);
        let table = resample_grid(
            self.table.val(),
            from_sides,
            to_sides,
            from.class_token,
            false,
        );
        x + table.unsqueeze_dim::<3>(0)
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.max_len - self.first)
    }
}

/// Reports faults of a learned table of `max_len` rows, which must cover the longest inputs.
pub(super) fn table_faults(
    max_len: Option<usize>,
    first: usize,
    known: &KnownSizes,
    at: &mut TableFaults,
) {
    if first > MAX_POSITIONS || max_len.is_some_and(|rows| first > 0 && first >= rows) {
        let rule = format!("first = {first} leaves no row of the table for positions");
        at.fault(&["first", "max_len"], rule);
        return;
    }
    let Some(rows) = max_len else { return };
    if !at.count("max_len", rows, MAX_POSITIONS) {
        return;
    }
    let longest = rows - first;
    let Some(context) = known.context.filter(|context| *context > longest) else {
        return;
    };
    if known.is_image {
        let rule = format!(
            "max_len = {rows} has rows for {longest} positions, but an image has {context}, including the tokens before its \
             patches; remove it to follow the data"
        );
        at.fault(&["max_len"], rule);
    } else {
        let rule = format!(
            "max_len = {rows} is shorter than the context of {context} tokens; remove it to follow the data, or shorten texts \
             with data.context = {longest}"
        );
        at.fault(&["max_len", "data.context"], rule);
    }
}
