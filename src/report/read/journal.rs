//! `metrics.jsonl` as series: for each split and metric, values by step.
//!
//! A line is `{"step":200,"split":"valid","loss":1.92,…}`. Every numeric key is a metric; other keys are
//! ignored. `null`, `NaN` and `Infinity` are kept as NaN, the mark of a diverged run. A line with `"skipped":true` tells
//! of a step that was not taken: it counts as a step and has no value in any series.
//! An evaluation of a part of its split says so in `part`; one of the whole split that others read a part of has the
//! values of that part in `of_part`: these are the series', which compare, and its own are the whole values.
//! The last line may be torn (the writer was killed); any other line that cannot be read is counted and skipped. Where steps go back,
//! a resumed run wrote them again, and the later line counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

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
    /// The part of a split that its series are of, in words; none for all of it.
    parts: BTreeMap<String, String>,
    /// The newest values of a whole split of whose part the series are.
    wholes: BTreeMap<String, Whole>,
    /// Lines, other than a torn last one, that are not JSON objects with a step.
    pub unreadable: usize,
    /// The largest step of any line.
    pub last_step: u64,
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
            match parse_line(line) {
                Some(line) => journal.push(line),
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

    /// The part of a split that its series are of, in words; none where they are of all of it.
    pub fn part(&self, split: &str) -> Option<&str> {
        self.parts.get(split).map(String::as_str)
    }

    /// The values of the whole split at the last step of the series, where the series are of a part.
    pub fn whole(&self, split: &str) -> Option<&Whole> {
        let last = self.series(split, "loss").last()?.step;
        self.wholes.get(split).filter(|whole| whole.step == last)
    }

    fn push(&mut self, line: Line<'_>) {
        self.last_step = self.last_step.max(line.step);
        if let Some(part) = line.part {
            self.parts.insert(line.split.to_string(), part.into_owned());
        }
        if !line.of_part.is_empty() {
            let values = line.numbers.iter().map(|(name, x)| (name.to_string(), *x));
            let whole = Whole {
                step: line.step,
                values: values.collect(),
            };
            self.wholes.insert(line.split.to_string(), whole);
        }
        let metrics = entry(&mut self.splits, &line.split);
        for (name, value) in line.numbers {
            let of_part = line.of_part.iter().find(|(part, _)| *part == name);
            let value = of_part.map_or(value, |(_, value)| *value);
            let series = entry(metrics, &name);
            while series.last().is_some_and(|p| p.step >= line.step) {
                series.pop();
            }
            if !line.skipped {
                series.push(Point {
                    step: line.step,
                    value,
                });
            }
        }
    }
}

/// `map.entry(key).or_default()`; a journal has few names, and lines repeat them.
fn entry<'m, V: Default>(map: &'m mut BTreeMap<String, V>, key: &str) -> &'m mut V {
    map.entry(key.to_string()).or_default()
}

struct Line<'a> {
    step: u64,
    split: Cow<'a, str>,
    /// Whether it tells of a step that was left out.
    skipped: bool,
    part: Option<Cow<'a, str>>,
    of_part: Vec<(Cow<'a, str>, f64)>,
    numbers: Vec<(Cow<'a, str>, f64)>,
}

/// Strict JSON first; then with Python's names for what JSON cannot say.
fn parse_line(line: &str) -> Option<Line<'_>> {
    if let Ok(parsed) = serde_json::from_str(line) {
        return Some(parsed);
    }
    let mut mended = line.to_string();
    for name in ["-Infinity", "Infinity", "NaN", "-inf", "inf", "nan"] {
        mended = mended
            .replace(&format!(":{name}"), ":null")
            .replace(&format!(": {name}"), ":null");
    }
    let parsed: Line<'_> = serde_json::from_str(&mended).ok()?;
    let owned = |numbers: Vec<(Cow<'_, str>, f64)>| {
        let numbers = numbers.into_iter();
        numbers
            .map(|(k, v)| (Cow::Owned(k.into_owned()), v))
            .collect()
    };
    Some(Line {
        step: parsed.step,
        split: Cow::Owned(parsed.split.into_owned()),
        skipped: parsed.skipped,
        part: parsed.part.map(|part| Cow::Owned(part.into_owned())),
        of_part: owned(parsed.of_part),
        numbers: owned(parsed.numbers),
    })
}

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `step`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut step, mut split, mut numbers) = (None, Cow::Borrowed("train"), Vec::new());
        let (mut skipped, mut part, mut of_part) = (false, None, Vec::new());
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match (key.as_ref(), map.next_value::<Scalar<'de>>()?) {
                ("step", Scalar::Number(n)) if n >= 0.0 => step = Some(n as u64),
                ("split", Scalar::Text(name)) => split = name,
                ("part", Scalar::Text(words)) => part = Some(words),
                ("of_part", Scalar::Numbers(values)) => of_part = values,
                ("skipped", Scalar::Flag(yes)) => skipped = yes,
                (_, Scalar::Number(n)) => numbers.push((key, n)),
                (_, Scalar::Text(_) | Scalar::Flag(_) | Scalar::Numbers(_) | Scalar::Other) => {}
            }
        }
        let step = step.ok_or_else(|| serde::de::Error::missing_field("step"))?;
        Ok(Line {
            step,
            split,
            skipped,
            part,
            of_part,
            numbers,
        })
    }
}

/// A string, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Ok(Self(text)),
            Scalar::Number(_) | Scalar::Flag(_) | Scalar::Numbers(_) | Scalar::Other => {
                Err(serde::de::Error::custom("expected a string"))
            }
        }
    }
}

/// A value of a journal's line.
enum Scalar<'a> {
    Number(f64),
    Text(Cow<'a, str>),
    Flag(bool),
    /// The numbers of an object.
    Numbers(Vec<(Cow<'a, str>, f64)>),
    Other,
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_f64<E>(self, x: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(x))
    }
    fn visit_i64<E>(self, x: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(x as f64))
    }
    fn visit_u64<E>(self, x: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(x as f64))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Number(f64::NAN))
    }
    fn visit_bool<E>(self, yes: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Flag(yes))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_string())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut numbers = Vec::new();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            if let Scalar::Number(n) = map.next_value::<Scalar<'de>>()? {
                numbers.push((key, n));
            }
        }
        Ok(Scalar::Numbers(numbers))
    }
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
