//! Relative position bias on a grid with a separate table for each layer: [`relative_bias_2d`](super::relative_bias_2d) per layer
//! (Bao et al. 2022, BEiT, released code). A text is a grid of one row.

use super::facts::{ActsOn, HeadEffect, PositionFacts, RowsOf};
use super::relative_bias_2d::{CLASS_TOKEN_ROWS, RelativeBias2d};
use super::{AttentionView, Kind, PositionScheme, PositionShape, ScoreBias, per_layer};
use crate::nn::init::Init;
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "relative_bias_2d_per_layer",
    summary: "relative_bias_2d with a table for each layer",
    source: "Bao et al. 2022, BEiT, released code",
    example: "{ kind = \"relative_bias_2d_per_layer\" }",
};

/// `relative_bias_2d_per_layer` has no settings: the image's size determines the number of distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RelativeBias2dPerLayerConfig {}

impl PositionFacts for RelativeBias2dPerLayerConfig {
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

/// Adds biases by row and column distance to the scores of each layer.
#[derive(Module, Debug)]
pub struct RelativeBias2dPerLayer {
    /// The table of each layer; `None` for a layer without attention, or one that uses another layer's table.
    pub layers: Vec<Option<RelativeBias2d>>,
}

impl RelativeBias2dPerLayer {
    /// Builds the scheme for a model of this shape.
    pub fn new(shape: &PositionShape, init: &Init) -> Self {
        Self {
            layers: per_layer(shape, || RelativeBias2d::new(shape, init)),
        }
    }
}

impl PositionScheme for RelativeBias2dPerLayer {
    fn score_bias(&self, at: &AttentionView) -> Option<ScoreBias> {
        let own = self.layers.get(at.layer)?.as_ref()?;
        Some(own.prepare(at.span, at.device).score_bias)
    }

    fn max_len(&self) -> Option<usize> {
        self.layers
            .iter()
            .flatten()
            .find_map(PositionScheme::max_len)
    }
}
