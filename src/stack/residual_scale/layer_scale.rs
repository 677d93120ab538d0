//! Layer scale: x + diag(λ)·f(LN(x)), a learned gain for each channel of each layer's output (Touvron et al. 2021, CaiT, section
//! 2).

use crate::faults::TableFaults;
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its entry in the list of kinds.
pub const KIND: Kind = Kind {
    kind: "layer_scale",
    summary: "a learned gain for each channel, initially small",
    source: "Touvron et al. 2021, CaiT; DINOv2",
    example: "{ kind = \"layer_scale\", init = 1e-4 }",
};

/// Settings of layer scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerScaleConfig {
    /// Initial value of each gain: 0.1 up to 18 layers, 1e-5 up to 24 and 1e-6 beyond in the paper; 1 in DINOv2's classes at
    /// Hugging Face.
    /// Source: Touvron et al. 2021, CaiT, section 2.
    pub init: f64,
}

impl Default for LayerScaleConfig {
    fn default() -> Self {
        Self { init: 1e-4 }
    }
}

impl LayerScaleConfig {
    /// Checks its keys.
    pub(super) fn faults(&self, at: &mut TableFaults) {
        at.positive("init", self.init);
    }
}
