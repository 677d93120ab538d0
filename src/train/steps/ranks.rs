//! What a run of several processes does differently from one: each rank has its micro-batches and their rows, the first
//! rank has the observer and the files, and all ranks take every step together.

use super::Steps;
use crate::data::loader::{self, Share, TrainStream};
use crate::error::{Error, Result};
use crate::stack::state::ModelState;
use crate::task::TrainableModel;
use crate::train::checkpoint;
use crate::train::gradients;
use crate::train::job::{Job, Report};
use crate::train::shard::Shard;
use burn::optim::GradientsParams;
use std::collections::BTreeMap;
use std::ops::Range;

/// Returns the stream of the remaining steps, each with the micro-batches of this rank.
pub(super) fn stream<M: TrainableModel>(job: &Job<M>) -> TrainStream<Share> {
    let (rank, count) = (job.ranks.rank(), job.ranks.count());
    loader::share_stream(
        job.train.clone(),
        job.config.order(job.seed).repeated(job.updates),
        job.config.micro_batch_size(),
        job.state.step,
        move |all| gradients::subtree_ranges(all, count).swap_remove(rank),
    )
}

/// Returns the rows of every step that this rank computes, if all steps have the same number of rows.
pub(super) fn own_rows<M: TrainableModel>(job: &Job<M>) -> Range<usize> {
    let (all, each) = (job.config.batch_size, job.config.micro_batch_size().max(1));
    let ranks = &job.ranks;
    let share =
        gradients::subtree_ranges(all.div_ceil(each), ranks.count()).swap_remove(ranks.rank());
    (share.start * each).min(all)..(share.end * each).min(all)
}

impl<M: TrainableModel> Steps<M> {
    /// Passes a line of the journal to the observer, on the first rank.
    pub(super) fn report(&mut self, report: &Report) {
        if self.job.ranks.is_first() {
            self.observer.report(report);
        }
    }

    /// Keeps only this rank's share of the moments, if they are sharded.
    pub(super) fn divide_moments(&mut self) -> Result<()> {
        if self.job.config.shard_optimizer && self.job.ranks.is_distributed() {
            let shard = Shard::new(self.model(), &self.job.state_sizes, &self.job.ranks);
            self.job.optimizer = shard.keep_own_moments(self.job.optimizer.clone())?;
            self.shard = Some(shard);
        }
        Ok(())
    }

    /// Updates the model; if another rank fails, the model is kept in `self`.
    pub(super) fn optimize(&mut self, model: M, gradients: GradientsParams, lr: f64) -> Result<M> {
        let optimizer = &mut self.job.optimizer;
        let Some(shard) = &self.shard else {
            return Ok(model.optimize(optimizer, lr.into(), gradients));
        };
        let own = shard.own_gradients(&model, gradients);
        let model = shard.own_values(model, &own.moved);
        let model = model.optimize(optimizer, lr.into(), own.gradients);
        let (model, exchanged) = shard.exchange_values(model, &own.moved);
        match exchanged {
            Ok(()) => Ok(model),
            Err(error) => {
                self.model = Some(model);
                Err(error)
            }
        }
    }

    /// Returns the observer's metrics of the validation split, measured by the first rank; `None` if it was interrupted.
    pub(super) fn measure_validation(
        &mut self,
        model: &M,
    ) -> Result<Option<BTreeMap<String, f64>>> {
        let observer = &mut self.observer;
        if !self.job.ranks.is_distributed() {
            return observer.scores(model);
        }
        let bytes = self.job.ranks.broadcast(|| {
            let scores = observer.scores(model)?.map(|scores| {
                let bits = scores.into_iter().map(|(name, x)| (name, x.to_bits()));
                bits.collect::<Vec<(String, u64)>>()
            });
            serde_json::to_vec(&scores).map_err(|e| Error::run(e.to_string()))
        })?;
        let scores: Option<Vec<(String, u64)>> =
            serde_json::from_slice(&bytes).map_err(|e| Error::run(e.to_string()))?;
        Ok(scores.map(|scores| {
            let scores = scores.into_iter();
            scores.map(|(name, x)| (name, f64::from_bits(x))).collect()
        }))
    }

    /// Has the observer of the first rank write the samples of an evaluation; `false` if it was interrupted.
    pub(super) fn write_samples(&mut self, step: u64, model: &M) -> Result<bool> {
        let observer = &mut self.observer;
        if !self.job.ranks.is_distributed() {
            return observer.sampled(step, model);
        }
        let own = || Ok(vec![u8::from(observer.sampled(step, model)?)]);
        let answer = self.job.ranks.broadcast(own)?;
        Ok(answer == [1])
    }

    /// Tells the observer that an evaluation has ended.
    pub(super) fn evaluated(&mut self, step: u64) -> Result<()> {
        match self.job.ranks.is_first() {
            true => self.observer.evaluated(step),
            false => Ok(()),
        }
    }

    /// Gathers the state carried by the rows of all ranks, if there are several ranks and state is carried.
    pub(super) fn gather_state(&self) -> Result<Option<ModelState>> {
        match (&self.job.carried, self.job.ranks.is_distributed()) {
            (Some(own), true) => checkpoint::gather(own, &self.job.ranks).map(Some),
            (None, _) | (_, false) => Ok(None),
        }
    }

    /// Returns whether `own` is true on every rank.
    pub(super) fn all_agree(&self, own: bool) -> Result<bool> {
        let answers = self.job.ranks.all_gather(&[u8::from(own)])?;
        Ok(answers.iter().all(|answer| answer == &[1]))
    }
}
