//! Steps that must not be taken, and weights that must not be saved.

use super::Steps;
use crate::error::{Error, Result};
use crate::stack::state::ModelState;
use crate::task::TrainableModel;
use crate::task::output::Sum;
use crate::train::checkpoint;
use crate::train::config::OnDivergence;
use crate::train::exchange;
use crate::train::gradients::Gradient;
use crate::train::journal_lines;
use crate::train::journals::Journals;
use crate::train::norms;

/// Consecutive skipped steps after which a run that skips them gives up.
const MAX_SKIPPED: u64 = 20;

/// The remedy for a loss or a gradient that is too large.
const LOWER: &str = "lower the learning rate";

/// The remedy for steps without a loss.
const SCORE: &str = "remove such examples, or use more examples in a step";

/// Returns the advice if steps are not skipped.
fn stop_advice(remedy: &str) -> String {
    format!("{remedy}, or set on_divergence = \"skip\" in [train]")
}

impl<M: TrainableModel> Steps<M> {
    /// Returns why this step must not be taken, if so.
    pub(super) fn divergence(&self, loss: Sum, norm: f64) -> Option<String> {
        if loss.weight == 0.0 {
            return Some("its batch has no scored position and hence no loss".into());
        }
        let loss = loss.mean();
        if !loss.is_finite() {
            return Some(format!("the loss is {loss}"));
        }
        if !norm.is_finite() {
            return Some(format!("the gradient's norm is {norm}"));
        }
        let (factor, mean) = (self.job.config.spike_factor?, self.job.state.mean_loss?);
        (self.job.state.step >= 20 && loss > factor * mean)
            .then(|| format!("the loss {loss:.4} is above {factor} times its mean {mean:.4}"))
    }

    /// Returns the carried state after a skipped step: the step's text was read, and rows continue after it. A state
    /// that is not finite is dropped, and rows begin empty.
    fn state_after_skip(&self, gradient: &Gradient) -> Result<Option<ModelState>> {
        let Some(state) = gradient.output.state.clone() else {
            return Ok(None);
        };
        Ok(match self.all_agree(state.is_finite())? {
            true => Some(state),
            false => self.model().empty_state(),
        })
    }

    /// Skips the step, or ends the run with the state before it saved.
    pub(super) fn skip_or_end(
        &mut self,
        reason: &str,
        gradient: &Gradient,
        samples: &[u64],
        journals: &mut Journals,
    ) -> Result<()> {
        let state = &self.job.state;
        let step = state.step + 1;
        let remedy = match gradient.output.loss.weight == 0.0 {
            true => SCORE,
            false => LOWER,
        };
        let (last_straw, advice) = match self.job.config.on_divergence {
            OnDivergence::Stop => (true, stop_advice(remedy)),
            OnDivergence::Skip => (
                state.skipped_in_a_row + 1 >= MAX_SKIPPED,
                format!("{MAX_SKIPPED} steps in a row were skipped: {remedy}"),
            ),
        };
        if !last_straw {
            let passed_on = self.state_after_skip(gradient)?;
            let state = &mut self.job.state;
            state.step = step;
            state.skipped_steps += 1;
            state.skipped_in_a_row += 1;
            self.job.carried = passed_on;
            journals.append(&journal_lines::skipped(
                step,
                gradient.output.loss.mean(),
                samples,
            ))?;
            if self.job.ranks.is_first() {
                self.observer.skipped(step, reason);
            }
            return Ok(());
        }
        self.save_and_fail(reason, samples, &advice, journals)
    }

    /// Ends a run whose next step is bad and that does not skip such steps.
    pub(super) fn end_diverged(
        &mut self,
        reason: &str,
        samples: &[u64],
        journals: &mut Journals,
    ) -> Result<()> {
        self.save_and_fail(reason, samples, &stop_advice(LOWER), journals)
    }

    /// Saves the state before the next step if its weights are finite, and returns the error that ends the run.
    fn save_and_fail(
        &mut self,
        reason: &str,
        samples: &[u64],
        advice: &str,
        journals: &mut Journals,
    ) -> Result<()> {
        let step = self.job.state.step + 1;
        let kept = if is_finite(self.squares()) {
            let is_best = self
                .job
                .state
                .best
                .is_some_and(|best| best.step == step - 1);
            self.job.state.interim = !(self.checkpoint_is_due() || is_best);
            self.save(journals)?;
            let folder = self.job.run.steps().join(checkpoint::folder_name(step - 1));
            format!("the state before it is saved in {}", folder.display())
        } else {
            format!(
                "the weights before it were already infinite or not numbers and are not saved; {}",
                self.newest_kept()
            )
        };
        journals.append(&journal_lines::diverged(step, samples))?;
        Err(Error::run(format!(
            "step {step} diverged: {reason}; its batch contains the samples {samples:?}; {kept}; {advice}"
        )))
    }

    /// Fails if the weights are not finite: saved, they would push out good checkpoints.
    pub(super) fn require_finite(&self) -> Result<()> {
        let squares = self.squares();
        exchange::require_identical(
            &self.job.ranks,
            squares,
            "sum of the squares of all weights",
        )?;
        if is_finite(squares) {
            return Ok(());
        }
        Err(Error::run(format!(
            "step {} produced weights that are infinite or not numbers; they are not saved; {}; lower the learning rate",
            self.job.state.step,
            self.newest_kept()
        )))
    }

    /// Returns the sum of the squares of all weights.
    fn squares(&self) -> f64 {
        norms::weight_squares(self.model())
    }

    fn newest_kept(&self) -> String {
        match checkpoint::newest_complete(self.job.run.root()).found {
            Some(found) => format!("the newest checkpoint is {}", found.folder().display()),
            None => "there is no earlier checkpoint".into(),
        }
    }
}

/// Whether weights with this sum of squares are finite. Kernels may accumulate in double precision; no loss can be
/// computed from weights whose squares overflow single precision.
fn is_finite(squares: f64) -> bool {
    squares <= f64::from(f32::MAX)
}
