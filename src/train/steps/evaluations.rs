//! Evaluations of a run: which is the best, what is written, and how one is interrupted.
//!
//! Evaluations are compared by the loss on the same items: `eval_batches` batches of a part that is drawn at random and
//! is always the same, also if the whole split is read; or by another metric of the whole split (`best_by`). The
//! evaluation that ends the run reads the whole split in the same pass, this part first.

use super::Steps;
use crate::data::sample::SampleFirst;
use crate::error::Result;
use crate::task::TrainableModel;
use crate::train::checkpoint::Best;
use crate::train::evaluation::{Evaluation, Scores, Split};
use crate::train::events::BarProgress;
use crate::train::job::Report;
use crate::train::journal_lines;
use crate::train::journals::Journals;
use std::sync::Arc;

/// Scores and the value that evaluations are compared by.
struct EvaluationResult {
    scores: Scores,
    compared: f64,
    /// Description of the part of the split that was read, if it was not all.
    part: Option<String>,
    /// Scores of the compared part, if more was read.
    of_part: Option<Scores>,
}

impl<M: TrainableModel> Steps<M> {
    /// Runs the evaluation that is due, writes its line, and returns whether it is the best so far. `None` if a request
    /// to stop interrupted it: it stays due, and its results are discarded.
    pub(super) fn evaluate(
        &mut self,
        round: usize,
        journals: &mut Journals,
    ) -> Result<Option<bool>> {
        let Some(valid) = self.job.valid.clone() else {
            self.job.state.evaluation_due = false;
            return Ok(Some(false));
        };
        let whole = self.job.state.step >= self.job.config.steps;
        let model = self.evaluation_model();
        let Some(scored) = self.score(&model, &valid, whole, round)? else {
            return Ok(None);
        };
        let EvaluationResult {
            scores,
            compared,
            part,
            of_part,
        } = scored;
        let step = self.job.state.step;
        if !self.write_samples(step, &model)? {
            return Ok(None);
        }
        let improved = self.improves(compared);
        let waited = self.count_without_improvement(compared);
        let state = &mut self.job.state;
        state.evaluation_due = false;
        state.evaluations_without_improvement = waited;
        if improved {
            state.best = Some(Best {
                step: state.step,
                value: compared,
            });
        }
        let report = Report {
            step,
            steps: self.job.config.steps,
            split: "valid",
            epoch: None,
            loss: scores.loss,
            lr: None,
            grad_norm: None,
            items_per_s: None,
            unit: self.job.unit,
            elapsed_s: self.elapsed(),
            remaining_s: None,
            metrics: scores.metrics.clone(),
            part,
        };
        journals.append(&journal_lines::valid(&report, of_part.as_ref()))?;
        self.report(&report);
        self.job.last_scores = Some(scores);
        self.evaluated(step)?;
        Ok(Some(improved))
    }

    /// Ensures that a run that has ended has scores: evaluates again if this process does not hold them. Returns
    /// `false` if a request to stop interrupted that.
    pub(super) fn ensure_last_scores(&mut self) -> Result<bool> {
        let (None, Some(valid)) = (&self.job.last_scores, self.job.valid.clone()) else {
            return Ok(true);
        };
        let (model, round) = (self.evaluation_model(), self.round());
        self.job.last_scores = self
            .score(&model, &valid, true, round)?
            .map(|scored| scored.scores);
        Ok(self.job.last_scores.is_some())
    }

    /// Runs one pass over the split or a part of it; `None` if a request to stop interrupted it.
    fn score(
        &mut self,
        model: &M,
        valid: &Split,
        whole: bool,
        round: usize,
    ) -> Result<Option<EvaluationResult>> {
        let config = &self.job.config;
        let size = config.eval_batch_size();
        let all = Evaluation::size(valid, size).batches(valid.source.len());
        let first = config.eval_batches.unwrap_or(all).clamp(1, all.max(1));
        // With carried state, each lane is read from its beginning.
        let drawn = self.job.state.drawn_part && !valid.carries_state && first < all;
        let mut split = valid.clone();
        if drawn {
            split.source = Arc::new(SampleFirst::new(split.source, first.saturating_mul(size)));
        }
        let mut pass = Evaluation::on_ranks(&split, size, self.job.ranks.clone());
        let mut wanted = if whole { all } else { first };
        let (mut compared, mut of_part) = (f64::NAN, None);
        let mut broken_off = false;
        self.events.evaluation_begins(round, wanted);
        for done in 1.. {
            broken_off = done <= wanted && self.asked_to_stop();
            if done > wanted || broken_off {
                break;
            }
            let Some(output) = pass.step(model)? else {
                break;
            };
            let part = BarProgress {
                done: done as u64,
                of: wanted as u64,
            };
            self.events.evaluated(output, part);
            if done == first {
                compared = pass.loss();
                if self.exhausts_patience(compared) {
                    wanted = all;
                }
                of_part = (first < wanted).then(|| pass.scores()).transpose()?;
            }
        }
        self.events.evaluation_ends(round);
        if broken_off {
            return Ok(None);
        }
        let mut scores = pass.scores()?;
        match self.measure_validation(model)? {
            Some(more) => scores.metrics.extend(more),
            None => return Ok(None),
        }
        if let Some(metric) = &self.job.config.best_by {
            compared = scores.comparison_value(metric)?;
        }
        Ok(Some(EvaluationResult {
            scores,
            compared,
            part: (wanted < all).then(|| match drawn {
                true => format!("{first} of {all} batches, drawn at random"),
                false => format!("the first {first} of {all} batches"),
            }),
            of_part,
        }))
    }

    /// Whether a loss is the best so far; a loss that is not finite never is.
    fn improves(&self, loss: f64) -> bool {
        loss.is_finite() && self.job.state.best.is_none_or(|best| loss < best.value)
    }

    /// Number of evaluations without improvement, counting one with this loss.
    fn count_without_improvement(&self, loss: f64) -> u64 {
        match self.improves(loss) {
            true => 0,
            false => self.job.state.evaluations_without_improvement + 1,
        }
    }

    /// Whether an evaluation with this loss ends the run.
    fn exhausts_patience(&self, loss: f64) -> bool {
        let waited = self.count_without_improvement(loss);
        self.job.config.patience.is_some_and(|p| waited >= p)
    }

    /// Returns the model that evaluations use: the moving average if there is one.
    fn evaluation_model(&self) -> M {
        match &self.job.ema {
            Some(ema) => ema.model().clone(),
            None => self.model().valid(),
        }
    }

    /// Hands the average of the weights to a model that learns from it as from a teacher.
    pub(super) fn update_teacher(&mut self) {
        if let Some(ema) = &self.job.ema {
            let model = self.model.take();
            self.model = model.map(|model| model.with_average_teacher(ema.model()));
        }
    }
}
