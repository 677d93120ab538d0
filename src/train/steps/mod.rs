//! The step loop: gradients, update, journal, evaluation, checkpoint, in this order and nowhere else.

use super::checkpoint::{self, Best, Parts};
use super::config::OnDivergence;
use super::evaluation::{Extent, Scores, Split, evaluate};
use super::events::{Events, Part};
use super::job::{Job, Observer, Outcome, Report, Stopped};
use super::journal::Journal;
use super::{gradients, record, run_dir};
use crate::data::loader::{self, Batch};
use crate::error::{Error, Result};
use crate::task::Task;
use crate::task::output::Shown;
use std::time::Instant;

/// A run in progress.
pub struct Steps<M: Task> {
    model: Option<M>,
    job: Job<M>,
    observer: Box<dyn Observer<M>>,
    events: Events<M>,
    started: Instant,
    elapsed_before: f64,
    /// Seconds of the steps since the last line of the journal.
    window_s: f64,
}

impl<M: Task> Steps<M> {
    fn model(&self) -> &M {
        match &self.model {
            Some(model) => model,
            None => unreachable!("a step puts the model back"),
        }
    }

    /// A loop that begins where `job.state` says.
    pub fn new(model: M, job: Job<M>, observer: Box<dyn Observer<M>>, events: Events<M>) -> Self {
        Self {
            model: Some(model),
            started: Instant::now(),
            elapsed_before: job.state.elapsed_s,
            window_s: 0.0,
            job,
            observer,
            events,
        }
    }

    /// Takes the steps; gives back the model, the dashboard's side and how it ended.
    pub fn run(mut self) -> (M, Events<M>, Result<Outcome>) {
        let outcome = self.take_steps();
        let Some(model) = self.model else {
            unreachable!("a step puts the model back")
        };
        (model, self.events, outcome)
    }

    fn take_steps(&mut self) -> Result<Outcome> {
        let config = &self.job.config;
        let total = config.steps;
        let path = self.job.run.path(run_dir::METRICS);
        let mut journal = Journal::open(path, self.job.state.journal_bytes)?;
        let mut stream = loader::train_stream(
            self.job.train.clone(),
            self.job.seed,
            config.batch_size,
            config.micro_batch_size(),
            self.job.state.step,
        );
        self.start_round();
        while self.job.state.step < total {
            let Some(batches) = stream.next() else {
                return Err(Error::run("the training data ended before the last step"));
            };
            self.step(batches?, &mut journal)?;
            let stop = self.after_step(&mut journal)?;
            if let Some(stop) = stop {
                let round = self.round();
                self.events.steps_end(round);
                return self.finish(stop, &mut journal);
            }
        }
        self.finish(Stopped::Done, &mut journal)
    }

    /// One optimizer step: gradients of all micro-batches, clipping, update, journal.
    fn step(&mut self, batches: Vec<Batch>, journal: &mut Journal) -> Result<()> {
        let began = Instant::now();
        let samples: Vec<u64> = batches.iter().flat_map(|b| b.samples.clone()).collect();
        let mut gradient = gradients::accumulate(self.model(), batches);
        let loss = gradient.output.loss.mean();
        if let Some(reason) = self.divergence(loss, gradient.norm) {
            return self.diverged(reason, loss, &samples, journal);
        }
        gradient.clip(self.model(), self.job.config.clip_norm);
        let state = &mut self.job.state;
        let lr = self
            .job
            .schedule
            .lr(self.job.base_lr, state.step, self.job.config.steps);
        let Some(model) = self.model.take() else {
            unreachable!("a step puts the model back")
        };
        let model = model.optimize(&mut self.job.optimizer, lr.into(), gradient.gradients);
        self.job.ema = self.job.ema.take().map(|ema| ema.update(&model));
        self.model = Some(model);
        state.step += 1;
        state.items_seen += gradient.output.items;
        record::add(&mut state.window, &gradient.output, gradient.norm);
        state.mean_loss = Some(state.mean_loss.map_or(loss, |m| 0.98 * m + 0.02 * loss));
        gradient.output.shown = Shown {
            grad_norm: gradient.norm,
            lr,
            items_per_s: gradient.output.items as f64 / began.elapsed().as_secs_f64(),
        };
        self.window_s += began.elapsed().as_secs_f64();
        let (step, of) = (state.step, self.round_length());
        let done = (step - 1) % of + 1;
        self.events.stepped(gradient.output, Part { done, of });
        let config = &self.job.config;
        if step % config.log_every.max(1) == 0 || step == config.steps {
            self.log(lr, journal)?;
        }
        Ok(())
    }

    /// Why this step must not be taken, if it must not.
    fn divergence(&self, loss: f64, norm: f64) -> Option<String> {
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

    fn diverged(
        &mut self,
        reason: String,
        loss: f64,
        samples: &[u64],
        journal: &mut Journal,
    ) -> Result<()> {
        let step = self.job.state.step + 1;
        match self.job.config.on_divergence {
            OnDivergence::Skip => {
                self.job.state.step = step;
                self.job.state.skipped_steps += 1;
                journal.append(&record::skipped(step, loss, samples))
            }
            OnDivergence::Stop => {
                self.save(journal)?;
                Err(Error::run(format!(
                    "step {step} diverged: {reason}; its batch holds the samples {samples:?}; the state before it \
                     is saved in {}; lower the learning rate, or set on_divergence = \"skip\" in [train]",
                    self.job
                        .run
                        .steps()
                        .join(checkpoint::name(step - 1))
                        .display()
                )))
            }
        }
    }

    /// A line of the journal, and a report to the observer, from the sums since the last one.
    fn log(&mut self, lr: f64, journal: &mut Journal) -> Result<()> {
        let elapsed_s = self.elapsed();
        let seconds = std::mem::take(&mut self.window_s).max(1e-9);
        let state = &mut self.job.state;
        let window = std::mem::take(&mut state.window);
        let left = self.job.config.steps - state.step;
        let report = Report {
            step: state.step,
            steps: self.job.config.steps,
            split: "train",
            loss: window.loss / window.weight,
            lr: Some(lr),
            grad_norm: Some(window.grad_norm / window.steps as f64),
            // After a resume the window began in another process: the speed is that of the steps timed here.
            items_per_s: Some(window.items as f64 / seconds),
            elapsed_s,
            left_s: Some(seconds / window.steps as f64 * left as f64),
            metrics: Default::default(),
        };
        journal.append(&record::train(&report, state.items_seen))?;
        self.observer.report(&report);
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        self.elapsed_before + self.started.elapsed().as_secs_f64()
    }

    fn round_length(&self) -> u64 {
        let config = &self.job.config;
        config
            .eval_every
            .unwrap_or(config.steps)
            .clamp(1, config.steps.max(1))
    }

    fn round(&self) -> usize {
        (self.job.state.step.saturating_sub(1) / self.round_length()) as usize + 1
    }

    fn start_round(&mut self) {
        let length = self.round_length();
        let round = (self.job.state.step / length) as usize + 1;
        self.events.round_begins(round, length);
    }

    /// Evaluation, checkpoint and requests to stop; what ends the run, if anything does.
    fn after_step(&mut self, journal: &mut Journal) -> Result<Option<Stopped>> {
        let (step, total) = (self.job.state.step, self.job.config.steps);
        let every = self.round_length();
        let evaluates = step % every == 0 || step == total;
        let mut improved = false;
        let mut stop = None;
        if evaluates {
            let round = self.round();
            self.events.steps_end(round);
            improved = self.evaluate(round, step == total, journal)?;
            self.events.round_ends(round);
            if step < total {
                self.start_round();
            }
            let patience = self.job.config.patience;
            if patience.is_some_and(|p| self.job.state.evaluations_without_improvement >= p) {
                stop = Some(Stopped::Early);
            }
        }
        if self.job.stop.is_raised() || self.events.asked_to_stop() {
            stop = Some(Stopped::Interrupted);
        }
        let due = match self.job.config.checkpoint_every {
            Some(every) => step % every.max(1) == 0,
            None => evaluates,
        };
        if due || improved || stop.is_some() || step == total {
            self.save(journal)?;
        }
        Ok(stop)
    }

    /// Evaluates, writes the line, and says whether this is the best so far.
    fn evaluate(&mut self, round: usize, last: bool, journal: &mut Journal) -> Result<bool> {
        let Some(valid) = self.job.valid.clone() else {
            return Ok(false);
        };
        let extent = if last {
            Extent::whole(&self.job.config)
        } else {
            Extent::on_the_way(&self.job.config)
        };
        let model = self.evaluation_model();
        let scores = self.score(&model, &valid, extent, round)?;
        let state = &mut self.job.state;
        let improved = state.best.is_none_or(|best| scores.loss < best.value);
        if improved {
            state.best = Some(Best {
                step: state.step,
                value: scores.loss,
            });
            state.evaluations_without_improvement = 0;
        } else {
            state.evaluations_without_improvement += 1;
        }
        let step = state.step;
        let report = Report {
            step,
            steps: self.job.config.steps,
            split: "valid",
            loss: scores.loss,
            lr: None,
            grad_norm: None,
            items_per_s: None,
            elapsed_s: self.elapsed(),
            left_s: None,
            metrics: scores.metrics.clone(),
        };
        journal.append(&record::valid(&report))?;
        self.observer.report(&report);
        self.job.last = Some(scores);
        self.observer.evaluated(step, &model)?;
        Ok(improved)
    }

    fn score(&mut self, model: &M, valid: &Split, extent: Extent, round: usize) -> Result<Scores> {
        let events = &mut self.events;
        let all = valid.source.len().div_ceil(extent.batch_size.max(1));
        events.evaluation_begins(round, extent.batches.map_or(all, |b| b.min(all)));
        let scores = evaluate(model, valid, extent, |output, done, of| {
            events.evaluated(output.clone(), Part { done, of });
        });
        events.evaluation_ends(round);
        scores
    }

    /// The weights that evaluations use: the moving average when there is one.
    fn evaluation_model(&self) -> M {
        match &self.job.ema {
            Some(ema) => ema.model().clone(),
            None => self.model().valid(),
        }
    }

    fn save(&mut self, journal: &mut Journal) -> Result<()> {
        self.job.state.journal_bytes = journal.commit()?;
        self.job.state.samples_bytes = self.observer.samples_bytes();
        self.job.state.elapsed_s = self.elapsed();
        let parts = Parts {
            model: self.model(),
            optimizer: &self.job.optimizer,
            ema: self.job.ema.as_ref(),
            state: &self.job.state,
        };
        checkpoint::save(&self.job.run, &parts, self.job.config.keep_last)?;
        Ok(())
    }

    fn finish(&mut self, stopped: Stopped, journal: &mut Journal) -> Result<Outcome> {
        let state = &self.job.state;
        if stopped == Stopped::Interrupted {
            return Err(Error::Interrupted {
                step: state.step,
                run: self.job.run.root().to_path_buf(),
            });
        }
        journal.commit()?;
        Ok(Outcome {
            step: state.step,
            stopped,
            best: state.best.map(|b| (b.step, b.value)),
            last: self.job.last.clone(),
            elapsed_s: self.elapsed(),
            skipped: state.skipped_steps,
        })
    }
}
