//! A single table with a vector of d_model elements for every token: the vocabulary of almost every transformer.

use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "full",
    summary: "one table, a vector of d_model elements for every token, scores of all tokens at every position",
    source: "Bengio et al. 2003; Press and Wolf 2017 (tied)",
    example: "{ kind = \"full\" }",
};

/// `full` has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FullVocabularyConfig {}
