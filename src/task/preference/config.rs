//! The keys of preference optimisation, and the checks of their values.

use super::{METRICS, Preference};
use crate::data::{DataSet, ExampleForm, Shape};
use crate::error::Result;
use crate::evaluate::metric::{EXACT_MATCH, Metric};
use crate::faults::TableFaults;
use crate::model::{BuildContext, Demand, ModelConfig, Use};
use crate::nn::Kind;
use crate::one_table::word_or_number;
use crate::task::facts::TaskFacts;
use crate::task::metric_keys::MetricKeys;
use crate::task::policy::{self, ReferenceKeys};
use crate::task::{AnyTask, FrozenRun, TaskConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "preference",
    summary: "the better of two texts over the worse, relative to a frozen reference: DPO, with losses of SLiC-HF and IPO",
    source: "Rafailov et al., arXiv:2305.18290; Zhao et al., arXiv:2305.10425; Azar et al., arXiv:2310.12036",
    example: "{ kind = \"preference\" }",
};

/// The form of the loss, its scale and the reference define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("reward_margin", &["beta", "reference"])],
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(&["loss", "beta", "reference"])
};

/// Loss of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferenceLoss {
    /// −ln σ of the scaled difference of log-ratios: DPO.
    #[default]
    Sigmoid,
    /// The amount by which the scaled difference falls short of 1: SLiC-HF.
    Hinge,
    /// The squared distance of the difference of per-token means from 1/(2·beta): IPO.
    Ipo,
}

impl PreferenceLoss {
    /// Returns the value of the key for this loss.
    fn name(self) -> &'static str {
        match self {
            Self::Sigmoid => "sigmoid",
            Self::Hinge => "hinge",
            Self::Ipo => "ipo",
        }
    }
}

/// Settings of preference optimisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreferenceConfig {
    /// Loss of a pair: `sigmoid` (DPO), `hinge` (SLiC-HF) or `ipo` (IPO).
    /// Source: Rafailov et al., arXiv:2305.18290; Zhao et al., arXiv:2305.10425; Azar et al., arXiv:2310.12036.
    pub loss: PreferenceLoss,
    /// Factor of the difference of log-ratios; the larger, the closer the model stays to its reference.
    /// Source: Rafailov et al., arXiv:2305.18290, appendix B.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Share of pairs that are assumed to be mislabelled, in the training loss `sigmoid` (conservative DPO).
    /// Source: Mitchell 2023, "A note on DPO with noisy preferences & relationship to IPO".
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 0.5))]
    pub label_smoothing: f64,
    /// Folder of the reference run, or the file of the experiment that makes it. Default: the run that training starts
    /// from (`[init] from`), at the checkpoint that it starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    /// Checkpoint of `reference`: `best`, `latest` or the number of a step; the best one when absent.
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
    /// Returns the reference run.
    pub fn frozen_run(&self) -> FrozenRun<'_> {
        self.reference().run(true)
    }

    fn reference(&self) -> ReferenceKeys<'_> {
        ReferenceKeys {
            path: self.reference.as_deref(),
            checkpoint: self.reference_checkpoint.as_deref(),
        }
    }
}

impl TaskFacts for PreferenceConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Preferences
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::NextTokens)
    }

    fn published_as(&self) -> Option<TaskConfig> {
        policy::published_as()
    }

    /// The worse text follows the better one in the row, so that positions up to the whole context are needed.
    fn longest_written(&self, context: usize) -> Option<usize> {
        Some(context)
    }

    /// Returns the multiplications for two texts that do not see each other; the reference's are added elsewhere, once
    /// the reference is known.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        2.0 * model.products(&self.demand(), shape)
    }

    fn faults(&self, at: &mut TableFaults) {
        at.positive("beta", self.beta);
        let smoothing = self.label_smoothing;
        if !(0.0..0.5).contains(&smoothing) {
            let rule = format!(
                "label_smoothing = {smoothing:?} must be at least 0 and below 0.5, at which a pair carries no information"
            );
            at.fault(&["label_smoothing"], rule);
        }
        if smoothing != 0.0 && self.loss != PreferenceLoss::Sigmoid {
            let rule = format!(
                "label_smoothing = {smoothing:?} has no effect with loss = \"{}\"; remove it, or use \"sigmoid\"",
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
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        let policy = policy::init(model, inputs);
        Ok(policy.map(|policy| AnyTask::Preference(Preference::new(policy, self, exact))))
    }
}
