//! Image classification: −log p(class | image), summed over the images.
//!
//! A linear classifier, initialised like an LM head, reads the pooled features of the image. If two images were mixed
//! (mixup, Zhang et al. 2018; cutmix, Yun et al. 2019), each has its share of the loss:
//! λ·CE(first) + (1 − λ)·CE(other). Validation losses are without label smoothing.

use super::class_weights::{self, ClassWeights};
use super::distillation::Distillable;
use super::facts::TaskFacts;
use super::metric_keys::MetricKeys;
use super::scored::{Divisor, Term};
use super::{AnyTask, Networks, Scored, Sum, Task, host};
use crate::data::DataSet;
use crate::data::ExampleForm;
use crate::data::batch::{Batch, ImageBatch};
use crate::error::{Error, Result};
use crate::evaluate::metric::{ACCURACY, F1, MCC, Metric};
use crate::evaluate::predictions::Predictions;
use crate::faults::TableFaults;
use crate::kernel::{self, replay};
use crate::model::{BuildContext, Demand, ImageModel, ModelConfig, Use, heads};
use crate::nn::Kind;
use crate::nn::init::{Init, MatrixRole};
use crate::nn::linear::Linear;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles};
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "image_classification",
    summary: "classes of images, with a vision transformer, a hybrid or a residual network",
    source: "Dosovitskiy et al. 2021; He et al. 2016",
    example: "{ kind = \"image_classification\", label_smoothing = 0.1 }",
};

/// Keys that define the evaluation metrics.
pub const METRIC_KEYS: MetricKeys =
    MetricKeys::for_kind(KIND.kind).with_loss_keys(&["class_weights"]);

/// Share of the images whose class is among the five most likely ones.
pub const TOP5_ACCURACY: Metric = Metric::higher("top5_accuracy");

/// Metrics beside the accuracy.
pub const METRICS: &[Metric] = &[TOP5_ACCURACY];

/// Settings of image classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImageClassificationConfig {
    /// Share of the probability that is spread over all classes.
    /// Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
    /// Weights of the classes in the loss, in training and in evaluations; all classes count alike when absent.
    /// Source: King and Zeng 2001, section 4.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
}

impl TaskFacts for ImageClassificationConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Images
    }

    fn demand(&self) -> Demand {
        Demand::plain(Use::ImageClasses)
    }

    fn class_weights(&self) -> Option<&ClassWeights> {
        self.class_weights.as_ref()
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing);
        if let Some(weights) = &self.class_weights {
            weights.faults(at);
        }
    }

    fn can_be_distilled(&self) -> bool {
        true
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![ACCURACY, F1, MCC, TOP5_ACCURACY]
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork classify {run} FILE.png"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&Use::ImageClasses) {
            return Ok(None);
        }
        let task = ImageClassification::new(model, self, inputs)?;
        Ok(Some(AnyTask::ImageClassification(task)))
    }
}

/// Roles of the parameters of [`ImageClassification`].
pub const ROLES: Roles = Roles::new(
    "ImageClassification",
    &[
        ("head", Declaration::Place(Place::Head)),
        ("distilled_head", Declaration::Place(Place::Head)),
    ],
);

/// An image network with its classifier.
#[derive(Module, Debug)]
pub struct ImageClassification {
    /// The network from pixels to features.
    pub model: ImageModel,
    /// Classifier, `[features, classes]`.
    pub head: Linear,
    /// Classifier of the distillation token, `[features, classes]`.
    pub distilled_head: Option<Linear>,
    seed: u64,
    label_smoothing: f64,
}

impl ImageClassification {
    /// Builds the network of this config, which must read images, with a head for the data's classes.
    ///
    /// # Errors
    /// If the data has no images or no classes, or if images cannot be cut into the model's patches or have more
    /// patches than the model has positions.
    pub fn new(
        model: &ModelConfig,
        config: &ImageClassificationConfig,
        inputs: &BuildContext,
    ) -> Result<Self> {
        let classes = inputs.shape.classes.len();
        if let Some(misfit) = model.image_size_fault(inputs.shape.image) {
            return Err(Error::usage(misfit));
        }
        let network = ImageModel::new(model, inputs).filter(|_| classes > 0);
        let network = network.ok_or_else(|| {
            let images = inputs.shape.image.map_or("no images", |_| "images");
            Error::usage(format!(
                "[task] image_classification needs images with classes; the data has {images} and {classes} classes"
            ))
        })?;
        let init = Init::of_heads(inputs.device, inputs.seed, model.init_settings());
        let head =
            |init: &Init| Linear::new(model.d_pooled(), classes, true, MatrixRole::Head, init);
        Ok(Self {
            model: network,
            head: head(&init),
            distilled_head: model
                .has_distillation_token()
                .then(|| head(&init.part("distilled"))),
            seed: inputs.seed,
            label_smoothing: config.label_smoothing,
        })
    }

    /// Returns the logits `[rows, classes]` of images; the mean of both heads if there are two.
    pub fn logits(&self, images: &ImageBatch, pass: &Pass) -> Tensor<2> {
        let device = self.head.weight.val().device();
        self.outputs(pixels(images, &device), pass).logits()
    }

    /// Computes the outputs for pixels `[rows, channels, height, width]`.
    pub(super) fn outputs(&self, pixels: Tensor<4>, pass: &Pass) -> ImageOutputs {
        let (features, distilled) = self.model.pooled_and_distilled(pixels, pass);
        let both = self.distilled_head.as_ref().zip(distilled);
        ImageOutputs {
            class_logits: heads::class_scores(&self.head, features.clone()),
            distilled: both.map(|(head, x)| heads::class_scores(head, x)),
            features,
        }
    }

    /// Returns the target probability of each class, `[rows, classes]`, for mixed images, times the class's weight.
    fn shares(&self, images: &ImageBatch, mixed: &[(i32, f32)], batch: &Batch) -> TensorData {
        let [classes, _] = self.head.weight.dims();
        let mut shares = shares(&images.labels, mixed, classes, self.label_smoothing);
        if let Some(weights) = &batch.class_weights {
            class_weights::apply_weights(&mut shares, weights);
        }
        TensorData::new(shares, [images.labels.len(), classes])
    }

    /// Computes the training loss.
    pub(super) fn loss(&self, logits: Tensor<2>, batch: &Batch) -> Scored {
        let images = host::images(batch);
        let loss = match &images.mixed {
            None => {
                class_weights::weighted_loss(logits, &images.labels, self.label_smoothing, batch)
            }
            Some(mixed) => {
                let shares = self.shares(images, mixed, batch);
                let shares = replay::floats(shares, &logits.device());
                let over = match batch.class_weights {
                    Some(_) => Divisor::Weighed,
                    None => Divisor::Scored,
                };
                Term::new(kernel::soft_cross_entropy_sum(logits, shares), over)
            }
        };
        Scored::of(loss, batch.rows as u64)
    }
}

/// The outputs for some images.
pub(super) struct ImageOutputs {
    /// Features of each image, `[rows, features]`.
    pub features: Tensor<2>,
    /// Logits of the classifier, `[rows, classes]`.
    pub class_logits: Tensor<2>,
    /// Logits of the distillation token's classifier, `[rows, classes]`.
    pub distilled: Option<Tensor<2>>,
}

impl ImageOutputs {
    /// Returns the logits of the network; the mean of both heads if there are two.
    pub fn logits(self) -> Tensor<2> {
        match self.distilled {
            Some(distilled) => (self.class_logits + distilled) / 2.0,
            None => self.class_logits,
        }
    }
}

/// Returns pixels `[rows, channels, height, width]` on a device.
pub(super) fn pixels(images: &ImageBatch, device: &Device) -> Tensor<4> {
    replay::floats(pixel_data(images), device)
}

/// Returns pixels `[rows, channels, height, width]` as host data, ready for a device.
pub(super) fn pixel_data(images: &ImageBatch) -> TensorData {
    let [channels, height, width] = images.shape;
    let shape = [images.labels.len(), channels, height, width];
    TensorData::new(images.pixels.clone(), shape)
}

/// Returns the target probability of each class in each row, `[rows, classes]`.
fn shares(labels: &[i32], mixed: &[(i32, f32)], classes: usize, smoothing: f64) -> Vec<f32> {
    let spread = (smoothing / classes as f64) as f32;
    let mut shares = vec![spread; labels.len() * classes];
    let kept = 1.0 - smoothing as f32;
    for ((row, first), (other, share)) in shares.chunks_mut(classes).zip(labels).zip(mixed) {
        row[*first as usize] += kept * share;
        row[*other as usize] += kept * (1.0 - share);
    }
    shares
}

impl Task for ImageClassification {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let images = host::images(batch);
        let logits = self.logits(images, pass);
        if pass.is_training() {
            return self.loss(logits, batch);
        }
        let [_, classes] = logits.dims();
        let values: Vec<f32> = kernel::read(kernel::untracked(logits.clone()))
            .iter::<f32>()
            .collect();
        let ranks: Vec<usize> = values
            .chunks(classes)
            .zip(&images.labels)
            .map(|(row, label)| rank(row, *label as usize))
            .collect();
        let within = |places: usize| {
            let hits = ranks.iter().filter(|rank| **rank < places).count();
            Sum::new(hits as f64, ranks.len() as f64)
        };
        let confusion = host::confusion(&logits, &images.labels);
        let loss = class_weights::weighted_loss(logits, &images.labels, 0.0, batch);
        let mut scored = Scored::of(loss, batch.rows as u64).with_metric(ACCURACY, within(1));
        if classes > 5 {
            scored = scored.with_metric(TOP5_ACCURACY, within(5));
        }
        Scored {
            predictions: Some(Predictions::Classes(confusion)),
            ..scored
        }
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        // The sum of the class weights differs from step to step.
        if batch.class_weights.is_some() {
            return None;
        }
        let images = host::images(batch);
        let said = match &images.mixed {
            None => host::vector_data(&images.labels),
            Some(mixed) => self.shares(images, mixed, batch),
        };
        Some(vec![pixel_data(images), said])
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        Some(self)
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            image_classifier: Some(self),
            infers: Some(self),
            ..Networks::default()
        }
    }
}

/// Counts the classes likelier than the label; of equal logits the first counts as likelier, and NaN always does.
fn rank(logits: &[f32], label: usize) -> usize {
    let own = logits[label];
    let above = |(class, x): (usize, &f32)| *x > own || class < label && *x == own || x.is_nan();
    logits.iter().enumerate().filter(|&c| above(c)).count()
}

#[cfg(test)]
mod tests;
