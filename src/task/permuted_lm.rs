//! Permutation language modelling: −log p(token | the context and the tokens before it in a random order), with two
//! streams (Yang et al. 2019, XLNet, sections 2.2 and 2.3).
//!
//! In each row, spans of words are predicted, a share 1/K of its tokens, in an order that is drawn again each time; all
//! other tokens are the context. The input tokens are not changed: there is no mask token. A query stream g starts from
//! one learned vector, knows only its own position, and attends to the token stream h; the head reads g at the
//! predicted tokens ([`Stack::run_two_streams`], [`order`]). Rows end with their summary token, `A <sep> B <sep> <cls>`.
//!
//! If attention has a `memory` and `[train] carry_state` is set, both streams also attend to the token stream's hidden
//! states of the row's earlier segments: all that were read there, in any order (section 2.4). Spans lie anywhere in a
//! row, whereas the released code places each within a part of the row that is K times as long.
//!
//! [`Stack::run_two_streams`]: crate::stack::Stack::run_two_streams

pub mod order;

use super::facts::TaskFacts;
use super::host::{self, gather_at, scored_targets};
use super::masked_lm::input;
use super::metric_keys::MetricKeys;
use super::{AnyTask, Networks, Scored, Task};
use crate::data::DataSet;
use crate::data::batch::{Batch, TextBatch};
use crate::data::masked::masking::{MaskedView, MaskingConfig, Pairs, Unit};
use crate::data::{ExampleForm, Shape, View};
use crate::error::Result;
use crate::evaluate::metric::{Metric, PERPLEXITY};
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::{HeadLoss, Visibility};
use crate::model::encoder::{Encoder, EncoderConfig, EncoderInput};
use crate::model::heads::MlmHead;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig, Use};
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::role::{Declaration, Place, Roles, TABLE};
use crate::nn::state::StateUse;
use crate::stack::state::ModelState;
use crate::stack::streams::TwoStreamContext;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use order::FactorizationOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "permuted_lm",
    summary: "tokens in random order, each from the context and earlier ones, with an encoder and a query stream",
    source: "Yang et al. 2019, XLNet",
    example: "{ kind = \"permuted_lm\", longest_span = 5 }",
};

/// The choice of predicted tokens and of segment pairs defines the loss and the accuracy.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("plm_accuracy", PREDICTION_KEYS)],
    ..MetricKeys::for_token_kind(KIND.kind).with_loss_keys(PREDICTION_KEYS)
};
const PREDICTION_KEYS: &[&str] = &["share", "longest_span", "pairs"];

const PLM_ACCURACY: Metric = Metric::higher("plm_accuracy");

/// Share of the predicted tokens that are right.
pub const METRICS: &[Metric] = &[PLM_ACCURACY];

/// Special tokens behind the text of a row: the end of the segment, and the row's summary token.
const SPECIAL_TOKENS: usize = 2;

/// Maximum number of words in a span.
const MOST_WORDS: usize = 1000;

/// Settings of permutation language modelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PermutedLmConfig {
    /// Share of the tokens that are predicted, 1/K. Source: Yang et al. 2019, section 2.3 (K = 6 or 7).
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub share: f64,
    /// Longest span of words that are predicted together; spans of n words are drawn with p(n) ∝ 1/n.
    /// Source: Yang et al. 2019, section 3.1; the shares are the released code's.
    #[schemars(range(min = 1, max = MOST_WORDS))]
    pub longest_span: usize,
    /// Relation between the two segments of an input. `"next_sentence"` makes rows of two segments, of which the second
    /// follows the first in half of the rows; this relation is not predicted. Source: Yang et al. 2019, section 2.5.
    pub pairs: Pairs,
    /// Number of tokens at the beginning of a row that a memory keeps, if attention has one. When absent, all tokens
    /// except the two special tokens behind the text, so that the texts of consecutive rows are contiguous. Source:
    /// Yang et al. 2019, released code.
    #[schemars(range(min = 1, max = MAX_POSITIONS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse_len: Option<usize>,
}

impl Default for PermutedLmConfig {
    fn default() -> Self {
        Self {
            share: 1.0 / 6.0,
            longest_span: 5,
            pairs: Pairs::None,
            reuse_len: None,
        }
    }
}

impl PermutedLmConfig {
    fn has_share(&self) -> bool {
        self.share > 0.0 && self.share < 1.0
    }

    /// Returns the keys as a masking config that masks nothing. Faulty values are replaced by sound ones, since the
    /// faults are reported for the keys themselves.
    fn masking(&self) -> MaskingConfig {
        MaskingConfig {
            share: match self.has_share() {
                true => self.share,
                false => Self::default().share,
            },
            masked: 0.0,
            random: 0.0,
            unit: Unit::Ngram,
            longest_ngram: Some(self.longest_span.clamp(1, MOST_WORDS)),
            ..MaskingConfig::default()
        }
    }
}

impl TaskFacts for PermutedLmConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn reuse_len(&self) -> Option<usize> {
        self.reuse_len
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Text
    }

    fn view(&self) -> View {
        View::Masked(MaskedView {
            masking: self.masking(),
            pairs: self.pairs,
            class_token_last: true,
        })
    }

    fn demand(&self) -> Demand {
        Demand {
            segments: self.pairs != Pairs::None,
            has_query_stream: true,
            ..Demand::plain(Use::MaskedTokens)
        }
    }

    fn faults(&self, at: &mut TableFaults) {
        if !self.has_share() {
            let rule = format!("share = {} must be above 0 and below 1", self.share);
            at.fault(&["share"], rule);
        }
        at.count("longest_span", self.longest_span, MOST_WORDS);
        if let Some(reused) = self.reuse_len {
            at.count("reuse_len", reused, MAX_POSITIONS);
        }
        if self.pairs == Pairs::SentenceOrder {
            let rule = "pairs = \"sentence_order\" needs a task that predicts the order; use \"next_sentence\" or \"none\"";
            at.fault(&["pairs"], rule);
        }
    }

    /// The LM head only runs at predicted positions.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        let network = model.restricted_to(&demand).products(&demand, shape);
        let predicted = self.share * shape.context as f64;
        let head = model
            .masked_lm_encoder()
            .map_or(0, |c| MlmHead::products(c, shape.vocab_size));
        network + predicted * head as f64
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        vec![PERPLEXITY, PLM_ACCURACY]
    }

    fn command(&self, run: &str, prompt: Option<&str>) -> Option<String> {
        super::MaskedLmConfig::default().command(run, prompt)
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let network = model.masked_lm_encoder();
        let task = |model| PermutedLm::new(model, self.reuse_len, inputs);
        Ok(network.map(|model| AnyTask::PermutedLm(task(model))))
    }
}

/// Roles of the parameters of [`PermutedLm`].
pub const ROLES: Roles = Roles::new(
    "PermutedLm",
    &[
        ("query", TABLE),
        ("query", Declaration::Place(Place::Input)),
    ],
);

/// A two-stream encoder with its training objective.
#[derive(Module, Debug)]
pub struct PermutedLm {
    /// The network.
    pub model: Encoder,
    /// LM head over the vocabulary.
    pub head: MlmHead,
    /// Initial vector of every query, `[1, d_embedding]`.
    pub query: Param<Tensor<2>>,
    remembered: usize,
    seed: u64,
}

impl PermutedLm {
    /// Builds a model of this config with its head. A memory keeps the first `reuse_len` tokens of a row, or its text
    /// if `None`.
    pub fn new(model: &EncoderConfig, reuse_len: Option<usize>, inputs: &BuildContext) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, model.stack.init_settings());
        Self {
            model: model.with_pooler_if(false).init(inputs),
            head: MlmHead::new(model, inputs.shape.vocab_size, &init),
            query: init.part("query").table(1, model.d_embedding()),
            remembered: reuse_len.unwrap_or(inputs.shape.context.saturating_sub(SPECIAL_TOKENS)),
            seed: inputs.seed,
        }
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.query.val().device()
    }

    /// Returns the final states of the queries `[rows, cols, d_model]`, for texts in an order, preceded by the memory
    /// in `state`.
    pub fn query_states(
        &self,
        input: EncoderInput,
        order: &FactorizationOrder,
        pass: &Pass,
        state: Option<&mut ModelState>,
    ) -> Tensor<3> {
        let ([rows, cols], [_, d]) = (input.ids.dims(), self.query.val().dims());
        let mut seen = input.masks_and_positions();
        let of_queries = Visibility {
            pattern: Some(order.query_stream()),
            ..seen.visible.clone()
        };
        seen.visible.pattern = Some(order.content_stream());
        let queries = self.query.val().reshape([1, 1, d]).expand([rows, cols, d]);
        let queries = pass.in_network("queries", || {
            self.model.embed_token_vectors(queries, input.clone(), pass)
        });
        let tokens = self.model.embed(input, pass);
        let streams = TwoStreamContext {
            query_visibility: &of_queries,
            remembered_tokens: self.remembered,
        };
        self.model
            .run_query_stream([tokens, queries], &seen, &streams, state, pass)
    }

    /// Returns the loss of the scored tokens of texts in an order, preceded by the memory in `state`.
    pub fn loss(
        &self,
        texts: &TextBatch,
        order: &FactorizationOrder,
        pass: &Pass,
        state: Option<&mut ModelState>,
    ) -> HeadLoss {
        let device = self.device();
        let input = input(texts, GlobalTokens::None, &device);
        let states = self.query_states(input, order, pass, state);
        let (places, targets) = scored_targets(&texts.targets);
        let picked = gather_at(states, &places, &device);
        let targets = host::vector(&targets, &device);
        self.head.loss(picked, &self.model, targets)
    }

    /// Returns the logits over the vocabulary `[n, vocab]` at some positions of texts in an order; positions are
    /// counted through all rows.
    pub fn scores(
        &self,
        texts: &TextBatch,
        positions: &[i32],
        order: &FactorizationOrder,
    ) -> Tensor<2> {
        let device = self.device();
        let input = input(texts, GlobalTokens::None, &device);
        let states = self.query_states(input, order, &Pass::evaluation(), None);
        self.head
            .forward(gather_at(states, positions, &device), &self.model)
    }

    /// Returns the logits over the vocabulary `[n, vocab]` at some positions, each predicted from the tokens outside
    /// these positions only.
    pub fn scores_at(&self, texts: &TextBatch, positions: &[i32]) -> Tensor<2> {
        let order = FactorizationOrder::from_positions(texts.inputs.len(), texts.cols, positions);
        self.scores(texts, positions, &order)
    }
}

impl Task for PermutedLm {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let loss = self.loss(texts, &FactorizationOrder::draw(texts, pass), pass, state);
        let (_, targets) = scored_targets(&texts.targets);
        let accuracy = host::count_right(&loss, &targets);
        Scored::new(loss.sum, batch.tokens as u64).with_count(PLM_ACCURACY, accuracy)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn empty_state(&self) -> Option<ModelState> {
        let state = self.model.stack.empty_state(StateUse::Segments);
        state.has_state().then_some(state)
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            permuted_lm: Some(self),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
