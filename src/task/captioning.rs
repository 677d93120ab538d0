//! Image captioning: −log p(y_t | y_{<t}, image), with label smoothing, over a caption from its begin token to its end
//! token (Vinyals et al. 2015, Show and Tell, section 3; Alayrac et al. 2022, Flamingo, equation 1).

use super::causal_lm::input;
use super::conditional_text::{ConditionalText, ConditionalTextConfig, ConditionalTextModel};
use super::facts::TaskFacts;
use super::image_classification::{pixel_data, pixels};
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, host};
use crate::data::ExampleForm;
use crate::data::batch::{Batch, CaptionedBatch, ImageBatch, TextBatch};
use crate::error::{Error, Result};
use crate::model::heads::VocabularyHead;
use crate::model::{BuildContext, LanguageModel, ModelConfig, Use, VisionLanguage};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "captioning",
    summary: "captions of images, with a decoder that attends to them",
    source: "Vinyals et al. 2015, Show and Tell; Alayrac et al. 2022, Flamingo",
    example: "{ kind = \"captioning\" }",
};

/// Evaluation losses depend on no key of this task.
pub const METRIC_KEYS: MetricKeys = MetricKeys::for_token_kind(KIND.kind);

/// Settings of image captioning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptioningConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without it.
    /// Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
}

impl ConditionalTextConfig for CaptioningConfig {
    type Network = VisionLanguage;
    const KIND: Kind = KIND;
    const READS: ExampleForm = ExampleForm::Captioned;
    const USE: Use = Use::ImageToText;
    const COMMAND: [&'static str; 2] = ["caption", "FILE.png"];

    fn label_smoothing(&self) -> f64 {
        self.label_smoothing
    }

    fn network(&self, model: &ModelConfig, inputs: &BuildContext) -> Result<VisionLanguage> {
        if let Some(misfit) = model.image_size_fault(inputs.shape.image) {
            return Err(Error::usage(misfit));
        }
        let network = VisionLanguage::new(&model.restricted_to(&self.demand()), inputs);
        network.ok_or_else(|| {
            Error::usage(
                "[task] captioning needs images; the data has no images, or [model] has no network for them",
            )
        })
    }
}

/// A decoder that reads images, with its training objective.
pub type Captioning = ConditionalText<VisionLanguage>;

impl Captioning {
    /// Converts images to the network's input `[rows, channels, height, width]`.
    pub fn pixels(&self, images: &ImageBatch) -> Tensor<4> {
        pixels(images, &self.device())
    }
}

impl ConditionalTextModel for VisionLanguage {
    type Rows = CaptionedBatch;
    const PASS_PART: &'static str = "text";

    fn device(&self) -> Device {
        self.text.device()
    }

    fn rows(batch: &Batch) -> &CaptionedBatch {
        host::captioned(batch)
    }

    fn texts(rows: &CaptionedBatch) -> &TextBatch {
        &rows.captions
    }

    fn inputs(rows: &CaptionedBatch) -> TensorData {
        pixel_data(&rows.images)
    }

    fn reads_tokens_alone(texts: &TextBatch) -> bool {
        // A mask from lengths differs from step to step.
        texts.lengths.is_none() && texts.documents.is_none()
    }

    fn hidden(&self, rows: &CaptionedBatch, pass: &Pass) -> Tensor<3> {
        let device = self.text.device();
        let memory = self.image_memory(pixels(&rows.images, &device), pass);
        let input = input(&rows.captions, &device);
        self.with_images(memory).forward(input, None, pass)
    }

    fn head(&self) -> VocabularyHead<'_> {
        self.text.vocabulary_head()
    }

    fn into_any(task: Captioning) -> AnyTask {
        AnyTask::Captioning(task)
    }

    fn networks(task: &Captioning) -> Networks<'_> {
        Networks {
            captioning: Some(task),
            infers: Some(task),
            ..Networks::default()
        }
    }
}
