//! How the runs of an arm stand: done, diverged, failed, stopped at a rung, on their way, not begun.

use std::fmt;

use serde::Serialize;

use super::arms::Arm;
use crate::report::read::run::Run;

/// Runs by how they stand; the sum is what was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cells {
    /// Runs and planned ones.
    pub planned: usize,
    /// At their end, with a loss that is a number.
    pub done: usize,
    /// Their loss stopped being a number.
    pub diverged: usize,
    /// Ended with an error.
    pub failed: usize,
    /// Stopped at a rung of a halving.
    pub stopped: usize,
    /// Begun, and neither of these.
    pub unfinished: usize,
    /// Planned and not begun.
    pub not_begun: usize,
}

impl Cells {
    /// The cells of some arms.
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
        let place = if run.failed() {
            &mut self.failed
        } else if run.diverged().is_some() {
            &mut self.diverged
        } else if run.done() {
            &mut self.done
        } else if run.left_behind() {
            &mut self.stopped
        } else {
            &mut self.unfinished
        };
        *place += 1;
    }
}

impl fmt::Display for Cells {
    /// `12 done, 1 diverged`; what there is none of is not named.
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
