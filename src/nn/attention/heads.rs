//! The settings of multi-head attention, which all kinds with heads share.

use super::multi_head::KIND;
use super::multi_head::gate::Gate;
use super::multi_head::sinks::Sinks;
use super::segments::{self, SegmentMemory};
use super::{Abilities, AttentionConfig, AttentionFacts, Kind};
use crate::faults::{MAX_WIDTH, TableFaults};
use crate::nn::norm::NormConfig;
use crate::nn::position::HeadEffect;
use crate::one_table::is_usual;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of heads of any attention.
pub(super) const MAX_HEADS: usize = 4096;

/// Settings of multi-head attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiHeadConfig {
    /// Query heads. Source: Vaswani et al. 2017, section 3.2.2.
    #[schemars(range(min = 1, max = MAX_HEADS))]
    pub n_heads: usize,
    /// Key and value heads, a divisor of `n_heads`; `n_heads` when absent.
    /// Source: Shazeer 2019; Ainslie et al. 2023, section 2.2.
    #[schemars(range(min = 1, max = MAX_HEADS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_kv_heads: Option<usize>,
    /// Width of a head; d_model / n_heads when absent.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_head: Option<usize>,
    /// Whether queries, keys and values have biases.
    pub bias: bool,
    /// Whether keys have a bias; as `bias` when absent. By itself it changes no weights, but position-to-content terms use it
    /// (DeBERTa has none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_bias: Option<bool>,
    /// Whether the output has a bias; as `bias` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_bias: Option<bool>,
    /// Norm on each head's queries and keys. Source: Henry et al. 2020; Dehghani et al. 2023, section 2.
    pub qk_norm: NormConfig,
    /// Whether `qk_norm` treats the queries of all heads as one vector, and their keys as another. Source: OLMo et al. 2024, OLMo
    /// 2, section 3.
    #[serde(skip_serializing_if = "is_usual")]
    pub qk_norm_across: bool,
    /// Limit on queries, keys and values, which are clamped to between −clip and clip first. Source: MosaicML 2023, MPT;
    /// Groeneveld et al. 2024, OLMo.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Soft cap c on the scores, which become c·tanh(score/c). Source: Gemma Team 2024, section 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub softcap: Option<f64>,
    /// An extra score without a value beside those of all keys, so that a head may attend to nothing: 0, or learned for each
    /// head.
    /// Source: Miller 2023; OpenAI 2025, gpt-oss model card, section 2.2.
    #[serde(skip_serializing_if = "is_usual")]
    pub sinks: Sinks,
    /// A gate on the heads' results, σ of a linear map of the query's input: one value for each element, or for each head; none
    /// when absent. Source: Qiu et al. 2025, arXiv:2505.06708, section 2.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Factor on the scores; 1/√d_head when absent. With `[model.mup]`, the factor of the narrower model. Source: Vaswani et al.
    /// 2017, section 3.2.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Coefficient of a loss that drives the heads' outputs apart, their mean cosine, reported as `head_similarity`; 0 leaves it
    /// out. Source: Li et al. 2018, section 3.
    #[schemars(range(min = 0))]
    pub head_diversity: f64,
    /// Number of hidden states of earlier segments that the layer attends to, the newest ones; 0 for none.
    /// Source: Dai et al. 2019, section 3.2.
    #[schemars(range(max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "is_usual")]
    pub memory: usize,
    /// `memory` in evaluation and decoding; `memory` itself when absent. With 0, decoding sees its text as one segment, up to the
    /// context. Source: Dai et al. 2019, section 3.2.
    #[schemars(range(max = crate::faults::MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_at_evaluation: Option<usize>,
    /// Whether each query sees as many keys as `memory` has positions, its own included.
    /// Source: Dai et al. 2019, released code.
    #[serde(skip_serializing_if = "is_usual")]
    pub same_length: bool,
}

impl Default for MultiHeadConfig {
    fn default() -> Self {
        Self {
            n_heads: 4,
            n_kv_heads: None,
            d_head: None,
            bias: true,
            key_bias: None,
            out_bias: None,
            qk_norm: NormConfig::none(),
            qk_norm_across: false,
            clip: None,
            softcap: None,
            sinks: Sinks::None,
            gate: None,
            scale: None,
            head_diversity: 0.0,
            memory: 0,
            memory_at_evaluation: None,
            same_length: false,
        }
    }
}

impl MultiHeadConfig {
    /// Reports invalid settings and returns the width of a head, if valid; `d_model` is the model's width, if that is valid.
    pub fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        at.nested("qk_norm", |at| self.qk_norm.faults(at));
        if self.qk_norm_across && self.qk_norm.is_none() {
            let rule = "qk_norm_across = true has no effect without a qk_norm; set qk_norm = { kind = \"rms\" }, or remove it";
            at.fault(&["qk_norm_across", "qk_norm"], rule);
        }
        for (key, number) in [
            ("clip", self.clip),
            ("softcap", self.softcap),
            ("scale", self.scale),
        ] {
            if let Some(number) = number {
                at.positive(key, number);
            }
        }
        let diversity = self.head_diversity;
        if !(diversity >= 0.0 && diversity.is_finite()) {
            let rule = format!("head_diversity = {diversity:?} must be at least 0");
            at.fault(&["head_diversity"], rule);
        }
        if diversity > 0.0 && self.n_heads == 1 {
            let rule = "head_diversity has no effect with n_heads = 1; remove it";
            at.fault(&["head_diversity", "n_heads"], rule);
        }
        segments::faults(self, at);
        let heads = at.count("n_heads", self.n_heads, MAX_HEADS);
        let kv = at.count("n_kv_heads", self.n_kv_heads.unwrap_or(1), MAX_HEADS);
        let head = at.count("d_head", self.d_head.unwrap_or(1), MAX_WIDTH);
        if !heads {
            return None;
        }
        if kv && !self.n_heads.is_multiple_of(self.n_kv_heads()) {
            let rule = format!(
                "n_heads = {} is not a multiple of n_kv_heads = {}",
                self.n_heads,
                self.n_kv_heads()
            );
            at.fault(&["n_heads", "n_kv_heads"], rule);
        }
        let d_model = d_model?;
        if self.d_head.is_none() && !d_model.is_multiple_of(self.n_heads) {
            let rule = format!(
                "d_model = {d_model} is not a multiple of {} n_heads = {}; change one, or set d_head",
                at.header(),
                self.n_heads
            );
            at.fault(&["model.d_model", "n_heads"], rule);
            return None;
        }
        head.then(|| self.d_head(d_model))
    }

    /// Returns how many values per position are kept for the backward pass, in a model of width `d_model`.
    pub fn activations(&self, d_model: usize) -> u128 {
        let (heads, kv_heads) = (self.n_heads as u128, self.n_kv_heads() as u128);
        let gate = self.gate_width(d_model);
        // The gate's values, and the results after it.
        let gated = match gate {
            0 => 0,
            gate => gate + heads * self.d_head(d_model) as u128,
        };
        2 * (heads + kv_heads) * self.d_head(d_model) as u128 + gated
    }

    /// Returns the width of a position's gate.
    fn gate_width(&self, d_model: usize) -> u128 {
        let heads = [self.n_heads, self.d_head(d_model)];
        self.gate.map_or(0, |gate| gate.width(heads) as u128)
    }

    /// Returns the multiplications of a forward pass in a model of width `d_model`: `queries` queries over the keys of `sources`
    /// positions, of which each query sees `keys`. Counts projections, scores and weighted values; a causal mask gives no
    /// discount.
    pub fn products(&self, d_model: usize, [queries, sources, keys]: [usize; 3]) -> u128 {
        let [d_model, queries, sources, keys] =
            [d_model, queries, sources, keys].map(|n| n as u128);
        let head = self.d_head(d_model as usize) as u128;
        let (width, kv_width) = (
            self.n_heads as u128 * head,
            self.n_kv_heads() as u128 * head,
        );
        let gate = d_model * queries * self.gate_width(d_model as usize);
        2 * d_model * (queries * width + sources * kv_width) + 2 * queries * keys * width + gate
    }

    /// Returns how many values per row are kept for the hidden states of earlier segments: the states themselves, the states as
    /// the layer reads them, their keys and their values.
    pub fn segment_memory_activations(&self, d_model: usize) -> u128 {
        let width = self.n_kv_heads() as u128 * self.d_head(d_model) as u128;
        2 * self.memory as u128 * (d_model as u128 + width)
    }

    /// Returns how much the layer remembers of earlier segments, if anything.
    pub fn segments(&self) -> Option<SegmentMemory> {
        let segments = SegmentMemory {
            training: self.memory,
            evaluation: self.memory_at_evaluation.unwrap_or(self.memory),
            same_length: self.same_length,
        };
        let some = segments.training.max(segments.evaluation) > 0;
        some.then_some(segments)
    }

    /// Returns the number of key and value heads.
    pub fn n_kv_heads(&self) -> usize {
        self.n_kv_heads.unwrap_or(self.n_heads)
    }

    /// Returns the width of a head in a model of width `d_model`.
    pub fn d_head(&self, d_model: usize) -> usize {
        self.d_head.unwrap_or(d_model / self.n_heads.max(1))
    }
}

impl From<MultiHeadConfig> for AttentionConfig {
    fn from(heads: MultiHeadConfig) -> Self {
        Self::MultiHead(heads)
    }
}

impl AttentionFacts for MultiHeadConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn heads(&self) -> MultiHeadConfig {
        self.clone()
    }

    fn set_heads(&mut self, heads: MultiHeadConfig) {
        *self = heads;
    }

    /// This kind supports every way for positions to act, even a separate bias for each query and key.
    fn abilities(&self) -> Abilities {
        Abilities {
            positions: &[
                HeadEffect::Rotation,
                HeadEffect::FadingRotation,
                HeadEffect::Bias,
                HeadEffect::LayerBias,
                HeadEffect::PairBias,
                HeadEffect::Vectors,
            ],
            sinks: true,
            ..Abilities::ALL
        }
    }

    fn sees_every_visible_key(&self) -> bool {
        true
    }

    fn keys(&self, tokens: usize, _causal: bool) -> usize {
        self.segments().map_or(tokens, |s| s.keys(tokens))
    }

    fn faults(&self, d_model: Option<usize>, at: &mut TableFaults) -> Option<usize> {
        Self::faults(self, d_model, at)
    }
}
