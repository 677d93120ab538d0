//! A learned table of positions added to the input of every layer, N·T·d parameters
//! (Al-Rfou et al. 2019, "Character-level language modeling with deeper self-attention", section 2.2).

use super::facts::{ActsOn, KnownSizes, PositionFacts, RowsOf};
use super::learned::table_faults;
use super::{Kind, PositionScheme, PositionShape, TokenPositions, lookup_rows};
use crate::faults::TableFaults;
use crate::nn::init::Init;
use crate::nn::role::{Roles, TABLE};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "learned_per_layer",
    summary: "a learned table added to the input of every layer",
    source: "Al-Rfou et al. 2019, section 2.2",
    example: "{ kind = \"learned_per_layer\" }",
};

/// Settings of per-layer positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearnedPerLayerConfig {
    /// Number of rows of each table; the data's context when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_len: Option<usize>,
}

impl PositionFacts for LearnedPerLayerConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Layers
    }

    fn faults(&self, known: &KnownSizes, at: &mut TableFaults) {
        table_faults(self.max_len, 0, known, at);
    }

    fn rows_of(&self, _parameter: &str) -> Option<RowsOf> {
        Some(RowsOf::Positions)
    }
}

/// Roles of the parameters of [`LearnedPerLayer`].
pub const ROLES: Roles = Roles::new("LearnedPerLayer", &[("tables", TABLE)]);

/// Adds the rows of the layer's table to its input.
#[derive(Module, Debug)]
pub struct LearnedPerLayer {
    /// One table `[max_len, d_model]` for each layer.
    pub tables: Vec<Param<Tensor<2>>>,
    max_len: usize,
}

impl LearnedPerLayer {
    /// Builds the scheme for a model of this shape.
    pub fn new(config: &LearnedPerLayerConfig, shape: &PositionShape, init: &Init) -> Self {
        let max_len = config.max_len.unwrap_or(shape.context);
        Self {
            tables: (0..shape.n_layers)
                .map(|_| init.table(max_len, shape.d_model))
                .collect(),
            max_len,
        }
    }
}

impl PositionScheme for LearnedPerLayer {
    fn embed_layer(&self, x: Tensor<3>, layer: usize, at: &TokenPositions) -> Tensor<3> {
        let [_, seq, _] = x.dims();
        x + lookup_rows(self.tables[layer].val(), seq, at)
    }

    fn max_len(&self) -> Option<usize> {
        Some(self.max_len)
    }
}
