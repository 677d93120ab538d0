//! Keys that change when a run is resumed: recorded by step, shown by `compare`, and not applied if no step is left.

use crate::binary::{formwork, output};
use formwork::train::journal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const TINY: &str = "experiments/smoke/tiny.toml";

fn train(run: &Path, sets: &[&str]) {
    let shown = run.display().to_string();
    let mut words = vec!["train", TINY, "--quiet", "--run", &shown];
    for set in sets {
        words.extend(["--set", set]);
    }
    output(&words);
}

/// Returns standard output and error of `resume`.
fn resume(run: &Path, sets: &[&str]) -> (String, String) {
    let shown = run.display().to_string();
    let mut words = vec!["resume", &shown, "--quiet"];
    for set in sets {
        words.extend(["--set", set]);
    }
    let ended = formwork(&words).output().unwrap();
    let [out, said] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(ended.status.success(), "{out}{said}");
    (out, said)
}

/// Returns every file of a folder with its content and modification time.
fn state_of(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        if about.is_dir() {
            all.extend(state_of(&path));
        } else if about.is_symlink() {
            let target = path.read_link().unwrap().display().to_string();
            all.insert(path, (target.into_bytes(), about.modified().unwrap()));
        } else {
            let content = fs::read(&path).unwrap();
            all.insert(path, (content, about.modified().unwrap()));
        }
    }
    all
}

#[test]
fn a_finished_run_with_nothing_to_do_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &[]);
    // Not even a lock file is left in a folder that had none.
    fs::remove_file(run.join("run.lock")).unwrap();
    let before = state_of(&run);
    for sets in [
        &["optimizer.lr=0.5"][..],
        &["schedule.warmup_steps=7", "train.log_every=1"],
        &[],
    ] {
        let (out, said) = resume(&run, sets);
        assert!(out.contains("done after 40 steps"), "{out}");
        assert!(
            said.contains("nothing to do: all 40 steps are done"),
            "{said}"
        );
        for set in sets {
            let key = set.split('=').next().unwrap();
            assert!(said.contains(key), "{said} does not name {key}");
        }
        assert!(state_of(&run) == before, "{sets:?} changed the folder");
    }
    // Missing scores are computed, and the keys are still not applied.
    fs::remove_file(run.join("scores.json")).unwrap();
    let (_, said) = resume(&run, &["optimizer.lr=0.5"]);
    assert!(said.contains("ignored: optimizer.lr"), "{said}");
    assert!(run.join("scores.json").exists());
    let resolved = run.join("resolved.toml");
    assert_eq!(fs::read(&resolved).unwrap(), before[&resolved].0);
}

fn state(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("latest/state.json")).unwrap()).unwrap()
}

#[test]
fn keys_that_change_on_the_way_are_kept_by_step_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let [run, other] = ["run", "other"].map(|name| folder.path().join(name));
    train(&run, &["train.steps=10"]);
    assert!(state(&run).get("changes").is_none());
    resume(&run, &["train.steps=20", "optimizer.lr=0.001"]);
    resume(&run, &["train.steps=30", "schedule.warmup_steps=2"]);
    resume(&run, &["train.steps=35"]);
    let changes: Vec<String> = state(&run)["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {}: {} to {}", c["step"], c["key"], c["from"], c["to"]))
        .collect();
    assert_eq!(
        changes,
        [
            r#"10 "optimizer.lr": "0.003" to "0.001""#,
            r#"10 "train.steps": "10" to "20""#,
            r#"20 "schedule.warmup_steps": "5" to "2""#,
            r#"20 "train.steps": "20" to "30""#,
            r#"30 "train.steps": "30" to "35""#,
        ]
    );
    // Setting the same keys from the first step on makes another arm.
    train(
        &other,
        &[
            "train.steps=35",
            "optimizer.lr=0.001",
            "schedule.warmup_steps=2",
        ],
    );
    let [run, other] = [run, other].map(|run| run.display().to_string());
    let page = folder.path().join("page.html").display().to_string();
    let text = output(&["compare", &run, &other, "--html", &page]);
    let page = fs::read_to_string(page).unwrap();
    let changed = "optimizer.lr: 0.003 → 0.001 at 10";
    assert!(text.contains(changed), "{text}");
    assert!(page.contains(changed), "not on the page");
    assert!(text.contains("2 arms"), "{text}");
    let json: Value = serde_json::from_str(&output(&["compare", &run, &other, "--json"])).unwrap();
    let kept = &json["arms"][0]["runs"][0]["changes"][0];
    assert_eq!(kept["key"], "optimizer.lr");
    assert_eq!(
        (
            kept["step"].as_u64(),
            kept["from"].as_str(),
            kept["to"].as_str()
        ),
        (Some(10), Some("0.003"), Some("0.001"))
    );
    assert_eq!(
        json["arms"][0]["settings"]["optimizer.lr"],
        "0.003 → 0.001 at 10"
    );
}

/// If evaluations compare by another metric, the best checkpoint is chosen again and patience starts over.
#[test]
fn the_best_is_chosen_anew_where_evaluations_compare_by_another_value() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let by_texts = ["train.eval_every=5", "train.best_by=exact_match"];
    train(&run, &[&["train.steps=10"][..], &by_texts].concat());
    let sets = [
        "train.steps=20",
        "train.best_by=loss",
        "train.eval_batch_size=4",
    ];
    let (_, said) = resume(&run, &sets);
    assert!(
        said.contains("the best evaluation is chosen anew"),
        "{said}"
    );
    let losses = || {
        let lines = journal::read(run.join("metrics.jsonl"))
            .unwrap()
            .into_iter();
        let lines = lines.filter(|line| line.split == "valid" && line.step > 10);
        lines.map(|line| (line.step, line.loss.unwrap()))
    };
    let best = || {
        let best = state(&run)["best"].clone();
        let value: f64 = best["value"].as_str().unwrap().parse().unwrap();
        (best["step"].as_u64().unwrap(), value)
    };
    let is_least = || {
        let least = losses().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let (step, value) = best();
        assert_eq!(step, least.0);
        assert!((value - least.1).abs() < 1e-12, "{value} and {}", least.1);
    };
    is_least();
    // Other keys leave the choice as it is, among them the batch size of full evaluations.
    let (_, said) = resume(&run, &["train.steps=25", "train.eval_batch_size=8"]);
    assert!(!said.contains("chosen anew"), "{said}");
    is_least();
    // A part of the split has another loss than the whole.
    let run = folder.path().join("part");
    train(&run, &["train.steps=10", "train.eval_every=5"]);
    let sets = ["train.steps=15", "train.eval_batches=1"];
    let (_, said) = resume(&run, &sets);
    assert!(
        said.contains("the best evaluation is chosen anew"),
        "{said}"
    );
    assert_eq!(state(&run)["best"]["step"], 15);
}

/// A run that is killed after a key was changed, but before a checkpoint, still knows the change.
#[test]
fn a_change_outlives_a_process_that_saved_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["train.steps=10"]);
    let kept = [run.join("steps"), folder.path().join("steps")];
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args(&kept)
        .status();
    assert!(copied.unwrap().success());
    resume(&run, &["train.steps=20", "optimizer.lr=0.001"]);
    fs::remove_dir_all(&kept[0]).unwrap();
    fs::rename(&kept[1], &kept[0]).unwrap();
    resume(&run, &[]);
    let state = state(&run);
    let key = &state["changes"][0];
    assert_eq!(
        (key["key"].as_str(), key["step"].as_u64()),
        (Some("optimizer.lr"), Some(10))
    );
}

/// Items of a list, such as groups of layers, are addressed by number, in the file's own list and in a preset's.
#[test]
fn keys_of_a_list_are_set_by_the_numbers_of_its_items() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layers.toml");
    let tiny = fs::read_to_string(crate::binary::shipped(TINY)).unwrap();
    let alike = [
        "attention = { kind = \"multi_head\", n_heads = 4, n_kv_heads = 2 }\n",
        "feed_forward = { kind = \"gated\" }\n",
    ];
    let tiny = alike.iter().fold(tiny, |text, line| text.replace(line, ""));
    let layers = "[[model.layers]]\nmixer = { kind = \"lstm\" }\n\n[[model.layers]]\nattention = { kind = \"multi_head\", n_heads = 2 }\n";
    fs::write(&file, format!("{tiny}\n{layers}")).unwrap();
    let planned = |sets: &[&str]| {
        let file = file.display().to_string();
        let mut words = vec!["check", &file];
        for set in sets {
            words.extend(["--set", set]);
        }
        let ended = formwork(&words).output().unwrap();
        let said = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
        (ended.status.code(), said.concat())
    };
    let (code, said) = planned(&["model.layers.1.attention.n_heads=3"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("--set model.layers.1.attention.n_heads=3"),
        "{said}"
    );
    let (code, said) = planned(&["model.layers.1.attention.n_heads=4", "model.n_layers=4"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = planned(&["model.layers.2.repeat=4"]);
    assert_eq!(code, Some(2), "{said}");
}
