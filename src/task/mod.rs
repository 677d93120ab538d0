//! A model and a batch make a loss: burn-train's steps live here and only here.

mod any;
mod around;
pub mod auxiliary;
pub mod captioning;
pub mod causal_lm;
pub mod class_weights;
pub mod ctc;
pub mod denoising;
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
pub mod measures;
pub mod multi_label;
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
pub mod text_about;
pub mod text_classification;
pub mod text_embedding;
pub mod token_classification;
mod towers;
pub mod transcription;
pub mod translation;
mod unread;
pub mod whole_text;

use crate::data::corrupted::denoising::NoiseConfig;
use crate::data::loader::Batch;
use crate::evaluate::metric::Metric;
use crate::model::recurrent::RecurrentEncoderDecoder;
use crate::model::{EncoderDecoder, LanguageModel, two_towers};
use crate::nn::Kind;
use crate::nn::attention::adaptive_span;
use crate::nn::bounds::Bounds;
use crate::nn::channel_norm;
use crate::nn::pass::Pass;
use crate::nn::position::kerple;
use crate::nn::probe::Sample;
use crate::nn::role::Roles;
use crate::stack::state::ModelState;
pub use any::AnyTask;
pub use auxiliary::only_trained;
use burn::tensor::TensorData;
pub use captioning::{Captioning, CaptioningConfig};
pub use causal_lm::{CausalLm, CausalLmConfig};
pub use ctc::{Ctc, CtcConfig};
pub use distillation::{Distillation, DistillationConfig, Distils};
pub use frozen::{Frozen, FrozenRun};
pub use grpo::{Grpo, GrpoConfig};
pub use image_classification::{ImageClassification, ImageClassificationConfig};
pub use image_text::{ImageText, ImageTextConfig};
pub use infer::Infers;
pub use masked_image::{MaskedImage, MaskedImageConfig};
pub use masked_lm::{MaskedLm, MaskedLmConfig};
pub use multi_label::{MultiLabel, MultiLabelConfig};
pub use objective::{Objective, StepInput, Trained};
pub use output::{Kept, StepOutput, Sum};
pub use permuted_lm::{PermutedLm, PermutedLmConfig};
pub use preference::{Preference, PreferenceConfig};
pub use prefix_lm::PrefixLm;
pub use question_answering::{QuestionAnswering, QuestionAnsweringConfig};
pub use regression::{Regression, RegressionConfig};
pub use replaced_token::{ReplacedToken, ReplacedTokenConfig};
pub use reward::{Reward, RewardConfig};
use schemars::JsonSchema;
pub use scored::{Over, Scored, Term};
pub use self_distillation::{SelfDistillation, SelfDistillationConfig};
use serde::{Deserialize, Serialize};
pub use span_corruption::SpanCorruptionConfig;
pub use text_about::TextAbout;
pub use text_classification::{TextClassification, TextClassificationConfig};
pub use text_embedding::{TextEmbedding, TextEmbeddingConfig};
pub use token_classification::{TokenClassification, TokenClassificationConfig};
pub use transcription::{Transcription, TranscriptionConfig};
pub use translation::{Translation, TranslationConfig};

/// What the parameters of all tasks, networks and parts are, by the modules that hold them.
pub const ROLES: [&[Roles]; 3] = [
    crate::nn::ROLES,
    crate::model::ROLES,
    &[
        auxiliary::ROLES,
        image_classification::ROLES,
        masked_image::ROLES,
        self_distillation::ROLES,
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

/// The ranges of the parameters that updates are not to take out of them.
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

/// Whether a field of this name holds what moves with the passes of training and is saved, but not trained.
pub fn is_state(name: &str) -> bool {
    channel_norm::is_state(name) || is_latest(name)
}

/// Whether an average of the weights has such a state as it was left last, in place of a mean of it.
pub fn is_latest(name: &str) -> bool {
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
    distillation::KIND,
    preference::KIND,
    reward::KIND,
    grpo::KIND,
    span_corruption::KIND,
    denoising::KIND,
    replaced_token::KIND,
    permuted_lm::KIND,
];

/// The metrics that tasks define; those of texts and classes alike are in [`crate::evaluate::metric`].
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
];

/// What an experiment trains for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskConfig {
    /// Next-token prediction.
    CausalLm(CausalLmConfig),
    /// Masked tokens.
    MaskedLm(MaskedLmConfig),
    /// Text to text.
    Translation(TranslationConfig),
    /// Classes of texts.
    TextClassification(TextClassificationConfig),
    /// Any number of classes of texts.
    #[serde(rename = "multi_label_classification")]
    MultiLabel(MultiLabelConfig),
    /// Tags of words.
    TokenClassification(TokenClassificationConfig),
    /// Numbers of texts.
    Regression(RegressionConfig),
    /// Vectors of texts.
    TextEmbedding(TextEmbeddingConfig),
    /// Answers to questions.
    QuestionAnswering(QuestionAnsweringConfig),
    /// Classes of images.
    ImageClassification(ImageClassificationConfig),
    /// Hidden patches of images.
    MaskedImage(MaskedImageConfig),
    /// Views of images that are scored alike.
    SelfDistillation(SelfDistillationConfig),
    /// Images and their texts.
    ImageText(ImageTextConfig),
    /// Captions of images.
    Captioning(CaptioningConfig),
    /// Texts of recordings.
    Transcription(TranscriptionConfig),
    /// Characters along recordings.
    Ctc(CtcConfig),
    /// One of the others, learned from a teacher.
    Distillation(DistillationConfig),
    /// The better of two texts before the worse.
    Preference(PreferenceConfig),
    /// The better of two texts by the larger reward.
    Reward(RewardConfig),
    /// Completions that a model writes itself, by their rewards.
    Grpo(GrpoConfig),
    /// Spans that a text lacks.
    SpanCorruption(SpanCorruptionConfig),
    /// Texts with noise.
    Denoising(NoiseConfig),
    /// Tokens that a generator has put in the place of others.
    ReplacedToken(ReplacedTokenConfig),
    /// Tokens in an order that is drawn.
    PermutedLm(PermutedLmConfig),
}

/// Networks with what they are trained for. [`Objective`] turns it into a model of burn-train.
pub trait Task {
    /// The losses of a batch and what is measured beside them: the one forward of training and evaluation. It neither
    /// divides a sum nor runs a backward pass; [`Objective`] does, for every task alike.
    ///
    /// `state` is what the networks kept of the batch before, row by row, and keeps what they pass on to the next one;
    /// `None` where batches are independent of each other.
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored;

    /// What its score reads of a training batch, in the order in which it does, where nothing else of the batch differs from
    /// step to step: such a step can be recorded and replayed with others of these. `None` where something else does.
    fn inputs(&self, _batch: &Batch) -> Option<Vec<TensorData>> {
        None
    }

    /// The seed of the random draws of its training passes.
    fn seed(&self) -> u64;

    /// Where diagnostics look at attention in a batch.
    fn sample(&self, _batch: &Batch) -> Sample {
        Sample::default()
    }

    /// What its networks carry from segment to segment, before the first one; `None` when they keep nothing.
    fn empty_state(&self) -> Option<ModelState> {
        None
    }

    /// The outputs that a teacher and a student of it need; `None` for a task that cannot be either.
    fn distils(&self) -> Option<&dyn Distils> {
        None
    }

    /// The same with the average of its weights beside it, where it learns from that.
    #[must_use]
    fn beside_average(self, _average: &Self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Takes in what a whole step has told for later ones, once the step is taken.
    fn keep(&self, _kept: &Kept) {}

    /// Its networks by what they are used for once they are trained.
    fn networks(&self) -> Networks<'_> {
        Networks::default()
    }
}

/// What a trained task can be used for; a command asks for the entry that it needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Networks<'a> {
    /// Continues texts.
    pub language_model: Option<&'a dyn LanguageModel>,
    /// Guesses masked tokens.
    pub masked_lm: Option<&'a MaskedLm>,
    /// Guesses tokens in any order.
    pub permuted_lm: Option<&'a PermutedLm>,
    /// Writes texts for texts.
    pub text_to_text: Option<TextToText<'a>>,
    /// Tells tokens that were replaced.
    pub replaced_token: Option<&'a ReplacedToken>,
    /// Tells the classes of texts.
    pub text_classifier: Option<&'a TextClassification>,
    /// Tells which classes texts have, any number of them.
    pub multi_label: Option<&'a MultiLabel>,
    /// Tells the numbers of texts.
    pub text_regression: Option<&'a Regression>,
    /// Gives rewards to texts.
    pub reward: Option<&'a Reward>,
    /// Makes vectors of texts.
    pub embedder: Option<&'a TextEmbedding>,
    /// Answers questions.
    pub answerer: Option<&'a QuestionAnswering>,
    /// Tells the tags of words.
    pub token_classifier: Option<&'a TokenClassification>,
    /// Tells the classes of images.
    pub image_classifier: Option<&'a ImageClassification>,
    /// Compares images with texts.
    pub image_text: Option<&'a ImageText>,
    /// Writes captions of images.
    pub captioning: Option<&'a Captioning>,
    /// Writes texts of recordings.
    pub transcription: Option<&'a Transcription>,
    /// Finds characters along recordings.
    pub ctc: Option<&'a Ctc>,
    /// Reads and gives arrays, whatever the task.
    pub infers: Option<&'a dyn Infers>,
    /// Reads single texts, where `infers` would not.
    pub reads: Option<&'a dyn Infers>,
}

/// A network that writes texts for texts.
#[derive(Clone, Copy, Debug)]
pub enum TextToText<'a> {
    /// An encoder reads the source, a decoder writes the target.
    EncoderDecoder(&'a EncoderDecoder),
    /// A decoder continues after the source.
    Prefix(&'a PrefixLm),
    /// Recurrent cells read the source and write the target.
    Recurrent(&'a RecurrentEncoderDecoder),
}
