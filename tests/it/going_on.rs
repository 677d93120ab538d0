//! What a resumed run remembers, refuses and makes up for.

use crate::binary::{failure, formwork, output};
use formwork::train::journal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const TINY: &str = "experiments/smoke/tiny.toml";

/// `train` or `resume`, with `--set`s.
fn command(words: &[&str], sets: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
    all.push("--quiet".into());
    for set in sets {
        all.extend(["--set".into(), (*set).to_string()]);
    }
    all
}

/// A folder, a run's place in it, and that place as text.
fn place() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    (folder, run, shown)
}

fn evaluations(run: &Path) -> Vec<journal::Line> {
    let lines = journal::read(run.join("metrics.jsonl")).unwrap();
    lines.into_iter().filter(|l| l.split == "valid").collect()
}

fn valid_loss(run: &Path) -> f64 {
    let scores = fs::read(run.join("scores.json")).unwrap();
    let scores: serde_json::Value = serde_json::from_slice(&scores).unwrap();
    scores["valid"]["loss"].as_f64().unwrap()
}

#[test]
fn changes_are_kept_unless_they_make_another_run() {
    let (_folder, run, shown) = place();
    output(&command(&["train", TINY, "--run", &shown], &[]));
    let resolved = || fs::read_to_string(run.join("resolved.toml")).unwrap();
    let before = resolved();
    for set in [
        "seed=4",
        "train.batch_size=4",
        "data.length=7",
        "model.d_model=64",
        "train.dtype=bf16",
        "optimizer.kind=lion",
    ] {
        let key = set.split('=').next().unwrap();
        for words in [
            vec!["resume", &shown],
            vec!["train", TINY, "--resume", "--run", &shown],
        ] {
            let (status, said) = failure(&command(&words, &[set]));
            assert_eq!(status, 2, "{said}");
            assert!(said.contains(&format!("error: {key} is ")), "{said}");
            assert!(said.contains("start a new one"), "{said}");
        }
    }
    assert_eq!(resolved(), before);
    output(&command(&["resume", &shown], &["train.steps=60"]));
    assert_eq!(resolved(), before.replace("steps = 40", "steps = 60"));
    let printed = output(&command(&["resume", &shown], &[]));
    assert!(printed.contains("done after 60 steps"), "{printed}");
    let (status, said) = failure(&command(&["resume", &shown], &["train.steps=50"]));
    assert_eq!(status, 2, "{said}");
    assert!(resolved().contains("steps = 60"));
}

#[test]
fn a_run_whose_end_was_cut_gets_its_scores() {
    let (_folder, run, shown) = place();
    output(&command(&["train", TINY, "--run", &shown], &[]));
    let (scores, lines) = (
        fs::read(run.join("scores.json")).unwrap(),
        fs::read(run.join("metrics.jsonl")).unwrap(),
    );
    fs::remove_file(run.join("scores.json")).unwrap();
    let printed = output(&command(&["resume", &shown], &[]));
    assert!(printed.contains("done after 40 steps"), "{printed}");
    assert_eq!(fs::read(run.join("scores.json")).unwrap(), scores);
    assert_eq!(fs::read(run.join("metrics.jsonl")).unwrap(), lines);
}

#[test]
fn an_early_stop_outlives_a_resume_and_is_scored_on_the_whole_split() {
    let (_folder, run, shown) = place();
    // A learning rate of nothing improves nothing after the first evaluation.
    let sets = [
        "optimizer.lr=1e-30",
        "train.patience=1",
        "train.eval_every=2",
        "train.eval_batches=1",
    ];
    let printed = output(&command(&["train", TINY, "--run", &shown], &sets));
    assert!(printed.contains("stopped early"), "{printed}");
    let lines = evaluations(&run);
    let last = lines.last().unwrap();
    let loss = valid_loss(&run);
    assert_eq!(last.loss, Some(loss));
    assert_ne!(lines[0].loss, Some(loss), "the first was whole, too");
    let scored = output(&["eval", &shown, "--json"]);
    let scored: serde_json::Value = serde_json::from_str(&scored).unwrap();
    assert!((scored["loss"].as_f64().unwrap() - loss).abs() < 1e-6);
    fs::remove_file(run.join("scores.json")).unwrap();
    let printed = output(&command(&["resume", &shown], &[]));
    let ended = format!("no longer improves after {} steps", last.step);
    assert!(printed.contains(&ended), "{printed}");
    assert_eq!(valid_loss(&run), loss);
    let printed = output(&command(&["resume", &shown], &["train.patience=50"]));
    assert!(printed.contains("done after 40 steps"), "{printed}");
}

#[test]
fn the_best_is_chosen_by_the_items_that_all_evaluations_read() {
    let (_folder, run, shown) = place();
    let sets = ["optimizer.lr=1e-30", "train.eval_batches=1"];
    output(&command(&["train", TINY, "--run", &shown], &sets));
    let lines = evaluations(&run);
    assert_ne!(lines[0].loss, lines.last().unwrap().loss);
    // The weights stay as they are, so no later evaluation is better, whatever it reads.
    let best = fs::read_link(run.join("best")).unwrap();
    assert!(best.ends_with("00000010"), "{}", best.display());
}

#[test]
fn faults_that_only_the_model_shows_leave_no_folder() {
    let (_folder, run, shown) = place();
    for (set, named) in [
        ("train.sample={prompt=\"é\"}", "sample.prompt"),
        (
            "optimizer.groups=[{match=\"nowhere\",lr_scale=0.1}]",
            "nowhere",
        ),
    ] {
        let (status, said) = failure(&command(&["train", TINY, "--run", &shown], &[set]));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(named), "{said}");
        assert!(!run.exists(), "{set} left a folder");
    }
    output(&command(&["train", TINY, "--run", &shown], &[]));
}

#[cfg(unix)]
#[test]
fn a_signal_breaks_an_evaluation_off_and_it_is_made_after_all() {
    let (folder, run, shown) = place();
    let sets = [
        "train.steps=20",
        "train.log_every=10",
        "train.checkpoint_every=1000",
        "data.valid_items=20000",
    ];
    let mut child = formwork(&command(&["train", TINY, "--run", &shown], &sets))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The line of step 10 is written just before the evaluation.
    let begun = || fs::read_to_string(run.join("metrics.jsonl")).is_ok_and(|t| t.ends_with('\n'));
    while !begun() {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(20));
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let state = fs::read_to_string(run.join("latest/state.json")).unwrap();
    assert!(state.contains("\"evaluation_due\": true"), "{state}");
    assert_eq!(evaluations(&run), []);
    output(&command(&["resume", &shown], &[]));
    let whole = folder.path().join("whole");
    let shown = whole.display().to_string();
    output(&command(&["train", TINY, "--run", &shown], &sets));
    let timeless = |run: &Path| -> Vec<String> {
        let lines = journal::read(run.join("metrics.jsonl")).unwrap();
        let lines = lines.into_iter().map(journal::Line::timeless);
        lines.map(|line| format!("{line:?}")).collect()
    };
    assert_eq!(timeless(&run), timeless(&whole));
    let weights = |run: &Path| fs::read(run.join("latest/model.safetensors")).unwrap();
    assert!(weights(&run) == weights(&whole), "the weights differ");
}

#[test]
fn more_steps_than_can_be_counted_are_not_measured() {
    let warmup = usize::MAX.to_string();
    let (status, said) = failure(&["bench", "train", TINY, "--warmup", &warmup]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("cannot be measured"), "{said}");
}
