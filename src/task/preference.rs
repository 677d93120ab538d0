//! Preference optimisation: a language model learns from pairs to give the better text more and the worse text less
//! probability than a frozen reference gives them (Rafailov et al. 2023, "Direct preference optimization",
//! arXiv:2305.18290).
//!
//! With r(y) = log π(y|x) − log π_ref(y|x), y⁺ the better and y⁻ the worse continuation of x, and Δ = r(y⁺) − r(y⁻), the loss of a
//! pair is
//!
//! ```text
//! sigmoid  −(1 − ε)·ln σ(β·Δ) − ε·ln σ(−β·Δ)     Rafailov et al., equation 7; with ε = label_smoothing the conservative form
//! hinge    max(0, 1 − β·Δ)                       Zhao et al. 2023, SLiC-HF, arXiv:2305.10425, with the reference as TRL has it
//! ipo      (Δ̄ − 1/(2β))²                         Azar et al. 2023, arXiv:2310.12036, equation 17; Δ̄ of means over tokens
//! ```
//!
//! The loss is a mean over pairs, in training and in evaluations; evaluations use ε = 0. β·r is called a reward:
//! `reward_accuracy` is the share of pairs whose better text has the larger reward, `reward_margin` the mean of β·Δ.
//!
//! Both texts of a pair are in one row as documents 1 and 2, and the LM head only runs at their scored positions. The
//! task adds no parameters: weights have the paths of `causal_lm`. The reference is attached later and reads the same
//! batch in evaluation mode. Without a reference, as in commands that only open the network, a batch is scored as in
//! `causal_lm`.

mod config;
pub mod losses;
mod pairs;

use super::scored::Count;
use super::wrapper::shows_alone;
use super::{AnyTask, CausalLm, Divisor, Frozen, Networks, Scored, Task, Term, host};
use crate::data::batch::Batch;
use crate::evaluate::metric::{EXACT_MATCH, Metric};
use crate::kernel;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use crate::stack::state::ModelState;
use burn::tensor::{FloatDType, Tensor};
pub use config::{KIND, METRIC_KEYS, PreferenceConfig, PreferenceLoss};
use pairs::Pairs;

/// Share of pairs whose better text has the larger reward.
pub const REWARD_ACCURACY: Metric = Metric::higher("reward_accuracy");
/// Mean difference between the rewards of the better and the worse text.
pub const REWARD_MARGIN: Metric = Metric::higher("reward_margin");

/// The metrics that this task defines; the training journal shows them too.
pub const METRICS: &[Metric] = &[REWARD_ACCURACY, REWARD_MARGIN];

/// A language model with its training objective.
#[derive(Clone, Debug)]
pub struct Preference {
    policy: CausalLm,
    /// The reference; set before training or evaluation.
    reference: Option<Box<Frozen<AnyTask>>>,
    loss: PreferenceLoss,
    beta: f64,
    label_smoothing: f64,
    exact_match: bool,
}

impl Preference {
    /// Builds a task that has no reference yet. With `exact_match` evaluations count the pairs whose better text is the
    /// most likely one token by token.
    pub fn new(policy: CausalLm, config: &PreferenceConfig, exact_match: bool) -> Self {
        Self {
            policy,
            reference: None,
            loss: config.loss,
            beta: config.beta,
            label_smoothing: config.label_smoothing,
            exact_match,
        }
    }

    /// Returns the task with a reference: a task whose network continues texts over the same tokens.
    #[must_use]
    pub fn with_reference(self, reference: AnyTask) -> Self {
        Self {
            reference: Some(Box::new(Frozen::new(reference))),
            ..self
        }
    }

    /// Returns the sum of the losses of pairs, `[1]`, from log-ratios `[2·rows]`: first those of all better texts, then
    /// those of all worse ones.
    fn sum(&self, ratios: &Tensor<1>, pairs: &Pairs, pass: &Pass) -> Tensor<1> {
        let scaled = || pairs.differences(ratios.clone()) * self.beta;
        match self.loss {
            PreferenceLoss::Sigmoid => {
                losses::sigmoid(scaled(), host::smoothing(self.label_smoothing, pass))
            }
            PreferenceLoss::Hinge => losses::hinge(scaled()),
            PreferenceLoss::Ipo => {
                let means = ratios.clone() / pairs.lengths(ratios);
                losses::ipo(pairs.differences(means), self.beta)
            }
        }
    }

    /// Computes the losses of a batch of pairs, and their rewards; `None` if the reference has no language model.
    fn score_pairs(
        &self,
        reference: &AnyTask,
        pairs: &Pairs,
        batch: &Batch,
        pass: &Pass,
    ) -> Option<Scored> {
        let texts = host::texts(batch);
        let reference = reference.networks().language_model?;
        let tells = self.exact_match && !pass.is_training();
        let network = self.policy.model.network();
        let ours = pairs.read(network, texts, tells, pass);
        let theirs = pairs.read(reference, texts, false, &Pass::evaluation());
        let theirs = match ours.likelihoods.device().is_autodiff() {
            true => Tensor::from_inner(theirs.likelihoods),
            false => theirs.likelihoods,
        };
        let ratios = ours.likelihoods - theirs;
        let term = Term::new(self.sum(&ratios, pairs, pass), Divisor::Rows);
        let margins = pairs.differences(kernel::untracked(ratios)) * self.beta;
        let right = margins.clone().greater_elem(0.0).int().sum();
        let of = batch.rows as f64;
        let mut scored = Scored::of(term, batch.tokens as u64);
        scored.no_perplexity = true;
        for (metric, sum) in [
            (REWARD_ACCURACY, right.cast(FloatDType::F32)),
            (REWARD_MARGIN, margins.sum()),
        ] {
            scored.added.insert(metric.name);
            scored = scored.with_count(metric, Count { sum, of });
        }
        Some(match ours.scores {
            Some(scores) => scored.with_metric(EXACT_MATCH, pairs.count_exact(scores)),
            None => scored,
        })
    }

    /// Applies one function to the policy and another one to the reference.
    fn each(
        self,
        policy: impl FnOnce(CausalLm) -> CausalLm,
        reference: impl FnOnce(Frozen<AnyTask>) -> Frozen<AnyTask>,
    ) -> Self {
        Self {
            policy: policy(self.policy),
            reference: self.reference.map(|frozen| Box::new(reference(*frozen))),
            ..self
        }
    }
}

impl Task for Preference {
    fn score(&self, batch: &Batch, pass: &Pass, state: Option<&mut ModelState>) -> Scored {
        let pairs = Pairs::of(host::texts(batch), batch.rows);
        let scored = match (self.reference.as_deref(), &pairs) {
            (Some(reference), Some(pairs)) => self.score_pairs(reference, pairs, batch, pass),
            (None, _) | (_, None) => None,
        };
        scored.unwrap_or_else(|| self.policy.score(batch, pass, state))
    }

    fn seed(&self) -> u64 {
        self.policy.seed()
    }

    fn sample(&self, batch: &Batch) -> ProbeSample {
        self.policy.sample(batch)
    }

    fn networks(&self) -> Networks<'_> {
        self.policy.networks()
    }
}

shows_alone!(Preference, policy);
