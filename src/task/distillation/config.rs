//! The keys of distillation, and the checks of their values.

use super::Distillation;
use crate::data::targets::Targets;
use crate::data::{DataSet, ExampleForm, Shape, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::faults::TableFaults;
use crate::model::{BuildContext, Demand, ModelConfig, Use};
use crate::nn::Kind;
use crate::one_table::word_or_number;
use crate::task::class_weights::ClassWeights;
use crate::task::facts::{GlobalTokenSupport, TaskFacts};
use crate::task::metric_keys::MetricKeys;
use crate::task::{AnyTask, FrozenRun, TaskConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "distillation",
    summary: "another task, also learned from a teacher: soft targets, hidden states, or the teacher's classes",
    source: "Hinton et al. 2015; Sanh et al. 2019; Touvron et al. 2021",
    example: "{ kind = \"distillation\", teacher = \"checkpoints/bert\", of = { kind = \"masked_lm\" } }",
};

/// The loss of evaluations is that of the distilled task.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_kind(KIND.kind);

/// Settings of distillation. Weights and temperature are DistilBERT's when absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DistillationConfig {
    /// Folder of the teacher's run, or the file of the experiment that makes it.
    pub teacher: PathBuf,
    /// The teacher's checkpoint: `best`, `latest` or the number of a step; the best one when absent.
    #[schemars(extend("type" = ["string", "integer"]))]
    #[serde(
        default,
        deserialize_with = "word_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub teacher_checkpoint: Option<String>,
    /// Divisor of the logits before the soft targets; 2 when absent. Source: Hinton et al. 2015, section 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Weight of the loss against the teacher's targets. Source: Hinton et al. 2015, section 2.
    #[schemars(range(min = 0))]
    #[serde(default = "soft")]
    pub soft: f64,
    /// Weight of the task's own loss. Source: Hinton et al. 2015, section 2.
    #[schemars(range(min = 0))]
    #[serde(default = "hard")]
    pub hard: f64,
    /// Weight of the cosine distance between the last hidden states and the teacher's, which must have the same width.
    /// Source: Sanh et al. 2019, section 2.
    #[schemars(range(min = 0))]
    #[serde(default = "cosine")]
    pub cosine: f64,
    /// Whether the teacher's most likely class is the target instead of its distribution (DeiT). Only for tasks with
    /// classes.
    /// Source: Touvron et al. 2021, section 4.
    #[serde(default)]
    pub hard_labels: bool,
    /// The task that is learned: `causal_lm`, `masked_lm`, `translation`, `span_corruption`, `denoising`, `text_classification` or
    /// `image_classification`.
    pub of: Box<TaskConfig>,
}

fn soft() -> f64 {
    5.0
}

fn hard() -> f64 {
    2.0
}

fn cosine() -> f64 {
    1.0
}

/// The kinds of tasks that can be learned from a teacher.
pub const DISTILLABLE_KINDS: [&str; 7] = [
    "causal_lm",
    "masked_lm",
    "translation",
    "span_corruption",
    "denoising",
    "text_classification",
    "image_classification",
];

/// Default temperature.
const TEMPERATURE: f64 = 2.0;

impl DistillationConfig {
    /// Returns the teacher's run.
    pub fn frozen_run(&self) -> FrozenRun<'_> {
        FrozenRun {
            role: "teacher",
            key: "task.teacher",
            checkpoint_key: "task.teacher_checkpoint",
            path: Some(self.teacher.as_path()),
            checkpoint: self.teacher_checkpoint.as_deref(),
            in_evaluations: false,
        }
    }

    /// Returns the divisor of the logits before the soft targets.
    pub(super) fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(TEMPERATURE)
    }

    /// Returns the task that is learned.
    fn inner_facts(&self) -> &dyn TaskFacts {
        self.of.facts()
    }

    fn weight_faults(&self, at: &mut TableFaults) {
        for (key, weight) in [
            ("soft", self.soft),
            ("hard", self.hard),
            ("cosine", self.cosine),
        ] {
            if !(weight >= 0.0 && weight.is_finite()) {
                at.fault(&[key], format!("{key} = {weight:?} must be 0 or more"));
            }
        }
        if self.soft == 0.0 && self.cosine == 0.0 {
            let rule = format!(
                "soft = 0.0 and cosine = 0.0 disable the teacher; use kind = \"{}\" without a teacher",
                self.of.kind()
            );
            at.fault(&["soft", "cosine"], rule);
        }
        let unread = [
            (
                self.hard_labels,
                "hard_labels = true uses only the most likely class",
            ),
            (self.soft == 0.0, "soft = 0.0 uses no soft targets"),
        ];
        if let (Some(temperature), Some((_, why))) = (
            self.temperature,
            unread.into_iter().find(|(unread, _)| *unread),
        ) {
            let rule = format!("temperature = {temperature:?} has no effect: {why}; remove it");
            at.fault(&["temperature"], rule);
        }
        if let Some(temperature) = self.temperature {
            at.positive("temperature", temperature);
        }
        if self.hard_labels && self.soft == 0.0 {
            at.fault(
                &["hard_labels", "soft"],
                "hard_labels = true has no effect: soft = 0.0 is the weight of the teacher's classes; set it above 0",
            );
        }
    }
}

impl TaskFacts for DistillationConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        self.inner_facts().example_form()
    }

    fn view(&self) -> View {
        self.inner_facts().view()
    }

    fn targets(&self) -> Targets {
        self.inner_facts().targets()
    }

    fn class_weights(&self) -> Option<&ClassWeights> {
        self.inner_facts().class_weights()
    }

    fn without_training_parts(&self) -> Option<TaskConfig> {
        Some(self.of.without_training_parts())
    }

    fn longest_written(&self, context: usize) -> Option<usize> {
        self.inner_facts().longest_written(context)
    }

    fn published_as(&self) -> Option<TaskConfig> {
        Some(self.of.published_as())
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        self.inner_facts().global_tokens()
    }

    fn demand(&self) -> Demand {
        self.inner_facts().demand()
    }

    /// Returns the multiplications of the distilled task; the teacher's are added elsewhere, once the teacher is known.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        self.inner_facts().products(model, shape)
    }

    fn faults(&self, at: &mut TableFaults) {
        self.weight_faults(at);
        let kind = self.of.kind();
        if let TaskConfig::CausalLm(c) = &*self.of
            && (c.intermediate_layers || c.second_target.is_some())
        {
            at.fault(
                &["task.of.second_target", "task.of.intermediate_layers"],
                "intermediate_layers and second_target have no effect: a teacher has no such predictions; remove them",
            );
        }
        if !self.inner_facts().can_be_distilled() {
            let remedy = match DISTILLABLE_KINDS.contains(&kind) {
                true => " with towers; remove them".to_owned(),
                false => format!("; allowed: {}", DISTILLABLE_KINDS.join(", ")),
            };
            at.fault(
                &["task.of.kind"],
                format!("of = {{ kind = \"{kind}\" }} cannot be learned from a teacher{remedy}"),
            );
        }
        let classes = matches!(self.of.network_use(), Use::TextClasses | Use::ImageClasses);
        if self.hard_labels && !classes {
            at.fault(
                &["hard_labels", "task.of.kind"],
                format!("hard_labels = true needs classes, but of = {{ kind = \"{kind}\" }} has none; remove it"),
            );
        }
        at.nested("of", |at| self.inner_facts().faults(at));
    }

    fn metrics(&self, data: &dyn DataSet) -> Vec<Metric> {
        self.inner_facts().metrics(data)
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        self.inner_facts().command(run, prompt)
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        let student = self.inner_facts().init(model, inputs, exact)?;
        Ok(student.map(|student| AnyTask::Distillation(Distillation::new(student, self))))
    }
}

#[cfg(test)]
mod tests {
    use super::DISTILLABLE_KINDS;
    use crate::task::{KINDS, TaskConfig};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Table {
        task: TaskConfig,
    }

    #[test]
    fn all_tasks_that_are_learned_from_a_teacher_are_listed() {
        for kind in KINDS {
            let table: Table = toml::from_str(&format!("task = {}", kind.example)).unwrap();
            let learned = table.task.facts().can_be_distilled();
            assert_eq!(
                learned,
                DISTILLABLE_KINDS.contains(&kind.kind),
                "{}",
                kind.kind
            );
        }
    }
}
