//! Reward models: predict a number for a text that is larger the more people would prefer the text (Ouyang et al. 2022,
//! InstructGPT, arXiv:2203.02155, section 3.5, equation 1; Bradley and Terry 1952, "Rank analysis of incomplete block
//! designs").
//!
//! A head maps the pooled vector of a text, as in `regression`, to the reward r; a decoder pools at its last token,
//! whose state has seen the whole text. With y⁺ the better and y⁻ the worse answer to a prompt x, the loss of a pair is
//!
//! ```text
//! −ln σ(r(x, y⁺) − r(x, y⁻) − m)
//! ```
//!
//! where m is 0, or the pair's margin from the data (Touvron et al. 2023, arXiv:2307.09288, section 3.2.2, equation 2).
//! The difference leaves the level of rewards open: `center_rewards_coefficient` adds c·(r⁺ + r⁻)², which centres
//! rewards around 0 (Eisenstein et al. 2023, arXiv:2312.09244, equation 2). Both are means over pairs, as in TRL's
//! `RewardTrainer`. Here the second part is not included in `loss` but reported beside it as `reward_center`, so that
//! losses with and without it compare.
//!
//! Both texts of a pair are in one row as segments 0 and 1. They are read separately, each with its own random draws.
//! The task adds no path: weights have those of `regression`.

use super::facts::{GlobalTokenSupport, TaskFacts};
use super::infer::InferenceTask;
use super::metric_keys::MetricKeys;
use super::preference::{REWARD_ACCURACY, REWARD_MARGIN, losses};
use super::scored::Count;
use super::whole_text::Pooling;
use super::{
    AnyTask, Divisor, Networks, Regression, RegressionConfig, Scored, Task, TaskConfig, Term,
};
use super::{host, towers};
use crate::data::batch::{Batch, TextBatch};
use crate::data::{DataSet, ExampleForm, Shape, View};
use crate::error::Result;
use crate::evaluate::metric::Metric;
use crate::faults::TableFaults;
use crate::kernel;
use crate::model::{BuildContext, Demand, GlobalTokens, ModelConfig};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::stack::state::ModelState;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "reward",
    summary: "reward of a text, larger for the better of two: the reward model of InstructGPT, with Llama 2's margins",
    source: "Bradley and Terry 1952; Ouyang et al., arXiv:2203.02155, section 3.5; Touvron et al., arXiv:2307.09288, section 3.2.2",
    example: "{ kind = \"reward\" }",
};

/// Evaluations subtract the data's margins, as training does.
pub const METRIC_KEYS: MetricKeys =
    MetricKeys::for_kind(KIND.kind).with_loss_keys(&["data.margin"]);

/// Mean reward of the better texts.
const REWARD_CHOSEN: Metric = Metric::higher("reward_chosen");
/// Mean reward of the worse texts.
const REWARD_REJECTED: Metric = Metric::lower("reward_rejected");
/// Mean squared sum of both rewards of a pair.
const REWARD_CENTER: Metric = Metric::lower("reward_center");

/// The metrics of this task beside those of `preference`.
pub const METRICS: &[Metric] = &[REWARD_CHOSEN, REWARD_REJECTED, REWARD_CENTER];

/// Settings of reward models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RewardConfig {
    /// Weight in the training loss of the squared sum of both rewards of a pair, which centres rewards around 0; TRL
    /// recommends 0.01. Default: it is not added. Source: Eisenstein et al., arXiv:2312.09244, equation 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub center_rewards_coefficient: Option<f64>,
    /// Dropout on the pooled vector of a text before the head.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub dropout: f64,
    /// Pooling of a text to one vector; when absent, the first position of an encoder, or the last one of a decoder or
    /// of recurrent cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// Whether the head has a bias, which cancels in the difference of two rewards. Default: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_bias: Option<bool>,
    /// Tokens that are global in attention with global tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_tokens: Option<GlobalTokens>,
}

impl RewardConfig {
    /// Returns the settings of the regression network that scores single texts.
    fn scorer(&self) -> RegressionConfig {
        RegressionConfig {
            dropout: self.dropout,
            towers: false,
            pooling: self.pooling,
            head_bias: Some(self.head_bias.unwrap_or(false)),
            global_tokens: self.global_tokens,
        }
    }

    /// Uses a regression's numbers as rewards; `None` if the regression reads two texts separately.
    pub fn from_regression(numbers: &RegressionConfig) -> Option<Self> {
        (!numbers.towers).then(|| Self {
            center_rewards_coefficient: None,
            dropout: numbers.dropout,
            pooling: numbers.pooling,
            head_bias: Some(numbers.head_bias.unwrap_or(true)),
            global_tokens: numbers.global_tokens,
        })
    }
}

impl TaskFacts for RewardConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Preferences
    }

    fn view(&self) -> View {
        View::EncodedSeparately
    }

    fn demand(&self) -> Demand {
        self.scorer().demand()
    }

    fn global_tokens(&self) -> GlobalTokenSupport {
        GlobalTokenSupport::Supported(self.global_tokens)
    }

    fn published_as(&self) -> Option<TaskConfig> {
        Some(TaskConfig::Regression(self.scorer()))
    }

    fn faults(&self, at: &mut TableFaults) {
        at.probability("dropout", self.dropout);
        let coefficient = self.center_rewards_coefficient;
        at.positive("center_rewards_coefficient", coefficient.unwrap_or(1.0));
        if self.global_tokens == Some(GlobalTokens::FirstSegment) {
            let rule = "global_tokens = \"first_segment\" makes every token global, since each text is read alone; use \"first\"";
            at.fault(&["global_tokens"], rule);
        }
    }

    /// Returns the multiplications for two texts, each as long as the context.
    fn products(&self, model: &ModelConfig, shape: &Shape) -> f64 {
        let demand = self.demand();
        2.0 * model.restricted_to(&demand).products(&demand, shape)
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        let centered = self.center_rewards_coefficient.map(|_| REWARD_CENTER);
        let always = [
            REWARD_ACCURACY,
            REWARD_MARGIN,
            REWARD_CHOSEN,
            REWARD_REJECTED,
        ];
        always.into_iter().chain(centered).collect()
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!(
            "formwork classify {run} --text PROMPT --pair ANSWER"
        ))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        exact: bool,
    ) -> Result<Option<AnyTask>> {
        let scorer = self.scorer().init(model, inputs, exact)?;
        Ok(scorer.and_then(|scorer| match scorer {
            AnyTask::Regression(scorer) => Some(AnyTask::Reward(Reward::new(scorer, self))),
            _ => None,
        }))
    }
}

/// A network that predicts a reward for each text.
#[derive(Clone, Debug)]
pub struct Reward {
    scorer: Regression,
    center: Option<f64>,
}

impl Reward {
    /// Builds a reward model from a network that scores single texts.
    pub fn new(scorer: Regression, config: &RewardConfig) -> Self {
        Self {
            scorer,
            center: config.center_rewards_coefficient,
        }
    }

    /// Returns the network that scores single texts.
    pub fn scorer(&self) -> &Regression {
        &self.scorer
    }

    /// Returns the rewards of single texts, `[rows]`, in at least 32 bits.
    pub fn rewards(&self, texts: &TextBatch, pass: &Pass) -> Tensor<1> {
        let numbers = self.scorer.numbers(texts, &self.scorer.device(), pass);
        let [rows, _] = numbers.dims();
        kernel::to_f32(numbers.reshape([rows]))
    }

    /// Returns the rewards of the better and the worse texts of pairs, `[rows]` each.
    pub fn pair_rewards(&self, texts: &TextBatch, pass: &Pass) -> [Tensor<1>; 2] {
        let halves = towers::split_unchanged(texts);
        let all = halves.iter().map(TextBatch::tokens).sum();
        let [better, worse] = halves.each_ref();
        [
            pass.with_token_share(better.tokens(), all, || self.rewards(better, pass)),
            pass.with_token_share(worse.tokens(), all, || {
                pass.in_network("second", || self.rewards(worse, pass))
            }),
        ]
    }

    fn each(self, of: impl FnOnce(Regression) -> Regression) -> Self {
        Self {
            scorer: of(self.scorer),
            ..self
        }
    }
}

/// Returns the margins of pairs, with the device and type of `beside`, their differences `[rows]`; `None` if all are 0.
fn margins(texts: &TextBatch, beside: &Tensor<1>) -> Option<Tensor<1>> {
    let margins = texts.numbers.as_ref()?;
    let some = margins.iter().any(|margin| *margin != 0.0);
    some.then(|| {
        let data = TensorData::new(margins.clone(), [margins.len()]);
        Tensor::from_data(data, (&beside.device(), beside.dtype()))
    })
}

impl Task for Reward {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        let texts = host::texts(batch);
        let [better, worse] = self.pair_rewards(texts, pass);
        let differences = better.clone() - worse.clone();
        let beyond = match margins(texts, &differences) {
            Some(margins) => differences.clone() - margins,
            None => differences.clone(),
        };
        let loss = Term::new(losses::sigmoid(beyond, 0.0), Divisor::Rows);
        let mut scored = Scored::of(loss, batch.tokens as u64);
        scored.no_perplexity = true;
        if let Some(coefficient) = self.center {
            let sums = better.clone() + worse.clone();
            let center = Term {
                coefficient,
                ..Term::new((sums.clone() * sums).sum(), Divisor::Rows)
            };
            scored = scored.with_added(REWARD_CENTER, center);
        }
        let [better, worse, differences] = [better, worse, differences].map(kernel::untracked);
        let right = differences.clone().greater_elem(0.0).int().sum();
        let of = batch.rows as f64;
        for (metric, sum) in [
            (REWARD_ACCURACY, right.cast(FloatDType::F32)),
            (REWARD_MARGIN, differences.sum()),
            (REWARD_CHOSEN, better.sum()),
            (REWARD_REJECTED, worse.sum()),
        ] {
            scored.added.insert(metric.name);
            scored = scored.with_count(metric, Count { sum, of });
        }
        scored
    }

    fn seed(&self) -> u64 {
        self.scorer.seed()
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            reward: Some(self),
            infers: Some(self as &dyn InferenceTask),
            reads: Some(self),
            ..Networks::default()
        }
    }
}

impl Module for Reward {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.scorer.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.each(|scorer| scorer.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.each(|scorer| scorer.to_device(device))
    }

    fn train(self) -> Self {
        self.each(Regression::train)
    }

    fn valid(&self) -> Self {
        self.clone().each(|scorer| scorer.valid())
    }

    fn materialize(self) -> Self {
        self.each(Regression::materialize)
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        self.scorer.visit(visitor);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        self.each(|scorer| scorer.map(mapper))
    }
}

impl fmt::Display for Reward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.scorer, f)
    }
}
