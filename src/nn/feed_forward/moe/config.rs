//! The settings of a mixture of experts, and the facts that checks and plans query.

use super::super::{DenseConfig, GatedConfig};
use super::routing::Score;
use crate::faults::TableFaults;
use crate::one_table::is_usual;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of experts.
pub(super) const MAX_EXPERTS: usize = 1 << 16;

/// Settings of a mixture of experts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MoeConfig {
    /// Number of experts. Source: Shazeer et al. 2017, section 2.
    #[schemars(range(min = 1, max = MAX_EXPERTS))]
    pub n_experts: usize,
    /// Number of experts that a token uses. Source: Shazeer et al. 2017, section 2.1.
    #[schemars(range(min = 1, max = MAX_EXPERTS))]
    pub top_k: usize,
    /// The form of each expert.
    pub expert: ExpertConfig,
    /// Number of experts that every token uses beside those it is routed to; they form one layer with this multiple of an
    /// expert's inner width. Source: Dai et al. 2024, DeepSeekMoE, section 3.2.
    #[schemars(range(max = MAX_EXPERTS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub shared: usize,
    /// Whether a gate multiplies the shared experts' output for a token: σ of a product with the token's vector. Source: Qwen
    /// Team 2024, Qwen1.5-MoE.
    #[serde(skip_serializing_if = "is_usual")]
    pub shared_gate: bool,
    /// Whether the router's scores have a bias. Source: OpenAI 2025, gpt-oss model card, section 2.1.
    #[serde(skip_serializing_if = "is_usual")]
    pub router_bias: bool,
    /// How the router's scores become weights. Source: DeepSeek-AI 2024, DeepSeek-V3, section 2.1.2.
    #[serde(skip_serializing_if = "Score::is_softmax")]
    pub score: Score,
    /// Whether a token's weights are divided by their sum; when absent, they are if it uses more than one expert. With
    /// `top_k = 1` and true the single weight is always 1, as in a Mixtral with one expert per token: the router then learns only
    /// from its own losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize_weights: Option<bool>,
    /// Factor on the weights of the experts that a token is routed to. Source: DeepSeek-AI 2024, DeepSeek-V2, released code.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "is_one")]
    pub scale: f64,
    /// Number of groups of consecutive experts, of which a token uses only the `top_groups` whose `group_best` best scores have
    /// the largest sum. Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.2.
    #[schemars(range(min = 1, max = MAX_EXPERTS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<usize>,
    /// Number of groups whose experts a token may use, fewer than `groups`.
    #[schemars(range(min = 1, max = MAX_EXPERTS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_groups: Option<usize>,
    /// Number of best scores of a group that are added up to rank it; 2 when absent, 1 in DeepSeek-V2. Source: DeepSeek-AI 2024,
    /// DeepSeek-V3, section 2.1.2.
    #[schemars(range(min = 1, max = MAX_EXPERTS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_best: Option<usize>,
    /// Whether experts are chosen by their scores plus a correction for each expert that affects no weight and is not trained: 0
    /// in a new model, and taken from the folder of an imported one. Source: Wang et al. 2024, section 3 (which moves them by
    /// loads).
    #[serde(skip_serializing_if = "is_usual")]
    pub correction: bool,
    /// Capacity of an expert in training, as a multiple of its even share of a row's tokens; no limit when absent.
    /// Source: Fedus et al. 2022, section 2.2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_factor: Option<f64>,
    /// Coefficient of the balance loss; with 0 it is only measured. Source: Fedus et al. 2022, section 2.2.
    #[schemars(range(min = 0))]
    pub balance_loss: f64,
    /// Coefficient of the router's z-loss; 0 leaves it out. Source: Zoph et al. 2022, section 3.3.
    #[schemars(range(min = 0))]
    pub z_loss: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(x: &f64) -> bool {
    *x == 1.0
}

impl Default for MoeConfig {
    fn default() -> Self {
        Self {
            n_experts: 8,
            top_k: 2,
            expert: ExpertConfig::default(),
            shared: 0,
            shared_gate: false,
            router_bias: false,
            score: Score::default(),
            normalize_weights: None,
            scale: 1.0,
            groups: None,
            top_groups: None,
            group_best: None,
            correction: false,
            capacity_factor: None,
            balance_loss: 0.01,
            z_loss: 0.0,
        }
    }
}

/// The form of each expert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExpertConfig {
    /// W₂·act(W₁x), as in Switch.
    Dense(DenseConfig),
    /// W₂(act(W₁x)⊙W₃x), as in Mixtral.
    Gated(GatedConfig),
}

impl Default for ExpertConfig {
    fn default() -> Self {
        Self::Gated(GatedConfig::default())
    }
}

impl ExpertConfig {
    /// Returns the inner width, if the settings give one.
    pub fn configured_width(&self) -> Option<usize> {
        match self {
            Self::Dense(c) => c.d_ff,
            Self::Gated(c) => c.d_ff,
        }
    }

    /// Returns the setting of the inner width, for changes.
    pub fn width_mut(&mut self) -> &mut Option<usize> {
        match self {
            Self::Dense(c) => &mut c.d_ff,
            Self::Gated(c) => &mut c.d_ff,
        }
    }

    /// Returns an expert that is `times` times as wide, in a model of width `d_model`.
    fn widened(&self, times: usize, d_model: usize) -> Self {
        let mut wide = self.clone();
        *wide.width_mut() = Some(self.d_ff(d_model).saturating_mul(times));
        wide
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    fn activations(&self, d_model: usize) -> u128 {
        match self {
            Self::Dense(c) => c.activations(d_model),
            Self::Gated(c) => c.activations(d_model),
        }
    }

    /// Returns the number of multiplications per position in a forward pass.
    fn products(&self, d_model: usize) -> u128 {
        match self {
            Self::Dense(c) => c.products(d_model),
            Self::Gated(c) => c.products(d_model),
        }
    }

    /// Returns the layer's inner width in a model of width `d_model`.
    pub fn d_ff(&self, d_model: usize) -> usize {
        match self {
            Self::Dense(c) => c.d_ff(d_model),
            Self::Gated(c) => c.d_ff(d_model),
        }
    }
}

impl MoeConfig {
    /// Whether a token's weights are divided by their sum.
    pub fn normalizes(&self) -> bool {
        self.normalize_weights.unwrap_or(self.top_k > 1)
    }

    /// Returns the experts that every token uses as one layer, if there are any.
    pub fn shared_layer(&self, d_model: usize) -> Option<ExpertConfig> {
        (self.shared > 0).then(|| self.expert.widened(self.shared, d_model))
    }

    /// Whether the gradient of a step depends on its division into micro-batches: the balance loss is a product of two means over
    /// the tokens of one micro-batch.
    pub fn couples_micro_batches(&self) -> bool {
        self.balance_loss > 0.0
    }
}

impl MoeConfig {
    /// Reports invalid settings.
    pub fn faults(&self, at: &mut TableFaults) {
        let experts = at.count("n_experts", self.n_experts, MAX_EXPERTS);
        if experts && at.count("top_k", self.top_k, MAX_EXPERTS) && self.top_k > self.n_experts {
            let rule = format!(
                "top_k = {} is more than n_experts = {}",
                self.top_k, self.n_experts
            );
            at.fault(&["top_k", "n_experts"], rule);
        }
        if experts {
            self.group_faults(at);
        }
        if self.shared > MAX_EXPERTS {
            let rule = format!("shared = {} is more than {MAX_EXPERTS}", self.shared);
            at.fault(&["shared"], rule);
        }
        if self.shared_gate && self.shared == 0 {
            let rule = "shared_gate = true has no effect without shared experts; remove it";
            at.fault(&["shared_gate", "shared"], rule);
        }
        at.positive("scale", self.scale);
        if let Some(factor) = self.capacity_factor {
            at.positive("capacity_factor", factor);
        }
        for (key, coefficient) in [("balance_loss", self.balance_loss), ("z_loss", self.z_loss)] {
            if !(coefficient >= 0.0 && coefficient.is_finite()) {
                at.fault(
                    &[key],
                    format!("{key} = {coefficient:?} must be at least 0"),
                );
            }
        }
        at.nested("expert", |at| match &self.expert {
            ExpertConfig::Dense(c) => c.faults(at),
            ExpertConfig::Gated(c) => c.faults(at),
        });
        let chunk = match &self.expert {
            ExpertConfig::Dense(c) => c.chunk,
            ExpertConfig::Gated(c) => c.chunk,
        };
        if chunk.is_some() {
            let rule = "chunk has no effect in an expert, which computes only the positions that are routed to it; remove it";
            at.nested("expert", |at| at.fault(&["chunk"], rule));
        }
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`: the router's, and for
    /// each expert that a token uses its input, its output and the inner values.
    pub fn kept(&self, d_model: usize) -> u128 {
        let inner = self.expert.activations(d_model);
        let shared = self
            .shared_layer(d_model)
            .map_or(0, |c| c.activations(d_model));
        2 * self.n_experts as u128 + self.top_k as u128 * (2 * d_model as u128 + inner) + shared
    }

    /// Returns the multiplications per position of a forward pass: those of the router and of the experts that a token uses,
    /// shared ones included.
    pub fn products(&self, d_model: usize) -> u128 {
        let used = (self.top_k + self.shared) as u128;
        let scores = self.n_experts + usize::from(self.shared_gate);
        d_model as u128 * scores as u128 + used * self.expert.products(d_model)
    }

    /// Returns the number of parameters that a token does not use, in a model of width `d_model`.
    pub fn inactive_parameters(&self, d_model: usize) -> usize {
        let d_ff = self.expert.d_ff(d_model);
        let (matrices, vectors) = match &self.expert {
            ExpertConfig::Dense(c) => (2, usize::from(c.bias)),
            ExpertConfig::Gated(c) => (3, 2 * usize::from(c.bias)),
        };
        let unused = self.n_experts.saturating_sub(self.top_k);
        let of_matrices = d_model.saturating_mul(d_ff).saturating_mul(matrices);
        let of_vectors = match vectors {
            0 => 0,
            inner => d_model.saturating_add(inner.saturating_mul(d_ff)),
        };
        of_matrices
            .saturating_add(of_vectors)
            .saturating_mul(unused)
    }
}
