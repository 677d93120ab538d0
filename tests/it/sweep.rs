//! Sweeps as users run them: killed, shared, extended, refused.

mod arms;
mod begun_from;
mod cluster;
mod costs;
mod faults;
mod full_disk;
mod halving;
mod halving_faults;
mod ledger;
mod pairing;
mod processes;
mod refused;
mod sources;
mod table;

use crate::binary::{formwork, shipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A temporary folder with the smoke test's experiment as `base.toml`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::copy(
            shipped("experiments/smoke/tiny.toml"),
            place.path("base.toml"),
        )
        .unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes `NAME.toml`: the base with fewer steps, and this `[ablation]`.
    fn file(&self, name: &str, ablation: &str) -> PathBuf {
        let path = self.path(&format!("{name}.toml"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let short = path.file_stem().unwrap().to_str().unwrap();
        let head = format!("base = \"base.toml\"\nname = \"{short}\"\n[train]\nsteps = 20\n");
        fs::write(&path, format!("{head}[ablation]\n{ablation}")).unwrap();
        path
    }

    /// The command `formwork sweep FILE --run FOLDER …`, not started yet.
    fn sweep(&self, file: &Path, folder: &str, more: &[&str]) -> Command {
        let folder = self.path(folder);
        let mut command = formwork(&["sweep"]);
        command.arg(file).arg("--run").arg(folder).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a sweep to its end; returns success, standard output, standard error.
    fn swept(&self, file: &Path, folder: &str, more: &[&str]) -> (bool, String, String) {
        let output = self.sweep(file, folder, more).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

/// Returns the cells whose processes were started, according to a sweep's messages.
fn begun(said: &str) -> Vec<String> {
    let lines = said
        .lines()
        .filter_map(|line| line.strip_suffix(": started"));
    let mut cells: Vec<String> = lines.map(str::to_string).collect();
    cells.sort();
    cells
}

/// Returns everything that the cells of a sweep measured, except times: one text for each run.
fn measured(folder: &Path) -> Vec<(String, String)> {
    let mut runs = Vec::new();
    for arm in entries(&folder.join("cells")) {
        for run in entries(&arm).into_iter().filter(|path| path.is_dir()) {
            let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
            let lines: Vec<String> = lines.lines().map(untimed).collect();
            let scores = fs::read_to_string(run.join("scores.json")).unwrap();
            let name = run.strip_prefix(folder).unwrap().display().to_string();
            runs.push((name, format!("{}\n{scores}", lines.join("\n"))));
        }
    }
    runs
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    all
}

fn untimed(line: &str) -> String {
    let mut line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    line.retain(|key, _| !["elapsed_s", "items_per_s", "memory_mb"].contains(&key.as_str()));
    serde_json::to_string(&line).unwrap()
}
