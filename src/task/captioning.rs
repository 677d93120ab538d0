//! Captions of images: −log p(y_t | y_{<t}, image), with label smoothing, of a caption from the mark before it to the mark behind
//! it (Vinyals et al. 2015, Show and Tell, section 3; Alayrac et al. 2022, Flamingo, equation 1).

use super::causal_lm::input;
use super::facts::TaskFacts;
use super::image_classification::{pixel_data, pixels};
use super::infer::Infers;
use super::measures::Measures;
use super::{AnyTask, Networks, Scored, Task, host};
use crate::data::batch::{Batch, CaptionedBatch, ImageBatch};
use crate::data::{DataSet, Gives};
use crate::error::{Error, Result};
use crate::evaluate::metric::{ACCURACY, Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel::HeadLoss;
use crate::model::{Demand, LanguageModel, ModelConfig, ModelInputs, Use, VisionLanguage};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "captioning",
    summary: "captions of images, with a decoder that looks at them",
    source: "Vinyals et al. 2015, Show and Tell; Alayrac et al. 2022, Flamingo",
    example: "{ kind = \"captioning\" }",
};

/// No key of its own defines the loss of its evaluations.
pub const MEASURES: Measures = Measures::of_tokens(KIND.kind);

/// The knobs of captions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptioningConfig {
    /// Share of the probability that is spread over the whole vocabulary; reported validation losses are without it.
    /// Source: Szegedy et al. 2016, section 7.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub label_smoothing: f64,
}

impl TaskFacts for CaptioningConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn reads(&self) -> Gives {
        Gives::Captioned
    }

    fn demand(&self) -> Demand {
        Demand {
            smooths: self.label_smoothing != 0.0,
            ..Demand::of(Use::ImageToText)
        }
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("label_smoothing", self.label_smoothing);
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![PERPLEXITY, ACCURACY]
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!("formwork caption {run} FILE.png"))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &ModelInputs,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&Use::ImageToText) {
            return Ok(None);
        }
        if let Some(misfit) = model.misfit(inputs.shape.image) {
            return Err(Error::usage(misfit));
        }
        let network = VisionLanguage::new(&model.under(&self.demand()), inputs);
        let network = network.ok_or_else(|| {
            Error::usage(
                "[task] captioning writes texts about images; the data has no images, or [model] has no network for them",
            )
        })?;
        Ok(Some(AnyTask::Captioning(Captioning {
            model: network,
            seed: inputs.seed,
            label_smoothing: self.label_smoothing,
        })))
    }
}

/// A decoder that looks at images, with its objective.
#[derive(Module, Debug)]
pub struct Captioning {
    /// The network.
    pub model: VisionLanguage,
    seed: u64,
    label_smoothing: f64,
}

impl Captioning {
    /// The device of its parameters.
    pub fn device(&self) -> Device {
        self.model.text.device()
    }

    /// Images as the network reads them, `[rows, channels, height, width]`.
    pub fn pixels(&self, images: &ImageBatch) -> Tensor<4> {
        pixels(images, &self.device())
    }

    /// The loss of captions after their images.
    fn loss(&self, captioned: &CaptionedBatch, pass: &Pass) -> HeadLoss {
        let device = self.device();
        let memory = self.model.look(self.pixels(&captioned.images), pass);
        let network = self.model.seeing(memory);
        let hidden = network.forward(input(&captioned.captions, &device), None, pass);
        let targets = host::vector(&captioned.captions.targets, &device);
        let smoothing = host::smoothing(self.label_smoothing, pass);
        let head = network.vocabulary_head();
        head.loss(hidden, targets, smoothing, !pass.trains())
    }
}

impl Task for Captioning {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let captioned = host::captioned(batch);
        let loss = self.loss(captioned, pass);
        host::written(loss, &captioned.captions.targets, batch, pass)
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let captions = &host::captioned(batch).captions;
        // A mask of lengths differs from step to step.
        let alike = captions.lengths.is_none() && captions.documents.is_none();
        alike.then(|| {
            vec![
                pixel_data(&host::captioned(batch).images),
                host::matrix_data(&captions.inputs, captions.cols),
                host::vector_data(&captions.targets),
            ]
        })
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn sample(&self, batch: &Batch) -> Sample {
        let captions = &host::captioned(batch).captions;
        let lengths = captions.lengths.clone();
        let lengths = lengths.unwrap_or_else(|| vec![captions.cols; batch.rows]);
        Sample {
            within: "text",
            ..host::longest(lengths.into_iter())
        }
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            captioning: Some(self),
            infers: Some(self as &dyn Infers),
            ..Networks::default()
        }
    }
}
