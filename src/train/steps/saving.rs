//! Checkpoints during a run, and its end.

use super::Steps;
use crate::error::{Error, Result};
use crate::task::TrainableModel;
use crate::train::checkpoint::{self, CheckpointContents};
use crate::train::job::{Outcome, StopReason};
use crate::train::journals::Journals;

impl<M: TrainableModel> Steps<M> {
    /// Saves the last completed step after one was abandoned. Before the first step there is nothing to save that a
    /// resumed run would not recompute.
    pub(super) fn save_last_completed(&mut self, journals: &mut Journals) -> Result<()> {
        match self.job.state.step {
            0 => Ok(()),
            _ => self.save(journals),
        }
    }

    /// Writes a checkpoint of the last step; the first rank writes it.
    pub(super) fn save(&mut self, journals: &mut Journals) -> Result<()> {
        self.read_unread_steps(journals)?;
        self.require_finite()?;
        let all_rows = self.gather_state()?;
        let moments = match &self.shard {
            Some(shard) => shard.gather_moments(&self.job.optimizer)?,
            None => Vec::new(),
        };
        if !self.job.ranks.is_first() {
            return Ok(());
        }
        journals.commit(&mut self.job.state)?;
        self.job.state.samples_bytes = self.observer.commit_samples()?;
        self.job.state.elapsed_s = self.elapsed();
        let parts = CheckpointContents {
            model: self.model(),
            optimizer: &self.job.optimizer,
            ema: self.job.ema.as_ref(),
            carried: all_rows.as_ref().or(self.job.carried.as_ref()),
            state: &self.job.state,
        };
        checkpoint::save_all(&self.job.run, &parts, moments, self.job.config.keep_last)?;
        self.observer.saved(self.job.state.step);
        Ok(())
    }

    /// Ends the run: computes its scores, if it was neither interrupted nor paused.
    pub(super) fn finish(
        &mut self,
        stopped: StopReason,
        journals: &mut Journals,
    ) -> Result<Outcome> {
        let paused = stopped == StopReason::Paused;
        // A run resumed at its end has its weights, but not the scores, which only its last process held.
        if stopped == StopReason::Interrupted || !paused && !self.ensure_last_scores()? {
            return Err(Error::Interrupted {
                step: self.job.state.step,
                run: self.job.run.root().to_path_buf(),
            });
        }
        journals.commit(&mut self.job.state)?;
        let state = &self.job.state;
        Ok(Outcome {
            step: state.step,
            stopped,
            best: state.best.map(|b| (b.step, b.value)),
            last: self.job.last_scores.clone().filter(|_| !paused),
            elapsed_s: self.elapsed(),
            skipped: state.skipped_steps,
        })
    }
}
