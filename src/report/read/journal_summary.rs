//! The current state of a run, updated line by line from its journal. Only evaluations are kept, so memory stays small even for a
//! long journal.

use std::collections::BTreeMap;

use super::journal::Journal;
use super::line::{self, Line};
use super::rate::Rate;
use super::tail::LineSink;
use crate::train::metrics::higher_is_better;

/// Names that are never a task's own metric: the loss, its transforms, and measurements of the run.
const NOT_METRICS: [&str; 6] = [
    "loss",
    "perplexity",
    "elapsed_s",
    "items_per_s",
    "items",
    "step",
];

/// The state of a run according to the journal lines read so far.
#[derive(Clone, Debug, Default)]
pub struct JournalSummary {
    /// Largest step of any line.
    pub last_step: u64,
    /// Numbers of the last training line.
    pub train: BTreeMap<String, f64>,
    /// All evaluations.
    pub evaluations: Journal,
    /// Number of skipped steps.
    pub skipped: u64,
    /// Number of lines that are not JSON objects with a step.
    pub unreadable: usize,
    /// Step since which the training loss is not finite.
    lost: Option<u64>,
    steps: Rate,
    /// Step and elapsed seconds of the last line.
    last_line: Option<(u64, f64)>,
    /// Duration of the last evaluation in seconds.
    evaluation_s: f64,
}

/// A value of a metric on the validation split, with its step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Number of optimizer steps done.
    pub step: u64,
    /// Value of the metric.
    pub value: f64,
}

impl JournalSummary {
    /// Returns the last value of a metric on the validation split, with its step.
    pub fn last(&self, metric: &str) -> Option<Best> {
        let point = self.evaluations.series("valid", metric).last()?;
        Some(Best {
            step: point.step,
            value: point.value,
        })
    }

    /// Returns the best finite value of a metric on the validation split, with its step.
    pub fn best(&self, metric: &str) -> Option<Best> {
        let higher = higher_is_better(metric);
        let points = self.evaluations.series("valid", metric).iter();
        let points = points.filter(|point| point.value.is_finite());
        let best =
            points.reduce(
                |a, b| match (b.value > a.value) == higher && b.value != a.value {
                    true => b,
                    false => a,
                },
            )?;
        Some(Best {
            step: best.step,
            value: best.value,
        })
    }

    /// Returns the task's own metric beside the loss: the first such metric of the evaluations by name.
    pub fn own_metric(&self) -> Option<&str> {
        let mut names = self.evaluations.metrics("valid");
        names.find(|name| !NOT_METRICS.contains(name))
    }

    /// Returns the step from which on the training or validation loss is never finite again.
    pub fn divergence_step(&self) -> Option<u64> {
        let losses = self.evaluations.series("valid", "loss");
        let sound = losses.iter().rposition(|p| p.value.is_finite());
        let valid = losses.get(sound.map_or(0, |i| i + 1)).map(|p| p.step);
        [self.lost, valid].into_iter().flatten().min()
    }

    /// Estimates the seconds from the last line to the end of a run of `steps` steps, from the current step rate and the
    /// duration of the last evaluation. Returns `None` before there is a step rate.
    pub fn remaining_s(&self, steps: u64, eval_every: Option<u64>) -> Option<f64> {
        let left = steps.saturating_sub(self.last_step) as f64 / self.steps.per_second()?;
        let evaluations = eval_every.filter(|every| *every > 0).map_or(0, |every| {
            steps.div_ceil(every).saturating_sub(self.last_step / every)
        });
        Some(left + evaluations as f64 * self.evaluation_s)
    }

    fn add_training_line(&mut self, line: &Line<'_>) {
        let number = |name: &str| {
            line.numbers
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, x)| *x)
        };
        if self.lost.is_some_and(|at| at >= line.step) {
            self.lost = None;
        }
        if line.skipped {
            self.skipped += 1;
            return;
        }
        match number("loss") {
            Some(loss) if loss.is_finite() => self.lost = None,
            Some(_) => self.lost = self.lost.or(Some(line.step)),
            None => {}
        }
        if let Some(now) = number("elapsed_s") {
            if let Some((step, then)) = self.last_line
                && line.step > step
                && now > then
            {
                self.steps.add((line.step - step) as f64, now - then);
            }
            self.last_line = Some((line.step, now));
        }
        // Lines repeat their names; building a map for each would dominate the run time.
        let numbers = || line.numbers.iter().filter(|(name, _)| name != "step");
        let known = numbers().all(|(name, _)| self.train.contains_key(name.as_ref()));
        if !known || numbers().count() != self.train.len() {
            self.train = numbers().map(|(name, x)| (name.to_string(), *x)).collect();
        }
        for (name, x) in numbers() {
            if let Some(value) = self.train.get_mut(name.as_ref()) {
                *value = *x;
            }
        }
    }

    fn add_evaluation(&mut self, line: &Line<'_>) {
        let mut numbers = line.numbers.iter();
        let now = numbers
            .find(|(name, _)| name == "elapsed_s")
            .map(|(_, x)| *x);
        if let (Some((step, then)), Some(now)) = (self.last_line, now) {
            // Part of the elapsed time went into steps since the last training line.
            let steps = line.step.saturating_sub(step) as f64;
            let stepping = self.steps.per_second().map_or(0.0, |rate| steps / rate);
            if line.split == "valid" {
                self.evaluation_s = (now - then - stepping).max(0.0);
            }
            self.last_line = Some((line.step, now));
        }
        self.evaluations.push(line);
    }
}

impl LineSink for JournalSummary {
    fn restart(&mut self) {
        *self = Self::default();
    }

    fn line(&mut self, text: &str) {
        let Some(line) = line::parse(text) else {
            self.unreadable += 1;
            return;
        };
        self.last_step = self.last_step.max(line.step);
        match line.split.as_ref() {
            "train" => self.add_training_line(&line),
            "valid" | "test" => self.add_evaluation(&line),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(lines: &[&str]) -> JournalSummary {
        let mut standing = JournalSummary::default();
        lines.iter().for_each(|line| standing.line(line));
        standing
    }

    #[test]
    fn what_is_left_counts_steps_and_evaluations() {
        let all = standing(&[
            r#"{"step":10,"split":"train","loss":3.0,"elapsed_s":10.0}"#,
            r#"{"step":20,"split":"train","loss":2.5,"elapsed_s":20.0}"#,
            r#"{"step":20,"split":"valid","loss":2.75,"accuracy":0.5,"elapsed_s":25.0}"#,
            r#"{"step":30,"split":"train","loss":2.25,"elapsed_s":35.0}"#,
            r#"{"step":40,"split":"valid","loss":2.5,"accuracy":0.75,"elapsed_s":50.0}"#,
        ]);
        // A step takes one second, an evaluation five: the last evaluation came ten steps after the last training line.
        assert!((all.remaining_s(100, Some(20)).unwrap() - (60.0 + 3.0 * 5.0)).abs() < 1e-9);
        assert_eq!(all.own_metric(), Some("accuracy"));
        assert_eq!(
            all.best("accuracy"),
            Some(Best {
                step: 40,
                value: 0.75
            })
        );
        assert_eq!(
            all.best("loss"),
            Some(Best {
                step: 40,
                value: 2.5
            })
        );
        assert_eq!((all.last_step, all.divergence_step()), (40, None));
        assert_eq!(JournalSummary::default().remaining_s(10, None), None);
    }

    #[test]
    fn a_loss_is_lost_when_it_never_is_a_number_again() {
        let text = |losses: &[&str]| -> Vec<String> {
            let lines = losses.iter().zip(1..);
            lines
                .map(|(loss, step)| format!("{{\"step\":{step},\"loss\":{loss}}}"))
                .collect()
        };
        for (losses, lost) in [
            (vec!["1", "null", "2"], None),
            (vec!["1", "null", "NaN"], Some(2)),
        ] {
            let lines = text(&losses);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(standing(&lines).divergence_step(), lost);
        }
        let skipped = standing(&[
            r#"{"step":1,"loss":1}"#,
            r#"{"step":2,"loss":null,"skipped":true}"#,
            "torn {",
        ]);
        assert_eq!(
            (
                skipped.divergence_step(),
                skipped.skipped,
                skipped.unreadable
            ),
            (None, 1, 1)
        );
    }
}
