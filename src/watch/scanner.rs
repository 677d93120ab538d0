//! The thread that scans the folder. Runs that changed lately are refreshed every second, quiet ones less often. If a scan takes
//! long (on a network disk), the pauses grow with it, so that scanning never takes more than a tenth of the time.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rayon::prelude::*;

use super::index::Index;
use super::row::row;
use super::sweeps;
use crate::report::read::listing::{self, FoundFolders, RunListing};
use crate::report::read::sweep::PLAN;
use crate::report::render::terminal::plain;
use crate::stop::StopFlag;

/// Maximum number of runs shown; the ones written last are kept.
const MOST: usize = 20_000;
/// Minimum time between two refreshes of runs that change.
const ACTIVE_INTERVAL: Duration = Duration::from_millis(1000);
/// Minimum time between two refreshes of quiet runs and searches for new folders.
const QUIET_INTERVAL: Duration = Duration::from_secs(4);
/// Time without journal writes after which a run counts as quiet, unless a process trains in it.
const QUIET_AFTER: Duration = Duration::from_secs(60);
/// Number of newly found runs that are read before their rows are published.
const FIRST_BATCH: usize = 64;
/// Time between two checks of the stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Scanner {
    runs: HashMap<PathBuf, RunListing>,
    names: HashMap<PathBuf, String>,
    sweeps: Vec<PathBuf>,
}

/// Scans the folder until the stop flag is raised.
pub fn run(folder: &Path, index: &Index, stop: &StopFlag) {
    let mut scanner = Scanner::default();
    let mut next_calm = Instant::now();
    while !stop.is_raised() {
        let begun = Instant::now();
        let calm = begun >= next_calm;
        if calm {
            scanner.find_runs(folder, index, stop);
            scanner.refresh_runs(index, |_| true);
        } else {
            scanner.refresh_runs(index, is_active);
        }
        scanner.refresh_sweeps(folder, index);
        let took = begun.elapsed();
        if calm {
            next_calm = Instant::now() + QUIET_INTERVAL.max(took * 10);
        }
        let until = Instant::now() + ACTIVE_INTERVAL.max(took * 10);
        while Instant::now() < until && !stop.is_raised() {
            std::thread::sleep(STOP_INTERVAL);
        }
    }
}

fn is_active(run: &RunListing) -> bool {
    let since = run
        .written
        .map(|written| SystemTime::now().duration_since(written));
    run.training || since.is_some_and(|since| since.is_ok_and(|since| since < QUIET_AFTER))
}

/// Returns a folder's name relative to the watched folder.
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
    /// Finds new and removed folders, and reads the new ones, the last written first.
    fn find_runs(&mut self, folder: &Path, index: &Index, stop: &StopFlag) {
        let FoundFolders { runs, sweeps } = listing::find(folder);
        // A plan that is a link could point to any file that this user can read.
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
                    change.remove_run(&name);
                }
            }
        });
        let mut new: Vec<(SystemTime, PathBuf)> = runs
            .into_par_iter()
            .filter(|path| !self.runs.contains_key(path))
            .map(|path| (last_write(&path), path))
            .collect();
        new.sort_by(|a, b| b.cmp(a));
        new.truncate(MOST.saturating_sub(self.runs.len()));
        let found = self.runs.len() + new.len();
        for part in new.chunks(FIRST_BATCH) {
            if stop.is_raised() {
                return;
            }
            let read: Vec<RunListing> = part
                .par_iter()
                .map(|(_, path)| RunListing::read(path.clone()))
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

    /// Returns a unique name for a run. Names of two folders could be the same once unprintable characters are replaced.
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

    /// Refreshes the runs for which `which` is true.
    fn refresh_runs(&mut self, index: &Index, which: impl Fn(&RunListing) -> bool + Sync) {
        let mut again: Vec<&mut RunListing> =
            self.runs.values_mut().filter(|run| which(run)).collect();
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

    fn refresh_sweeps(&self, folder: &Path, index: &Index) {
        let named = self.sweeps.iter().map(|path| (name_of(folder, path), path));
        let rows: Vec<_> = named
            .map(|(name, path)| {
                let row = sweeps::row(&name, path, &self.names, &self.runs);
                (name, path, row)
            })
            .collect();
        index.change(|change| {
            change.retain_sweeps(|name| rows.iter().any(|(there, ..)| there == name));
            for (name, path, row) in rows {
                change.sweep(&name, path, row);
            }
        });
    }
}

fn last_write(run: &Path) -> SystemTime {
    let about = run.join(crate::train::run_dir::METRICS).symlink_metadata();
    let written = about.and_then(|about| about.modified());
    written.unwrap_or(SystemTime::UNIX_EPOCH)
}
