//! Runs whose curves are looked at: their journals in memory, read on from where the last request ended.
//!
//! A curve is thinned to a number of points, each the mean of so many neighbours with the least and the greatest of them,
//! so that a spike stays. The number of neighbours is a power of two and counted from the first point: a curve that grows
//! keeps its points, and a reader is sent the new ones alone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::row::short;
use crate::error::{Error, Result};
use crate::report::read::journal::{Journal, Point};
use crate::report::read::line;
use crate::report::read::tail::{Lines, Tail};
use crate::report::render::html::rounded;
use crate::train::run_dir::METRICS;

/// Journals in memory.
const KEPT: usize = 48;
/// Points of a curve, unless a request asks for fewer.
pub const POINTS: usize = 600;
/// Curves of a run at most.
const CURVES: usize = 96;
/// Notes that are kept of a run, the newest.
const NOTES: usize = 200;

/// Journals that are looked at.
#[derive(Debug, Default)]
pub struct Views {
    kept: Mutex<Vec<(PathBuf, Arc<Mutex<Viewed>>)>>,
    generations: AtomicU64,
}

/// One run's journal.
#[derive(Debug, Default)]
struct Viewed {
    tail: Tail,
    read: Read,
}

#[derive(Debug, Default)]
struct Read {
    journal: Journal,
    notes: Vec<(u64, &'static str, String)>,
    /// Distinguishes journals that were begun anew.
    generation: u64,
    anew: bool,
}

impl Lines for Read {
    fn begin_anew(&mut self) {
        *self = Self {
            anew: true,
            ..Self::default()
        };
    }

    fn line(&mut self, text: &str) {
        let Some(line) = line::parse(text) else {
            self.journal.unreadable += 1;
            return;
        };
        // A resumed run tells of its steps again.
        let notes = match (&line.note, line.diverged, line.skipped) {
            (Some(note), ..) => Some(("note", short(note))),
            (None, true, _) => Some(("warning", "the loss is no number: the run ended".into())),
            (None, false, true) => Some(("warning", "the step was left out".into())),
            (None, false, false) => None,
        };
        if let Some((kind, text)) = notes {
            self.notes.push((line.step, kind, text));
            let more = self.notes.len().saturating_sub(NOTES);
            self.notes.drain(..more);
        }
        self.journal.push(&line);
    }
}

/// What a reader has of a run's curves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Has<'q> {
    /// The key that came with it.
    pub key: Option<&'q str>,
    /// Its largest step.
    pub after: u64,
    /// Points of a curve that it asks for at most.
    pub points: usize,
}

impl Views {
    /// The curves of a run, or what they grew by: `{"key","whole","last_step","splits":{split:{metric:{"from","points"}}}}`;
    /// `from` is the number of the first point that is sent, those before it stay.
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn curves(&self, run: &Path, has: Has<'_>) -> Result<Value> {
        self.with(run, |read| {
            let journal = &read.journal;
            let points = has.points.clamp(1, 4 * POINTS);
            let shares = ["train", "valid", "test"].map(|split| share(journal, split, points));
            let [train, valid, test] = shares;
            let key = format!(
                "{}.{}.{train}.{valid}.{test}",
                read.generation, journal.rewinds
            );
            let whole = has.key != Some(&key);
            let after = if whole { 0 } else { has.after };
            let mut splits = Map::new();
            for (split, share) in ["train", "valid", "test"].into_iter().zip(shares) {
                let mut curves = Map::new();
                for metric in journal
                    .metrics(split)
                    .filter(|name| *name != "step")
                    .take(CURVES)
                {
                    let curve = curve(journal.series(split, metric), share, after);
                    curves.insert(metric.to_string(), curve);
                }
                if !curves.is_empty() {
                    splits.insert(split.to_string(), curves.into());
                }
            }
            json!({ "key": key, "whole": whole, "last_step": journal.last_step, "splits": splits })
        })
    }

    /// What the journal says in words, the newest last.
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn notes(&self, run: &Path) -> Result<Value> {
        self.with(run, |read| {
            let notes = read.notes.iter();
            notes
                .map(|(step, kind, text)| json!({ "step": step, "kind": kind, "text": text }))
                .collect()
        })
    }

    fn with<T>(&self, run: &Path, use_it: impl FnOnce(&Read) -> T) -> Result<T> {
        let viewed = self.viewed(run);
        let mut viewed = viewed.lock().unwrap_or_else(PoisonError::into_inner);
        let Viewed { tail, read } = &mut *viewed;
        let path = run.join(METRICS);
        tail.read(&path, read).map_err(Error::io("read", &path))?;
        if std::mem::take(&mut read.anew) || read.generation == 0 {
            read.generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Ok(use_it(read))
    }

    /// The run's journal; the one that was not asked for the longest makes room.
    fn viewed(&self, run: &Path) -> Arc<Mutex<Viewed>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(path, _)| path == run);
        let viewed = match found {
            Some(at) => kept.remove(at),
            None => (run.to_path_buf(), Arc::default()),
        };
        let shared = Arc::clone(&viewed.1);
        kept.push(viewed);
        let more = kept.len().saturating_sub(KEPT);
        kept.drain(..more);
        shared
    }
}

/// Neighbours that make a point of a split's curves.
fn share(journal: &Journal, split: &str, points: usize) -> usize {
    let longest = journal
        .metrics(split)
        .map(|name| journal.series(split, name).len())
        .max();
    longest
        .unwrap_or(0)
        .div_ceil(points)
        .max(1)
        .next_power_of_two()
}

/// The points that end at or behind a step; a point is `[step, mean]`, or `[step, mean, least, greatest]` of several.
fn curve(series: &[Point], share: usize, after: u64) -> Value {
    let bins: Vec<&[Point]> = series.chunks(share).collect();
    let from = bins.partition_point(|bin| bin.last().is_some_and(|point| point.step < after));
    let point = |bin: &&[Point]| {
        let sound = || {
            bin.iter()
                .map(|point| point.value)
                .filter(|value| value.is_finite())
        };
        let step = bin.last().map_or(0, |point| point.step);
        let mean = sound().sum::<f64>() / sound().count() as f64;
        match share {
            1 => json!([step, rounded(mean)]),
            _ => {
                let (least, greatest) = (sound().reduce(f64::min), sound().reduce(f64::max));
                json!([
                    step,
                    rounded(mean),
                    least.map(rounded),
                    greatest.map(rounded)
                ])
            }
        }
    };
    json!({ "from": from, "points": bins[from..].iter().map(point).collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn grow(run: &Path, steps: std::ops::RangeInclusive<u64>) {
        let mut file = fs::OpenOptions::new();
        let mut file = file
            .append(true)
            .create(true)
            .open(run.join(METRICS))
            .unwrap();
        for step in steps {
            writeln!(
                file,
                "{{\"step\":{step},\"split\":\"train\",\"loss\":{step}.5}}"
            )
            .unwrap();
        }
    }

    /// What a page does with an answer.
    fn taken(points: &mut Vec<Value>, answer: &Value) {
        let curve = &answer["splits"]["train"]["loss"];
        let from = usize::try_from(curve["from"].as_u64().unwrap()).unwrap();
        points.truncate(if answer["whole"] == true { 0 } else { from });
        points.extend(curve["points"].as_array().unwrap().iter().cloned());
    }

    #[test]
    fn what_a_curve_grows_by_makes_the_whole_curve() {
        let folder = tempfile::tempdir().unwrap();
        let views = Views::default();
        let (mut points, mut key, mut after) = (Vec::new(), String::new(), 0);
        let mut wholes = 0;
        for (first, last) in [
            (1, 10),
            (11, 11),
            (12, 40),
            (41, 41),
            (42, 63),
            (64, 64),
            (65, 130),
        ] {
            grow(folder.path(), first..=last);
            let has = Has {
                key: Some(&key),
                after,
                points: 32,
            };
            let answer = views.curves(folder.path(), has).unwrap();
            taken(&mut points, &answer);
            wholes += usize::from(answer["whole"] == true);
            after = answer["last_step"].as_u64().unwrap();
            key = answer["key"].as_str().unwrap().to_string();
            let mut all = Vec::new();
            let fresh = Views::default().curves(
                folder.path(),
                Has {
                    points: 32,
                    ..Has::default()
                },
            );
            taken(&mut all, &fresh.unwrap());
            assert_eq!(points, all, "to step {last}");
        }
        // At the start, and when neighbours are joined: beyond 32 points by two, beyond 128 by eight.
        assert_eq!(wholes, 3);
        assert_eq!(points[0], json!([8, 5.0, 1.5, 8.5]));
        // A journal that was replaced is another one.
        fs::remove_file(folder.path().join(METRICS)).unwrap();
        grow(folder.path(), 1..=3);
        let answer = views
            .curves(
                folder.path(),
                Has {
                    key: Some(&key),
                    after,
                    points: 32,
                },
            )
            .unwrap();
        assert_eq!(answer["whole"], true);
        assert_eq!(
            answer["splits"]["train"]["loss"]["points"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
    }

    #[test]
    fn a_spike_stays_and_words_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        for step in 1..=1000 {
            let loss = if step == 500 { 99 } else { 1 };
            text.push_str(&format!("{{\"step\":{step},\"loss\":{loss}}}\n"));
        }
        text.push_str("{\"step\":1000,\"split\":\"note\",\"note\":\"optimizer.lr: 1 → 2\"}\n");
        text.push_str("{\"step\":1001,\"loss\":null,\"diverged\":true}\n");
        fs::write(folder.path().join(METRICS), text).unwrap();
        let views = Views::default();
        let answer = views
            .curves(
                folder.path(),
                Has {
                    points: 100,
                    ..Has::default()
                },
            )
            .unwrap();
        let points = answer["splits"]["train"]["loss"]["points"]
            .as_array()
            .unwrap();
        assert!(points.len() <= 100, "{}", points.len());
        assert!(points.iter().any(|point| point[3] == 99.0));
        let notes = views.notes(folder.path()).unwrap();
        assert_eq!(notes[0]["text"], "optimizer.lr: 1 → 2");
        assert_eq!(
            (&notes[1]["step"], &notes[1]["kind"]),
            (&1001.into(), &"warning".into())
        );
    }
}
