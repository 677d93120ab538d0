//! How a run is followed, and what it may pass over.

use crate::collective::Ranks;
use crate::experiment::data_files::OtherData;
use crate::train::job::{Outline, Report};
use crate::train::view::{Unseen, View};

/// Follows a run from outside: a terminal's view, printed lines. Only the first rank is followed.
pub trait Follower: Send {
    /// The data was read; its size in a line.
    fn data(&mut self, _size: &str) {}

    /// A line of the journal was written.
    fn report(&mut self, _report: &Report) {}

    /// A text was generated after a step.
    fn sample(&mut self, _step: u64, _text: &str) {}

    /// A checkpoint of a step was written.
    fn saved(&mut self, _step: u64) {}

    /// A step was left out, for this reason.
    fn skipped(&mut self, _step: u64, _reason: &str) {}

    /// The view of each step and each batch of an evaluation. Called once, before the first step.
    fn view(&mut self, _outline: &Outline) -> Box<dyn View> {
        Box::new(Unseen)
    }
}

/// Follows nothing.
pub struct Unfollowed;

impl Follower for Unfollowed {}

/// How a run is followed, and what it may pass over.
pub struct Options {
    /// Receives what happens in the run.
    pub follower: Box<dyn Follower>,
    /// Receives messages for the user beside the results.
    pub notice: fn(&str),
    /// The step after which the run saves and ends.
    pub pause_at: Option<u64>,
    /// What is done about files of the data that have changed since the run began.
    pub other_data: OtherData,
    /// The processes that train it together.
    pub ranks: Ranks,
}

impl Options {
    /// No follower and no messages.
    pub fn quiet() -> Self {
        Self {
            follower: Box::new(Unfollowed),
            notice: |_| {},
            pause_at: None,
            other_data: OtherData::of_flag(false),
            ranks: Ranks::solo(),
        }
    }
}
