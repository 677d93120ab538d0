//! The step loop: gradients, update, journal, evaluation and checkpoint, in this order.

mod divergence;
mod evaluations;
mod lines;
mod ranks;
mod saving;
mod unread_steps;

use super::device_step::Replays;
use super::diagnostics::BeforeUpdate;
use super::events::{BarProgress, Events};
use super::exchange;
use super::gradients::Gradient;
use super::job::{DecidedOn, Job, Observer, Outcome, StopReason};
use super::journals::Journals;
use super::shard::Shard;
use super::{journal_lines, parameters};
use crate::data::loader::Share;
use crate::error::{Error, Result};
use crate::task::{StepOutput, TrainableModel, output::LastValues};
use burn::optim::GradientsParams;
use std::time::Instant;
use unread_steps::UnreadSteps;

/// A run in progress.
pub struct Steps<M: TrainableModel> {
    model: Option<M>,
    job: Job<M>,
    observer: Box<dyn Observer<M>>,
    events: Events<M>,
    started: Instant,
    elapsed_before: f64,
    timed: LineTiming,
    /// Passes over the data by the end of the last step.
    epoch: Option<f64>,
    /// Division of the optimizer's moments among ranks, if they are sharded.
    shard: Option<Shard>,
    /// Steps whose numbers are not read yet.
    late: UnreadSteps,
    /// Recording and replays of steps.
    replays: Replays,
}

/// The work of this process since the last line of the journal; after a resume, the line's sums include more.
#[derive(Default)]
struct LineTiming {
    seconds: f64,
    steps: u64,
    items: u64,
}

impl<M: TrainableModel> Steps<M> {
    fn model(&self) -> &M {
        match &self.model {
            Some(model) => model,
            None => unreachable!("a step puts the model back"),
        }
    }

    /// Builds a loop that begins at `job.state`.
    pub fn new(
        model: M,
        mut job: Job<M>,
        observer: Box<dyn Observer<M>>,
        events: Events<M>,
    ) -> Self {
        job.ranks.listen(&job.stop);
        if job.ranks.is_distributed() {
            let own = ranks::own_rows(&job);
            job.carried = job.carried.map(|state| state.rows(own));
        }
        Self {
            model: Some(model),
            started: Instant::now(),
            elapsed_before: job.state.elapsed_s,
            timed: LineTiming::default(),
            epoch: None,
            shard: None,
            late: UnreadSteps::default(),
            replays: Replays::default(),
            job,
            observer,
            events,
        }
    }

    /// Takes the steps; returns the model, the dashboard's events and the outcome.
    pub fn run(mut self) -> (M, Events<M>, Result<Outcome>) {
        let outcome = self.take_steps();
        let Some(model) = self.model else {
            unreachable!("a step puts the model back")
        };
        (model, self.events, outcome)
    }

    fn take_steps(&mut self) -> Result<Outcome> {
        if self.job.config.replay && self.job.ranks.is_distributed() {
            return Err(Error::usage(
                "[train] replay = true needs a single process: several exchange gradients within each step; remove it",
            ));
        }
        self.divide_moments()?;
        let job = &self.job;
        let diagnosed = job.diagnostics.is_some();
        let mut journals = match job.ranks.is_first() {
            true => Journals::open(&job.run, &job.state, diagnosed, job.journal)?,
            false => Journals::none(),
        };
        if let Some(note) = job.note.filter(|_| job.state.step < job.config.steps) {
            journals.append(&journal_lines::note(job.state.step, note))?;
        }
        let mut stop = match self.job.state.evaluation_due {
            true => {
                let (round, length) = (self.round(), self.round_length());
                self.events.round_begins(round, length);
                self.after_step(&mut journals)?
            }
            false => {
                let ended = self.end_reason();
                if ended.is_none() {
                    self.start_round();
                }
                ended
            }
        };
        let mut stream = ranks::stream(&self.job);
        loop {
            if let Some(stop) = stop {
                let round = self.round();
                self.events.steps_end(round);
                return self.finish(stop, &mut journals);
            }
            let Some(share) = stream.next() else {
                return Err(Error::run("the training data ended before the last step"));
            };
            stop = match self.step(share?, &mut journals)? {
                true => self.after_step(&mut journals)?,
                false => {
                    self.save_last_completed(&mut journals)?;
                    Some(StopReason::Interrupted)
                }
            };
        }
    }

    /// Takes one optimizer step: gradients of all micro-batches, clipping, update, journal. Returns `false` if a
    /// request to stop came between micro-batches: the step is not taken.
    fn step(&mut self, share: Share, journals: &mut Journals) -> Result<bool> {
        let began = Instant::now();
        let samples = share.samples().to_vec();
        self.epoch = share.epoch();
        let mut batches = exchange::batches(share, &self.job.ranks)?;
        let next = self.job.state.step + 1;
        let first = self.job.ranks.is_first();
        let diagnostics = self.job.diagnostics.filter(|d| first && d.measures(next));
        let late = self.can_wait(&batches, diagnostics.is_some());
        if !late {
            self.read_unread_steps(journals)?;
        }
        for batch in &mut batches {
            batch.steps = self.job.config.steps;
            batch.recompute = self.job.config.recompute;
            batch.keeps_sums_on_device = self.job.route == DecidedOn::Device;
        }
        if let Some(diagnostics) = &diagnostics {
            diagnostics.request_readings(&mut batches);
        }
        let lr = self.lr();
        if late && self.job.config.replay && lr > 0.0 && self.replays.fit(&batches) {
            self.step_replayed(batches, lr, samples, journals)?;
            return self.log_when_due(lr, journals).map(|()| true);
        }
        if self.replays.are_under_way() {
            // Only the recording knows whether its steps were good; this step must not be taken before they are read.
            self.read_unread_steps(journals)?;
        }
        self.update_teacher();
        let states = parameters::states(self.model());
        let (ranks, carried) = (&self.job.ranks, self.job.carried.as_ref());
        let leaves = || self.stop_requested_here();
        let made = exchange::accumulate(self.model(), batches, carried, &leaves, ranks)?;
        let Ok(gradient) = made else {
            let model = self.model.take();
            self.model = model.map(|model| parameters::with_states(model, states));
            return Ok(false);
        };
        if late {
            self.step_without_reading(gradient, states, lr, samples)?;
            return self.log_when_due(lr, journals).map(|()| true);
        }
        let mut gradient = gradient.read();
        match self.divergence(gradient.output.loss, gradient.norm) {
            Some(reason) => {
                let model = self.model.take();
                self.model = model.map(|model| parameters::with_states(model, states));
                self.skip_or_end(&reason, &gradient, &samples, journals)?;
            }
            None => {
                let before = diagnostics.map(|d| BeforeUpdate::new(d, self.model(), &mut gradient));
                self.update(gradient, lr, began)?;
                if let Some(before) = before {
                    journals.diagnose(&before.after(next, self.model()))?;
                }
                self.timed.seconds += began.elapsed().as_secs_f64();
            }
        }
        self.log_when_due(lr, journals).map(|()| true)
    }

    /// Returns the learning rate of the next step.
    fn lr(&self) -> f64 {
        let job = &self.job;
        job.schedule
            .lr(job.base_lr, job.state.step, job.config.steps)
    }

    /// Adds the numbers of a completed step to the sums of the next line.
    fn add_to_line(&mut self, output: &StepOutput, norm: f64) {
        let state = &mut self.job.state;
        let loss = output.loss.mean();
        journal_lines::add(&mut state.window, output, norm);
        state.mean_loss = Some(state.mean_loss.map_or(loss, |m| 0.98 * m + 0.02 * loss));
    }

    /// Clips the gradient, updates the weights and their average, and counts the step.
    fn update(&mut self, mut gradient: Gradient, lr: f64, began: Instant) -> Result<()> {
        self.replays.forget();
        gradient.clip(self.model(), self.job.config.clip_norm);
        let Some(model) = self.model.take() else {
            unreachable!("a step puts the model back")
        };
        let gradients = std::mem::replace(&mut gradient.gradients, GradientsParams::new());
        let model = self.optimize(model, gradients, lr)?;
        model.store_kept(&gradient.output);
        self.job.ema = self.job.ema.take().map(|ema| ema.update(&model));
        self.job.carried = gradient.output.state.take();
        self.model = Some(model);
        let state = &mut self.job.state;
        state.step += 1;
        state.skipped_in_a_row = 0;
        state.items_seen += gradient.output.items;
        let step = state.step;
        self.add_to_line(&gradient.output, gradient.norm);
        gradient.output.shown = LastValues {
            grad_norm: gradient.norm,
            lr,
            items_per_s: gradient.output.items as f64 / began.elapsed().as_secs_f64(),
        };
        self.timed.steps += 1;
        self.timed.items += gradient.output.items;
        let of = self.round_length();
        let done = (step - 1) % of + 1;
        self.events
            .stepped(gradient.output, BarProgress { done, of });
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        self.elapsed_before + self.started.elapsed().as_secs_f64()
    }

    fn round_length(&self) -> u64 {
        self.job.config.evaluation_interval()
    }

    fn round(&self) -> usize {
        (self.job.state.step.saturating_sub(1) / self.round_length()) as usize + 1
    }

    fn start_round(&mut self) {
        let length = self.round_length();
        let round = (self.job.state.step / length) as usize + 1;
        self.events.round_begins(round, length);
    }

    /// Returns why no further step is taken, judging by the steps and evaluations themselves.
    fn end_reason(&self) -> Option<StopReason> {
        let (config, state) = (&self.job.config, &self.job.state);
        if state.step >= config.steps {
            return Some(StopReason::Done);
        }
        let waited = state.evaluations_without_improvement;
        if state.step > 0 && config.patience.is_some_and(|p| waited >= p) {
            return Some(StopReason::NoImprovement);
        }
        let pause = self.job.pause_at.is_some_and(|at| state.step >= at);
        pause.then_some(StopReason::Paused)
    }

    /// Returns whether a signal or the dashboard asks this process to save and end.
    fn stop_requested_here(&self) -> bool {
        self.job.stop.is_raised() || self.events.asked_to_stop()
    }

    /// Returns whether the run is asked to save and end; the answer is the same on all ranks.
    fn asked_to_stop(&self) -> bool {
        self.job.ranks.asked_to_stop(self.stop_requested_here())
    }

    /// Returns whether a checkpoint is due after the last step, whatever comes next.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        let (config, state) = (&self.job.config, &self.job.state);
        match config.checkpoint_every {
            Some(every) => state.step.is_multiple_of(every.max(1)),
            None => {
                state.step.is_multiple_of(config.evaluation_interval())
                    || state.step == config.steps
            }
        }
    }

    /// Handles evaluation, checkpoint and requests to stop; returns the reason if the run ends.
    fn after_step(&mut self, journals: &mut Journals) -> Result<Option<StopReason>> {
        let step = self.job.state.step;
        if step.is_multiple_of(self.round_length()) || step == self.job.config.steps {
            // Nothing is due after a step that turns out to be bad.
            self.read_unread_steps(journals)?;
            self.job.state.evaluation_due = true;
        }
        let evaluates = self.job.state.evaluation_due;
        let due = self.checkpoint_is_due();
        self.job.state.interim = !due;
        let mut improved = false;
        if evaluates {
            let round = self.round();
            self.events.steps_end(round);
            let Some(better) = self.evaluate(round, journals)? else {
                self.save(journals)?;
                return Ok(Some(StopReason::Interrupted));
            };
            improved = better;
            self.events.round_ends(round);
        }
        let mut stop = self.end_reason();
        if stop.is_none() && self.asked_to_stop() {
            stop = Some(StopReason::Interrupted);
        }
        let ended = matches!(stop, Some(StopReason::Done | StopReason::NoImprovement));
        self.job.state.interim = !(due || improved || ended);
        if !self.job.state.interim || stop.is_some() {
            self.save(journals)?;
        }
        if evaluates && stop.is_none() {
            self.start_round();
        }
        Ok(stop)
    }
}
