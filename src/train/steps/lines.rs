//! The lines about training steps in the journal.

use super::Steps;
use crate::error::Result;
use crate::task::TrainableModel;
use crate::train::job::Report;
use crate::train::journal_lines;
use crate::train::journals::Journals;

impl<M: TrainableModel> Steps<M> {
    /// Writes a line of the journal if one is due, after reading the unread steps.
    pub(super) fn log_when_due(&mut self, lr: f64, journals: &mut Journals) -> Result<()> {
        let (config, state) = (&self.job.config, &self.job.state);
        let due = state.step.is_multiple_of(config.log_every.max(1)) || state.step == config.steps;
        if due || self.is_far_ahead() {
            self.read_unread_steps(journals)?;
        }
        match due && self.job.state.window.steps > 0 {
            true => self.log(lr, journals),
            false => Ok(()),
        }
    }

    /// Writes a line of the journal, and reports to the observer, from the sums since the last line.
    fn log(&mut self, lr: f64, journals: &mut Journals) -> Result<()> {
        let elapsed_s = self.elapsed();
        let timed = std::mem::take(&mut self.timed);
        let seconds = timed.seconds.max(1e-9);
        // Nothing was timed if every step since a resume was skipped.
        let per_second = |count: u64| (timed.steps > 0).then(|| count as f64 / seconds);
        let state = &mut self.job.state;
        let window = std::mem::take(&mut state.window);
        let left = self.job.config.steps - state.step;
        let loss = window.loss / window.weight;
        let perplexity = self
            .job
            .perplexity
            .then(|| ("perplexity".into(), loss.exp()));
        let report = Report {
            step: state.step,
            steps: self.job.config.steps,
            split: "train",
            epoch: self.epoch,
            loss,
            lr: Some(lr),
            grad_norm: Some(window.grad_norm / window.steps as f64),
            items_per_s: per_second(timed.items),
            unit: self.job.unit,
            elapsed_s,
            remaining_s: per_second(timed.steps).map(|speed| left as f64 / speed),
            metrics: window
                .added
                .into_iter()
                .map(|(name, added)| (name, added.sum / added.weight))
                .chain(perplexity)
                .collect(),
            part: None,
        };
        journals.append(&journal_lines::train(&report, state.items_seen))?;
        self.report(&report);
        Ok(())
    }
}
