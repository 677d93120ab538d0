//! Replaced-token detection: a generator predicts masked tokens, samples of its predictions replace them, and the
//! trained network, the discriminator, tells for every token whether it is the original (Clark et al. 2020, ELECTRA,
//! section 2).
//!
//! The loss is L = L_generator + λ·L_discriminator: the mean cross-entropy of the masked tokens, and λ times the mean
//! binary cross-entropy of all tokens, special ones included. This sum is reported as the loss, and both terms are
//! reported beside it. No gradient flows through the samples, and a sample that equals the original token counts as
//! original.

mod network;
pub mod sampling;

pub(super) use network::binary;
pub use network::{DiscriminatorHead, ReplacedToken};

use super::AnyTask;
use super::facts::TaskFacts;
use super::masked_lm::MLM_ACCURACY;
use super::metric_keys::MetricKeys;
use crate::data::masked::masking::{MaskingConfig, Pairs};
use crate::data::{DataSet, ExampleForm, Shape, View, masked::masking::MaskedView};
use crate::error::Result;
use crate::evaluate::metric::{F1, MCC, Metric};
use crate::faults::TableFaults;
use crate::model::generator::{GeneratorShape, TableSharing};
use crate::model::{BuildContext, Demand, ModelConfig};
use crate::nn::Kind;
use crate::nn::role::{Declaration, Place, Roles};
use crate::one_table;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "replaced_token",
    summary: "detection of tokens that a small generator replaced, with an encoder",
    source: "Clark et al. 2020, ELECTRA; He et al. 2021, DeBERTaV3",
    example: "{ kind = \"replaced_token\", generator = { size = 0.25 } }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[
        ("mlm_loss", &["masking"]),
        ("mlm_accuracy", &["masking"]),
        ("rtd_loss", REPLACEMENT_KEYS),
        ("rtd_accuracy", REPLACEMENT_KEYS),
        ("replaced", REPLACEMENT_KEYS),
    ],
    ..MetricKeys::for_token_kind(KIND.kind).with_loss_keys(&["weight", "temperature", "masking"])
};

/// Keys that define which tokens are replaced.
const REPLACEMENT_KEYS: &[&str] = &["temperature", "masking"];

pub(super) const MLM_LOSS: Metric = Metric::lower("mlm_loss");
pub(super) const RTD_LOSS: Metric = Metric::lower("rtd_loss");
pub(super) const RTD_ACCURACY: Metric = Metric::higher("rtd_accuracy");
pub(super) const REPLACED: Metric = Metric::lower("replaced");

/// Metrics beside those of masked tokens: the two terms of the loss, the share of tokens that are told apart correctly,
/// and the share of tokens that are not the original. F1 and the Matthews correlation are those of replaced tokens.
pub const METRICS: &[Metric] = &[MLM_LOSS, RTD_LOSS, RTD_ACCURACY, REPLACED];

/// Default factor of the discriminator's loss.
const WEIGHT: f64 = 50.0;

/// Settings of replaced-token detection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplacedTokenConfig {
    /// Which tokens the generator predicts: 15 %, all replaced by the mask token (section 2; the released code leaves
    /// 15 % of them as they are: `masked = 0.85`).
    #[serde(deserialize_with = "hidden")]
    pub masking: MaskingConfig,
    /// The generator, which predicts the masked tokens.
    pub generator: GeneratorConfig,
    /// Sharing of the embedding tables of the generator and the discriminator.
    /// Source: Clark et al. 2020, section 3.2; He et al. 2023, section 3.
    pub embeddings: TableSharing,
    /// Sampling temperature: logits are divided by it before a token is drawn.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub temperature: f64,
    /// λ, the factor of the discriminator's loss. Source: Clark et al. 2020, section 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub weight: f64,
}

/// The generator, `[task] generator`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// Width, heads and inner widths of the generator as a share of the model's; heads keep their width. 0 for no
    /// generator: such a model can be used, but not trained. Source: Clark et al. 2020, section 3.2.
    pub size: f64,
    /// Number of blocks of the generator; as many as the model's when absent (DeBERTaV3: half of them).
    #[schemars(range(min = 1, max = 1000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_layers: Option<usize>,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            size: 0.25,
            n_layers: None,
        }
    }
}

impl GeneratorConfig {
    /// Returns settings without a generator: only the discriminator.
    pub fn none() -> Self {
        Self {
            size: 0.0,
            n_layers: None,
        }
    }
}

impl Default for ReplacedTokenConfig {
    fn default() -> Self {
        let MaskingDefaults { masked, random } = MaskingDefaults::default();
        Self {
            masking: MaskingConfig {
                masked,
                random,
                ..MaskingConfig::default()
            },
            generator: GeneratorConfig::default(),
            embeddings: TableSharing::default(),
            temperature: 1.0,
            weight: WEIGHT,
        }
    }
}

/// The masking keys whose defaults differ here.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct MaskingDefaults {
    masked: f64,
    random: f64,
}

impl Default for MaskingDefaults {
    fn default() -> Self {
        Self {
            masked: 1.0,
            random: 0.0,
        }
    }
}

/// Deserialises masking with the defaults of [`MaskingDefaults`].
fn hidden<'de, D: Deserializer<'de>>(d: D) -> Result<MaskingConfig, D::Error> {
    let own = one_table::fields(|probe| MaskingConfig::deserialize(probe).map(drop));
    let (own, MaskingDefaults { masked, random }) = one_table::read::<D, MaskingDefaults>(d, own)?;
    Ok(MaskingConfig {
        masked,
        random,
        ..MaskingConfig::deserialize(own)?
    })
}

impl ReplacedTokenConfig {
    /// Returns the shape of the generator, if there is one.
    pub fn generator(&self) -> Option<GeneratorShape> {
        let GeneratorConfig { size, n_layers } = self.generator;
        let tables = self.embeddings;
        (size != 0.0).then_some(GeneratorShape {
            size,
            n_layers,
            tables,
        })
    }
}

/// Paths of the discriminator's embedding table Δ and of the generator's table E, which is added to Δ.
const SUMMED_TABLES: &[(&str, &str)] = &[(
    "model.embedding.weight",
    "generator.network.embedding.weight",
)];

impl TaskFacts for ReplacedTokenConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn view(&self) -> View {
        View::Masked(MaskedView {
            masking: self.masking.clone(),
            pairs: Pairs::None,
            class_token_last: false,
        })
    }

    fn demand(&self) -> Demand {
        let sound = self.generator.size > 0.0 && self.generator.size <= 1.0;
        Demand::with_generator(self.generator().filter(|_| sound))
    }

    fn companion_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        self.generator()?.network_config(model)
    }

    fn summed_parameters(&self) -> &'static [(&'static str, &'static str)] {
        match (self.embeddings, self.generator()) {
            (TableSharing::Disentangled, Some(_)) => SUMMED_TABLES,
            _ => &[],
        }
    }

    fn untrainable(&self) -> Option<&'static str> {
        self.generator().is_none().then_some(
            "generator.size = 0 disables the generator, so no tokens are replaced and there is nothing to learn; remove it for 0.25",
        )
    }

    /// The discriminator reads and scores every token. The generator also reads every token, and scores the masked ones
    /// over the vocabulary.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        let network = model.restricted_to(&demand).products(&demand, shape);
        let (tokens, d) = (shape.context as f64, model.d_output() as f64);
        let head = tokens * (d * d + d);
        let generator = model.masked_lm_encoder().zip(self.generator());
        let generator = generator.map_or(0.0, |(encoder, generator)| {
            let guessed = self.masking.share * tokens;
            generator.products(encoder, shape.vocab_size, shape.context, guessed)
        });
        network + head + generator
    }

    fn faults(&self, at: &mut TableFaults) {
        let GeneratorConfig { size, n_layers } = self.generator;
        at.positive("temperature", self.temperature);
        at.positive("weight", self.weight);
        at.nested("generator", |at| {
            if !(0.0..=1.0).contains(&size) {
                let rule = format!("size = {size:?} must be above 0 and at most 1");
                at.fault(&["size"], rule);
            }
            at.count("n_layers", n_layers.unwrap_or(1), 1000);
            if let (Some(n), true) = (n_layers, size == 0.0) {
                let rule = format!("n_layers = {n} has no effect: size = 0 disables the generator");
                at.fault(&["n_layers", "size"], rule);
            }
        });
        if size == 0.0 && self.embeddings != TableSharing::Shared {
            let rule =
                "embeddings has no effect: generator.size = 0 disables the generator; remove it";
            at.fault(&["embeddings", "task.generator.size"], rule);
        }
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        let own = [MLM_ACCURACY, MLM_LOSS, RTD_ACCURACY, RTD_LOSS, REPLACED];
        own.into_iter().chain([F1, MCC]).collect()
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        prompt.map(|prompt| format!("formwork fill {run} --text {prompt:?}"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let network = model.masked_lm_encoder();
        Ok(network.map(|model| AnyTask::ReplacedToken(ReplacedToken::new(model, self, inputs))))
    }
}

/// Roles of the parameters of [`ReplacedToken`].
pub const ROLES: Roles = Roles::new(
    "ReplacedToken",
    &[("head", Declaration::Place(Place::Head))],
);

/// Roles of the parameters of [`DiscriminatorHead`].
pub const HEAD_ROLES: Roles = Roles::new(
    "DiscriminatorHead",
    &[
        ("dense", Declaration::Place(Place::Head)),
        ("product", Declaration::Place(Place::Head)),
    ],
);
