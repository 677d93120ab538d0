//! The dashboard's side of a run: what happens, sent as burn-train's events.
//!
//! A round is the stretch between two evaluations; the dashboard calls it an epoch.

use super::view;
use crate::task::{StepOutput, TrainableModel};
use burn::train::{
    EventProcessorTraining, Interrupter, LearnerEvent, SupervisedTrainingEventProcessor,
    TrainingItem,
};

/// Sends events to burn-train's metrics and renderer.
pub struct Events<M: TrainableModel> {
    processor: SupervisedTrainingEventProcessor<M>,
    interrupter: Interrupter,
}

/// A stretch of a run, for its progress bar.
#[derive(Clone, Copy, Debug)]
pub struct BarProgress {
    /// Steps or batches done.
    pub done: u64,
    /// Steps or batches in all.
    pub of: u64,
}

impl<M: TrainableModel> Events<M> {
    /// Builds the sender for one run.
    pub fn new(processor: SupervisedTrainingEventProcessor<M>, interrupter: Interrupter) -> Self {
        Self {
            processor,
            interrupter,
        }
    }

    /// Gives the processor back to burn-train.
    pub fn into_processor(self) -> SupervisedTrainingEventProcessor<M> {
        self.processor
    }

    /// Returns whether the user asked the dashboard to stop.
    pub fn asked_to_stop(&self) -> bool {
        self.interrupter.should_stop()
    }

    /// Reports that a round of `steps` steps begins.
    pub fn round_begins(&mut self, round: usize, steps: u64) {
        self.train(LearnerEvent::StartSplit {
            epoch_number: round,
            total_items: steps as usize,
        });
    }

    /// Reports a step that was taken.
    pub fn stepped(&mut self, output: StepOutput, part: BarProgress) {
        self.train(item(output, part));
    }

    /// Reports that all steps of a round are taken.
    pub fn steps_end(&mut self, round: usize) {
        self.train(LearnerEvent::EndSplit(round));
    }

    /// Reports that the round and its evaluation have ended.
    pub fn round_ends(&mut self, round: usize) {
        self.train(LearnerEvent::EndEpoch(round));
    }

    /// Reports that an evaluation of `batches` batches begins.
    pub fn evaluation_begins(&mut self, round: usize, batches: usize) {
        self.valid(LearnerEvent::StartSplit {
            epoch_number: round,
            total_items: batches,
        });
    }

    /// Reports a batch that was evaluated.
    pub fn evaluated(&mut self, output: StepOutput, part: BarProgress) {
        self.valid(item(output, part));
    }

    /// Reports that the evaluation has ended.
    pub fn evaluation_ends(&mut self, round: usize) {
        self.valid(LearnerEvent::EndSplit(round));
    }

    fn train(&mut self, event: LearnerEvent<StepOutput>) {
        let result = self.processor.process_train(event);
        self.interrupter.fail_on_error(result);
    }

    fn valid(&mut self, event: LearnerEvent<StepOutput>) {
        let result = self.processor.process_valid(event);
        self.interrupter.fail_on_error(result);
    }
}

fn item(output: StepOutput, part: BarProgress) -> LearnerEvent<StepOutput> {
    let progress = view::progress(part.done, part.of);
    let number = Some(part.done as usize);
    LearnerEvent::ProcessedItem(TrainingItem::new(output, progress, number, None))
}
