//! ReZero: x + α·f(x), one learned number for each layer's result, 0 at the start (Bachlechner et al. 2020, section 3).
//!
//! The paper does without norms: `norm = "none"`.

use crate::faults::TableFaults;
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "rezero",
    summary: "one learned number for each result, 0 at the start",
    source: "Bachlechner et al. 2020, ReZero",
    example: "{ kind = \"rezero\" }",
};

/// ReZero's knobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RezeroConfig {
    /// The number at the start. Source: Bachlechner et al. 2020, section 3.
    #[schemars(range(min = 0))]
    pub init: f64,
}

impl RezeroConfig {
    /// Faults of its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.not_negative("init", self.init);
    }
}
