//! Run folders that are not as they were written: changed, swapped, damaged, crafted, redirected by links, moved away.

use crate::binary::{failure, formwork, output};
use formwork::train::{manifest, run_manifest};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const TINY: &str = "experiments/smoke/tiny.toml";

fn finished(sets: &[&str]) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    let mut words = vec!["train", TINY, "--quiet", "--run", &shown];
    words.extend(["--set", "train.steps=10"]);
    for set in sets {
        words.extend(["--set", set]);
    }
    output(&words);
    (folder, run, shown)
}

/// Replaces text in a file of a run.
fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} has no {from}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// Makes a changed checkpoint valid again.
fn reseal(folder: &Path) {
    let opened = fs::read(folder.join("manifest.json")).unwrap();
    let names: Value = serde_json::from_slice(&opened).unwrap();
    let names = names["files"].as_object().unwrap();
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    manifest::seal(folder, &names).unwrap();
}

/// Checks that every command that opens a run says this, and that none panics.
fn refused(run: &str, says: &str) {
    for words in [
        &["eval", run][..],
        &["generate", run, "--prompt", "abc="],
        &["resume", run, "--set", "train.steps=12"],
    ] {
        let (status, said) = failure(words);
        assert!([1, 2].contains(&status), "{words:?}: {status}: {said}");
        assert!(said.contains(says), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn files_that_say_what_a_run_is_must_be_as_they_were() {
    let (_folder, run, shown) = finished(&[]);
    let changes = [
        ("tokenizer.json", "\"a\"", "\"%\""),
        ("resolved.toml", "theta = 10000.0", "theta = 20000.0"),
        ("resolved.toml", "seed = 3", "seed = 4"),
        ("data.json", "\"context\": ", "\"context\": 1"),
    ];
    for (name, from, to) in changes {
        let path = run.join(name);
        let before = fs::read(&path).unwrap();
        edit(&path, from, to);
        refused(&shown, &format!("{name} was changed"));
        fs::write(&path, before).unwrap();
    }
    fs::write(run.join("target_tokenizer.json"), "{}").unwrap();
    refused(&shown, "target_tokenizer.json is not part of the run");
    fs::remove_file(run.join("target_tokenizer.json")).unwrap();
    let tokenizer = fs::read(run.join("tokenizer.json")).unwrap();
    fs::remove_file(run.join("tokenizer.json")).unwrap();
    refused(&shown, "tokenizer.json is missing");
    fs::write(run.join("tokenizer.json"), tokenizer).unwrap();
    let manifest = fs::read(run.join("manifest.json")).unwrap();
    fs::remove_file(run.join("manifest.json")).unwrap();
    refused(&shown, "manifest.json is missing");
    fs::write(run.join("manifest.json"), manifest).unwrap();
    output(&["eval", &shown]);
}

/// `machine.json` says where times were measured, and does not affect computation.
#[test]
fn a_run_without_its_machine_is_read_and_resumed() {
    let (_folder, run, shown) = finished(&[]);
    let machine = run.join("machine.json");
    fs::remove_file(&machine).unwrap();
    output(&["eval", &shown]);
    assert!(!machine.exists());
    let mut command = formwork(&["resume", &shown, "--set", "train.steps=12"]);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("machine.json was missing"), "{said}");
    assert!(machine.exists());
    run_manifest::verify(&run).unwrap();
}

/// A kill between any two writes of a resumed run leaves a folder that can be opened.
#[test]
fn a_manifest_and_its_files_are_replaced_in_an_order_that_always_opens() {
    let (_folder, run, shown) = finished(&[]);
    let [old, old_text] =
        ["manifest.json", "resolved.toml"].map(|n| fs::read(run.join(n)).unwrap());
    output(&["resume", &shown, "--quiet", "--set", "train.steps=12"]);
    let [new, new_text] =
        ["manifest.json", "resolved.toml"].map(|n| fs::read(run.join(n)).unwrap());
    assert!(old != new && old_text != new_text);
    let entry = |text: &[u8]| -> Value {
        let manifest: Value = serde_json::from_slice(text).unwrap();
        manifest["files"]["resolved.toml"][0].clone()
    };
    let mut either: Value = serde_json::from_slice(&old).unwrap();
    either["files"]["resolved.toml"] = Value::Array(vec![entry(&old), entry(&new)]);
    let either = serde_json::to_vec(&either).unwrap();
    for (manifest, text) in [
        (&old, &old_text),
        (&either, &old_text),
        (&either, &new_text),
        (&new, &new_text),
    ] {
        fs::write(run.join("manifest.json"), manifest).unwrap();
        fs::write(run.join("resolved.toml"), text).unwrap();
        output(&["eval", &shown]);
        run_manifest::verify(&run).unwrap();
    }
    // A manifest with two contents for a file is settled by the next process.
    fs::write(run.join("manifest.json"), &either).unwrap();
    output(&["resume", &shown, "--quiet", "--set", "train.steps=14"]);
    let settled: Value =
        serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(
        settled["files"]["resolved.toml"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn ids_beyond_the_vocabulary_are_refused_at_opening() {
    let (_folder, run, shown) = finished(&[]);
    let path = run.join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    let size = vocabulary.len();
    vocabulary.insert("é".into(), size.into());
    fs::write(&path, serde_json::to_vec(&tokenizer).unwrap()).unwrap();
    run_manifest::seal(&run).unwrap();
    refused(&shown, &format!("has ids up to {size}"));
}

#[test]
fn a_checkpoint_of_another_step_or_without_its_average_is_refused() {
    let (_folder, run, shown) = finished(&[]);
    let newest = run.join("steps/00000010");
    let whole = fs::read(newest.join("state.json")).unwrap();
    edit(&newest.join("state.json"), "\"step\": 10", "\"step\": 7");
    reseal(&newest);
    for which in ["best", "latest"] {
        let (status, said) = failure(&["eval", &shown, "--checkpoint", which]);
        assert_eq!(status, 1, "{said}");
        assert!(
            said.contains("state.json is of step 7, but the folder is of step 10"),
            "{said}"
        );
    }
    fs::write(newest.join("state.json"), whole).unwrap();
    // The file of averaged weights exists, but the manifest does not name it.
    let path = newest.join("manifest.json");
    let mut named: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    named["files"]
        .as_object_mut()
        .unwrap()
        .remove("ema.safetensors");
    fs::write(&path, serde_json::to_vec(&named).unwrap()).unwrap();
    reseal(&newest);
    for which in ["latest", "average:1"] {
        let (status, said) = failure(&["eval", &shown, "--checkpoint", which]);
        assert_eq!(status, 1, "{said}");
        assert!(
            said.contains("no averaged weights") && said.contains("train.ema"),
            "{said}"
        );
    }
}

#[test]
fn an_average_that_is_not_a_number_is_refused_by_name() {
    let (_folder, run, shown) = finished(&[]);
    for value in [f32::NAN, f32::INFINITY] {
        let newest = run.join("steps/00000010");
        let path = newest.join("ema.safetensors");
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        reseal(&newest);
        refused(&shown, "ema.safetensors does not fit the model: `");
        refused(&shown, "contains values that are infinite or not numbers");
        let (_, said) = failure(&["eval", &shown, "--checkpoint", "average:1"]);
        assert!(said.contains("infinite or not numbers"), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link() {
    use std::os::unix::fs::symlink;
    let (folder, run, shown) = finished(&[]);
    let victim = folder.path().join("victim");
    let copies = "journal={csv=true,tensorboard=true}";
    let names = [
        "run.lock",
        "metrics.jsonl",
        "samples.jsonl",
        "metrics.csv",
        "resolved.toml",
    ];
    for name in names
        .into_iter()
        .chain(["scores.json", "events.out.tfevents.1.2"])
    {
        let path = run.join(name);
        let before = fs::read(&path).ok();
        let content = before.clone().unwrap_or_else(|| b"mine".to_vec());
        fs::write(&victim, &content).unwrap();
        drop(fs::remove_file(&path));
        symlink(&victim, &path).unwrap();
        let (status, said) =
            failure(&["resume", &shown, "--set", "train.steps=12", "--set", copies]);
        assert_eq!(status, 1, "{name}: {said}");
        assert!(
            said.contains(&format!("{name} is a symbolic link")),
            "{said}"
        );
        assert!(
            fs::read(&victim).unwrap() == content,
            "{name} was written through"
        );
        fs::remove_file(&path).unwrap();
        if let Some(before) = before {
            fs::write(&path, before).unwrap();
        }
    }
    // The lock of the scores, which `eval` takes.
    fs::write(&victim, "mine").unwrap();
    drop(fs::remove_file(run.join("scores.lock")));
    symlink(&victim, run.join("scores.lock")).unwrap();
    let ended = formwork(&["eval", &shown]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        said.contains("the scores were not saved: ") && said.contains("symbolic link"),
        "{said}"
    );
    fs::remove_file(run.join("scores.lock")).unwrap();
    // A report file that is a link out of the folder.
    fs::create_dir(run.join("report")).unwrap();
    symlink(&victim, run.join("report/table.md")).unwrap();
    let (_, said) = failure(&["report", &shown]);
    assert!(said.contains("table.md is a symbolic link"), "{said}");
    assert!(fs::read(&victim).unwrap() == b"mine");
    fs::remove_dir_all(run.join("report")).unwrap();
    // Folders that are links.
    let steps = folder.path().join("steps");
    fs::rename(run.join("steps"), &steps).unwrap();
    symlink(&steps, run.join("steps")).unwrap();
    let (_, said) = failure(&["resume", &shown, "--set", "train.steps=12"]);
    assert!(said.contains("steps is a symbolic link"), "{said}");
    fs::remove_file(run.join("steps")).unwrap();
    fs::rename(&steps, run.join("steps")).unwrap();
    symlink(folder.path(), run.join("steps/00000011.tmp")).unwrap();
    let (_, said) = failure(&["resume", &shown, "--set", "train.steps=12"]);
    assert!(said.contains("00000011.tmp is a symbolic link"), "{said}");
    fs::remove_file(run.join("steps/00000011.tmp")).unwrap();
    // Links that the run itself made are allowed.
    assert!(run.join("latest").is_symlink());
    output(&["resume", &shown, "--quiet", "--set", "train.steps=12"]);
}

/// A moved or deleted folder is noticed at the next write, and not created again.
#[test]
fn a_folder_that_moves_or_vanishes_is_missed() {
    for moved in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let shown = run.display().to_string();
        let words = [
            "train",
            TINY,
            "--quiet",
            "--run",
            &shown,
            "--set",
            "train.steps=100000",
        ];
        let more = [
            "--set",
            "train.eval_every=100000",
            "--set",
            "train.log_every=1",
        ];
        let mut child = formwork(&[&words[..], &more].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !run.join("latest").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        match moved {
            true => fs::rename(&run, folder.path().join("elsewhere")).unwrap(),
            false => while fs::remove_dir_all(&run).is_err() {},
        }
        let mut waited = 0;
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(10));
            waited += 1;
            if waited > 1000 {
                child.kill().unwrap();
                panic!("the run goes on without its folder");
            }
        }
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("run was moved or deleted during training"),
            "{said}"
        );
        assert!(!run.exists(), "a folder was made anew");
        if moved {
            let elsewhere = folder.path().join("elsewhere").display().to_string();
            output(&["eval", &elsewhere]);
        }
    }
}
