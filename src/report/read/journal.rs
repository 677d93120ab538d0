//! `metrics.jsonl` as series: for each split and metric, values by step.
//!
//! A line is `{"step":200,"split":"valid","loss":1.92,…}`. Every numeric key is a metric; other keys are
//! ignored. `null`, `NaN` and `Infinity` are kept as NaN, the mark of a diverged run. A line with `"skipped":true` tells
//! of a step that was not taken: it counts as a step and has no value in any series.
//! An evaluation of a part of its split says so in `part`; one of the whole split that others read a part of has the
//! values of that part in `of_part`: these are the series', which compare, and its own are the whole values.
//! The last line may be torn (the writer was killed); any other line that cannot be read is counted and skipped. Where steps go back,
//! a resumed run wrote them again, and the later line counts.

use std::collections::BTreeMap;

use super::line::{self, Line};
use super::tail::Lines;

/// A value at an optimizer step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Optimizer steps done.
    pub step: u64,
    /// The metric's value; NaN where the journal has none that is finite.
    pub value: f64,
}

/// Values of a whole split at a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// Optimizer steps done.
    pub step: u64,
    /// By metric.
    pub values: BTreeMap<String, f64>,
}

/// All series of one journal.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    splits: BTreeMap<String, BTreeMap<String, Vec<Point>>>,
    /// The splits whose series are of a part, with the part in words where an evaluation says it.
    parts: BTreeMap<String, Option<String>>,
    /// The newest values of a whole split of whose part the series are.
    wholes: BTreeMap<String, Whole>,
    /// Lines, other than a torn last one, that are not JSON objects with a step.
    pub unreadable: usize,
    /// The largest step of any line.
    pub last_step: u64,
    /// How often values were written again from an earlier step on.
    pub rewinds: usize,
}

impl Journal {
    /// Reads the text of a `metrics.jsonl`.
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

    /// The values of one metric on one split by rising step; empty when it was never written.
    pub fn series(&self, split: &str, metric: &str) -> &[Point] {
        self.splits
            .get(split)
            .and_then(|metrics| metrics.get(metric))
            .map_or(&[], Vec::as_slice)
    }

    /// The names of the metrics on a split.
    pub fn metrics(&self, split: &str) -> impl Iterator<Item = &str> {
        self.splits
            .get(split)
            .into_iter()
            .flat_map(|m| m.keys().map(String::as_str))
    }

    /// Whether the series of a split are of a part of it.
    pub fn is_of_part(&self, split: &str) -> bool {
        self.parts.contains_key(split)
    }

    /// The part of a split that its series are of, in words; none where they are of all of it or where no evaluation says the
    /// part.
    pub fn part(&self, split: &str) -> Option<&str> {
        self.parts.get(split)?.as_deref()
    }

    /// The values of the whole split at the last step of the series, where the series are of a part.
    pub fn whole(&self, split: &str) -> Option<&Whole> {
        let last = self.series(split, "loss").last()?.step;
        self.wholes.get(split).filter(|whole| whole.step == last)
    }

    /// The splits that have values.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.splits.keys().map(String::as_str)
    }

    /// Takes in the next line.
    pub fn push(&mut self, line: &Line<'_>) {
        self.last_step = self.last_step.max(line.step);
        if let Some(part) = &line.part {
            *entry(&mut self.parts, &line.split) = Some(part.to_string());
        }
        if !line.of_part.is_empty() {
            let values = line.numbers.iter().map(|(name, x)| (name.to_string(), *x));
            let whole = Whole {
                step: line.step,
                values: values.collect(),
            };
            self.wholes.insert(line.split.to_string(), whole);
            // Only evaluations that read nothing else say the part in words.
            entry(&mut self.parts, &line.split);
        }
        let metrics = entry(&mut self.splits, &line.split);
        let mut again = false;
        for (name, value) in &line.numbers {
            let of_part = line.of_part.iter().find(|(part, _)| part == name);
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

impl Lines for Journal {
    fn begin_anew(&mut self) {
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
        assert!(journal.is_of_part("valid") && !journal.is_of_part("train"));
        assert_eq!(journal.part("valid"), None);
        let part = r#"{"step":20,"split":"valid","loss":2.0,"part":"2 of 9 batches"}"#;
        let journal = Journal::parse(&format!("{part}\n{whole}\n"));
        assert_eq!(journal.part("valid"), Some("2 of 9 batches"));
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
