//! Training tasks: from a model and a batch to a loss. The training and evaluation steps that burn-train calls live
//! only here.

mod any;
pub mod auxiliary;
pub mod captioning;
pub mod causal_lm;
pub mod class_weights;
pub mod conditional_text;
pub mod contrastive_speech;
pub mod ctc;
pub mod denoising;
mod device_sums;
pub mod distillation;
pub mod facts;
pub mod frozen;
pub mod grpo;
mod host;
pub mod image_classification;
pub mod image_text;
pub mod infer;
mod init;
pub mod masked_image;
pub mod masked_lm;
pub mod metric_keys;
pub mod multi_label;
mod networks;
pub mod objective;
pub mod output;
pub mod permuted_lm;
mod policy;
pub mod preference;
pub mod prefix_lm;
pub mod question_answering;
pub mod regression;
pub mod replaced_token;
pub mod reward;
pub mod scored;
pub mod self_distillation;
pub mod span_corruption;
pub mod text_classification;
pub mod text_embedding;
pub mod token_classification;
mod towers;
pub mod transcription;
pub mod translation;
pub mod whole_text;
mod wrapper;

use crate::data::corrupted::denoising::NoiseConfig;
use crate::data::loader::Batch;
use crate::evaluate::metric::Metric;
use crate::model::two_towers;
use crate::nn::Kind;
use crate::nn::attention::adaptive_span;
use crate::nn::bounds::Bounds;
use crate::nn::channel_norm;
use crate::nn::pass::Pass;
use crate::nn::position::kerple;
use crate::nn::probe::ProbeSample;
use crate::nn::role::Roles;
use crate::stack::state::ModelState;
pub use any::AnyTask;
pub use auxiliary::is_training_only;
use burn::tensor::TensorData;
pub use captioning::{Captioning, CaptioningConfig};
pub use causal_lm::{CausalLm, CausalLmConfig};
pub use conditional_text::ConditionalText;
pub use contrastive_speech::{ContrastiveSpeech, ContrastiveSpeechConfig};
pub use ctc::{Ctc, CtcConfig};
pub use distillation::{Distillable, Distillation, DistillationConfig};
pub use frozen::{Frozen, FrozenRun};
pub use grpo::{Grpo, GrpoConfig};
pub use image_classification::{ImageClassification, ImageClassificationConfig};
pub use image_text::{ImageText, ImageTextConfig};
pub use infer::InferenceTask;
pub use masked_image::{MaskedImage, MaskedImageConfig};
pub use masked_lm::{MaskedLm, MaskedLmConfig};
pub use multi_label::{MultiLabel, MultiLabelConfig};
pub use networks::{Networks, TextToText};
pub use objective::{Objective, StepInput, TrainableModel};
pub use output::{KeptVectors, StepOutput, Sum};
pub use permuted_lm::{PermutedLm, PermutedLmConfig};
pub use preference::{Preference, PreferenceConfig};
pub use prefix_lm::PrefixLm;
pub use question_answering::{QuestionAnswering, QuestionAnsweringConfig};
pub use regression::{Regression, RegressionConfig};
pub use replaced_token::{ReplacedToken, ReplacedTokenConfig};
pub use reward::{Reward, RewardConfig};
use schemars::JsonSchema;
pub use scored::{Divisor, Scored, Term};
pub use self_distillation::{SelfDistillation, SelfDistillationConfig};
use serde::{Deserialize, Serialize};
pub use span_corruption::SpanCorruptionConfig;
pub use text_classification::{TextClassification, TextClassificationConfig};
pub use text_embedding::{TextEmbedding, TextEmbeddingConfig};
pub use token_classification::{TokenClassification, TokenClassificationConfig};
pub use transcription::{Transcription, TranscriptionConfig};
pub use translation::{Translation, TranslationConfig};

/// Roles of the parameters of all tasks, networks and parts, grouped by the modules that hold them.
pub const ROLES: [&[Roles]; 3] = [
    crate::nn::ROLES,
    crate::model::ROLES,
    &[
        auxiliary::ROLES,
        image_classification::ROLES,
        masked_image::ROLES,
        self_distillation::ROLES,
        contrastive_speech::ROLES,
        masked_lm::ROLES,
        permuted_lm::ROLES,
        text_classification::ROLES,
        multi_label::ROLES,
        regression::ROLES,
        token_classification::ROLES,
        question_answering::ROLES,
        replaced_token::ROLES,
        replaced_token::HEAD_ROLES,
    ],
];

/// Ranges that updates must not take parameters out of.
pub(crate) const BOUNDS: [Bounds; 6] = {
    let [log_p, log_a, power_p, power_a] = kerple::BOUNDS;
    [
        adaptive_span::BOUNDS,
        two_towers::BOUNDS,
        log_p,
        log_a,
        power_p,
        power_a,
    ]
};

/// Returns whether a field of this name holds state that changes with the training passes and is saved, but not
/// trained.
pub fn is_state(name: &str) -> bool {
    channel_norm::is_state(name) || is_copied_to_average(name)
}

/// Returns whether an average of the weights takes the latest value of this state instead of averaging it.
pub fn is_copied_to_average(name: &str) -> bool {
    name == self_distillation::CENTRE
}

/// The kinds of `[task]`.
pub const KINDS: &[Kind] = &[
    causal_lm::KIND,
    masked_lm::KIND,
    translation::KIND,
    text_classification::KIND,
    multi_label::KIND,
    token_classification::KIND,
    regression::KIND,
    text_embedding::KIND,
    question_answering::KIND,
    image_classification::KIND,
    masked_image::KIND,
    self_distillation::KIND,
    image_text::KIND,
    captioning::KIND,
    transcription::KIND,
    ctc::KIND,
    contrastive_speech::KIND,
    distillation::KIND,
    preference::KIND,
    reward::KIND,
    grpo::KIND,
    span_corruption::KIND,
    denoising::KIND,
    replaced_token::KIND,
    permuted_lm::KIND,
];

/// The metrics that tasks define; those shared by text and class tasks are in [`crate::evaluate::metric`].
pub const METRICS: &[&[Metric]] = &[
    auxiliary::METRICS,
    causal_lm::METRICS,
    masked_lm::METRICS,
    image_classification::METRICS,
    distillation::METRICS,
    preference::METRICS,
    reward::METRICS,
    grpo::METRICS,
    replaced_token::METRICS,
    permuted_lm::METRICS,
    text_embedding::METRICS,
    image_text::METRICS,
    self_distillation::METRICS,
    contrastive_speech::METRICS,
];

/// The task that an experiment trains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskConfig {
    /// Next-token prediction.
    CausalLm(CausalLmConfig),
    /// Masked language modelling.
    MaskedLm(MaskedLmConfig),
    /// Text to text.
    Translation(TranslationConfig),
    /// Text classification.
    TextClassification(TextClassificationConfig),
    /// Text classification with any number of classes for each text.
    #[serde(rename = "multi_label_classification")]
    MultiLabel(MultiLabelConfig),
    /// Token classification: tags of words.
    TokenClassification(TokenClassificationConfig),
    /// Regression: numbers for texts.
    Regression(RegressionConfig),
    /// Text embeddings.
    TextEmbedding(TextEmbeddingConfig),
    /// Extractive answers to questions.
    QuestionAnswering(QuestionAnsweringConfig),
    /// Image classification.
    ImageClassification(ImageClassificationConfig),
    /// Masked patches of images.
    MaskedImage(MaskedImageConfig),
    /// Self-distillation: agreement between views of an image.
    SelfDistillation(SelfDistillationConfig),
    /// Matching images with their texts.
    ImageText(ImageTextConfig),
    /// Captions of images.
    Captioning(CaptioningConfig),
    /// Transcripts of recordings.
    Transcription(TranscriptionConfig),
    /// Characters along the frames of recordings.
    Ctc(CtcConfig),
    /// Codes of masked frames of recordings.
    ContrastiveSpeech(ContrastiveSpeechConfig),
    /// Another task, learned from a teacher.
    Distillation(DistillationConfig),
    /// Preference of the better of two texts over the worse.
    Preference(PreferenceConfig),
    /// Reward model: a larger reward for the better of two texts.
    Reward(RewardConfig),
    /// Completions that the model writes itself, learned by their rewards.
    Grpo(GrpoConfig),
    /// Spans that were cut from a text.
    SpanCorruption(SpanCorruptionConfig),
    /// Restoring texts from noisy ones.
    Denoising(NoiseConfig),
    /// Detecting tokens that a generator replaced.
    ReplacedToken(ReplacedTokenConfig),
    /// Tokens in a random order.
    PermutedLm(PermutedLmConfig),
}

/// One or more networks with their training objective. [`Objective`] turns a task into a burn-train model.
pub trait Task {
    /// Computes the losses of a batch and the metrics beside them: the one forward pass of training and evaluation. It
    /// neither divides a sum nor runs a backward pass; [`Objective`] does that for all tasks.
    ///
    /// `state` holds, row by row, what the networks kept from the previous batch, and receives what they pass on to the
    /// next one; `None` if batches are independent of each other.
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored;

    /// Returns the arrays that [`score`](Self::score) reads of a training batch, in the order of reading, if nothing
    /// else in the batch differs from step to step: such a step can be recorded and replayed with other arrays. `None`
    /// if something else differs.
    fn inputs(&self, _batch: &Batch) -> Option<Vec<TensorData>> {
        None
    }

    /// Returns the seed of the random draws in training passes.
    fn seed(&self) -> u64;

    /// Returns the row of a batch whose attention diagnostics read, with its length.
    fn sample(&self, _batch: &Batch) -> ProbeSample {
        ProbeSample::default()
    }

    /// Returns the initial state that the networks carry from segment to segment; `None` if they carry nothing.
    fn empty_state(&self) -> Option<ModelState> {
        None
    }

    /// Returns the outputs that distillation needs of this task as a teacher or student; `None` if it can be neither.
    fn as_distillable(&self) -> Option<&dyn Distillable> {
        None
    }

    /// Returns the task with the average of its weights attached as its teacher, if it learns from that average.
    #[must_use]
    fn with_average_teacher(self, _average: &Self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Takes in the vectors that a whole step kept for later steps, once the step is taken.
    fn store_kept(&self, _kept: &KeptVectors) {}

    /// Returns the networks by their use after training.
    fn networks(&self) -> Networks<'_> {
        Networks::default()
    }
}
