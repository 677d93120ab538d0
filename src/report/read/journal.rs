//! Reads the journal of a run (`metrics.jsonl`) as series: for each split and metric, values by step.
//!
//! A line is `{"step":200,"split":"valid","loss":1.92,…}`. Every numeric key is a metric; other keys are
//! ignored. `null`, `NaN` and `Infinity` are kept as NaN, the mark of a diverged run. A line with `"skipped":true` reports
//! a step that was not taken: it counts as a step but adds no value to any series.
//!
//! An evaluation of part of its split describes that part in `part`. An evaluation of the whole split, if others read only a
//! part, repeats the values of that part in `of_part`. Those go into the series, so that the points are comparable; its own
//! values are kept as the values of the whole split.
//!
//! The last line may be incomplete (the writer was killed). Any other unreadable line is counted and skipped. If steps go
//! back, a resumed run wrote them again, and the later line counts.

use std::collections::BTreeMap;

use super::line::{self, Line};
use super::tail::LineSink;

/// A value at an optimizer step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Number of optimizer steps done.
    pub step: u64,
    /// Value of the metric; NaN if the journal has no finite one.
    pub value: f64,
}

/// Metric values of a whole split at a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FullEvaluation {
    /// Number of optimizer steps done.
    pub step: u64,
    /// Values by metric.
    pub values: BTreeMap<String, f64>,
}

/// All series of one journal.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    splits: BTreeMap<String, BTreeMap<String, Vec<Point>>>,
    /// Splits whose series cover only a part, each with the description of that part if an evaluation gives it.
    parts: BTreeMap<String, Option<String>>,
    /// Newest values of the whole split, for splits whose series cover only a part.
    full_evaluations: BTreeMap<String, FullEvaluation>,
    /// Number of lines, other than an incomplete last one, that are not JSON objects with a step.
    pub unreadable: usize,
    /// Largest step of any line.
    pub last_step: u64,
    /// Number of lines that overwrote values of the same or a later step.
    pub rewinds: usize,
}

impl Journal {
    /// Parses the text of a `metrics.jsonl`.
    pub fn parse(text: &str) -> Self {
        let mut journal = Self::default();
        for raw in text.split_inclusive('\n') {
            let whole = raw.ends_with('\n');
            let line = raw.trim();
            if line.is_empty() {
                continue;
            }
            match line::parse(line) {
                Some(line) => journal.push(&line),
                None if whole => journal.unreadable += 1,
                None => {}
            }
        }
        journal
    }

    /// Returns the values of one metric on one split by rising step; empty if it was never written.
    pub fn series(&self, split: &str, metric: &str) -> &[Point] {
        self.splits
            .get(split)
            .and_then(|metrics| metrics.get(metric))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the names of the metrics on a split.
    pub fn metrics(&self, split: &str) -> impl Iterator<Item = &str> {
        self.splits
            .get(split)
            .into_iter()
            .flat_map(|m| m.keys().map(String::as_str))
    }

    /// Whether the series of a split cover only a part of it.
    pub fn is_partial(&self, split: &str) -> bool {
        self.parts.contains_key(split)
    }

    /// Returns the description of the part that a split's series cover; `None` if they cover all of it or no evaluation
    /// describes the part.
    pub fn part_description(&self, split: &str) -> Option<&str> {
        self.parts.get(split)?.as_deref()
    }

    /// Returns the values of the whole split at the last step of the series, if the series cover only a part.
    pub fn full_evaluation(&self, split: &str) -> Option<&FullEvaluation> {
        let last = self.series(split, "loss").last()?.step;
        self.full_evaluations
            .get(split)
            .filter(|whole| whole.step == last)
    }

    /// Returns the names of the splits that have values.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.splits.keys().map(String::as_str)
    }

    /// Adds the next line.
    pub fn push(&mut self, line: &Line<'_>) {
        self.last_step = self.last_step.max(line.step);
        if let Some(part) = &line.part {
            *entry(&mut self.parts, &line.split) = Some(part.to_string());
        }
        if !line.part_values.is_empty() {
            let values = line.numbers.iter().map(|(name, x)| (name.to_string(), *x));
            let whole = FullEvaluation {
                step: line.step,
                values: values.collect(),
            };
            self.full_evaluations.insert(line.split.to_string(), whole);
            // Only evaluations that read nothing but the part describe it in words.
            entry(&mut self.parts, &line.split);
        }
        let metrics = entry(&mut self.splits, &line.split);
        let mut again = false;
        for (name, value) in &line.numbers {
            let of_part = line.part_values.iter().find(|(part, _)| part == name);
            let value = of_part.map_or(*value, |(_, value)| *value);
            let series = entry(metrics, name);
            while series.last().is_some_and(|p| p.step >= line.step) {
                series.pop();
                again = true;
            }
            if !line.skipped {
                series.push(Point {
                    step: line.step,
                    value,
                });
            }
        }
        self.rewinds += usize::from(again);
    }
}

impl LineSink for Journal {
    fn restart(&mut self) {
        *self = Self::default();
    }

    fn line(&mut self, text: &str) {
        match line::parse(text) {
            Some(line) => self.push(&line),
            None => self.unreadable += 1,
        }
    }
}

/// `map.entry(key).or_default()`; a journal has few names, and lines repeat them.
fn entry<'m, V: Default>(map: &'m mut BTreeMap<String, V>, key: &str) -> &'m mut V {
    map.entry(key.to_string()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_left_out_has_no_value() {
        let text = concat!(
            "{\"step\":1,\"split\":\"train\",\"loss\":3.5}\n",
            "{\"step\":2,\"split\":\"train\",\"loss\":9.5,\"skipped\":true,\"samples\":[4]}\n",
            "{\"step\":3,\"split\":\"train\",\"loss\":3.25,\"skipped\":false}\n",
            "{\"step\":4,\"split\":\"train\",\"loss\":null,\"skipped\":true,\"samples\":[7]}\n",
        );
        let journal = Journal::parse(text);
        let losses = journal.series("train", "loss").iter();
        let losses: Vec<(u64, f64)> = losses.map(|p| (p.step, p.value)).collect();
        assert_eq!(losses, [(1, 3.5), (3, 3.25)]);
        assert_eq!((journal.last_step, journal.unreadable), (4, 0));
    }

    #[test]
    fn an_evaluation_of_all_of_a_split_tells_that_others_read_a_part() {
        let whole = r#"{"step":40,"split":"valid","loss":1.5,"of_part":{"loss":1.8}}"#;
        let journal = Journal::parse(&format!("{whole}\n"));
        assert_eq!(journal.series("valid", "loss")[0].value, 1.8);
        assert!(journal.is_partial("valid") && !journal.is_partial("train"));
        assert_eq!(journal.part_description("valid"), None);
        let part = r#"{"step":20,"split":"valid","loss":2.0,"part":"2 of 9 batches"}"#;
        let journal = Journal::parse(&format!("{part}\n{whole}\n"));
        assert_eq!(journal.part_description("valid"), Some("2 of 9 batches"));
    }

    #[test]
    fn odd_lines_are_read_for_what_they_say() {
        let text = concat!(
            "{\"step\":1,\"split\":\"train\",\"loss\":3.5,\"note\":\"x\",\"list\":[1],\"deep\":{\"a\":1}}\n",
            "not json\n\n",
            "{\"step\":2,\"split\":\"train\",\"loss\":null}\n",
            "{\"step\":3,\"split\":\"train\",\"loss\": NaN,\"lr\":1}\n",
            "{\"step\":2,\"split\":\"train\",\"loss\":2.5}\n",
            "{\"step\":3,\"split\":\"tr",
        );
        let journal = Journal::parse(text);
        assert_eq!(journal.unreadable, 1);
        assert_eq!(journal.last_step, 3);
        let losses = journal.series("train", "loss");
        assert_eq!(
            losses,
            [
                Point {
                    step: 1,
                    value: 3.5
                },
                Point {
                    step: 2,
                    value: 2.5
                }
            ]
        );
        assert_eq!(journal.metrics("train").collect::<Vec<_>>(), ["loss", "lr"]);
        assert!(
            Journal::parse("{\"step\":1,\"loss\":null}").series("train", "loss")[0]
                .value
                .is_nan()
        );
    }
}
