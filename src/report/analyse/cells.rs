//! States of an arm's runs: done, diverged, failed, stopped at a rung, unfinished or not begun.

use std::fmt;

use serde::Serialize;

use super::arms::Arm;
use crate::report::read::run::Run;

/// Run counts by state; the states sum to `planned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cells {
    /// All runs, including planned runs that were not started.
    pub planned: usize,
    /// Runs that finished with a finite loss.
    pub done: usize,
    /// Runs whose loss stopped being finite.
    pub diverged: usize,
    /// Runs that ended with an error.
    pub failed: usize,
    /// Runs stopped at a rung of successive halving.
    pub stopped: usize,
    /// Runs that were started and are in none of the states above.
    pub unfinished: usize,
    /// Planned runs that were not started.
    pub not_begun: usize,
}

impl Cells {
    /// Counts the runs of the given arms by state.
    pub fn of<'a>(arms: impl IntoIterator<Item = &'a Arm>, runs: &[Run]) -> Self {
        let mut cells = Self::default();
        for arm in arms {
            arm.members.iter().for_each(|&m| cells.count(&runs[m]));
            for absent in &arm.absent {
                cells.planned += 1;
                match absent.failure {
                    Some(_) => cells.failed += 1,
                    None => cells.not_begun += 1,
                }
            }
        }
        cells
    }

    fn count(&mut self, run: &Run) {
        self.planned += 1;
        let place = if run.has_failed() {
            &mut self.failed
        } else if run.diverged_at().is_some() {
            &mut self.diverged
        } else if run.is_done() {
            &mut self.done
        } else if run.was_stopped_at_rung() {
            &mut self.stopped
        } else {
            &mut self.unfinished
        };
        *place += 1;
    }
}

impl fmt::Display for Cells {
    /// Writes `12 done, 1 diverged`, leaving out states with no run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.done, "done"),
            (self.diverged, "diverged"),
            (self.failed, "failed"),
            (self.stopped, "stopped at a rung"),
            (self.unfinished, "unfinished"),
            (self.not_begun, "not begun"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}
