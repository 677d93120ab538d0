//! Performer: softmax attention estimated by products of random features, FAVOR+ (Choromanski et al. 2021, arXiv:2009.14794).
//! With w the rows of a random matrix, exp(x·y) is the mean of exp(w·x − |x|²/2)·exp(w·y − |y|²/2). All features are positive,
//! and the error falls as 1/√features; orthogonal rows reduce it further (theorem 2).
//!
//! `kernel = "relu"` uses relu(w·x) in place of the exponential (generalised attention). [`Features::Exponential`] describes what
//! is subtracted before exponentials, [`super::random_features`] the matrix and its draws. For either kernel, the mean over draws
//! depends only on the lengths of queries and keys and the angle between them, so that rotary positions keep their meaning:
//! queries and keys are rotated before their features are computed.

use super::featured::{self, FeatureSource, Featured};
use super::multi_head::MultiHeadConfig;
use super::random_features::{RandomFeatures, RowNorms};
use super::{Abilities, AttentionFacts, AttentionShape, Kind};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::kernel::linear_attention::Features;
use crate::nn::init::Init;
use crate::nn::position::HeadEffect;
use crate::one_table::one_table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Entry of this kind in its family's table.
pub const KIND: Kind = Kind {
    kind: "performer",
    summary: "a softmax estimated by random features, redrawn in training; time and memory linear in the length",
    source: "Choromanski et al. 2021",
    example: "{ kind = \"performer\", n_heads = 4, features = 64, redraw = 1000 }",
};

/// The function of a query and a key that is estimated by products of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Estimates {
    /// exp(scale·q·k); the normalised weights are those of softmax.
    Softmax,
    /// The mean of relu(w·q)·relu(w·k) over random w.
    Relu,
}

/// Settings of Performer: those of multi-head attention that act before or after the weights, and its features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct PerformerConfig {
    /// The heads with their projections.
    #[serde(skip)]
    #[schemars(!skip, flatten)]
    pub heads: MultiHeadConfig,
    /// Number of random features; d_head·ln d_head, rounded down, when absent. Source: Choromanski et al. 2021, section 2.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<usize>,
    /// The function that the features estimate. Source: Choromanski et al. 2021, section 2.2.
    pub kernel: Estimates,
    /// Lengths of the random vectors. Source: Choromanski et al. 2021, section 2.4.
    pub row_norms: RowNorms,
    /// Number of steps after which training draws new random vectors; with 0 those of the first step stay. Evaluation uses those
    /// of the first step.
    pub redraw: usize,
    /// Added to each feature; 0.0001 for softmax and 0.001 for relu when absent.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps: Option<f64>,
}

impl Default for PerformerConfig {
    fn default() -> Self {
        Self {
            heads: MultiHeadConfig::default(),
            features: None,
            kernel: Estimates::Softmax,
            row_norms: RowNorms::Chi,
            redraw: 1000,
            eps: None,
        }
    }
}

one_table!(PerformerConfig, heads: MultiHeadConfig, |_| &[]);

impl PerformerConfig {
    /// Returns the number of random features for heads of this width.
    fn features(&self, d_head: usize) -> usize {
        let d = d_head as f64;
        self.features.unwrap_or(((d * d.ln()) as usize).max(1))
    }

    /// Builds the attention layer for this shape.
    pub fn init(&self, shape: &AttentionShape, init: &Init) -> Featured {
        let d_head = self.heads.d_head(shape.d_model);
        let scale = self.heads.scale.unwrap_or(1.0 / (d_head as f64).sqrt());
        let features = match self.kernel {
            Estimates::Softmax => Features::Exponential {
                scale,
                eps: self.eps.unwrap_or(1e-4),
            },
            Estimates::Relu => Features::Rectified {
                scale,
                eps: self.eps.unwrap_or(1e-3),
            },
        };
        let sizes = [self.features(d_head), d_head];
        let random = RandomFeatures::new(features, sizes, self.row_norms, self.redraw, init);
        Featured::new(&self.heads, shape, init, FeatureSource::Random(random))
    }
}

impl AttentionFacts for PerformerConfig {
    /// Estimates from rotated queries and keys depend on their absolute positions, not only on their distance.
    fn depends_on_absolute_position(&self) -> bool {
        true
    }

    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.heads.clone()
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        self.heads = heads;
    }

    fn abilities(&self) -> Abilities {
        featured::abilities(&[HeadEffect::Rotation])
    }

    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        tokens
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.count("features", self.features.unwrap_or(1), MAX_WIDTH);
        if let Some(eps) = self.eps.filter(|eps| !(*eps >= 0.0 && eps.is_finite())) {
            at.fault(&["eps"], format!("eps = {eps:?} must be 0 or more"));
        }
        featured::faults(&self.heads, KIND.kind, d_model, at)
    }

    fn products(&self, d_model: usize, pairs: [usize; 3]) -> u128 {
        let d = self.heads.d_head(d_model);
        let features = self.features(d) as u128 * d as u128;
        featured::products(&self.heads, d_model, pairs, 2 * features)
    }
}
