//! Masked language modelling: −log p(token | the others) over masked positions, optionally with a prediction of whether
//! two segments belong together (Devlin et al. 2018, section 3.1; Lan et al. 2019, section 3.1).
//!
//! The LM head only runs at scored positions. The reported loss is that of the masked tokens. The loss of the segment
//! pairs, a mean over rows, is added to it for the gradient and reported beside it.

use super::distillation::Distillable;
use super::facts::{GlobalTokenSupport, TaskFacts};
use super::host::{gather_at, scored_targets};
use super::metric_keys::MetricKeys;
use super::scored::Count;
use super::{AnyTask, Divisor, Networks, Scored, Task, Term, host};
use crate::data::DataSet;
use crate::data::batch::{Batch, TextBatch};
use crate::data::masked::masking::{MaskedView, MaskingConfig, Pairs};
use crate::data::{ExampleForm, Shape, View};
use crate::error::Result;
use crate::evaluate::metric::{Metric, PERPLEXITY};
use crate::faults::TableFaults;
use crate::kernel::{self, HeadLoss};
use crate::model::encoder::{Encoder, EncoderConfig, EncoderInput};
use crate::model::heads::{self, MlmHead};
use crate::model::mask_decoder::MaskedLmStates;
use crate::model::{
    BuildContext, Demand, GlobalTokens, MaskDecoder, ModelConfig, PooledText, TextBatchLayout, Use,
};
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
    kind: "masked_lm",
    summary: "masked tokens with an encoder, optionally with next-sentence or sentence-order prediction",
    source: "Devlin et al. 2018; Liu et al. 2019; Lan et al. 2019",
    example: "{ kind = \"masked_lm\", pairs = \"next_sentence\" }",
};

/// The choice of masked tokens and of segment pairs defines the loss and the accuracy.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("mlm_accuracy", MASKING_KEYS)],
    ..MetricKeys::for_token_kind(KIND.kind).with_loss_keys(MASKING_KEYS)
};
const MASKING_KEYS: &[&str] = &["masking", "pairs"];

pub(super) const MLM_ACCURACY: Metric = Metric::higher("mlm_accuracy");
const NSP_LOSS: Metric = Metric::lower("nsp_loss");
const NSP_ACCURACY: Metric = Metric::higher("nsp_accuracy");
const SOP_LOSS: Metric = Metric::lower("sop_loss");
const SOP_ACCURACY: Metric = Metric::higher("sop_accuracy");

/// Metrics of masked tokens, of next-sentence prediction and of sentence-order prediction.
pub const METRICS: &[Metric] = &[MLM_ACCURACY, NSP_LOSS, NSP_ACCURACY, SOP_LOSS, SOP_ACCURACY];

/// Settings of masked language modelling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaskedLmConfig {
    /// Choice of the tokens that are masked.
    pub masking: MaskingConfig,
    /// Relation between the two segments of an input.
    pub pairs: Pairs,
    /// Tokens that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl TaskFacts for MaskedLmConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn view(&self) -> View {
        View::Masked(MaskedView {
            masking: self.masking.clone(),
            pairs: self.pairs,
            class_token_last: false,
        })
    }

    fn demand(&self) -> Demand {
        let paired = self.pairs != Pairs::None;
        Demand {
            pooled_text: match paired {
                true => PooledText::NetworkDefault,
                false => PooledText::Unused,
            },
            segments: paired,
            ..Demand::plain(Use::MaskedTokens)
        }
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn faults(&self, at: &mut TableFaults) {
        if self.global_tokens == Some(GlobalTokens::FirstSegment) && self.pairs == Pairs::None {
            let rule = "global_tokens = \"first_segment\" makes every token global: texts have one segment with pairs = \
                        \"none\"; use \"first\" or \"special\"";
            at.fault(&["global_tokens", "pairs"], rule);
        }
    }

    /// The LM head only runs at scored positions, on every device; the head of segment pairs runs once per text.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        let network = model.restricted_to(&demand).products(&demand, shape);
        let scored = self.masking.share * shape.context as f64;
        let head = model
            .masked_lm_encoder()
            .map_or(0, |c| MlmHead::products(c, shape.vocab_size));
        let pairs = match self.pairs {
            Pairs::None => 0,
            Pairs::NextSentence | Pairs::SentenceOrder => 2 * model.d_output(),
        };
        let last = self.pairs != Pairs::None;
        let decoder = model
            .masked_lm_encoder()
            .map_or(0.0, |c| MaskDecoder::products(c, shape.context, last));
        network + decoder + scored * head as f64 + pairs as f64
    }

    fn can_be_distilled(&self) -> bool {
        true
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        let of_pairs: &[Metric] = match self.pairs {
            Pairs::None => &[],
            Pairs::NextSentence => &[NSP_ACCURACY, NSP_LOSS],
            Pairs::SentenceOrder => &[SOP_ACCURACY, SOP_LOSS],
        };
        [&[PERPLEXITY, MLM_ACCURACY], of_pairs].concat()
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        // The mask replaces the last word.
        let masked = |prompt: &str| match prompt.rsplit_once(' ') {
            Some((rest, _)) => format!("{rest} [MASK]"),
            None => format!("{prompt} [MASK]"),
        };
        prompt.map(|prompt| format!("formwork fill {run} --text {:?}", masked(prompt)))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let network = model.masked_lm_encoder();
        Ok(network.map(|model| AnyTask::MaskedLm(MaskedLm::new(model, self, inputs))))
    }
}

/// Roles of the parameters of [`MaskedLm`].
pub const ROLES: Roles = Roles::new(
    "MaskedLm",
    &[
        ("mask_decoder", Declaration::Place(Place::Head)),
        ("pair_head", Declaration::Place(Place::Head)),
    ],
);

/// An encoder with its training objective.
#[derive(Module, Debug)]
pub struct MaskedLm {
    /// The network.
    pub model: Encoder,
    /// LM head over the vocabulary.
    pub head: MlmHead,
    /// Position table and steps of the mask decoder, if the model has one.
    pub mask_decoder: Option<MaskDecoder>,
    /// Classifier of segment pairs, with two classes.
    pub pair_head: Option<Linear>,
    #[module(skip)]
    pub(super) pairs: Pairs,
    #[module(skip)]
    pub(super) globals: GlobalTokens,
    seed: u64,
}

/// Results of a forward pass: the loss of the scored positions, and the logits of the segment pairs `[rows, 2]`.
struct Scores {
    tokens: HeadLoss,
    pairs: Option<Tensor<2>>,
}

impl MaskedLm {
    /// Builds a model of this config with its heads.
    pub fn new(model: &EncoderConfig, config: &MaskedLmConfig, inputs: &BuildContext) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, model.stack.init_settings());
        let pairs = config.pairs != Pairs::None;
        Self {
            model: model.with_pooler_if(pairs).init(inputs),
            head: MlmHead::new(model, inputs.shape.vocab_size, &init),
            mask_decoder: MaskDecoder::build(model, inputs),
            pair_head: pairs.then(|| {
                let (d, init) = (model.d_pooled(), init.part("pairs"));
                Linear::new(d, 2, true, MatrixRole::Head, &init)
            }),
            pairs: config.pairs,
            globals: config.global_tokens.unwrap_or_default(),
            seed: inputs.seed,
        }
    }

    /// Returns the logits over the vocabulary `[n, vocab]` at some positions of texts; positions are counted through
    /// all rows.
    pub fn scores_at(&self, texts: &TextBatch, positions: &[i32], device: &Device) -> Tensor<2> {
        let states = self.states(
            input(texts, self.globals, device),
            false,
            &Pass::evaluation(),
        );
        let picked = gather_at(states.prediction, positions, device);
        self.head.forward(picked, &self.model)
    }

    /// Returns the hidden states that masked tokens are predicted from, and the encoder's hidden states if they are
    /// `wanted`.
    pub(super) fn states(&self, input: EncoderInput, wanted: bool, pass: &Pass) -> MaskedLmStates {
        let seen = input.masks_and_positions();
        let x = self.model.embed(input, pass);
        match &self.mask_decoder {
            Some(decoder) => decoder.states(&self.model, x, &seen, wanted, pass),
            None => MaskedLmStates::without_mask_decoder(self.model.run_blocks(x, &seen, pass)),
        }
    }

    /// Returns the hidden states of texts, as far as the heads read them.
    pub(super) fn read(&self, texts: &TextBatch, device: &Device, pass: &Pass) -> MaskedLmStates {
        let input = input(texts, self.globals, device);
        self.states(input, self.pair_head.is_some(), pass)
    }

    /// Returns the logits of the segment pairs `[rows, 2]`, if there is a head for them.
    pub(super) fn pair_scores(&self, states: &MaskedLmStates) -> Option<Tensor<2>> {
        let (head, hidden) = (self.pair_head.as_ref()?, states.encoder_output.clone()?);
        Some(heads::class_scores(head, self.model.pooled(hidden, None)))
    }

    /// Adds the accuracy of the masked tokens and the loss and accuracy of the segment pairs.
    pub(super) fn with_pairs(
        &self,
        scored: Scored,
        accuracy: Count,
        pairs: Option<Tensor<2>>,
        texts: &TextBatch,
    ) -> Scored {
        let scored = scored.with_count(MLM_ACCURACY, accuracy);
        let (Some(scores), Some(labels)) = (pairs, texts.labels.as_ref()) else {
            return scored;
        };
        let (loss, accuracy) = match self.pairs {
            Pairs::SentenceOrder => (SOP_LOSS, SOP_ACCURACY),
            Pairs::NextSentence | Pairs::None => (NSP_LOSS, NSP_ACCURACY),
        };
        let hits = host::count_hits(&scores, labels);
        let labels = host::vector(labels, &scores.device());
        let term = Term {
            sum: kernel::cross_entropy_sum(scores, labels, 0.0),
            over: Divisor::Rows,
            coefficient: 1.0,
        };
        scored.with_count(accuracy, hits).with_term(loss, term)
    }

    fn scores(&self, texts: &TextBatch, device: &Device, pass: &Pass) -> Scores {
        let states = self.read(texts, device, pass);
        let pairs = self.pair_scores(&states);
        let (places, targets) = scored_targets(&texts.targets);
        let targets = host::vector(&targets, device);
        let picked = gather_at(states.prediction, &places, device);
        Scores {
            tokens: self.head.loss(picked, &self.model, targets),
            pairs,
        }
    }
}

/// Builds the encoder's input from texts on the host; `globals` selects the global tokens.
pub(super) fn input(texts: &TextBatch, globals: GlobalTokens, device: &Device) -> EncoderInput {
    let matrix = |values: &[i32]| host::matrix(values, texts.cols, device);
    EncoderInput {
        ids: matrix(&texts.inputs),
        segments: texts.segments.as_deref().map(matrix),
        lengths: texts.lengths.clone(),
        globals: globals.positions_in(&TextBatchLayout {
            rows: texts.inputs.len() / texts.cols.max(1),
            cols: texts.cols,
            lengths: texts.lengths.as_deref(),
            segments: texts.segments.as_deref(),
        }),
    }
}

impl Task for MaskedLm {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let device = self.model.embedding.weight.val().device();
        let scores = self.scores(texts, &device, pass);
        let (_, targets) = scored_targets(&texts.targets);
        let accuracy = host::count_right(&scores.tokens, &targets);
        let scored = Scored::new(scores.tokens.sum, batch.tokens as u64);
        self.with_pairs(scored, accuracy, scores.pairs, texts)
    }

    fn inputs(&self, batch: &Batch) -> Option<Vec<TensorData>> {
        let texts = host::texts(batch);
        let alike = texts.lengths.is_none() && texts.segments.is_none();
        (alike && self.pair_head.is_none()).then(|| {
            let (places, targets) = scored_targets(&texts.targets);
            vec![
                host::matrix_data(&texts.inputs, texts.cols),
                host::vector_data(&targets),
                host::matrix_data(&places, places.len()),
            ]
        })
    }

    fn as_distillable(&self) -> Option<&dyn Distillable> {
        Some(self)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            masked_lm: Some(self),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
