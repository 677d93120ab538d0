//! Options of a training run: who follows it, and how to treat changed data.

use crate::collective::Ranks;
use crate::experiment::data_files::ChangedFiles;
use crate::train::job::{Report, RunSummary};
use crate::train::view::{NoView, View};

/// Follows a run from outside, such as a terminal view or printed lines. Only the first rank is followed.
pub trait Follower: Send {
    /// The data was read; `size` describes it in one line.
    fn data(&mut self, _size: &str) {}

    /// A line of the journal was written.
    fn report(&mut self, _report: &Report) {}

    /// A text was generated after a step.
    fn sample(&mut self, _step: u64, _text: &str) {}

    /// A checkpoint was written at a step.
    fn saved(&mut self, _step: u64) {}

    /// A step was skipped for the given reason.
    fn skipped(&mut self, _step: u64, _reason: &str) {}

    /// Returns the view of every step and every batch of an evaluation. Called once, before the first step.
    fn view(&mut self, _outline: &RunSummary) -> Box<dyn View> {
        Box::new(NoView)
    }
}

/// A follower that ignores everything.
pub struct NoFollower;

impl Follower for NoFollower {}

/// Options of a training run.
pub struct Options {
    /// Receives the events of the run.
    pub follower: Box<dyn Follower>,
    /// Receives messages for the user, separate from the results.
    pub notice: fn(&str),
    /// Step after which the run saves and ends.
    pub pause_at: Option<u64>,
    /// How to treat data files that have changed since the run began.
    pub changed_files: ChangedFiles,
    /// The processes that train the run together.
    pub ranks: Ranks,
}

impl Options {
    /// Returns options without a follower and without messages.
    pub fn quiet() -> Self {
        Self {
            follower: Box::new(NoFollower),
            notice: |_| {},
            pause_at: None,
            changed_files: ChangedFiles::of_flag(false),
            ranks: Ranks::solo(),
        }
    }
}
