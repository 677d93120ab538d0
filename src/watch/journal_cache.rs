//! Journals of the runs whose curves are viewed. They are kept in memory, and reading continues where the last request ended.
//!
//! A curve is thinned to a maximum number of points. Each is the mean of several neighbours, with their minimum and maximum,
//! so that a spike stays visible. The number of neighbours is a power of two, counted from the first point: a growing
//! curve keeps its points, and a reader is sent only the new ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::row::shortened;
use crate::error::{Error, Result};
use crate::report::read::journal::{Journal, Point};
use crate::report::read::line;
use crate::report::read::tail::{LineSink, Tail};
use crate::report::render::html::rounded;
use crate::train::run_dir::METRICS;

/// Maximum number of journals in memory.
const MAX_JOURNALS: usize = 48;
/// Default maximum number of points of a curve; a request may ask for at most four times as many.
pub const POINTS: usize = 600;
/// Maximum number of curves per split of a run.
const CURVES: usize = 96;
/// Maximum number of notes kept per run; the newest are kept.
const NOTES: usize = 200;

/// The journals being viewed, the most recently requested last.
#[derive(Debug, Default)]
pub struct JournalCache {
    kept: Mutex<Vec<(PathBuf, Arc<Mutex<CachedJournal>>)>>,
    generations: AtomicU64,
}

/// One run's journal.
#[derive(Debug, Default)]
struct CachedJournal {
    tail: Tail,
    read: JournalReader,
}

#[derive(Debug, Default)]
struct JournalReader {
    journal: Journal,
    notes: Vec<(u64, &'static str, String)>,
    /// Number that distinguishes successive contents of the journal after it was replaced or truncated.
    generation: u64,
    is_restarted: bool,
}

impl LineSink for JournalReader {
    fn restart(&mut self) {
        *self = Self {
            is_restarted: true,
            ..Self::default()
        };
    }

    fn line(&mut self, text: &str) {
        let Some(line) = line::parse(text) else {
            self.journal.unreadable += 1;
            return;
        };
        // A resumed run may report some steps again.
        let notes = match (&line.note, line.diverged, line.skipped) {
            (Some(note), ..) => Some(("note", shortened(note))),
            (None, true, _) => Some(("warning", "the loss is not a number; the run ended".into())),
            (None, false, true) => Some(("warning", "the step was skipped".into())),
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

/// The part of a run's curves that a reader already has.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownCurves<'q> {
    /// Key of the previous answer.
    pub key: Option<&'q str>,
    /// Largest step of the previous answer.
    pub after: u64,
    /// Maximum number of points per curve that the reader asks for.
    pub points: usize,
}

impl JournalCache {
    /// Returns the curves of a run, or only their new points, as
    /// `{"key","whole","last_step","splits":{split:{metric:{"from","points"}}}}`. `from` is the index of the first point
    /// sent; the reader keeps the points before it.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn curves(&self, run: &Path, has: KnownCurves<'_>) -> Result<Value> {
        self.with_journal(run, |read| {
            let journal = &read.journal;
            let points = has.points.clamp(1, 4 * POINTS);
            let shares =
                ["train", "valid", "test"].map(|split| points_per_bin(journal, split, points));
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

    /// Returns the notes and warnings of the journal, the newest last.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn notes(&self, run: &Path) -> Result<Value> {
        self.with_journal(run, |read| {
            let notes = read.notes.iter();
            notes
                .map(|(step, kind, text)| json!({ "step": step, "kind": kind, "text": text }))
                .collect()
        })
    }

    fn with_journal<T>(&self, run: &Path, use_it: impl FnOnce(&JournalReader) -> T) -> Result<T> {
        let viewed = self.open_journal(run);
        let mut viewed = viewed.lock().unwrap_or_else(PoisonError::into_inner);
        let CachedJournal { tail, read } = &mut *viewed;
        let path = run.join(METRICS);
        tail.read(&path, read).map_err(Error::io("read", &path))?;
        if std::mem::take(&mut read.is_restarted) || read.generation == 0 {
            read.generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Ok(use_it(read))
    }

    /// Returns the run's journal; the least recently requested one is dropped to make room.
    fn open_journal(&self, run: &Path) -> Arc<Mutex<CachedJournal>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(path, _)| path == run);
        let viewed = match found {
            Some(at) => kept.remove(at),
            None => (run.to_path_buf(), Arc::default()),
        };
        let shared = Arc::clone(&viewed.1);
        kept.push(viewed);
        let more = kept.len().saturating_sub(MAX_JOURNALS);
        kept.drain(..more);
        shared
    }
}

/// Returns the number of neighbours that make one point of a split's curves.
fn points_per_bin(journal: &Journal, split: &str, points: usize) -> usize {
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

/// Returns the points that end at or after a step; a point is `[step, mean]`, or `[step, mean, min, max]` of several
/// neighbours.
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

    /// Applies an answer as the page does.
    fn taken(points: &mut Vec<Value>, answer: &Value) {
        let curve = &answer["splits"]["train"]["loss"];
        let from = usize::try_from(curve["from"].as_u64().unwrap()).unwrap();
        points.truncate(if answer["whole"] == true { 0 } else { from });
        points.extend(curve["points"].as_array().unwrap().iter().cloned());
    }

    #[test]
    fn what_a_curve_grows_by_makes_the_whole_curve() {
        let folder = tempfile::tempdir().unwrap();
        let views = JournalCache::default();
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
            let has = KnownCurves {
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
            let fresh = JournalCache::default().curves(
                folder.path(),
                KnownCurves {
                    points: 32,
                    ..KnownCurves::default()
                },
            );
            taken(&mut all, &fresh.unwrap());
            assert_eq!(points, all, "to step {last}");
        }
        // Whole curves are sent at the start and when more neighbours are joined: by two beyond 32 points, by eight beyond 128.
        assert_eq!(wholes, 3);
        assert_eq!(points[0], json!([8, 5.0, 1.5, 8.5]));
        // A replaced journal is sent as a whole.
        fs::remove_file(folder.path().join(METRICS)).unwrap();
        grow(folder.path(), 1..=3);
        let answer = views
            .curves(
                folder.path(),
                KnownCurves {
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
        let views = JournalCache::default();
        let answer = views
            .curves(
                folder.path(),
                KnownCurves {
                    points: 100,
                    ..KnownCurves::default()
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
