//! Contrastive pretraining on recordings without transcripts (Baevski et al. 2020, wav2vec 2.0, section 3.2): spans of frames are
//! masked, and the network recognises the code of each masked frame among those of other masked frames of the recording.
//!
//! With c_t the hidden state at masked frame t and q_t the code of its features, both mapped into one space
//! ([`crate::model::contrastive_head`]), and Q_t = {q_t} with K codes of other masked frames, drawn with replacement:
//!
//! ```text
//! L_m = −log exp(cos(c_t, q_t)/κ) / Σ_{q ∈ Q_t} exp(cos(c_t, q)/κ)         mean over masked frames
//! L_d = (G·V − Σ_g exp(−Σ_v p̄_gv log p̄_gv)) / (G·V)                        loss = L_m + α·L_d + β·mean of z²
//! ```
//!
//! p̄ is the mean over masked frames of the probabilities of V entries in each of G codebooks (in evaluations, the shares of the chosen
//! entries), so that L_d is small if all entries are used. Codes equal to q_t are not counted against it. z are the features before their norm; their gradients are multiplied by
//! `feature_gradient`. Training chooses codes with Gumbel noise; evaluations choose the entries with the highest scores, with the
//! same masks and comparisons each time. Means are over a micro-batch, weighed by its recordings.

mod network;
mod sampled;

pub use network::{Comparison, ContrastiveSpeech};
pub use sampled::Sampled;

use super::AnyTask;
use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use crate::data::{DataSet, ExampleForm, Shape, View};
use crate::error::Result;
use crate::evaluate::metric::{ACCURACY, Metric};
use crate::faults::{MAX_TEMPERATURE, MAX_WIDTH, MIN_TEMPERATURE, TableFaults};
use crate::model::contrastive_head::{self, ContrastiveHeadShape};
use crate::model::{BuildContext, Demand, ModelConfig, SpeechEncoderConfig, Use};
use crate::nn::Kind;
use crate::nn::role::{Declaration, Roles, StackSide};
use crate::one_table::is_usual;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "contrastive_speech",
    summary: "audio features without transcripts: an encoder of samples recognises the codes of masked frames",
    source: "Baevski et al. 2020, wav2vec 2.0",
    example: "{ kind = \"contrastive_speech\", codebooks = 2, entries = 320, negatives = 100 }",
};

/// The comparisons, the codebooks and the masks define the loss.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[
        (ACCURACY.name, LOSS_KEYS),
        (DIVERSITY.name, LOSS_KEYS),
        (CODE_PERPLEXITY.name, LOSS_KEYS),
    ],
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(LOSS_KEYS)
};

const LOSS_KEYS: &[&str] = &[
    "codebooks",
    "entries",
    "negatives",
    "temperature",
    "model.masks",
];

/// The loss L_d, between 0 if all entries are used equally and 1 − 1/V if each codebook uses one entry.
pub const DIVERSITY: Metric = Metric::lower("diversity_loss");
/// Σ_g exp(entropy) of the chosen entries: the effective number of entries in use, at most G·V.
pub const CODE_PERPLEXITY: Metric = Metric::higher("code_perplexity");
/// Mean square of the features before their norm.
pub const FEATURE_PENALTY: Metric = Metric::lower("feature_penalty");
/// The metrics that this task defines.
pub const METRICS: &[Metric] = &[DIVERSITY, CODE_PERPLEXITY, FEATURE_PENALTY];

/// Maximum number of codebooks and of negatives.
const MOST_CODEBOOKS: usize = 64;
const MOST_NEGATIVES: usize = 10_000;
/// Highest weight of a loss.
const MAX_LOSS_WEIGHT: f64 = 1e6;

/// Settings of contrastive pretraining on recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContrastiveSpeechConfig {
    /// Number of codebooks, G. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 1, max = MOST_CODEBOOKS))]
    pub codebooks: usize,
    /// Number of entries of each codebook, V. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 2, max = crate::faults::MAX_WIDTH))]
    pub entries: usize,
    /// Width of a code, a multiple of `codebooks`. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_code: usize,
    /// Width of the vectors that are compared. Source: Baevski et al. 2020, released code.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_compared: usize,
    /// Number of codes that a masked frame's code is compared with, K. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 1, max = MOST_NEGATIVES))]
    pub negatives: usize,
    /// Divisor of cosines, κ. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = MIN_TEMPERATURE, max = MAX_TEMPERATURE))]
    pub temperature: f64,
    /// Weight of the diversity loss, α. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 0, max = MAX_LOSS_WEIGHT))]
    pub diversity_weight: f64,
    /// Weight of the mean square of the features, β; 10 in the released settings for LibriSpeech.
    /// Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 0, max = MAX_LOSS_WEIGHT))]
    #[serde(skip_serializing_if = "is_usual")]
    pub feature_penalty: f64,
    /// Factor of the gradients of the convolutions over samples; 0.1 in the paper for LibriSpeech.
    /// Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = 0, max = 1))]
    pub feature_gradient: f64,
    /// Dropout on the features whose codes are chosen. Source: Baevski et al. 2020, released code.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "is_usual")]
    pub dropout_features: f64,
    /// Temperature of the choice of codes.
    pub gumbel: GumbelConfig,
}

/// The temperature τ of the choice of codes, max(`to`, `from` · `decay`ⁿ) in step n.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GumbelConfig {
    /// Temperature of the first step. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(min = MIN_TEMPERATURE, max = MAX_TEMPERATURE))]
    pub from: f64,
    /// Lowest temperature. Source: Baevski et al. 2020, section 4.2, base model.
    #[schemars(range(min = MIN_TEMPERATURE, max = MAX_TEMPERATURE))]
    pub to: f64,
    /// Factor of each step. Source: Baevski et al. 2020, section 4.2.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub decay: f64,
}

impl GumbelConfig {
    /// Returns the temperature of a step, counted from 0.
    pub fn temperature(&self, step: u64) -> f64 {
        (self.from * self.decay.powf(step as f64)).max(self.to)
    }
}

impl Default for GumbelConfig {
    fn default() -> Self {
        Self {
            from: 2.0,
            to: 0.5,
            decay: 0.999_995,
        }
    }
}

impl Default for ContrastiveSpeechConfig {
    fn default() -> Self {
        Self {
            codebooks: 2,
            entries: 320,
            d_code: 256,
            d_compared: 256,
            negatives: 100,
            temperature: 0.1,
            diversity_weight: 0.1,
            feature_penalty: 0.0,
            feature_gradient: 1.0,
            dropout_features: 0.0,
            gumbel: GumbelConfig::default(),
        }
    }
}

impl ContrastiveSpeechConfig {
    /// Returns the shape of the head on a model.
    pub fn head(&self, model: &SpeechEncoderConfig) -> ContrastiveHeadShape {
        ContrastiveHeadShape {
            d_features: model.d_features(),
            d_model: model.stack.d_output(),
            codebooks: self.codebooks,
            entries: self.entries,
            d_code: self.d_code,
            d_compared: self.d_compared,
        }
    }
}

impl TaskFacts for ContrastiveSpeechConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Spoken
    }

    fn view(&self) -> View {
        View::Ctc
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::MaskedFrames)
    }

    /// The head reads masked frames only.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let network = model.products(&self.demand(), shape);
        let Some(config) = model.sample_encoder() else {
            return network;
        };
        let frames = config.max_positions(shape.speech.unwrap_or_default()) as f64;
        let share = config.masks.time_share.min(1.0);
        network + frames * share * self.head(config).products()
    }

    fn faults(&self, at: &mut TableFaults) {
        let books = at.count("codebooks", self.codebooks, MOST_CODEBOOKS);
        if at.count("entries", self.entries, MAX_WIDTH) && self.entries < 2 {
            at.fault(
                &["entries"],
                "entries = 1 cannot distinguish frames: set 2 or more",
            );
        }
        if at.count("d_code", self.d_code, MAX_WIDTH)
            && books
            && !self.d_code.is_multiple_of(self.codebooks)
        {
            let near = self.d_code.div_ceil(self.codebooks) * self.codebooks;
            let rule = format!(
                "d_code = {} must be a multiple of codebooks = {}; {near} is one",
                self.d_code, self.codebooks
            );
            at.fault(&["d_code", "codebooks"], rule);
        }
        at.count("d_compared", self.d_compared, MAX_WIDTH);
        at.count("negatives", self.negatives, MOST_NEGATIVES);
        at.temperature("temperature", self.temperature);
        for (key, weight, most) in [
            ("diversity_weight", self.diversity_weight, MAX_LOSS_WEIGHT),
            ("feature_penalty", self.feature_penalty, MAX_LOSS_WEIGHT),
            ("feature_gradient", self.feature_gradient, 1.0),
        ] {
            at.between(key, weight, [0.0, most]);
        }
        at.probability("dropout_features", self.dropout_features);
        at.nested("gumbel", |at| {
            at.temperature("from", self.gumbel.from);
            at.temperature("to", self.gumbel.to);
            let decay = self.gumbel.decay;
            if !(decay > 0.0 && decay <= 1.0) {
                let rule = format!("decay = {decay:?} must be above 0 and at most 1");
                at.fault(&["decay"], rule);
            }
        });
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        let mut metrics = vec![ACCURACY, DIVERSITY, CODE_PERPLEXITY];
        metrics.extend((self.feature_penalty > 0.0).then_some(FEATURE_PENALTY));
        metrics
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork encode {run} FILE.wav --out VECTORS.npy"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let Some(model) = model.sample_encoder() else {
            return Ok(None);
        };
        let task = ContrastiveSpeech::new(model, self, inputs)?;
        Ok(Some(AnyTask::ContrastiveSpeech(task)))
    }
}

/// Roles of the parameters of [`ContrastiveSpeech`].
pub const ROLES: Roles = Roles::new(
    "ContrastiveSpeech",
    &[(
        contrastive_head::NAME,
        Declaration::Side(StackSide::ProjectionHead),
    )],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temperature_of_codes_falls_to_its_lowest() {
        let gumbel = GumbelConfig {
            from: 2.0,
            to: 0.5,
            decay: 0.5,
        };
        let found = [0, 1, 2, 9].map(|step| gumbel.temperature(step));
        assert_eq!(found, [2.0, 1.0, 0.5, 0.5]);
    }
}
