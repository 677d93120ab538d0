//! Group-relative policy optimisation (GRPO): a language model writes several completions of each prompt, and learns to
//! give more probability to those whose reward is above the mean of their group (Shao et al. 2024, "DeepSeekMath",
//! arXiv:2402.03300, section 4).
//!
//! For completion i of a prompt, with |i| tokens and the reward r_i, and for its token t with the log-probability ℓ_it:
//!
//! ```text
//! A_i     = (r_i − mean r) / (deviation r + 1e-4)            over the group; without `scale_rewards` r_i − mean r (Dr. GRPO)
//! ρ_it    = exp(ℓ_it − ℓ_it of the policy that sampled)
//! l_it    = −min(ρ_it·A_i, clip(ρ_it, 1 − ε, 1 + ε_high)·A_i) + β·(exp(d_it) − d_it − 1),   d_it = ℓ_it of the reference − ℓ_it
//! grpo    mean over completions of Σ_t l_it / |i|             Shao et al., equation 3
//! dapo    Σ_it l_it / Σ_i |i|, over all tokens of a step      Yu et al. 2025, arXiv:2503.14476, equation 8
//! dr_grpo Σ_it l_it / (completions · max_new_tokens)          Liu et al. 2025, arXiv:2503.20783, section 3.2
//! ```
//!
//! Log-probabilities are taken at the sampling temperature over the whole vocabulary, and the deviation is the sample
//! standard deviation, all as in TRL's `GRPOTrainer`. A step samples with its initial weights, in evaluation mode with
//! a KV cache. With `updates` = k the next k − 1 steps read the same prompts and learn from the same completions
//! (`carried`); their old policy is that of the first of these steps, dropout included. With one update the ratio is 1,
//! and nothing is clipped.
//!
//! An evaluation decodes greedily, one completion per prompt: `reward` is the mean reward, and the loss is its
//! negative. The task adds no parameters: weights have the paths of `causal_lm`. The reference and the [`Judge`], which
//! computes rewards, are attached later; without a judge, as in commands that only open the network, a batch is scored
//! as in `causal_lm`.

mod carried_rollouts;
mod config;
mod judge;
pub mod losses;
mod metrics;
mod parts;
pub mod rewards;
pub mod rollouts;

use super::{
    AnyTask, CausalLm, Divisor, Frozen, Networks, Scored, Sum, Task, Term, causal_lm, host,
};
use crate::data::batch::Batch;
use crate::evaluate::metric::EXACT_MATCH;
use crate::kernel;
use crate::model::sampling::Sampling;
use crate::model::{CarriedWidths, LanguageModel};
use crate::nn::pass::Pass;
use crate::stack::state::ModelState;
use burn::module::Module;
use burn::tensor::{Tensor, activation};
pub use config::{GrpoConfig, GrpoLoss, KIND, METRIC_KEYS};
pub use judge::{Judge, RewardRun};
use losses::{SurrogateSums, TokenValues};
pub use metrics::METRICS;
pub use rewards::{CompletionReward, RunReward};
use rollouts::{Completion, CompletionTokens, GenerationSettings, Prompt};

/// The completions of a batch; completions of the same prompt are consecutive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollouts {
    /// The completions.
    pub completions: Vec<Completion>,
    /// The reward of each completion.
    pub rewards: Vec<f32>,
    /// Log-probabilities of all tokens under the policy that sampled them; `None` if that is the current policy.
    pub old: Option<Vec<f32>>,
}

/// A language model with its training objective.
#[derive(Clone, Debug)]
pub struct Grpo {
    policy: CausalLm,
    /// The reference policy; set before training.
    reference: Option<Box<Frozen<AnyTask>>>,
    /// The judge; set before training or evaluation.
    judge: Option<Box<Judge>>,
    config: GrpoConfig,
    /// Maximum number of tokens read of a row.
    context: usize,
    /// Whether all texts are padded to `context`: the width determines which attention weights dropout removes.
    even: bool,
}

impl Grpo {
    /// Builds a task that has neither a reference nor a judge yet.
    pub fn new(policy: CausalLm, config: &GrpoConfig, context: usize) -> Self {
        Self {
            policy,
            reference: None,
            judge: None,
            config: config.clone(),
            context,
            even: false,
        }
    }

    /// Returns the task with `even` set: if so, all texts have the same width, so that dropout removes the same
    /// attention weights in all micro-batches.
    #[must_use]
    pub fn with_fixed_width(self, even: bool) -> Self {
        Self { even, ..self }
    }

    /// Returns the task with a reference: a task whose network continues texts over the same tokens.
    #[must_use]
    pub fn with_reference(self, reference: AnyTask) -> Self {
        Self {
            reference: Some(Box::new(Frozen::new(reference))),
            ..self
        }
    }

    /// Returns the task with the judge that computes rewards.
    #[must_use]
    pub fn with_judge(self, judge: Judge) -> Self {
        Self {
            judge: Some(Box::new(judge)),
            ..self
        }
    }

    /// Returns the maximum number of tokens of a completion.
    fn most(&self) -> usize {
        self.config.max_completion_tokens(self.context)
    }

    fn generation<'a>(
        &self,
        judge: &'a Judge,
        count: usize,
        sampling: Sampling,
    ) -> GenerationSettings<'a> {
        GenerationSettings {
            count,
            max_tokens: self.most(),
            context: self.context,
            sampling,
            ends: judge.ends(),
        }
    }

    /// Samples completions of these prompts with the current weights, and computes their rewards.
    fn sample_rollouts(&self, judge: &Judge, prompts: &[Prompt], pass: &Pass) -> Rollouts {
        let count = self.config.group_size;
        let policy = self.policy.valid();
        let writing = self.generation(judge, count, self.config.sampling());
        let streams = rollouts::streams(prompts.len(), count, pass);
        let network = policy.model.network();
        let completions = rollouts::generate_completions(network, prompts, &writing, streams);
        Rollouts {
            rewards: judge.rewards(&self.config.reward, prompts, &completions, count),
            completions,
            old: None,
        }
    }

    /// Returns log-probabilities `[n]` that a network gives to tokens, at the sampling temperature, in at least 32
    /// bits.
    fn log_probs(
        &self,
        network: &dyn LanguageModel,
        tokens: &CompletionTokens,
        pass: &Pass,
    ) -> Tensor<1> {
        let device = network.device();
        let input = causal_lm::input(&tokens.texts, &device);
        let hidden = pass.with_derived_rows(self.config.group_size, || {
            network.forward(input, None, pass)
        });
        let scores = network.logits(host::gather_at(hidden, &tokens.positions, &device));
        let [_, n, vocab] = scores.dims();
        let scores = kernel::to_f32(scores.reshape([n, vocab]));
        let scores = match self.config.temperature == 1.0 {
            true => scores,
            false => scores / self.config.temperature,
        };
        let targets = host::matrix(&tokens.targets, 1, &device);
        let found = activation::log_softmax(scores, 1).gather(1, targets);
        found.reshape([n])
    }

    /// Returns the loss of sampled completions as a sum over rows, the log-probabilities of their tokens `[n]`, and the
    /// number of tokens read.
    pub fn loss(
        &self,
        prompts: &[Prompt],
        sampled: &Rollouts,
        pass: &Pass,
    ) -> (SurrogateSums, Tensor<1>, usize) {
        let (count, config) = (self.config.group_size, &self.config);
        let width = if self.even { self.context } else { 0 };
        let tokens = CompletionTokens::of(prompts, &sampled.completions, count, width);
        let ours = self.log_probs(self.policy.model.network(), &tokens, pass);
        let old = match &sampled.old {
            Some(old) => losses::vector(old.clone(), &ours),
            None => ours.clone().detach(),
        };
        let reference = self.reference.as_deref().filter(|_| config.beta > 0.0);
        let reference = reference.and_then(|task| task.networks().language_model);
        let theirs = reference.map(|network| {
            let theirs = self.log_probs(network, &tokens, &Pass::evaluation());
            match ours.device().is_autodiff() {
                true => Tensor::from_inner(theirs),
                false => theirs,
            }
        });
        let groups = sampled.rewards.chunks(count);
        let advantages: Vec<f32> = groups
            .flat_map(|rewards| losses::advantages(rewards, config.scale_rewards).0)
            .collect();
        let weights = config.weights(&sampled.completions, (prompts.len(), self.most()));
        let each = |values: &[f32]| tokens.of.iter().map(|one| values[*one]).collect();
        let (advantages, weights): (Vec<f32>, Vec<f32>) = (each(&advantages), each(&weights));
        let known = TokenValues {
            advantages: &advantages,
            weights: &weights,
        };
        let theirs = theirs.map(|theirs| (theirs, config.beta));
        let sums = losses::surrogate(&ours, old, theirs, known, config.clip());
        (sums, ours, tokens.texts.tokens())
    }

    /// Scores a training step: with its own completions, or with those of an earlier step that `state` holds.
    fn score_training(
        &self,
        judge: &Judge,
        prompts: &[Prompt],
        pass: &Pass,
        state: Option<&mut ModelState>,
    ) -> Scored {
        let (rows, count, most) = (prompts.len(), self.config.group_size, self.most());
        let kept = state
            .as_deref()
            .and_then(|state| carried_rollouts::read(state, rows, count, most));
        let sampled = kept.unwrap_or_else(|| self.sample_rollouts(judge, prompts, pass));
        let (sums, ours, read) = self.loss(prompts, &sampled, pass);
        let counted = sampled.completions.iter();
        let counted = counted.filter(|one| self.config.is_counted(one));
        let tokens: usize = counted.map(|one| one.tokens.len()).sum();
        if let Some(state) = state {
            let device = ours.device();
            let own = || {
                kernel::read(kernel::untracked(ours))
                    .iter::<f32>()
                    .collect()
            };
            let old: Vec<f32> = sampled.old.clone().unwrap_or_else(own);
            carried_rollouts::store(state, &sampled, &old, (rows, most), &device);
        }
        let mut scored = Scored::of(Term::new(sums.loss, Divisor::Rows), read as u64);
        scored.no_perplexity = true;
        let scored = metrics::with_token_metrics(scored, [sums.divergence, sums.clipped], tokens);
        metrics::with_completion_metrics(
            metrics::with_group_metrics(scored, &sampled, count),
            &sampled,
        )
    }

    /// Scores an evaluation: the greedy completion of each prompt.
    fn score_evaluation(&self, judge: &Judge, prompts: &[Prompt], batch: &Batch) -> Scored {
        let sampling = Sampling {
            temperature: 0.0,
            ..Sampling::default()
        };
        let writing = self.generation(judge, 1, sampling);
        let network = self.policy.model.network();
        let completions = rollouts::generate_completions(network, prompts, &writing, Vec::new());
        let written = Rollouts {
            rewards: judge.rewards(&self.config.reward, prompts, &completions, 1),
            completions,
            old: None,
        };
        let sum: f32 = written.rewards.iter().sum();
        let loss = Tensor::from_floats([0.0 - sum], &network.device());
        let mut scored = Scored::of(Term::new(loss, Divisor::Rows), batch.tokens as u64);
        scored.no_perplexity = true;
        let exact = judge.count_exact(prompts, &written.completions) as f64;
        let exact = Sum::new(exact, prompts.len() as f64);
        metrics::with_completion_metrics(scored, &written).with_metric(EXACT_MATCH, exact)
    }
}

/// Returns the widths of the state that steps on the same completions pass on, for rows of up to `context` tokens.
pub fn carried_widths(config: &GrpoConfig, context: usize) -> CarriedWidths {
    carried_rollouts::widths(config.group_size, config.max_completion_tokens(context))
}

impl Task for Grpo {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        // A probed pass outside training reads texts as they are.
        let measured = pass.probe().is_some() && !pass.is_training();
        let judge = self.judge.as_deref().filter(|_| !measured);
        let prompts = rollouts::prompts(host::texts(batch), batch.rows);
        match (judge, prompts, pass.is_training()) {
            (Some(judge), Some(prompts), true) => self.score_training(judge, &prompts, pass, state),
            (Some(judge), Some(prompts), false) => self.score_evaluation(judge, &prompts, batch),
            (None, _, _) | (_, None, _) => self.policy.score(batch, pass, None),
        }
    }

    fn seed(&self) -> u64 {
        self.policy.seed()
    }

    fn empty_state(&self) -> Option<ModelState> {
        (self.config.updates > 1).then(carried_rollouts::empty)
    }

    fn networks(&self) -> Networks<'_> {
        self.policy.networks()
    }
}
