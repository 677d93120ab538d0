//! Steps whose numbers the host has not read yet: it queues them, and reads their numbers at the next line of the
//! journal, evaluation or checkpoint.
//!
//! Whether a step is taken is decided on its device ([`Verdict`]). The host counts a step when it queues it and adds
//! its numbers to the sums when it reads them. If one of the steps was bad, nothing has changed since: the steps after
//! it are taken back, and the run ends as it does if every step is read at once.

use super::{LineTiming, Steps};
use crate::data::loader::Batch;
use crate::error::Result;
use crate::kernel;
use crate::task::TrainableModel;
use crate::task::output::LastValues;
use crate::train::checkpoint::moments;
use crate::train::device_step::{QueuedStep, StepTargets};
use crate::train::events::BarProgress;
use crate::train::gradients::Gradient;
use crate::train::job::DecidedOn;
use crate::train::journals::Journals;
use crate::train::verdict::Verdict;
use burn::optim::GradientsParams;
use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum number of unread steps, if lines of the journal are further apart.
const MAX_UNREAD: usize = 64;

/// A step whose numbers are on the device.
struct UnreadStep {
    /// Number of the step, from 1.
    number: u64,
    lr: f64,
    taken: QueuedStep,
    /// Examples of its batch, for the error message of a bad step.
    samples: Vec<u64>,
}

/// Steps that are not read yet.
#[derive(Default)]
pub(super) struct UnreadSteps {
    steps: Vec<UnreadStep>,
    verdict: Option<Verdict>,
    began: Option<Instant>,
}

impl<M: TrainableModel> Steps<M> {
    /// Returns whether the numbers of the next step can wait. Those of the first step cannot, because it creates the
    /// optimizer's state. Numbers are needed at once if the step may be skipped, is diagnosed, is shared by several
    /// ranks, or if its rows pass on a state.
    pub(super) fn can_wait(&self, batches: &[Batch], diagnosed: bool) -> bool {
        let (job, config) = (&self.job, &self.job.config);
        let scored = batches.first().is_some_and(|batch| batch.step_scored > 0);
        job.route == DecidedOn::Device
            && scored
            && !diagnosed
            && job.state.step > 0
            && job.carried.is_none()
            && !job.ranks.is_distributed()
            && !config.decides_on_host()
    }

    /// Updates the weights with a gradient that is not read, unless it is bad; `states` holds the batch norms'
    /// statistics before the step.
    pub(super) fn step_without_reading(
        &mut self,
        gradient: Gradient,
        states: GradientsParams,
        lr: f64,
        samples: Vec<u64>,
    ) -> Result<()> {
        self.replays.forget();
        let clip_norm = self.job.config.clip_norm;
        let before = self.late.verdict.as_ref().map(Verdict::taken);
        let (taken, verdict) =
            self.step_targets()
                .update_with(gradient, states, (lr, clip_norm), before)?;
        self.late.verdict = Some(verdict);
        self.queue_step(taken, lr, samples);
        Ok(())
    }

    /// Takes a step with [`Replays`](crate::train::device_step::Replays).
    pub(super) fn step_replayed(
        &mut self,
        batches: Vec<Batch>,
        lr: f64,
        samples: Vec<u64>,
        journals: &mut Journals,
    ) -> Result<()> {
        if !self.replays.are_ready() {
            // Read the waiting steps first, so that their tensors do not get in the way of a recording.
            self.read_unread_steps(journals)?;
        }
        let clip_norm = self.job.config.clip_norm;
        let mut replays = std::mem::take(&mut self.replays);
        let taken = replays.step(self.step_targets(), batches, (lr, clip_norm));
        self.replays = replays;
        self.queue_step(taken?, lr, samples);
        Ok(())
    }

    fn step_targets(&mut self) -> StepTargets<'_, M> {
        StepTargets {
            model: &mut self.model,
            optimizer: &mut self.job.optimizer,
            ema: &mut self.job.ema,
        }
    }

    /// Counts a step whose numbers are not read yet.
    fn queue_step(&mut self, taken: QueuedStep, lr: f64, samples: Vec<u64>) {
        let state = &mut self.job.state;
        state.step += 1;
        state.items_seen += taken.output.items;
        self.late.began.get_or_insert_with(Instant::now);
        self.late.steps.push(UnreadStep {
            number: state.step,
            lr,
            taken,
            samples,
        });
    }

    /// Returns whether so many steps are unread that they must be read now.
    pub(super) fn is_far_ahead(&self) -> bool {
        self.late.steps.len() >= MAX_UNREAD
    }

    /// Reads all unread steps in one transfer.
    ///
    /// # Errors
    /// If one of them was bad: the run ends, and the state before it is saved.
    pub(super) fn read_unread_steps(&mut self, journals: &mut Journals) -> Result<()> {
        let UnreadSteps { steps, began, .. } = std::mem::take(&mut self.late);
        if steps.is_empty() {
            return Ok(());
        }
        let tensors = steps.iter().flat_map(|step| {
            let squares = std::iter::once(step.taken.squares.clone());
            step.taken
                .output
                .unread
                .tensors()
                .into_iter()
                .chain(squares)
        });
        let numbers = kernel::read_scalars(tensors.collect());
        let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        let each = seconds / steps.len() as f64;
        let mut numbers = &numbers[..];
        let mut steps = steps.into_iter();
        while let Some(mut step) = steps.next() {
            let (own, rest) = numbers.split_at(step.taken.output.unread.tensors().len() + 1);
            numbers = rest;
            step.taken.output.take(own);
            let norm = own.last().map_or(f64::NAN, |x| f64::from(*x).sqrt());
            if let Some(reason) = self.divergence(step.taken.output.loss, norm) {
                let behind: Vec<UnreadStep> = steps.collect();
                return self.end_at_bad_step(&reason, &step, &behind, journals);
            }
            self.counted(step, norm, each);
        }
        Ok(())
    }

    /// Adds a step to the sums of the next line and shows it.
    fn counted(&mut self, step: UnreadStep, norm: f64, seconds: f64) {
        let UnreadStep {
            number, lr, taken, ..
        } = step;
        let mut output = taken.output;
        self.add_to_line(&output, norm);
        output.shown = LastValues {
            grad_norm: norm,
            lr,
            items_per_s: output.items as f64 / seconds,
        };
        let LineTiming {
            seconds: timed,
            steps,
            items,
        } = &mut self.timed;
        *timed += seconds;
        *steps += 1;
        *items += output.items;
        let of = self.round_length();
        let done = (number - 1) % of + 1;
        self.events.stepped(output, BarProgress { done, of });
    }

    /// Ends the run at a bad step: the counters are set back to those before it, which the weights, moments and
    /// averages still match.
    fn end_at_bad_step(
        &mut self,
        reason: &str,
        bad: &UnreadStep,
        behind: &[UnreadStep],
        journals: &mut Journals,
    ) -> Result<()> {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        for step in std::iter::once(bad).chain(behind) {
            self.job.state.items_seen -= step.taken.output.items;
            for id in &step.taken.updated {
                *times.entry(id.val()).or_default() += 1;
            }
        }
        self.job.state.step = bad.number - 1;
        self.job.optimizer = moments::rewind_counters(self.job.optimizer.clone(), &times)?;
        self.end_diverged(reason, &bad.samples, journals)
    }
}
