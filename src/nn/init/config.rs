//! The kinds of `[model] init` and their settings.

use super::t5::{self, T5InitConfig};
use crate::faults::TableFaults;
use crate::nn::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of `[model] init`.
pub const KINDS: &[Kind] = &[
    Kind {
        kind: "gpt2",
        summary: "normal draws; projections into the residual stream are scaled down with depth",
        source: "Radford et al. 2019, section 2.3",
        example: "{ kind = \"gpt2\", std = 0.02, depth_scaled = false }",
    },
    Kind {
        kind: "xavier",
        summary: "uniform draws with variance 2/(fan in + fan out)",
        source: "Glorot and Bengio 2010",
        example: "{ kind = \"xavier\", gain = 1.0, embedding_std = 0.02 }",
    },
    Kind {
        kind: "truncated_normal",
        summary: "normal draws within two standard deviations",
        source: "Devlin et al. 2018, released code",
        example: "{ kind = \"truncated_normal\", std = 0.02 }",
    },
    t5::KIND,
];

/// The initialisation of a model's matrices. Gains are initially 1 and biases 0 under every scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InitConfig {
    /// Normal draws; projections back into the residual stream are scaled down with depth.
    Gpt2(Gpt2InitConfig),
    /// Uniform with variance 2/(fan in + fan out).
    Xavier(XavierInitConfig),
    /// Normal draws, redrawn beyond two standard deviations.
    TruncatedNormal(TruncatedNormalInitConfig),
    /// Normal draws with variance 1/fan in.
    T5(T5InitConfig),
}

impl Default for InitConfig {
    fn default() -> Self {
        Self::Gpt2(Gpt2InitConfig::default())
    }
}

impl InitConfig {
    /// Returns Xavier's initialisation with a gain of 1.
    pub fn xavier() -> Self {
        Self::Xavier(XavierInitConfig::default())
    }

    /// Returns normal draws with the default deviation, cut at two deviations.
    pub fn truncated_normal() -> Self {
        Self::TruncatedNormal(TruncatedNormalInitConfig::default())
    }

    /// Whether projections into the residual stream are drawn smaller in deeper stacks.
    pub fn scales_with_depth(&self) -> bool {
        match self {
            Self::Gpt2(c) => c.depth_scaled,
            Self::Xavier(_) | Self::TruncatedNormal(_) | Self::T5(_) => false,
        }
    }

    /// Whether the scheme's deviations can be scaled with the width of a model (μP): they are fixed by a setting, or depend on
    /// the width in a single way.
    pub fn suits_width(&self) -> bool {
        match self {
            Self::Gpt2(_) | Self::Xavier(_) | Self::TruncatedNormal(_) => true,
            Self::T5(_) => false,
        }
    }

    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        match self {
            Self::Gpt2(c) => at.positive("std", c.std),
            Self::Xavier(c) => {
                at.positive("gain", c.gain);
                at.positive("embedding_std", c.embedding_std);
            }
            Self::TruncatedNormal(c) => at.positive("std", c.std),
            Self::T5(c) => c.faults(at),
        }
    }
}

/// GPT-2's initialisation (Radford et al. 2019, section 2.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gpt2InitConfig {
    /// Standard deviation of every matrix and embedding. Source: Radford et al. 2018, section 4.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub std: f64,
    /// Whether the standard deviation of projections into the residual stream is divided by √(2·layers); DeepNorm's β replaces
    /// this. Source: Radford et al. 2019, section 2.3.
    pub depth_scaled: bool,
}

impl Default for Gpt2InitConfig {
    fn default() -> Self {
        Self {
            std: 0.02,
            depth_scaled: true,
        }
    }
}

/// Glorot and Bengio 2010; embeddings are normal with their own standard deviation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct XavierInitConfig {
    /// Factor on the bound √(6/(fan in + fan out)). Source: Glorot and Bengio 2010, section 4.2.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub gain: f64,
    /// Standard deviation of embeddings.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub embedding_std: f64,
}

impl Default for XavierInitConfig {
    fn default() -> Self {
        Self {
            gain: 1.0,
            embedding_std: 0.02,
        }
    }
}

/// BERT's initialisation (Devlin et al. 2019, released code): normal, cut at two standard deviations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TruncatedNormalInitConfig {
    /// Standard deviation before the cut. Source: Devlin et al. 2019, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub std: f64,
}

impl Default for TruncatedNormalInitConfig {
    fn default() -> Self {
        Self { std: 0.02 }
    }
}
