//! Image-text matching: compares images with texts about them by the cosine of their embeddings (Radford et al. 2021,
//! CLIP, section 2.3).
//!
//! One network reads images, another one reads texts, and a projection of each maps both to the same width. Each image
//! must find its text among those of its step, and each text its image:
//!
//! ```text
//! scores = exp(t) · cos(uᵢ, vⱼ)      loss = ½ Σᵢ CE(scores of image i over texts, i) + ½ Σⱼ CE(scores of text j over images, j)
//! ```
//!
//! t is learned (`model::two_towers`). With `loss = "sigmoid"` each pair is classified by itself ([`sigmoid`]). Given
//! texts that name classes, a trained network can classify images without having seen an example of the classes
//! (section 3.1): [`ImageText::class_vector`].

mod config;
pub mod sigmoid;

use super::metric_keys::MetricKeys;
use config::TextPadding;
pub use config::{EndToken, ImageTextConfig, ImageTextLoss, LargestId, TextEnd};

use super::image_classification::pixels;
use super::infer::InferenceTask;
use super::text_embedding::losses::{Groups, in_batch_scaled, normalize_rows};
use super::text_embedding::numbers;
use super::whole_text::{Pooling, TextReading};
use super::{Networks, Scored, Task, host, masked_lm};
use crate::data::batch::{Batch, ImageBatch, TextBatch};
use crate::evaluate::metric::{ACCURACY, Metric};
use crate::evaluate::predictions::Predictions;
use crate::evaluate::retrieval::{self, Retrieval};
use crate::model::encoder::EncoderInput;
use crate::model::{BuildContext, GlobalTokens, TwoTowers};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use crate::task::scored::{Count, Divisor, Term};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "image_text",
    summary: "matching of images and texts in both directions, with two towers",
    source: "Radford et al. 2021, CLIP; Zhai et al. 2023, SigLIP",
    example: "{ kind = \"image_text\" }",
};

/// The loss compares the rows of a step.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("accuracy", &["loss"])],
    compares_rows: &["softmax", "sigmoid"],
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(&["loss"])
};

/// The metrics that this task defines.
pub const METRICS: &[Metric] = retrieval::IMAGE_TEXT;

/// Names of the networks in dropout draws and readings.
const IMAGE: &str = "image";
const TEXT: &str = "text";

/// Two towers with their training objective.
#[derive(Module, Debug)]
pub struct ImageText {
    /// The image network and the text network.
    pub model: TwoTowers,
    seed: u64,
    #[module(skip)]
    loss: ImageTextLoss,
    #[module(skip)]
    group: Option<usize>,
    #[module(skip)]
    end: Option<TextEnd>,
    #[module(skip)]
    fill: Option<TextPadding>,
    #[module(skip)]
    reading: TextReading,
}

impl ImageText {
    /// Builds the task from both networks.
    pub fn new(model: TwoTowers, config: &ImageTextConfig, inputs: &BuildContext) -> Self {
        Self {
            model,
            seed: inputs.seed,
            loss: config.loss,
            group: config.group,
            end: config.end,
            fill: config.fill.map(|id| TextPadding {
                id: id as i32,
                width: inputs.shape.context,
            }),
            reading: TextReading {
                towers: false,
                pooling: config.pooling,
                globals: GlobalTokens::None,
                dropout: 0.0,
            },
        }
    }

    /// Returns the pooling of a text to one vector.
    pub fn pooling(&self) -> Pooling {
        self.reading.pooling(&self.model.text)
    }

    /// Returns the normalised embeddings `[rows, d_joint]` of images.
    pub fn images(&self, images: &ImageBatch, pass: &Pass) -> Tensor<2> {
        self.pixel_embeddings(pixels(images, &self.device()), pass)
    }

    /// Returns the normalised embeddings `[rows, d_joint]` of images given as pixels `[rows, channels, height, width]`.
    pub(super) fn pixel_embeddings(&self, pixels: Tensor<4>, pass: &Pass) -> Tensor<2> {
        normalize_rows(pass.in_network(IMAGE, || self.model.embed_images(pixels, pass)))
    }

    /// Returns the normalised embeddings `[rows, d_joint]` of texts.
    pub fn texts(&self, texts: &TextBatch, pass: &Pass) -> Tensor<2> {
        let ended = self.end.map(|end| end.lengths(texts));
        let lengths = ended.as_ref().unwrap_or(&texts.lengths);
        let (globals, device) = (self.reading.globals, self.device());
        let input = match self.fill {
            Some(fill) => {
                let filled = fill.pad(texts, lengths.as_deref());
                masked_lm::input(&filled, globals, &device)
            }
            None => EncoderInput {
                lengths: lengths.clone(),
                ..masked_lm::input(texts, globals, &device)
            },
        };
        let (pooled, _) = pass.in_network(TEXT, || {
            self.reading.vectors_of(&self.model.text, input, pass)
        });
        normalize_rows(self.model.embed_pooled_texts(pooled))
    }

    /// Returns the scores `[images, texts]` of normalised embeddings.
    pub fn scores(&self, images: &Tensor<2>, texts: &Tensor<2>) -> Tensor<2> {
        self.model
            .scores(images.clone().matmul(texts.clone().transpose()))
    }

    /// Returns the loss summed over the rows of these embeddings, `[1]`, and the number of images whose own text is the
    /// nearest, `[1]`.
    fn contrast(&self, images: &Tensor<2>, texts: &Tensor<2>, groups: Groups) -> [Tensor<1>; 2] {
        let scaled = |cosines| self.model.scores(cosines);
        match self.loss {
            ImageTextLoss::Softmax => {
                let there = in_batch_scaled(images, texts, scaled, groups);
                let back = in_batch_scaled(texts, images, scaled, groups);
                [(there.loss + back.loss) * 0.5, there.hits]
            }
            ImageTextLoss::Sigmoid => {
                let found = sigmoid::pairwise(images, texts, scaled, groups);
                [found.loss, found.hits]
            }
        }
    }

    /// Returns the normalised embedding `[1, d_joint]` of a class that some texts name: the normalised mean of the
    /// texts' embeddings (Radford et al. 2021, section 3.1.4).
    pub fn class_vector(&self, texts: &TextBatch) -> Tensor<2> {
        normalize_rows(self.texts(texts, &Pass::evaluation()).mean_dim(0))
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.text.device()
    }
}

impl Task for ImageText {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let captioned = host::captioned(batch);
        let images = self.images(&captioned.images, pass);
        let texts = self.texts(&captioned.captions, pass);
        let groups = Groups {
            size: self.group.unwrap_or(batch.rows),
            samples: &batch.samples,
        };
        let [loss, hits] = self.contrast(&images, &texts, groups);
        let predictions = (!pass.is_training()).then(|| {
            let [_, width] = images.dims();
            let [images, texts] = [images, texts].map(numbers);
            let named = captioned.texts.clone();
            Predictions::ImageText(Retrieval::new(width, &images, &texts, named))
        });
        let hits = Count {
            sum: hits,
            of: batch.rows as f64,
        };
        let scored = Scored::new(loss, batch.rows as u64);
        let scored = scored.with_count(ACCURACY, hits);
        Scored {
            loss: Term {
                over: Divisor::Rows,
                ..scored.loss
            },
            predictions,
            ..scored
        }
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        let captions = &host::captioned(batch).captions;
        let lengths = captions.lengths.clone().filter(|_| self.fill.is_none());
        let cols = self.fill.map_or(captions.cols, |fill| fill.width);
        let lengths = lengths.unwrap_or_else(|| vec![cols.max(captions.cols); batch.rows]);
        ProbeSample {
            within: TEXT,
            ..host::longest_row(lengths.into_iter())
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            image_text: Some(self),
            infers: Some(self as &dyn InferenceTask),
            ..Networks::default()
        }
    }
}
