//! Follows a run as printed lines: for a pipe, a log file, or a terminal without the live view.

use super::output;
use crate::experiment::run::Follower;
use crate::report::render::terminal::{duration, fixed, loss, number};
use crate::train::job::Report;
use std::time::{Duration, Instant};

/// Prints lines, limiting how often training steps are reported.
pub struct LinePrinter {
    pace: LineInterval,
}

/// Minimum time between two lines about training steps.
pub struct LineInterval {
    every: Duration,
    last: Option<Instant>,
}

impl LineInterval {
    /// Allows one line per interval, or every line if it is zero.
    pub fn new(every: Duration) -> Self {
        Self { every, last: None }
    }

    /// Whether a report is printed now; evaluations always are.
    pub fn allows(&mut self, report: &Report, now: Instant) -> bool {
        if report.split != "train" {
            return true;
        }
        let early = self.last.is_some_and(|last| now < last + self.every);
        if !early {
            self.last = Some(now);
        }
        !early
    }
}

impl LinePrinter {
    /// Prints lines at this pace.
    pub fn new(pace: LineInterval) -> Self {
        Self { pace }
    }
}

impl Follower for LinePrinter {
    fn data(&mut self, size: &str) {
        output::note(size);
    }

    fn report(&mut self, report: &Report) {
        if self.pace.allows(report, Instant::now()) {
            output::note(report_line(report));
        }
    }

    fn sample(&mut self, step: u64, text: &str) {
        output::note(sample_line(step, text));
    }

    fn skipped(&mut self, step: u64, reason: &str) {
        output::note(skipped_line(step, reason));
    }
}

/// Formats a report as a line.
pub fn report_line(report: &Report) -> String {
    let mut parts = vec![
        format!("step {:>6}/{}", report.step, report.steps),
        format!("{:5}", report.split),
        format!("loss {}", loss(report.loss)),
    ];
    for (name, value) in &report.metrics {
        parts.push(format!("{name} {}", number(*value)));
    }
    if let Some(lr) = report.lr {
        parts.push(format!("lr {lr:.2e}"));
    }
    if let Some(norm) = report.grad_norm {
        parts.push(format!("grad_norm {}", fixed(norm, 3)));
    }
    if let Some(speed) = report.items_per_s {
        parts.push(format!("{} {}/s", number(speed), report.unit));
    }
    if let Some(part) = &report.part {
        parts.push(format!("({part})"));
    }
    if let Some(left) = report.remaining_s {
        parts.push(format!("{} left", duration(left)));
    }
    parts.join("  ")
}

/// Formats a generated text as a line.
pub fn sample_line(step: u64, text: &str) -> String {
    format!("sample at step {step}: {text}")
}

/// Formats a skipped step as a line.
pub fn skipped_line(step: u64, reason: &str) -> String {
    format!("step {step} is skipped: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::live::tests::report;

    #[test]
    fn lines_of_training_keep_their_distance_and_evaluations_pass() {
        let mut pace = LineInterval::new(Duration::from_secs(5));
        let began = Instant::now();
        let mut at = |split, s| pace.allows(&report(split, 1, 1.0), began + Duration::from_secs(s));
        assert!(at("train", 0));
        assert!(!at("train", 4));
        assert!(at("valid", 4));
        assert!(at("train", 5));
        assert!(!at("train", 9));
        let mut all = LineInterval::new(Duration::ZERO);
        assert!((0..9).all(|_| all.allows(&report("train", 1, 1.0), began)));
    }
}
