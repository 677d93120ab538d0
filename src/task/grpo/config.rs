//! The keys of group-relative policy optimisation, and the checks of their values.

use super::losses::Clip;
use super::rollouts::Completion;
use super::{CompletionReward, Grpo, METRICS};
use crate::data::{DataSet, ExampleForm};
use crate::error::Result;
use crate::evaluate::metric::{EXACT_MATCH, Metric};
use crate::faults::TableFaults;
use crate::model::sampling::Sampling;
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
    kind: "grpo",
    summary: "sampled completions, rewarded by right answers or a reward model: GRPO, with Dr. GRPO's and DAPO's losses",
    source: "Shao et al., arXiv:2402.03300, section 4; Yu et al., arXiv:2503.14476; Liu et al., arXiv:2503.20783",
    example: "{ kind = \"grpo\", beta = 0.0 }",
};

/// The loss of an evaluation is the negative reward.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[
        ("reward", REWARD),
        ("truncated", LENGTH),
        ("completion_length", LENGTH),
        ("exact_match", LENGTH),
    ],
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(REWARD)
};
/// Keys that define rewards: a completion that has no room to end gets another reward.
const REWARD: &[&str] = &["reward", "max_new_tokens", "decode.sampling.end"];
/// Keys that define the maximum length of completions.
const LENGTH: &[&str] = &["max_new_tokens", "decode.sampling.end"];

/// Divisor of the losses of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrpoLoss {
    /// Mean over the tokens of each completion, then over completions.
    #[default]
    Grpo,
    /// Mean over all tokens of a step.
    Dapo,
    /// Sum over the tokens of each completion divided by `max_new_tokens`, then the mean over completions.
    DrGrpo,
}

/// Settings of group-relative policy optimisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoConfig {
    /// Reward of a completion.
    pub reward: CompletionReward,
    /// Number of completions of each prompt, whose rewards are compared with each other.
    /// Source: Shao et al., arXiv:2402.03300, section 4.1.
    #[schemars(range(min = 2, max = MOST_COMPLETIONS))]
    pub group_size: usize,
    /// Maximum number of tokens of a completion, its end token included; a completion ends at the latest with the
    /// context. Default: as many as the context leaves.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new_tokens: Option<usize>,
    /// Sampling temperature: the divisor of the logits, in the sampling and in the loss.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub temperature: f64,
    /// Samples among the k most likely tokens; among all when absent. Source: Fan et al. 2018.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Samples among the most likely tokens that together reach this probability; among all when absent.
    /// Source: Holtzman et al. 2020, section 3.1.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Divisor of the losses of tokens: the length of each completion (`grpo`), the tokens of the whole step (`dapo`),
    /// or `max_new_tokens` (`dr_grpo`). With `dapo` a step is a single micro-batch on a single process.
    /// Source: Shao et al., arXiv:2402.03300, section 4.1; Yu et al., arXiv:2503.14476, section 3.3; Liu et al.,
    /// arXiv:2503.20783, section 3.2.
    pub loss: GrpoLoss,
    /// Whether the rewards of a group are divided by their standard deviation; Dr. GRPO does not divide.
    /// Source: Liu et al., arXiv:2503.20783, section 3.2.
    pub scale_rewards: bool,
    /// Whether completions without an end are excluded from the loss. Source: Yu et al., arXiv:2503.14476, section 3.4.
    pub mask_truncated: bool,
    /// Weight of the divergence from the reference; 0 for no reference. Source: Shao et al., arXiv:2402.03300, equation
    /// 4.
    #[schemars(range(min = 0))]
    pub beta: f64,
    /// Number of optimizer steps that learn from one sampling. Source: Shao et al., arXiv:2402.03300, algorithm 1.
    #[schemars(range(min = 1, max = MOST_UPDATES))]
    pub updates: u64,
    /// Clipping range: how far a probability ratio may fall below 1 and rise above it before it is clipped, if a
    /// sampling has several updates; 0.2 when absent. Source: Schulman et al., arXiv:1707.06347, section 3.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Upper clipping range in place of `epsilon`: how far a ratio may rise above 1. Source: Yu et al.,
    /// arXiv:2503.14476, section 3.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon_high: Option<f64>,
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

/// Maximum number of completions of a prompt.
const MOST_COMPLETIONS: usize = 4096;
/// Maximum number of updates of a sampling.
const MOST_UPDATES: u64 = 1024;
/// Default clipping range.
const EPSILON: f64 = 0.2;

impl Default for GrpoConfig {
    fn default() -> Self {
        Self {
            reward: CompletionReward::default(),
            group_size: 8,
            max_new_tokens: None,
            temperature: 1.0,
            top_k: None,
            top_p: None,
            loss: GrpoLoss::Grpo,
            scale_rewards: true,
            mask_truncated: false,
            beta: 0.04,
            updates: 1,
            epsilon: None,
            epsilon_high: None,
            reference: None,
            reference_checkpoint: None,
        }
    }
}

impl GrpoConfig {
    /// Returns the reference run; `None` if there is no reference.
    pub fn frozen_run(&self) -> Option<FrozenRun<'_>> {
        (self.beta != 0.0).then(|| self.reference().run(false))
    }

    fn reference(&self) -> ReferenceKeys<'_> {
        ReferenceKeys {
            path: self.reference.as_deref(),
            checkpoint: self.reference_checkpoint.as_deref(),
        }
    }

    /// Returns the maximum number of tokens of a completion, for rows of up to `context` tokens.
    pub fn max_completion_tokens(&self, context: usize) -> usize {
        self.max_new_tokens.unwrap_or(context).min(context.max(1))
    }

    /// Returns how tokens are sampled.
    pub(super) fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            ..Sampling::default()
        }
    }

    /// Returns the clipping range of the ratios; `None` with one update.
    pub(super) fn clip(&self) -> Option<Clip> {
        let low = self.epsilon.unwrap_or(EPSILON);
        (self.updates > 1).then(|| [low, self.epsilon_high.unwrap_or(low)])
    }

    /// Returns whether the tokens of a completion count in the loss.
    pub(super) fn is_counted(&self, completion: &Completion) -> bool {
        completion.ended || !self.mask_truncated
    }

    /// Returns the weight of the tokens of each completion, in a sum over `rows` prompts that is later divided by
    /// `rows`.
    pub(super) fn weights(
        &self,
        completions: &[Completion],
        (rows, most): (usize, usize),
    ) -> Vec<f32> {
        let group = self.group_size as f64;
        let tokens: usize = completions
            .iter()
            .filter(|one| self.is_counted(one))
            .map(|one| one.tokens.len())
            .sum();
        let of = |one: &Completion| match self.loss {
            _ if !self.is_counted(one) => 0.0,
            GrpoLoss::Grpo => 1.0 / (group * one.tokens.len().max(1) as f64),
            GrpoLoss::Dapo => rows as f64 / tokens.max(1) as f64,
            GrpoLoss::DrGrpo => 1.0 / (group * most as f64),
        };
        completions.iter().map(|one| of(one) as f32).collect()
    }

    fn sampling_faults(&self, at: &mut TableFaults) {
        at.positive("temperature", self.temperature);
        if self.top_k == Some(0) {
            at.fault(
                &["top_k"],
                "top_k = 0 must be at least 1; remove it to sample from all tokens",
            );
        }
        if self.top_k == Some(1) {
            let rule = "top_k = 1 always samples the most likely token, so all completions of a group are equal; remove it";
            at.fault(&["top_k"], rule);
        }
        if let Some(p) = self.top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            at.fault(&["top_p"], format!("top_p = {p:?} is not in (0, 1]"));
        }
        if self.max_new_tokens == Some(0) {
            let rule = "max_new_tokens = 0 allows no tokens; set at least 1";
            at.fault(&["max_new_tokens"], rule);
        }
    }

    fn clip_faults(&self, at: &mut TableFaults) {
        if !(1..=MOST_UPDATES).contains(&self.updates) {
            let rule = format!(
                "updates = {} is not between 1 and {MOST_UPDATES}",
                self.updates
            );
            at.fault(&["updates"], rule);
        }
        for (key, value) in [
            ("epsilon", self.epsilon),
            ("epsilon_high", self.epsilon_high),
        ] {
            let Some(value) = value else { continue };
            if self.updates == 1 {
                let rule = format!(
                    "{key} = {value:?} has no effect with updates = 1: the trained policy is the one that sampled, so every ratio is 1; \
                     remove it, or set updates"
                );
                at.fault(&[key, "updates"], rule);
            }
            at.positive(key, value);
        }
        if let Some(epsilon) = self.epsilon.filter(|epsilon| *epsilon >= 1.0) {
            let rule = format!("epsilon = {epsilon:?} must be below 1, since ratios are positive");
            at.fault(&["epsilon"], rule);
        }
    }
}

impl TaskFacts for GrpoConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn whole_answers(&self) -> bool {
        true
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::NextTokens)
    }

    fn published_as(&self) -> Option<TaskConfig> {
        policy::published_as()
    }

    fn rows_per_example(&self) -> usize {
        self.group_size
    }

    fn updates_per_batch(&self) -> u64 {
        self.updates.max(1)
    }

    fn faults(&self, at: &mut TableFaults) {
        if !(2..=MOST_COMPLETIONS).contains(&self.group_size) {
            let rule = format!(
                "group_size = {} is not between 2 and {MOST_COMPLETIONS}: the completions of a prompt are compared with each other",
                self.group_size
            );
            at.fault(&["group_size"], rule);
        }
        self.sampling_faults(at);
        self.clip_faults(at);
        at.not_negative("beta", self.beta);
        at.nested("reward", |at| self.reward.faults(at));
        let keys = [
            ("reference", self.reference.is_some()),
            ("reference_checkpoint", self.reference_checkpoint.is_some()),
        ];
        for (key, _) in keys.iter().filter(|(_, given)| *given && self.beta == 0.0) {
            let rule =
                format!("{key} has no effect with beta = 0.0, which uses no reference; remove it");
            at.fault(&[*key, "beta"], rule);
        }
        if self.beta != 0.0 {
            self.reference().faults(at);
        }
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        let told = METRICS
            .iter()
            .filter(|metric| EVALUATION_METRICS.contains(&metric.name));
        told.copied().chain([EXACT_MATCH]).collect()
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        policy::command(run, prompt)
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        Ok(policy::init(model, inputs).map(|policy| {
            let transformer = model.transformer();
            let drops = transformer.is_some_and(|model| model.stack.dropouts().attention > 0.0);
            AnyTask::Grpo(Grpo::new(policy, self, inputs.shape.context).with_fixed_width(drops))
        }))
    }
}

/// Names of the metrics of `METRICS` that evaluations report.
const EVALUATION_METRICS: [&str; 3] = ["reward", "completion_length", "truncated"];
