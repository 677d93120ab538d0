//! ReZero: x + α·f(x), one learned number for each layer's output, 0 at the start (Bachlechner et al. 2020, section 3).
//!
//! The paper uses no norms: `norm = "none"`.

use crate::faults::TableFaults;
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its entry in the list of kinds.
pub const KIND: Kind = Kind {
    kind: "rezero",
    summary: "one learned factor for each result, initially 0",
    source: "Bachlechner et al. 2020, ReZero",
    example: "{ kind = \"rezero\" }",
};

/// Settings of ReZero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RezeroConfig {
    /// Initial value of the number. Source: Bachlechner et al. 2020, section 3.
    #[schemars(range(min = 0))]
    pub init: f64,
}

impl RezeroConfig {
    /// Checks its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.not_negative("init", self.init);
    }
}
