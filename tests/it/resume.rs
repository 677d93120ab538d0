//! Exact resume through the binary: killed at any moment, a run ends as if uninterrupted.

use crate::binary::{failure, formwork, output};
use crate::journals::events;
use formwork::rng::{Purpose, Stream};
use formwork::train::journal::TIMING;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Dropout, accumulation, moving average, evaluations, checkpoints, diagnostics and copies of the journals are all on; the run
/// is long enough to be killed anywhere.
const ARGUMENTS: &[&str] = &[
    "train",
    "experiments/smoke/tiny.toml",
    "--quiet",
    "--set",
    "train.steps=120",
    "--set",
    "model.drop_path=0.1",
    "--set",
    "train.checkpoint_every=3",
    "--set",
    "train.sample={prompt=\"abc=\",tokens=8}",
    "--set",
    "diagnostics.every=4",
    "--set",
    "journal={csv=true,tensorboard=true}",
];

fn train(run: &Path) -> Vec<String> {
    let mut arguments: Vec<String> = ARGUMENTS.iter().map(|a| (*a).to_string()).collect();
    arguments.extend(["--run".to_string(), run.display().to_string()]);
    arguments
}

/// Returns what must be equal: checkpoint files (the state file separately, since it contains times), journal lines without
/// times, samples, diagnostics, and the copies of the journals.
fn outcome(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let last = run.join("steps/00000120");
    for name in ["model.safetensors", "ema.safetensors", "optimizer.bpk"] {
        files.insert(name.to_string(), fs::read(last.join(name)).unwrap());
    }
    let lines: Vec<String> = formwork::train::journal::read(run.join("metrics.jsonl"))
        .unwrap()
        .into_iter()
        .map(|line| format!("{:?}", line.without_timing()))
        .collect();
    files.insert("journal".into(), lines.join("\n").into_bytes());
    for name in ["samples.jsonl", "diagnostics.jsonl"] {
        files.insert(name.into(), fs::read(run.join(name)).unwrap());
    }
    let timed = |name: &str| TIMING.iter().any(|metric| name.ends_with(metric));
    let table = fs::read_to_string(run.join("metrics.csv")).unwrap();
    let rows = table.lines().filter(|row| {
        let metric = row.split(',').nth(2).unwrap();
        !timed(metric)
    });
    let rows: Vec<&str> = rows.collect();
    files.insert("table".into(), rows.join("\n").into_bytes());
    let scalars = events::scalars(&events::file(run)).into_iter();
    let scalars: Vec<String> = scalars
        .filter(|(tag, _, _)| !timed(tag))
        .map(|scalar| format!("{scalar:?}"))
        .collect();
    files.insert("events".into(), scalars.join("\n").into_bytes());
    files
}

fn assert_equal(ours: &Path, reference: &BTreeMap<String, Vec<u8>>, after: &str) {
    for (name, bytes) in outcome(ours) {
        assert!(
            bytes == reference[&name],
            "{name} differs after {after}:\n{}\nagainst\n{}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]),
            String::from_utf8_lossy(&reference[&name][..reference[&name].len().min(2000)])
        );
    }
}

#[test]
fn a_run_killed_at_random_moments_ends_as_one_never_killed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let began = std::time::Instant::now();
    output(&train(&whole));
    let length = began.elapsed().as_millis() as u64;
    let reference = outcome(&whole);
    let mut stream = Stream::new(17, Purpose::Split, (0, 0, 0));
    for round in 0..4 {
        let run = folder.path().join(format!("killed-{round}"));
        let mut kills = Vec::new();
        loop {
            let arguments = if run.join("resolved.toml").exists() {
                vec!["resume".into(), run.display().to_string(), "--quiet".into()]
            } else {
                train(&run)
            };
            let mut child = formwork(&arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let moment = 5 + stream.below(length);
            std::thread::sleep(Duration::from_millis(moment));
            if child.try_wait().unwrap().is_some() {
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills.push(moment);
        }
        if !run.join("steps/00000120").exists() {
            output(&["resume".into(), run.display().to_string(), "--quiet".into()]);
        }
        assert_equal(&run, &reference, &format!("SIGKILL after {kills:?} ms"));
    }
}

/// Its folder has all files that a run writes before `resolved.toml`, the one that makes a folder a run.
#[test]
fn a_run_killed_before_its_first_step_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| folder.path().join(name));
    output(&train(&whole));
    let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let last = written(&whole.join("resolved.toml"));
    fs::create_dir_all(killed.join("steps")).unwrap();
    let mut copied = 0;
    for entry in fs::read_dir(&whole).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_file() && name != "resolved.toml" && written(&path) <= last {
            fs::copy(&path, killed.join(name)).unwrap();
            fs::copy(&path, killed.join(format!("{name}.tmp"))).unwrap();
            copied += 1;
        }
    }
    assert!(copied >= 5, "{copied} files");
    output(&train(&killed));
    assert_equal(&killed, &outcome(&whole), "killed before the first step");
}

/// Returns the steps of a run's checkpoints.
fn checkpoints(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run.join("steps")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A checkpoint saved by a pause pushes none out, is not part of a mean of checkpoints, and is deleted with the next one.
#[test]
fn a_resumed_run_has_the_checkpoints_of_one_that_went_through() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
    let sets = ["train.steps=12", "train.keep_last=3", "train.eval_every=4"];
    let begun = |run: &Path, more: &[&str]| {
        let mut arguments = train(run);
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]).map(String::from));
        arguments.extend(more.iter().copied().map(String::from));
        output(&arguments);
    };
    let shown = parts.display().to_string();
    let mean = |run: &Path, of: &str| {
        let run = run.display().to_string();
        ["eval", &run, "--checkpoint", of].map(String::from)
    };
    begun(&whole, &[]);
    begun(&parts, &["--pause-at", "5"]);
    let newest = |count: usize| {
        let all = checkpoints(&parts);
        all[all.len() - count..].to_vec()
    };
    assert_eq!(newest(2), ["00000004", "00000005"]);
    output(&["resume", &shown, "--quiet", "--pause-at", "8"]);
    assert_eq!(newest(3), ["00000004", "00000006", "00000008"]);
    let (status, said) = failure(&mean(&parts, "average:4"));
    assert_eq!(status, 2, "{said}");
    output(&["resume", &shown, "--quiet"]);
    assert_eq!(checkpoints(&parts), checkpoints(&whole));
    assert!(checkpoints(&parts).contains(&"00000012".into()));
    let [ours, theirs] = [&parts, &whole].map(|run| output(&mean(run, "average:3")));
    assert_eq!(ours.replace("parts", "whole"), theirs);
}

#[cfg(unix)]
#[test]
fn a_signal_saves_and_exits_with_130() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let whole = folder.path().join("whole");
    let mut arguments = train(&run);
    arguments.extend(["--set".into(), "train.checkpoint_every=1000".into()]);
    let child = formwork(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Only after its first lines are written is it certain to handle signals.
    while !run.join("metrics.jsonl").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(60));
    let pid = child.id().to_string();
    std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    if ended.status.code() == Some(130) {
        assert!(said.contains("interrupted at step"), "{said}");
        assert!(said.contains("formwork resume"), "{said}");
        output(&["resume".into(), run.display().to_string(), "--quiet".into()]);
    } else {
        assert!(ended.status.success(), "{said}");
    }
    output(&train(&whole));
    assert_equal(&run, &outcome(&whole), "SIGTERM");
}

#[test]
fn a_longer_run_goes_on_from_a_finished_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let first = [
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &run,
    ];
    output(&first);
    let (status, said) = failure(&first);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains(&format!("formwork resume {run}")), "{said}");
    let printed = output(&["resume", &run, "--set", "train.steps=45", "--quiet"]);
    assert!(printed.contains("done after 45 steps"), "{printed}");
}

#[test]
fn damage_is_refused_and_the_newest_whole_checkpoint_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    output(&[
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &shown,
    ]);
    let weights = fs::read(run.join("steps/00000040/model.safetensors")).unwrap();
    let newest = run.join("steps/00000040/model.safetensors");
    let mut bytes = weights.clone();
    bytes[weights.len() / 2] ^= 1;
    fs::write(&newest, &bytes).unwrap();
    // Scores of another checkpoint than the requested one would be wrong.
    let (status, said) = failure(&["eval", &shown, "--checkpoint", "latest"]);
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("00000040") && said.contains("--checkpoint 35"),
        "{said}"
    );
    let ended = formwork(&["resume", &shown, "--plain"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("skipped"), "{said}");
    assert!(said.contains("model.safetensors"), "{said}");
    assert_eq!(
        fs::read(&newest).unwrap(),
        weights,
        "steps 36 to 40 were not taken again alike"
    );
}

#[test]
fn a_journal_that_lost_lines_goes_back_to_a_checkpoint_that_has_all_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    let tiny = "experiments/smoke/tiny.toml";
    output(&["train", tiny, "--quiet", "--run", &shown]);
    let journal = run.join("metrics.jsonl");
    let lines = || -> Vec<String> {
        let all = formwork::train::journal::read(&journal).unwrap();
        all.into_iter()
            .map(|line| format!("{:?}", line.without_timing()))
            .collect()
    };
    let whole = lines();
    let state = fs::read_to_string(run.join("steps/00000040/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let bytes = state["journal_bytes"].as_u64().unwrap();
    let cut = |length: u64| {
        let file = fs::OpenOptions::new().write(true).open(&journal).unwrap();
        file.set_len(length).unwrap();
    };
    cut(bytes - 1);
    let ended = formwork(&["resume", &shown, "--plain"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    assert!(
        said.contains("skipped: checkpoint") && said.contains("lines are missing"),
        "{said}"
    );
    assert_eq!(lines(), whole);
    // Without any journal line, no checkpoint can be resumed from.
    cut(0);
    let (status, said) = failure(&["resume", &shown]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("lines of its journal are missing"), "{said}");
}

#[test]
fn one_process_at_a_time_trains_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let arguments = [
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &run,
        "--set",
        "train.steps=100000",
        "--set",
        "train.eval_every=100000",
    ];
    let mut child = formwork(&arguments).stdout(Stdio::null()).spawn().unwrap();
    while !Path::new(&run).join("resolved.toml").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (status, said) = failure(&["resume", &run]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status, 1);
    assert!(said.contains("is in use: process"), "{said}");
}
