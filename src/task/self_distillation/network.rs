//! The student, its teacher and the centre, with the training objective.

use super::losses::{ComparisonResult, Scores, compare_scores};
use super::{SelfDistillationConfig, TARGET_ENTROPY, USAGE_ENTROPY};
use crate::data::batch::{Batch, ImageBatch, Views};
use crate::error::{Error, Result};
use crate::evaluate::neighbours::KnnEmbeddings;
use crate::evaluate::predictions::Predictions;
use crate::faults::{self, Faults};
use crate::kernel::{self, replay};
use crate::model::projection_head::ProjectionHead;
use crate::model::{BuildContext, Vision, VisionConfig};
use crate::nn::pass::Pass;
use crate::nn::position::Grid;
use crate::stack::state::ModelState;
use crate::task::facts::TaskFacts;
use crate::task::image_classification::pixels;
use crate::task::output::KeptVectors;
use crate::task::scored::Count;
use crate::task::{Divisor, Frozen, Networks, Scored, Task, Term, host};
use burn::module::{Module, RunningState};
use burn::tensor::{Device, Tensor, TensorData};

/// Name of the pass over local views, in random draws and readings.
const LOCAL: &str = "local";

/// A network with its head; the teacher is an average of both.
#[derive(Module, Debug)]
struct Averaged {
    model: Vision,
    projection_head: ProjectionHead,
}

impl Averaged {
    /// Returns the scores `[rows, d_out]` of images of the model's own size.
    fn scores(&self, pixels: Tensor<4>) -> Tensor<2> {
        let pass = Pass::evaluation();
        let hidden = self.model.forward(pixels, &pass);
        let pooled = self.model.pooled(hidden, &pass);
        self.projection_head.forward(pooled, false)
    }
}

/// A vision transformer that learns from an average of itself.
#[derive(Module, Debug)]
pub struct SelfDistillation {
    /// The network.
    pub model: Vision,
    /// Head from the pooled features to scores; dropped when the network is used.
    pub projection_head: ProjectionHead,
    /// The centre `[d_out]`; it starts at 0 and is not a parameter.
    pub centre: RunningState<Tensor<1>>,
    /// The average of the network and its head. If it is `None`, the present network is its own teacher.
    teacher: Option<Frozen<Averaged>>,
    #[module(skip)]
    config: SelfDistillationConfig,
    /// Patch grids of images and of local views.
    #[module(skip)]
    grids: [Grid; 2],
    seed: u64,
}

impl SelfDistillation {
    /// Builds the network with its head.
    ///
    /// # Errors
    /// If the data has no images, if the model cannot read the images or local views, or if the views change colours
    /// and the images are grey.
    pub fn new(
        model: &VisionConfig,
        config: &SelfDistillationConfig,
        inputs: &BuildContext,
    ) -> Result<Self> {
        let image = inputs.shape.image.ok_or_else(|| {
            Error::usage("[task] self_distillation needs images; the data has no images")
        })?;
        let [channels, height, width] = image;
        if let Some((table, misfit)) = model.misfit(height, width) {
            return Err(Error::usage(format!("[model.{table}] {misfit}")));
        }
        let mut found = Faults::default();
        if let Some(views) = config.demand().local_views {
            model.local_faults(views, Some(image), &mut found.of("model"));
        }
        if channels == 1 {
            config.views.grey_faults(&mut found.of("task.views"));
        }
        if let Some((keys, rule)) = found.found.first() {
            let key = keys.first().and_then(|key| key.rsplit_once('.'));
            let table = key.map_or("model", |(table, _)| table);
            return Err(Error::usage(faults::prefix_with_table(table, rule)));
        }
        let side = config.views.local_size;
        let d_pooled = model.pooling.width_factor() * model.stack.d_output();
        let head = config.head(d_pooled);
        Ok(Self {
            model: model.init(image, inputs),
            projection_head: head.init(model.stack.init_settings(), inputs),
            centre: RunningState::new(Tensor::zeros([config.d_out], inputs.device)),
            teacher: None,
            config: config.clone(),
            grids: [model.grid(height, width), model.grid(side, side)],
            seed: inputs.seed,
        })
    }

    /// Returns the task with the weights of `average` as its teacher.
    #[must_use]
    pub fn with_teacher(self, average: &Self) -> Self {
        Self {
            teacher: Some(Frozen::new(average.averaged())),
            ..self
        }
    }

    fn averaged(&self) -> Averaged {
        Averaged {
            model: self.model.clone(),
            projection_head: self.projection_head.clone(),
        }
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.projection_head.last.val().device()
    }

    /// Returns the pooled features `[rows, features]` of whole images.
    pub fn vectors(&self, images: &ImageBatch, pass: &Pass) -> Tensor<2> {
        let hidden = self.model.forward(pixels(images, &self.device()), pass);
        self.model.pooled(hidden, pass)
    }

    /// Computes the loss of the views of `images` images of `shape` `[channels, height, width]`, with measures of the
    /// teacher's distributions. `step` is the training step, counted from 0; `None` in evaluations.
    pub fn compare(
        &self,
        views: &Views,
        (images, shape): (usize, [usize; 3]),
        step: Option<u64>,
        pass: &Pass,
    ) -> ComparisonResult {
        let device = self.device();
        let rests = step.is_some_and(|step| step < self.config.freeze_last_steps);
        let [channels, height, width] = shape;
        let count = images * Views::GLOBAL;
        let whole = TensorData::new(views.global.clone(), [count, channels, height, width]);
        let whole: Tensor<4> = replay::floats(whole, &device);
        let seen = pass.with_derived_rows(Views::GLOBAL, || {
            let hidden = self.model.forward(whole.clone(), pass);
            self.model.pooled(hidden, pass)
        });
        let global = self.projection_head.forward(seen, rests);
        let teacher = match (step, &self.teacher) {
            (None, _) => kernel::untracked(global.clone()),
            (Some(_), Some(teacher)) => teacher.scores(kernel::untracked(whole)),
            (Some(_), None) => self.averaged().valid().scores(kernel::untracked(whole)),
        };
        let local = self.local(views, images, channels, &device, pass);
        let temperature = match step {
            Some(step) => self.config.teacher_temperature(step),
            None => self.config.teacher_temperature,
        };
        let scores = Scores {
            global,
            local: local.map(|seen| self.projection_head.forward(seen, rests)),
            teacher,
        };
        let centre = kernel::to_f32(kernel::untracked(self.centre.value()));
        compare_scores(
            scores,
            centre,
            [self.config.student_temperature, temperature],
        )
    }

    /// Returns the pooled features of the local views, image by image; `None` if there are no local views.
    fn local(
        &self,
        views: &Views,
        images: usize,
        channels: usize,
        device: &Device,
        pass: &Pass,
    ) -> Option<Tensor<2>> {
        let each = self.config.views.local;
        if each == 0 {
            return None;
        }
        let shape = [images * each, channels, views.side, views.side];
        let pixels = TensorData::new(views.local.clone(), shape);
        let pixels: Tensor<4> = replay::floats(pixels, device);
        Some(pass.in_network(LOCAL, || {
            pass.with_derived_rows(each, || {
                let hidden = self.model.forward_local(pixels, self.grids, pass);
                self.model.pooled(hidden, pass)
            })
        }))
    }
}

const CHECKED: &str = "the data of this task gives views";

impl Task for SelfDistillation {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let images = host::images(batch);
        let Some(views) = &images.views else {
            unreachable!("{CHECKED}")
        };
        let step = pass.is_training().then_some(batch.step);
        let of = (batch.rows, images.shape);
        let ComparisonResult {
            loss,
            usage,
            targets,
            told,
        } = self.compare(views, of, step, pass);
        let rows = batch.rows as f64;
        let usage = Count {
            sum: usage * rows,
            of: rows,
        };
        let targets = Count {
            sum: targets,
            of: rows,
        };
        let mut scored = Scored::of(Term::new(loss, Divisor::Rows), batch.rows as u64)
            .with_count(USAGE_ENTROPY, usage)
            .with_count(TARGET_ENTROPY, targets);
        scored.no_perplexity = true;
        if pass.is_training() {
            scored.added = [USAGE_ENTROPY.name, TARGET_ENTROPY.name].into();
            scored.kept = Some(KeptVectors {
                sum: told,
                count: rows * Views::GLOBAL as f64,
            });
            return scored;
        }
        let vectors = self.vectors(images, pass);
        let [_, width] = vectors.dims();
        let vectors = kernel::read(kernel::untracked(vectors)).convert::<f32>();
        let vectors: Vec<f32> = vectors.iter::<f32>().collect();
        let neighbours = KnnEmbeddings::new(width, &vectors, &images.labels);
        scored.predictions = Some(Predictions::Neighbours(neighbours));
        scored
    }

    /// Moves the centre towards the mean of the teacher's scores.
    fn store_kept(&self, kept: &KeptVectors) {
        let centre = self.centre.value();
        let old = kernel::untracked(centre.clone());
        let momentum = self.config.centre_momentum;
        // Sums over several processes lie on the host.
        let mean = kept.sum.clone().to_device(&old.device()) / kept.count.max(1.0);
        let new = old * momentum + mean * (1.0 - momentum);
        self.centre.update(match centre.device().is_autodiff() {
            true => Tensor::from_inner(new),
            false => new,
        });
        // Burn applies an update only at the next access; visitors must see it now.
        self.centre.value_sync();
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            reads: Some(self),
            ..Networks::default()
        }
    }
}
