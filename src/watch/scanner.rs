//! The thread that looks at the folder. A run that changed lately is looked at each second, a quiet one seldom; where a
//! look takes long (a network's disk), the pauses grow with it, so that looking never takes more than a tenth of the time.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rayon::prelude::*;

use super::index::Index;
use super::row::row;
use super::sweeps;
use crate::report::read::listed::{self, Found, Listed};
use crate::report::read::sweep::PLAN;
use crate::report::render::terminal::plain;
use crate::stop::Stop;

/// Runs that are shown at most; the ones that were written last.
const MOST: usize = 20_000;
/// Between two looks at runs that change.
const BRISK: Duration = Duration::from_millis(1000);
/// Between two looks at quiet runs and for new folders.
const CALM: Duration = Duration::from_secs(4);
/// A run is quiet when its journal has not grown for so long and no process trains in it.
const QUIET: Duration = Duration::from_secs(60);
/// Runs of the first look that are shown together.
const TOGETHER: usize = 64;
/// Between two looks at the request to end.
const MOMENT: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Scanner {
    runs: HashMap<PathBuf, Listed>,
    names: HashMap<PathBuf, String>,
    sweeps: Vec<PathBuf>,
}

/// Looks at the folder until the flag is raised.
pub fn run(folder: &Path, index: &Index, stop: &Stop) {
    let mut scanner = Scanner::default();
    let mut next_calm = Instant::now();
    while !stop.is_raised() {
        let begun = Instant::now();
        let calm = begun >= next_calm;
        if calm {
            scanner.look_for_runs(folder, index, stop);
            scanner.look(index, |_| true);
        } else {
            scanner.look(index, is_lively);
        }
        scanner.look_at_sweeps(folder, index);
        let took = begun.elapsed();
        if calm {
            next_calm = Instant::now() + CALM.max(took * 10);
        }
        let until = Instant::now() + BRISK.max(took * 10);
        while Instant::now() < until && !stop.is_raised() {
            std::thread::sleep(MOMENT);
        }
    }
}

fn is_lively(run: &Listed) -> bool {
    let since = run
        .written
        .map(|written| SystemTime::now().duration_since(written));
    run.training || since.is_some_and(|since| since.is_ok_and(|since| since < QUIET))
}

/// A folder's name below the one that is watched.
fn name_of(folder: &Path, path: &Path) -> String {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let name = match below.as_os_str().is_empty() {
        true => path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy(),
        false => below.to_string_lossy(),
    };
    plain(&name)
}

impl Scanner {
    /// Finds folders that are new and those that went away; reads the new ones, the last written first.
    fn look_for_runs(&mut self, folder: &Path, index: &Index, stop: &Stop) {
        let Found { runs, sweeps } = listed::find(folder);
        // A plan behind a link may be any file of the reader.
        let is_plain = |path: &PathBuf| {
            path.join(PLAN)
                .symlink_metadata()
                .is_ok_and(|plan| plan.is_file())
        };
        self.sweeps = sweeps.into_iter().filter(is_plain).collect();
        let there: HashSet<&PathBuf> = runs.iter().collect();
        let gone: Vec<PathBuf> = self
            .runs
            .keys()
            .filter(|path| !there.contains(path))
            .cloned()
            .collect();
        index.change(|change| {
            for path in gone {
                self.runs.remove(&path);
                if let Some(name) = self.names.remove(&path) {
                    change.gone(&name);
                }
            }
        });
        let mut new: Vec<(SystemTime, PathBuf)> = runs
            .into_par_iter()
            .filter(|path| !self.runs.contains_key(path))
            .map(|path| (written(&path), path))
            .collect();
        new.sort_by(|a, b| b.cmp(a));
        new.truncate(MOST.saturating_sub(self.runs.len()));
        let found = self.runs.len() + new.len();
        for part in new.chunks(TOGETHER) {
            if stop.is_raised() {
                return;
            }
            let read: Vec<Listed> = part
                .par_iter()
                .map(|(_, path)| Listed::read(path.clone()))
                .collect();
            index.change(|change| {
                for run in read {
                    let name = self.new_name(folder, &run.path);
                    change.run(&name, &run.path, row(&name, &run));
                    self.names.insert(run.path.clone(), name);
                    self.runs.insert(run.path.clone(), run);
                }
                change.progress(self.runs.len(), found);
            });
        }
        index.change(|change| change.progress(self.runs.len(), found));
    }

    /// Names are told apart although two folders' may be the same once characters that no screen shows are replaced.
    fn new_name(&self, folder: &Path, path: &Path) -> String {
        let name = name_of(folder, path);
        let taken = |name: &String| self.names.values().any(|other| other == name);
        match name.contains('\u{fffd}') {
            false => name,
            true => (1..)
                .map(|n| {
                    if n == 1 {
                        name.clone()
                    } else {
                        format!("{name} ({n})")
                    }
                })
                .find(|name| !taken(name))
                .unwrap_or_default(),
        }
    }

    /// Looks again at some runs.
    fn look(&mut self, index: &Index, which: impl Fn(&Listed) -> bool + Sync) {
        let mut again: Vec<&mut Listed> = self.runs.values_mut().filter(|run| which(run)).collect();
        again.par_iter_mut().for_each(|run| run.refresh());
        let rows: Vec<_> = again
            .par_iter()
            .filter_map(|run| {
                let name = self.names.get(&run.path)?;
                Some((name, &run.path, row(name, run)))
            })
            .collect();
        index.change(|change| {
            for (name, path, row) in rows {
                change.run(name, path, row);
            }
        });
    }

    fn look_at_sweeps(&self, folder: &Path, index: &Index) {
        let named = self.sweeps.iter().map(|path| (name_of(folder, path), path));
        let rows: Vec<_> = named
            .map(|(name, path)| {
                let row = sweeps::row(&name, path, &self.names, &self.runs);
                (name, path, row)
            })
            .collect();
        index.change(|change| {
            change.sweeps_are(|name| rows.iter().any(|(there, ..)| there == name));
            for (name, path, row) in rows {
                change.sweep(&name, path, row);
            }
        });
    }
}

fn written(run: &Path) -> SystemTime {
    let about = run.join(crate::train::run_dir::METRICS).symlink_metadata();
    let written = about.and_then(|about| about.modified());
    written.unwrap_or(SystemTime::UNIX_EPOCH)
}
