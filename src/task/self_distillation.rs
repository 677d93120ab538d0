//! Self-distillation of images without labels (Caron et al. 2021, DINO, section 3.1): a network learns to score one
//! view of an image as an average of its own past weights scores another view of it.
//!
//! The student is the network with a projection head ([`crate::model::projection_head`]). The teacher is the moving
//! average of both, which the step loop maintains and evaluations use ([`crate::train::ema`]). With t the teacher's
//! scores of the two global views, c the centre, and s the student's scores of all V views:
//!
//! ```text
//! p_i = softmax((t_i − c)/τ_t)      loss = Σ_{i ≤ 2} Σ_{j ≠ i} −p_i·log softmax(s_j/τ_s) / (2(V − 1))
//! c ← m·c + (1 − m)·mean of t over the views of a step      teacher ← λ·teacher + (1 − λ)·student after it
//! ```
//!
//! Centring and sharpening keep the teacher from scoring all images alike. λ rises from `teacher_momentum` to 1 along a
//! half cosine over training. An evaluation scores the averaged network against itself by the same formula.

mod losses;
mod network;

pub use losses::{ComparisonResult, Scores, compare_scores};
pub use network::SelfDistillation;

use super::AnyTask;
use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use crate::data::batch::Views;
use crate::data::images::ViewsConfig;
use crate::data::{DataSet, ExampleForm, Shape};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::evaluate::neighbours::KNN_ACCURACY;
use crate::faults::{MAX_TEMPERATURE, MAX_WIDTH, MIN_TEMPERATURE, TableFaults};
use crate::model::projection_head::{self, ProjectionHeadShape};
use crate::model::vision::LocalViews;
use crate::model::{BuildContext, Demand, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::role::{Declaration, Roles, STATE, StackSide};
use crate::one_table::is_usual;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "self_distillation",
    summary: "image features without labels: a vision transformer matches its own moving average on other views",
    source: "Caron et al. 2021, DINO",
    example: "{ kind = \"self_distillation\", d_hidden = 256, d_bottleneck = 64, d_out = 512, teacher_momentum = 0.99, \
              views = { local = 4, local_size = 16 } }",
};

/// Temperatures, the number of unnamed classes and the views define the loss.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[
        (USAGE_ENTROPY.name, LOSS_KEYS),
        (TARGET_ENTROPY.name, LOSS_KEYS),
    ],
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(LOSS_KEYS)
};

const LOSS_KEYS: &[&str] = &[
    "d_out",
    "student_temperature",
    "teacher_temperature",
    "views",
    "data.size",
    "data.fit",
    "data.channels",
    "data.mean",
    "data.std",
];

/// Entropy in nats of the teacher's distributions averaged over the rows of a micro-batch: 0 if it puts all rows into
/// one class.
pub const USAGE_ENTROPY: Metric = Metric::higher("usage_entropy");
/// Mean entropy in nats of the teacher's distributions: ln `d_out` if they are uniform.
pub const TARGET_ENTROPY: Metric = Metric::lower("target_entropy");
/// The metrics that this task defines.
pub const METRICS: &[Metric] = &[USAGE_ENTROPY, TARGET_ENTROPY, KNN_ACCURACY];

/// Name of the field that holds the centre. The centre follows the teacher's scores; no optimizer changes it.
pub const CENTRE: &str = "centre";

/// Settings of self-distillation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelfDistillationConfig {
    /// Width of both inner layers of the head. Source: Caron et al. 2021, appendix C.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_hidden: usize,
    /// Width of the vector that the head normalises. Source: Caron et al. 2021, appendix C.
    #[schemars(range(min = 1, max = crate::faults::MAX_WIDTH))]
    pub d_bottleneck: usize,
    /// Number of classes, which have no names. Source: Caron et al. 2021, appendix C.
    #[schemars(range(min = 2, max = crate::faults::MAX_WIDTH))]
    pub d_out: usize,
    /// Number of first steps in which the last layer of the head is not trained; in the paper those of the first epoch.
    /// Source: Caron et al. 2021, appendix D.
    #[serde(skip_serializing_if = "is_usual")]
    pub freeze_last_steps: u64,
    /// Share of the teacher's old weights in its new ones at the first step; it rises to 1. Source: Caron et al. 2021,
    /// section 3.1.
    #[schemars(range(min = 0, max = 1))]
    pub teacher_momentum: f64,
    /// Share of the old centre in the new one. Source: Caron et al. 2021, section 3.1 and appendix D.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub centre_momentum: f64,
    /// Temperature of the student: the divisor of its scores. Source: Caron et al. 2021, section 3.2.
    #[schemars(range(min = MIN_TEMPERATURE, max = MAX_TEMPERATURE))]
    pub student_temperature: f64,
    /// Temperature of the teacher: the divisor of its scores. Source: Caron et al. 2021, section 3.2.
    #[schemars(range(min = MIN_TEMPERATURE, max = MAX_TEMPERATURE))]
    pub teacher_temperature: f64,
    /// Initial temperature of the teacher, and the number of steps in which it rises linearly to `teacher_temperature`.
    /// Default: it is the same in all steps. Source: Caron et al. 2021, section 3.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher_warmup: Option<TeacherWarmupConfig>,
    /// The views of an image.
    pub views: ViewsConfig,
}

/// Warmup of the teacher's temperature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TeacherWarmupConfig {
    /// Temperature of the first step. Source: Caron et al. 2021, section 3.2.
    #[schemars(range(min = MIN_TEMPERATURE, max = MAX_TEMPERATURE))]
    pub from: f64,
    /// Number of steps until `teacher_temperature`; in the paper those of 30 epochs.
    #[schemars(range(min = 1))]
    pub steps: u64,
}

impl Default for TeacherWarmupConfig {
    fn default() -> Self {
        Self {
            from: 0.04,
            steps: 1000,
        }
    }
}

impl Default for SelfDistillationConfig {
    fn default() -> Self {
        Self {
            d_hidden: 2048,
            d_bottleneck: 256,
            d_out: 65_536,
            freeze_last_steps: 0,
            teacher_momentum: 0.996,
            centre_momentum: 0.9,
            student_temperature: 0.1,
            teacher_temperature: 0.04,
            teacher_warmup: None,
            views: ViewsConfig::default(),
        }
    }
}

impl SelfDistillationConfig {
    /// Returns the shape of the projection head on vectors of width `d_in`.
    pub fn head(&self, d_in: usize) -> ProjectionHeadShape {
        ProjectionHeadShape {
            d_in,
            d_hidden: self.d_hidden,
            d_bottleneck: self.d_bottleneck,
            d_out: self.d_out,
        }
    }

    /// Returns the teacher's temperature in a step, counted from 0.
    pub fn teacher_temperature(&self, step: u64) -> f64 {
        match &self.teacher_warmup {
            Some(warmup) if step < warmup.steps => {
                let share = step as f64 / warmup.steps as f64;
                warmup.from + (self.teacher_temperature - warmup.from) * share
            }
            Some(_) | None => self.teacher_temperature,
        }
    }

    /// Returns the views that the network reads.
    fn local_views(&self) -> LocalViews {
        LocalViews {
            side: (self.views.local > 0).then_some(self.views.local_size),
            full_size_count: Views::GLOBAL,
            local_count: self.views.local,
        }
    }
}

impl TaskFacts for SelfDistillationConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Images
    }

    fn demand(&self) -> Demand {
        Demand {
            local_views: Some(self.local_views()),
            ..Demand::plain(Use::ImageViews)
        }
    }

    fn views(&self) -> Option<&ViewsConfig> {
        Some(&self.views)
    }

    fn teacher_momentum(&self) -> Option<f64> {
        Some(self.teacher_momentum)
    }

    fn rows_per_example(&self) -> usize {
        self.views.count()
    }

    /// The student reads all views. The teacher reads the global views in forward passes only, a third of a step's
    /// multiplications.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let views = self.local_views();
        let student = model.products(&self.demand(), shape);
        let global = Demand {
            local_views: Some(LocalViews {
                side: None,
                ..views
            }),
            ..self.demand()
        };
        let teacher = model.products(&global, shape);
        let head = self.head(model.d_pooled()).products();
        let vectors = self.views.count() as f64 + views.full_size_count as f64 / 3.0;
        student + teacher / 3.0 + head * vectors
    }

    fn faults(&self, at: &mut TableFaults) {
        at.count("d_hidden", self.d_hidden, MAX_WIDTH);
        at.count("d_bottleneck", self.d_bottleneck, MAX_WIDTH);
        if at.count("d_out", self.d_out, MAX_WIDTH) && self.d_out < 2 {
            at.fault(
                &["d_out"],
                "d_out = 1 cannot distinguish images: set 2 or more",
            );
        }
        if !(0.0..=1.0).contains(&self.teacher_momentum) {
            let rule = format!(
                "teacher_momentum = {:?} must be between 0 and 1",
                self.teacher_momentum
            );
            at.fault(&["teacher_momentum"], rule);
        }
        at.probability("centre_momentum", self.centre_momentum);
        let warmup = self.teacher_warmup.as_ref();
        at.temperature("student_temperature", self.student_temperature);
        at.temperature("teacher_temperature", self.teacher_temperature);
        if let Some(warmup) = warmup {
            at.nested("teacher_warmup", |at| at.temperature("from", warmup.from));
        }
        if warmup.is_some_and(|warmup| warmup.steps == 0) {
            let rule = "steps = 0 has no effect: set 1 or more, or remove teacher_warmup";
            let key = format!("{}.teacher_warmup.steps", at.table());
            at.fault(&[&key], rule);
        }
        at.nested("views", |at| self.views.faults(at));
    }

    fn reads_classes(&self) -> bool {
        false
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        METRICS.to_vec()
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork encode {run} FILE.png --out VECTORS.npy"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let Some(model) = model.patch_network() else {
            return Ok(None);
        };
        let task = SelfDistillation::new(model, self, inputs)?;
        Ok(Some(AnyTask::SelfDistillation(task)))
    }
}

/// Roles of the parameters of [`SelfDistillation`].
pub const ROLES: Roles = Roles::new(
    "SelfDistillation",
    &[
        (CENTRE, STATE),
        (
            projection_head::NAME,
            Declaration::Side(StackSide::ProjectionHead),
        ),
    ],
);
