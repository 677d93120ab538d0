//! Distillation: trains a task on its own data and on the outputs of another run's network, the teacher (Hinton et al.
//! 2015, "Distilling the knowledge in a neural network"; Sanh et al. 2019, DistilBERT; Touvron et al. 2021, DeiT).
//!
//! ```text
//! soft·T²·KL(teacher ‖ student) + hard·(the task's own loss) + cosine·(1 − cos(states of the student, of the teacher))
//! ```
//!
//! The KL divergence and the task's own loss are means over the scored positions (masked tokens, next tokens, rows with
//! a class); the cosine term is a mean over the tokens that are read. The reported loss is the task's own, so that a
//! run compares with one without a teacher; the other losses are reported beside it in the training journal.
//! Evaluations are those of the task itself.
//!
//! This task wraps another one and adds no parameters: weights have the wrapped task's paths, and the model in use is
//! the wrapped task's. The teacher is frozen and reads the same batch with the same masks, in evaluation mode; it reads
//! pixels in its own normalisation.

mod config;
pub mod losses;
mod outputs;
mod students;

use super::wrapper::shows_alone;
use super::{AnyTask, Divisor, Frozen, Networks, Scored, Task, Term};
use crate::data::batch::Batch;
use crate::data::images::normalise::Renormalise;
use crate::evaluate::metric::Metric;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
pub use config::{DistillationConfig, KIND, METRIC_KEYS};
pub use outputs::{Distillable, Outputs};

const SOFT_LOSS: Metric = Metric::lower("soft_loss");
const LABEL_LOSS: Metric = Metric::lower("label_loss");
const COSINE_LOSS: Metric = Metric::lower("cosine_loss");

/// Losses in the training journal beside the task's own: of soft targets, of the teacher's predicted classes, of hidden
/// states.
pub const METRICS: &[Metric] = &[SOFT_LOSS, LABEL_LOSS, COSINE_LOSS];

/// A task with a teacher.
#[derive(Clone, Debug)]
pub struct Distillation {
    student: Box<AnyTask>,
    /// The teacher; set before training.
    teacher: Option<Box<Frozen<AnyTask>>>,
    /// Conversion of a batch's pixels to the teacher's normalisation, if the two differ.
    pixels: Option<Renormalise>,
    temperature: f64,
    soft: f64,
    hard: f64,
    cosine: f64,
    hard_labels: bool,
}

impl Distillation {
    /// Builds a student that has no teacher yet.
    pub fn new(student: AnyTask, config: &DistillationConfig) -> Self {
        Self {
            student: Box::new(student),
            teacher: None,
            pixels: None,
            temperature: config.temperature(),
            soft: config.soft,
            hard: config.hard,
            cosine: config.cosine,
            hard_labels: config.hard_labels,
        }
    }

    /// Returns the task with a teacher. The teacher's task must be the student's, over the same tokens or classes.
    #[must_use]
    pub fn with_teacher(self, teacher: AnyTask) -> Self {
        Self {
            teacher: Some(Box::new(Frozen::new(teacher))),
            ..self
        }
    }

    /// Returns the task with the conversion of pixels to its teacher's normalisation.
    #[must_use]
    pub fn with_pixels(self, pixels: Option<Renormalise>) -> Self {
        Self { pixels, ..self }
    }

    /// Computes the losses of a training batch; `None` if either task cannot be distilled.
    fn distillation_losses(&self, teacher: &AnyTask, batch: &Batch, pass: &Pass) -> Option<Scored> {
        let (student, teacher) = (self.student.as_distillable()?, teacher.as_distillable()?);
        let outputs = student.outputs(batch, pass);
        let taught = match &self.pixels {
            Some(pixels) => teacher.outputs_renormalised(batch, pixels, &Pass::evaluation()),
            None => teacher.outputs(batch, &Pass::evaluation()),
        };
        let hidden = taught.hidden.clone();
        let mut scored = student.own_loss(&outputs, batch, pass);
        let further = scored.more.iter_mut().map(|(_, term)| term);
        for term in further.chain([&mut scored.loss]) {
            term.coefficient *= self.hard;
        }
        if self.soft > 0.0 {
            let scores = outputs.distilled_scores.unwrap_or(outputs.scores);
            let [scores, theirs] = losses::shared_logits(scores, taught.mean_logits());
            let (metric, sum) = match self.hard_labels {
                true => (LABEL_LOSS, losses::label(scores, theirs)),
                false => (SOFT_LOSS, losses::soft(scores, theirs, self.temperature)),
            };
            // A batch without scored positions still has one placeholder row; its loss must not count.
            let sum = match batch.scored {
                0 => sum * 0.0,
                _ => sum,
            };
            let term = Term {
                sum,
                over: Divisor::Scored,
                coefficient: self.soft,
            };
            scored = scored.with_added(metric, term);
        }
        if self.cosine > 0.0 {
            let (counted, over) = outputs::counted_positions(batch, outputs.hidden.dims()[1]);
            let device = outputs.hidden.device();
            let counted = counted.map(|flags| outputs::tensor(flags, &device));
            let term = Term {
                sum: losses::cosine(outputs.hidden, hidden, counted),
                over,
                coefficient: self.cosine,
            };
            scored = scored.with_added(COSINE_LOSS, term);
        }
        Some(scored)
    }
}

const CHECKED: &str = "a run hands in a teacher of the student's task before it trains";

impl Task for Distillation {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        if !pass.is_training() {
            return self.student.score(batch, pass, state);
        }
        let teacher = self.teacher.as_deref();
        let learned = teacher.and_then(|teacher| self.distillation_losses(teacher, batch, pass));
        learned.unwrap_or_else(|| unreachable!("{CHECKED}"))
    }

    fn seed(&self) -> u64 {
        self.student.seed()
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        self.student.sample(batch)
    }

    fn empty_state(&self) -> Option<ModelState> {
        self.student.empty_state()
    }

    fn networks(&self) -> Networks<'_> {
        self.student.networks()
    }
}

impl Distillation {
    /// Applies one function to the student and another one to the teacher.
    fn each(
        self,
        student: impl FnOnce(AnyTask) -> AnyTask,
        teacher: impl FnOnce(Frozen<AnyTask>) -> Frozen<AnyTask>,
    ) -> Self {
        Self {
            student: Box::new(student(*self.student)),
            teacher: self.teacher.map(|frozen| Box::new(teacher(*frozen))),
            ..self
        }
    }
}

shows_alone!(Distillation, student);
