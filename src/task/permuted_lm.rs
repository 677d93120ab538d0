//! Permutation language modelling: −log p(token | the context and the tokens that come before it in an order that is drawn), with
//! two streams (Yang et al. 2019, XLNet, sections 2.2 and 2.3).
//!
//! Of each row spans of words are predicted, a share 1/K of its tokens, in an order that is drawn anew each time; all others are
//! the context. The tokens stay as they are: no mask stands in a text. A stream of queries g, which begins as one learned vector and
//! knows its place alone, looks at the stream of the tokens h, and the head reads it where a token is predicted ([`Stack::streams`],
//! [`order`]). Rows end with the token that stands for them, `A <sep> B <sep> <cls>`.
//!
//! Where attention has a `memory` and `[train] carry_state` is set, both streams also look at the states that the tokens' stream left
//! in the row's earlier segments: all of what was read there, whatever its order (section 2.4). Spans lie anywhere in a row, where the
//! released code places each within a part of the row that is K times as long.
//!
//! [`Stack::streams`]: crate::stack::Stack::streams

pub mod order;

use super::facts::TaskFacts;
use super::host::{self, at, scored};
use super::masked_lm::input;
use super::measures::Measures;
use super::{AnyTask, Networks, Scored, Task};
use crate::data::DataSet;
use crate::data::batch::{Batch, TextBatch};
use crate::data::masked::masking::{MaskedView, MaskingConfig, Pairs, Unit};
use crate::data::{Gives, Shape, View};
use crate::error::Result;
use crate::evaluate::metric::{Metric, PERPLEXITY};
use crate::faults::{LONGEST, TableFaults};
use crate::kernel::{HeadLoss, Visibility};
use crate::model::encoder::{Encoder, EncoderConfig, EncoderInput};
use crate::model::heads::MlmHead;
use crate::model::{Demand, GlobalTokens, ModelConfig, ModelInputs, Use};
use crate::nn::Kind;
use crate::nn::init::Init;
use crate::nn::pass::Pass;
use crate::nn::role::{Place, Roles, Says, TABLE};
use crate::nn::state::StateUse;
use crate::stack::state::ModelState;
use crate::stack::streams::Streams;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use order::Order;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its row of the family's table.
pub const KIND: Kind = Kind {
    kind: "permuted_lm",
    summary: "some tokens in an order that is drawn, each from the context and those before it, with an encoder and a stream of queries",
    source: "Yang et al. 2019, XLNet",
    example: "{ kind = \"permuted_lm\", longest_span = 5 }",
};

/// Which tokens are predicted, and what stands beside them, define its loss and how many of them are right.
pub const MEASURES: Measures = Measures {
    metrics: &[("plm_accuracy", PREDICTED)],
    ..Measures::of_tokens(KIND.kind).by(PREDICTED)
};
const PREDICTED: &[&str] = &["share", "longest_span", "pairs"];

const PLM_ACCURACY: Metric = Metric::higher("plm_accuracy");

/// The share of predicted tokens that are right.
pub const METRICS: &[Metric] = &[PLM_ACCURACY];

/// Tokens behind the text of a row: the end of the segment, and the one that stands for the row.
const MARKS: usize = 2;

/// Words of a span at most.
const MOST_WORDS: usize = 1000;

/// The knobs of permutation language modelling.
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
    /// What two segments of an input are to each other: `"next_sentence"` has rows of two segments, of which the second follows
    /// the first in half of them. Nothing is predicted of it. Source: Yang et al. 2019, section 2.5.
    pub pairs: Pairs,
    /// Tokens at the beginning of a row that a memory takes, where attention has one; all but the two marks behind its text when
    /// absent, so that the texts of consecutive rows lie side by side. Source: Yang et al. 2019, released code.
    #[schemars(range(min = 1, max = LONGEST))]
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

    /// The keys as those of masks that hide nothing; sound values in the place of faults, which stand beside the keys themselves.
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

    fn reads(&self) -> Gives {
        Gives::Text
    }

    fn view(&self) -> View {
        View::Masked(MaskedView {
            masking: self.masking(),
            pairs: self.pairs,
            behind: true,
        })
    }

    fn demand(&self) -> Demand {
        Demand {
            segments: self.pairs != Pairs::None,
            two_streams: true,
            ..Demand::of(Use::HiddenTokens)
        }
    }

    fn faults(&self, at: &mut TableFaults) {
        if !self.has_share() {
            let rule = format!("share = {} must be above 0 and below 1", self.share);
            at.fault(&["share"], rule);
        }
        at.count("longest_span", self.longest_span, MOST_WORDS);
        if let Some(reused) = self.reuse_len {
            at.count("reuse_len", reused, LONGEST);
        }
        if self.pairs == Pairs::SentenceOrder {
            let rule = "pairs = \"sentence_order\" is for a task that tells the order; use \"next_sentence\" or \"none\"";
            at.fault(&["pairs"], rule);
        }
    }

    /// Only predicted positions pay for the product onto the vocabulary.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        let network = model.under(&demand).products(&demand, shape);
        let predicted = self.share * shape.context as f64;
        let head = model
            .guessing()
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
        inputs: &ModelInputs,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        let network = model.guessing();
        let task = |model| PermutedLm::new(model, self.reuse_len, inputs);
        Ok(network.map(|model| AnyTask::PermutedLm(task(model))))
    }
}

/// What the parameters of [`PermutedLm`] are.
pub const ROLES: Roles = Roles::new(
    "PermutedLm",
    &[("query", TABLE), ("query", Says::Stands(Place::Input))],
);

/// An encoder with its objective.
#[derive(Module, Debug)]
pub struct PermutedLm {
    /// The network.
    pub model: Encoder,
    /// Scores of the vocabulary.
    pub head: MlmHead,
    /// The vector with which each query begins, `[1, d_embedding]`.
    pub query: Param<Tensor<2>>,
    remembered: usize,
    seed: u64,
}

impl PermutedLm {
    /// A model of this config with its head; a memory takes so many tokens of a row, or its text.
    pub fn new(model: &EncoderConfig, reuse_len: Option<usize>, inputs: &ModelInputs) -> Self {
        let init = Init::of_heads(inputs.device, inputs.seed, model.stack.init());
        Self {
            model: model.pooled_if(false).init(inputs),
            head: MlmHead::new(model, inputs.shape.vocab_size, &init),
            query: init.of("query").table(1, model.d_embedding()),
            remembered: reuse_len.unwrap_or(inputs.shape.context.saturating_sub(MARKS)),
            seed: inputs.seed,
        }
    }

    /// Where its parameters live.
    pub fn device(&self) -> Device {
        self.query.val().device()
    }

    /// The states of the queries `[rows, cols, d_model]` of texts in an order, behind what a state remembers.
    pub fn queried(
        &self,
        input: EncoderInput,
        order: &Order,
        pass: &Pass,
        state: Option<&mut ModelState>,
    ) -> Tensor<3> {
        let ([rows, cols], [_, d]) = (input.ids.dims(), self.query.val().dims());
        let mut seen = input.seen();
        let of_queries = Visibility {
            pattern: Some(order.of_queries()),
            ..seen.visible.clone()
        };
        seen.visible.pattern = Some(order.of_tokens());
        let queries = self.query.val().reshape([1, 1, d]).expand([rows, cols, d]);
        let queries = pass.within("queries", || {
            self.model.placed(queries, input.clone(), pass)
        });
        let tokens = self.model.embedded(input, pass);
        let streams = Streams {
            of_queries: &of_queries,
            remembered: self.remembered,
        };
        self.model
            .queried([tokens, queries], &seen, &streams, state, pass)
    }

    /// The loss of the scored tokens of texts in an order, behind what a state remembers.
    pub fn loss(
        &self,
        texts: &TextBatch,
        order: &Order,
        pass: &Pass,
        state: Option<&mut ModelState>,
    ) -> HeadLoss {
        let device = self.device();
        let input = input(texts, GlobalTokens::None, &device);
        let states = self.queried(input, order, pass, state);
        let (places, targets) = scored(&texts.targets);
        let picked = at(states, &places, &device);
        let targets = host::vector(&targets, &device);
        self.head.loss(picked, &self.model, targets)
    }

    /// Scores of the vocabulary `[n, vocab]` at some positions of texts in an order, each counted through all rows.
    pub fn scores(&self, texts: &TextBatch, positions: &[i32], order: &Order) -> Tensor<2> {
        let device = self.device();
        let input = input(texts, GlobalTokens::None, &device);
        let states = self.queried(input, order, &Pass::evaluation(), None);
        self.head
            .forward(at(states, positions, &device), &self.model)
    }

    /// The same, each guessed from the tokens at all other positions alone.
    pub fn scores_at(&self, texts: &TextBatch, positions: &[i32]) -> Tensor<2> {
        let order = Order::of_places(texts.inputs.len(), texts.cols, positions);
        self.scores(texts, positions, &order)
    }
}

impl Task for PermutedLm {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let loss = self.loss(texts, &Order::drawn(texts, pass), pass, state);
        let (_, targets) = scored(&texts.targets);
        let accuracy = host::right(&loss, &targets);
        Scored::new(loss.sum, batch.tokens as u64).with_count(PLM_ACCURACY, accuracy)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn empty_state(&self) -> Option<ModelState> {
        let state = self.model.stack.empty_state(StateUse::Segments);
        state.is_kept().then_some(state)
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            permuted_lm: Some(self),
            infers: Some(self),
            ..Networks::default()
        }
    }
}
