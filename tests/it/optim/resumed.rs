//! Exact resume: a run that is killed after a checkpoint ends with the bytes of an uninterrupted one.

use crate::binary::output;
use crate::recompute::killed_and_resumed;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILE: &str = "experiments/smoke/tiny.toml";

/// Returns the files of the last checkpoint except those with times, and the journal without its times.
fn outcome(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(run.join("steps/00000040")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let mut all: BTreeMap<String, Vec<u8>> = paths
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            (name, fs::read(path).unwrap())
        })
        .filter(|(name, _)| !["state.json", "manifest.json"].contains(&name.as_str()))
        .collect();
    let lines = formwork::train::journal::read(run.join("metrics.jsonl")).unwrap();
    let lines = lines.into_iter();
    let lines: Vec<String> = lines.map(|l| format!("{:?}", l.without_timing())).collect();
    all.insert("metrics.jsonl".into(), lines.join("\n").into_bytes());
    all
}

#[test]
fn a_killed_run_ends_as_one_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sets = |optimizer: &str| {
        let mut sets = vec![format!("optimizer={{ {optimizer} }}")];
        if optimizer.contains("schedule_free") {
            sets.push("schedule={ kind = \"constant\", warmup_steps = 12 }".into());
            sets.push("train.ema=0".into());
        }
        sets
    };
    for (number, optimizer) in [
        "kind = \"schedule_free\", lr = 1e-2, weight_decay = 0.1",
        "kind = \"adamw\", lr = 3e-3, cautious = true",
        "kind = \"lion\", lr = 3e-4, cautious = true",
        "kind = \"soap\", lr = 3e-3, precondition_frequency = 4",
    ]
    .into_iter()
    .enumerate()
    {
        let [whole, killed] =
            ["whole", "killed"].map(|name| folder.path().join(format!("{number}-{name}")));
        let sets = sets(optimizer);
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let shown = whole.display().to_string();
        let mut arguments = vec!["train", FILE, "--quiet", "--run", &shown];
        for set in &sets {
            arguments.extend(["--set", set]);
        }
        output(&arguments);
        killed_and_resumed(&killed, FILE, &sets);
        let (wanted, found) = (outcome(&whole), outcome(&killed));
        assert_eq!(
            wanted.keys().collect::<Vec<_>>(),
            found.keys().collect::<Vec<_>>()
        );
        for (name, wanted) in wanted {
            assert!(found[&name] == wanted, "{optimizer}: {name} differs");
        }
    }
}
