//! How a run is watched, and what it may pass over.

use crate::collective::Ranks;
use crate::train::job::Report;
use crate::train::view::View;

/// Receives each line of the journal.
pub type OnReport = Box<dyn FnMut(&Report) + Send>;

/// Receives a step and the text that was generated after it.
pub type OnSample = Box<dyn FnMut(u64, &str) + Send>;

/// How a run is watched, and what it may pass over.
pub struct Options {
    /// Dashboard or lines.
    pub view: View,
    /// Receives every line of the journal.
    pub report: OnReport,
    /// Receives every sample.
    pub sample: OnSample,
    /// Receives messages for the user beside the results.
    pub notice: fn(&str),
    /// Resumes a run although the files of its data have changed.
    pub other_data: bool,
    /// The processes that train it together.
    pub ranks: Ranks,
}

impl Options {
    /// Plain lines, and no receivers.
    pub fn quiet() -> Self {
        Self {
            view: View::Plain,
            report: Box::new(|_| {}),
            sample: Box::new(|_, _| {}),
            notice: |_| {},
            other_data: false,
            ranks: Ranks::solo(),
        }
    }
}
