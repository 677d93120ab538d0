//! No positions: a causal decoder can still learn order from its mask (Haviv et al. 2022, "NoPos").

use super::facts::{ActsOn, PositionFacts};
use super::{Kind, PositionScheme};
use burn::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "none",
    summary: "no positions; order comes only from the causal mask",
    source: "Haviv et al. 2022",
    example: "{ kind = \"none\" }",
};

/// `none` has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoPositionConfig {}

impl PositionFacts for NoPositionConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn acts_on(&self) -> ActsOn {
        ActsOn::Embeddings
    }

    fn allowed_per_block(&self) -> bool {
        true
    }

    fn encodes_absolute_position(&self) -> bool {
        false
    }

    fn reads_smaller_grids(&self) -> bool {
        true
    }
}

/// A scheme that does nothing.
#[derive(Module, Debug)]
pub struct NoPosition {}

impl PositionScheme for NoPosition {}
