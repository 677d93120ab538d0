//! The keys of preference optimisation, and their faults.

use super::{METRICS, Preference};
use crate::data::{DataSet, Gives, Shape};
use crate::error::Result;
use crate::evaluate::metric::{EXACT_MATCH, Metric};
use crate::faults::TableFaults;
use crate::model::{Demand, ModelConfig, ModelInputs, Use};
use crate::nn::Kind;
use crate::one_table::word_or_number;
use crate::task::facts::TaskFacts;
use crate::task::measures::Measures;
use crate::task::policy::{self, Reference};
use crate::task::{AnyTask, FrozenRun, TaskConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "preference",
    summary: "the better of two texts before the worse, beside a frozen reference: DPO, with losses of SLiC-HF and IPO",
    source: "Rafailov et al., arXiv:2305.18290; Zhao et al., arXiv:2305.10425; Azar et al., arXiv:2310.12036",
    example: "{ kind = \"preference\" }",
};

/// How a pair is scored, and beside which reference.
pub const MEASURES: Measures = Measures {
    metrics: &[("reward_margin", &["beta", "reference"])],
    ..Measures::of(KIND.kind).by(&["loss", "beta", "reference"])
};

/// How a pair is scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferenceLoss {
    /// −ln σ of the scaled difference of log-ratios: DPO.
    #[default]
    Sigmoid,
    /// What the scaled difference lacks to 1: SLiC-HF.
    Hinge,
    /// The square of the distance of the difference of means over tokens from 1/(2·beta): IPO.
    Ipo,
}

impl PreferenceLoss {
    /// The value of the key.
    fn name(self) -> &'static str {
        match self {
            Self::Sigmoid => "sigmoid",
            Self::Hinge => "hinge",
            Self::Ipo => "ipo",
        }
    }
}

/// The knobs of preference optimisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreferenceConfig {
    /// How a pair is scored: `sigmoid` (DPO), `hinge` (SLiC-HF) or `ipo` (IPO).
    /// Source: Rafailov et al., arXiv:2305.18290; Zhao et al., arXiv:2305.10425; Azar et al., arXiv:2310.12036.
    pub loss: PreferenceLoss,
    /// The weight of a difference of log-probabilities; the larger, the nearer the model stays to its reference.
    /// Source: Rafailov et al., arXiv:2305.18290, appendix B.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// The share of pairs that are taken to be the wrong way round, in the loss `sigmoid` of training (conservative DPO).
    /// Source: Mitchell 2023, "A note on DPO with noisy preferences & relationship to IPO".
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 0.5))]
    pub label_smoothing: f64,
    /// The folder of the run that is the reference, or the file of the experiment that makes it. Default: the run that training
    /// begins from (`[init] from`), at the checkpoint that it begins from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    /// Which checkpoint of `reference`: `best`, `latest` or the number of a step; the best one when absent.
    #[schemars(extend("type" = ["string", "integer"]))]
    #[serde(
        deserialize_with = "word_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub reference_checkpoint: Option<String>,
}

impl Default for PreferenceConfig {
    fn default() -> Self {
        Self {
            loss: PreferenceLoss::Sigmoid,
            beta: 0.1,
            label_smoothing: 0.0,
            reference: None,
            reference_checkpoint: None,
        }
    }
}

impl PreferenceConfig {
    /// The run that is the reference.
    pub fn frozen_run(&self) -> FrozenRun<'_> {
        self.reference().run(true)
    }

    fn reference(&self) -> Reference<'_> {
        Reference {
            path: self.reference.as_deref(),
            checkpoint: self.reference_checkpoint.as_deref(),
        }
    }
}

impl TaskFacts for PreferenceConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn reads(&self) -> Gives {
        Gives::Preferences
    }

    fn demand(&self) -> Demand {
        Demand::of(Use::NextTokens)
    }

    fn elsewhere(&self) -> Option<TaskConfig> {
        policy::elsewhere()
    }

    /// The worse text stands behind the better one.
    fn written(&self, context: usize) -> Option<usize> {
        Some(context)
    }

    /// Those of two texts that do not see each other. The reference's are counted where the reference is known.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        2.0 * model.products(&self.demand(), shape)
    }

    fn faults(&self, at: &mut TableFaults) {
        at.positive("beta", self.beta);
        let smoothing = self.label_smoothing;
        if !(0.0..0.5).contains(&smoothing) {
            let rule = format!(
                "label_smoothing = {smoothing:?} must be at least 0 and below 0.5, at which a pair says nothing"
            );
            at.fault(&["label_smoothing"], rule);
        }
        if smoothing != 0.0 && self.loss != PreferenceLoss::Sigmoid {
            let rule = format!(
                "label_smoothing = {smoothing:?} has no effect with loss = \"{}\"; leave it out, or use \"sigmoid\"",
                self.loss.name()
            );
            at.fault(&["label_smoothing", "loss"], rule);
        }
        self.reference().faults(at);
    }

    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric> {
        let exact = data.has_answers().then_some(EXACT_MATCH);
        METRICS.iter().copied().chain(exact).collect()
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        policy::command(run, prompt)
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &ModelInputs,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        let policy = policy::init(model, inputs);
        Ok(policy.map(|policy| AnyTask::Preference(Preference::new(policy, self, exact))))
    }
}
