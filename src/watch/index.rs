//! Runs and sweeps found so far, as rows with the version that last changed them. A reader asks for the rows newer than
//! its own version.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::guard;
use super::row::seconds;
use crate::error::Result;
use crate::report::render::terminal::plain;

/// Maximum number of removed rows that are remembered; a reader that is further behind gets all rows.
const MAX_REMOVALS: usize = 4096;

/// The rows of runs and sweeps.
#[derive(Debug)]
pub struct Index {
    /// Watched folder, as the user named it.
    folder: String,
    /// Prefix of every version, which tells this server process from earlier ones.
    instance: String,
    kept: Mutex<IndexState>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct IndexState {
    runs: BTreeMap<String, Entry>,
    sweeps: BTreeMap<String, Entry>,
    gone: VecDeque<(u64, String)>,
    /// Oldest version since which all removed rows are remembered.
    complete_since: u64,
    /// Number of runs read, and of runs found.
    progress: (usize, usize),
    version: u64,
}

#[derive(Debug)]
struct Entry {
    changed: u64,
    path: PathBuf,
    row: Value,
}

/// The changes that a reader lacks.
#[derive(Debug)]
pub struct Update {
    /// Version that the reader has after these changes: `INSTANCE-NUMBER`.
    pub id: String,
    /// `{"folder","version","now","reset","read","found","runs","sweeps","gone"}`.
    pub body: Value,
}

impl Index {
    /// Creates an empty index.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn new(folder: &Path) -> Result<Self> {
        let mut instance = guard::new_token()?;
        instance.truncate(12);
        Ok(Self {
            folder: plain(&folder.display().to_string()),
            instance,
            kept: Mutex::default(),
            version: watch::Sender::new(0),
        })
    }

    /// Changes rows, and notifies readers if anything changed.
    pub fn change(&self, change: impl FnOnce(&mut Change<'_>)) {
        let mut kept = self.kept();
        let version = kept.version + 1;
        let mut made = Change {
            kept: &mut kept,
            version,
            any: false,
        };
        change(&mut made);
        if made.any {
            kept.version = version;
            self.version.send_replace(version);
        }
    }

    /// Returns a receiver that is notified of each new version.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Returns the folder of a run by its name.
    pub fn path_of(&self, run: &str) -> Option<PathBuf> {
        Some(self.kept().runs.get(run)?.path.clone())
    }

    /// Returns the row of a run by its name.
    pub fn row_of(&self, run: &str) -> Option<Value> {
        Some(self.kept().runs.get(run)?.row.clone())
    }

    /// Returns the changes after a version, `INSTANCE-NUMBER`; everything if there is none, or if it is unknown or too old.
    pub fn updates_since(&self, id: Option<&str>) -> Update {
        let kept = self.kept();
        let known = id
            .and_then(|id| {
                id.strip_prefix(&self.instance)?
                    .strip_prefix('-')?
                    .parse()
                    .ok()
            })
            .filter(|known: &u64| (kept.complete_since..=kept.version).contains(known));
        let newer = |changed: u64| known.is_none_or(|known| changed > known);
        let rows = |entries: &BTreeMap<String, Entry>| -> Vec<Value> {
            let rows = entries.values().filter(|entry| newer(entry.changed));
            rows.map(|entry| entry.row.clone()).collect()
        };
        let gone = kept
            .gone
            .iter()
            .filter(|(at, _)| known.is_some() && newer(*at));
        let gone: Vec<&String> = gone.map(|(_, name)| name).collect();
        Update {
            id: format!("{}-{}", self.instance, kept.version),
            body: json!({
                "folder": self.folder,
                "version": format!("{}-{}", self.instance, kept.version),
                "now": seconds(SystemTime::now()),
                "reset": known.is_none(),
                "read": kept.progress.0,
                "found": kept.progress.1,
                "runs": rows(&kept.runs),
                "sweeps": rows(&kept.sweeps),
                "gone": gone,
            }),
        }
    }

    fn kept(&self) -> MutexGuard<'_, IndexState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change of rows in progress.
pub struct Change<'k> {
    kept: &'k mut IndexState,
    version: u64,
    any: bool,
}

impl Change<'_> {
    /// Sets the current row of a run.
    pub fn run(&mut self, name: &str, path: &Path, row: Value) {
        self.any |= upsert(&mut self.kept.runs, self.version, name, path, row);
    }

    /// Sets the current row of a sweep.
    pub fn sweep(&mut self, name: &str, path: &Path, row: Value) {
        self.any |= upsert(&mut self.kept.sweeps, self.version, name, path, row);
    }

    /// Removes a run that no longer exists.
    pub fn remove_run(&mut self, name: &str) {
        if self.kept.runs.remove(name).is_some() {
            self.record_removal(format!("run:{name}"));
        }
    }

    /// Removes all sweeps for which `there` is false.
    pub fn retain_sweeps(&mut self, there: impl Fn(&str) -> bool) {
        let names = self.kept.sweeps.keys().filter(|name| !there(name));
        for name in names.cloned().collect::<Vec<_>>() {
            self.kept.sweeps.remove(&name);
            self.record_removal(format!("sweep:{name}"));
        }
    }

    /// Sets how many of the found runs were read.
    pub fn progress(&mut self, read: usize, found: usize) {
        self.any |= self.kept.progress != (read, found);
        self.kept.progress = (read, found);
    }

    fn record_removal(&mut self, name: String) {
        self.any = true;
        self.kept.gone.push_back((self.version, name));
        if self.kept.gone.len() > MAX_REMOVALS
            && let Some((at, _)) = self.kept.gone.pop_front()
        {
            self.kept.complete_since = at;
        }
    }
}

fn upsert(
    entries: &mut BTreeMap<String, Entry>,
    changed: u64,
    name: &str,
    path: &Path,
    row: Value,
) -> bool {
    if entries
        .get(name)
        .is_some_and(|entry| entry.row == row && entry.path == path)
    {
        return false;
    }
    let path = path.to_path_buf();
    entries.insert(name.to_string(), Entry { changed, path, row });
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_what_it_lacks() {
        let index = Index::new(Path::new("runs")).unwrap();
        let put = |name: &str, step: u64| {
            index.change(|c| c.run(name, Path::new(name), json!({ "id": name, "step": step })))
        };
        put("a", 1);
        put("b", 1);
        let first = index.updates_since(None);
        assert_eq!(first.body["runs"].as_array().unwrap().len(), 2);
        assert_eq!(first.body["reset"], true);
        put("a", 1);
        assert_eq!(index.updates_since(None).id, first.id, "nothing changed");
        put("b", 2);
        index.change(|c| c.remove_run("a"));
        let second = index.updates_since(Some(&first.id)).body;
        assert_eq!(second["runs"], json!([{ "id": "b", "step": 2 }]));
        assert_eq!(second["gone"], json!(["run:a"]));
        assert_eq!(second["reset"], false);
        // Versions of another process, of the future, and malformed ones.
        let future = format!("{}-99", index.instance);
        for id in ["other-1", future.as_str(), "", "x"] {
            assert_eq!(index.updates_since(Some(id)).body["reset"], true, "{id}");
        }
        assert!(index.path_of("a").is_none() && index.path_of("b").is_some());
    }

    #[test]
    fn a_reader_that_is_far_behind_gets_everything() {
        let index = Index::new(Path::new("runs")).unwrap();
        let start = index.updates_since(None).id;
        for i in 0..MAX_REMOVALS + 10 {
            let name = i.to_string();
            index.change(|c| c.run(&name, Path::new(&name), json!(i)));
            index.change(|c| c.remove_run(&name));
        }
        assert_eq!(index.updates_since(Some(&start)).body["reset"], true);
        assert_eq!(index.kept().gone.len(), MAX_REMOVALS);
    }
}
