//! Run folders, their lock, journals and signals.

use formwork::experiment::run_contents::write_scores;
use formwork::files;
use formwork::stop::StopFlag;
use formwork::train::evaluation::Scores;
use formwork::train::journal::{self, Journal};
use formwork::train::machine::Machine;
use formwork::train::run_dir::{Existing, RunDir, is_run};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

fn said(result: Result<impl Sized, formwork::error::Error>, root: &std::path::Path) -> String {
    let text = result.err().unwrap().to_string();
    text.replace(&root.display().to_string(), "RUN")
}

#[test]
fn a_run_is_not_overwritten_unasked() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("a/b");
    let run = RunDir::create(&root, Existing::Refuse).unwrap();
    assert!(!is_run(&root));
    run.write("experiment.toml", b"name = \"x\"\n").unwrap();
    run.write("resolved.toml", b"name = \"x\"\n").unwrap();
    drop(run);
    assert!(is_run(&root));
    assert_eq!(
        said(RunDir::create(&root, Existing::Refuse), &root),
        "RUN contains a run without a checkpoint; start it again with `formwork resume RUN`, start over with \
         --fresh, or name another folder with --run DIR"
    );
    std::fs::create_dir(root.join("steps/00000012")).unwrap();
    assert_eq!(
        said(RunDir::create(&root, Existing::Refuse), &root),
        "RUN contains a run at step 12; continue it with `formwork resume RUN`, start over with --fresh, \
         or name another folder with --run DIR"
    );
    std::fs::write(root.join("notes.txt"), "mine").unwrap();
    let run = RunDir::create(&root, Existing::Replace).unwrap();
    assert!(!is_run(&root) && root.join("notes.txt").exists());
    assert_eq!(std::fs::read_dir(run.steps()).unwrap().count(), 0);
}

#[test]
fn other_folders_are_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("thesis.tex"), "").unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        assert_eq!(
            said(RunDir::create(temp.path(), existing), temp.path()),
            "RUN exists and is not a run folder; name another with --run DIR"
        );
    }
    assert_eq!(
        said(RunDir::open(temp.path()), temp.path()),
        "RUN is not a run folder: it has no resolved.toml"
    );
    std::fs::write(temp.path().join("config.json"), "{}").unwrap();
    let told = said(RunDir::open(temp.path()), temp.path());
    assert!(
        told.contains("to convert a Hugging Face folder: formwork import "),
        "{told}"
    );
    let none = temp.path().join("none");
    assert_eq!(
        said(RunDir::open(&none), &none),
        "there is no run folder RUN"
    );
    let file = temp.path().join("thesis.tex");
    assert_eq!(
        said(RunDir::create(&file, Existing::Refuse), &file),
        "RUN exists and is not a run folder; name another with --run DIR"
    );
}

#[test]
fn one_process_at_a_time() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("run");
    let run = RunDir::create(&root, Existing::Refuse).unwrap();
    run.write("experiment.toml", b"").unwrap();
    run.write("resolved.toml", b"").unwrap();
    let expected = format!("RUN is in use: process {} trains in it", std::process::id());
    assert_eq!(said(RunDir::open(&root), &root), expected);
    for existing in [Existing::Refuse, Existing::Replace] {
        assert_eq!(said(RunDir::create(&root, existing), &root), expected);
    }
    drop(run);
    RunDir::open(&root).unwrap();
}

#[test]
fn a_half_made_run_is_made_again() {
    let temp = tempfile::tempdir().unwrap();
    let run = RunDir::create(temp.path(), Existing::Refuse).unwrap();
    run.write("experiment.toml", b"").unwrap();
    run.write("machine.json", b"").unwrap();
    std::fs::write(run.path("resolved.toml.tmp"), "").unwrap();
    drop(run);
    RunDir::create(temp.path(), Existing::Refuse).unwrap();
}

#[test]
fn only_names_of_ours_are_read_and_cleaned() {
    use formwork::train::checkpoint;
    let temp = tempfile::tempdir().unwrap();
    let run = RunDir::create(temp.path(), Existing::Refuse).unwrap();
    for name in ["steps/+39", "steps/39", "steps/mine.tmp", "steps/7.old"] {
        std::fs::create_dir(run.path(name)).unwrap();
    }
    for name in ["steps/00000007", "steps/00000008.tmp", "steps/00000009.old"] {
        std::fs::create_dir(run.path(name)).unwrap();
    }
    for name in ["notes.tmp", "resolved.toml.tmp"] {
        std::fs::write(run.path(name), "").unwrap();
    }
    assert_eq!(checkpoint::steps(run.root()), [7]);
    checkpoint::clean(&run).unwrap();
    assert_eq!(checkpoint::steps(run.root()), [7, 9]);
    for name in [
        "steps/+39",
        "steps/39",
        "steps/mine.tmp",
        "steps/7.old",
        "notes.tmp",
    ] {
        assert!(run.path(name).exists(), "{name} was deleted");
    }
    assert!(!run.path("resolved.toml.tmp").exists());
    assert!(!run.path("steps/00000008.tmp").exists());
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_that_several_write_at_once_is_what_one_of_them_wrote() {
    let temp = tempfile::tempdir().unwrap();
    let run = RunDir::create(temp.path(), Existing::Refuse).unwrap();
    let texts: Vec<Vec<u8>> = (0..8).map(|i| vec![b'a' + i; 100_000]).collect();
    let before = names(temp.path());
    for _ in 0..10 {
        std::thread::scope(|scope| {
            for text in &texts {
                let run = &run;
                scope.spawn(move || run.write("machine.json", text).unwrap());
            }
        });
        let found = std::fs::read(run.path("machine.json")).unwrap();
        assert!(texts.contains(&found));
    }
    let after = names(temp.path());
    assert_eq!(after.len(), before.len() + 1, "{after:?}");
}

#[test]
fn scores_of_splits_that_are_written_at_once_are_all_kept() {
    let temp = tempfile::tempdir().unwrap();
    // A temporary file of a process that was killed while it wrote.
    std::fs::write(temp.path().join("scores.json.0123456789abcdef.tmp"), "{").unwrap();
    let scores = Scores {
        loss: 1.5,
        metrics: [("accuracy".to_string(), 0.5)].into(),
        confusion: None,
    };
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (folder, scores) = (temp.path(), &scores);
            scope.spawn(move || {
                for round in 0..5 {
                    let split = format!("valid@{}", 10 * thread + round);
                    write_scores(folder, &split, thread, scores).unwrap();
                }
            });
        }
    });
    let text = std::fs::read(temp.path().join("scores.json")).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(all.as_object().unwrap().len(), 40, "{all}");
    for thread in 0..8u64 {
        for round in 0..5 {
            let split = &all[format!("valid@{}", 10 * thread + round)];
            assert_eq!(split["step"], thread);
            assert_eq!(split["accuracy"], 0.5);
        }
    }
    assert_eq!(names(temp.path()), ["scores.json", "scores.lock"]);
}

/// Neither the lock of the scores nor temporary files prevent a run from starting in a folder.
#[test]
fn what_dead_processes_leave_is_no_hindrance() {
    let temp = tempfile::tempdir().unwrap();
    drop(RunDir::create(temp.path(), Existing::Refuse).unwrap());
    for name in [
        "scores.lock",
        "resolved.toml.0123456789abcdef.tmp",
        "data.json.tmp",
    ] {
        std::fs::write(temp.path().join(name), "").unwrap();
    }
    RunDir::create(temp.path(), Existing::Refuse).unwrap();
    assert_eq!(names(temp.path()), ["run.lock", "scores.lock", "steps"]);
}

#[test]
fn journals_are_cut_to_the_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("metrics.jsonl");
    let mut journal = Journal::open(&path, 0).unwrap();
    assert!(journal.is_empty());
    journal
        .append(&json!({"step": 1, "split": "train", "loss": 2.5, "lr": 0.1}))
        .unwrap();
    let at = journal.commit().unwrap();
    journal
        .append(&json!({"step": 2, "split": "train", "loss": 2.25}))
        .unwrap();
    drop(journal);
    std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"step\": 3, \"spl")
        .unwrap();
    let lines = journal::read(&path).unwrap();
    assert_eq!(lines.iter().map(|l| l.step).collect::<Vec<_>>(), [1, 2]);
    let mut again = Journal::open(&path, at).unwrap();
    again
        .append(&json!({"step": 2, "split": "valid", "loss": null, "elapsed_s": 9.0}))
        .unwrap();
    let lines = journal::read(&path).unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!((lines[0].loss, lines[0].numbers["lr"]), (Some(2.5), 0.1));
    assert!(lines[1].loss.unwrap().is_nan() && lines[1].split == "valid");
    assert!(lines[1].clone().without_timing().numbers.is_empty());
    assert_eq!(
        said(Journal::open(&path, 10_000), &path),
        format!(
            "RUN has {} bytes, but it had 10000 when the checkpoint was written; lines are missing",
            again.len()
        )
    );
    std::fs::write(&path, "{\"step\":1,\"split\":\"train\"}\nnot json\n{}\n").unwrap();
    assert_eq!(
        said(journal::read(&path), &path),
        "RUN:2: not a line of a journal: it has no `step` and `split`"
    );
}

const PART: &str = "FORMWORK_TEST_PART";

/// Waits for a stop request, and then for the second signal.
#[test]
#[ignore = "part of another test"]
fn part_waits_for_signals() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    let stop = StopFlag::on_signals().unwrap();
    eprintln!("ready");
    while !stop.is_raised() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    eprintln!("asked");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
#[cfg(unix)]
fn the_first_signal_asks_and_the_second_ends() {
    for signal in ["-INT", "-TERM"] {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "run_dir::part_waits_for_signals",
                "--ignored",
                "--nocapture",
            ])
            .env(PART, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut expect = |what: &str| assert!(lines.any(|l| l.unwrap() == what), "no `{what}`");
        let send = |id: u32| {
            let sent = Command::new("kill")
                .args([signal, &id.to_string()])
                .status();
            assert!(sent.unwrap().success());
        };
        expect("ready");
        send(process.id());
        expect("asked");
        send(process.id());
        assert_eq!(process.wait().unwrap().code(), Some(130));
    }
}

#[test]
fn machines_are_described() {
    let machine = Machine::detect("flex");
    assert!(machine.cores >= 1 && !machine.cpu.is_empty() && !machine.os.is_empty());
    let text = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
}

#[cfg(unix)]
#[test]
fn a_result_goes_through_links_and_into_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", path("link")).unwrap();
    files::write_result(&path("link"), b"new").unwrap();
    assert!(path("link").is_symlink());
    assert_eq!(fs::read(path("real")).unwrap(), b"new");
    std::os::unix::fs::symlink("later", path("ahead")).unwrap();
    files::write_result(&path("ahead"), b"first").unwrap();
    assert!(path("ahead").is_symlink());
    assert_eq!(fs::read(path("later")).unwrap(), b"first");
    let made = Command::new("mkfifo").arg(path("pipe")).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let (said, heard) = std::sync::mpsc::channel();
    let pipe = path("pipe");
    std::thread::spawn(move || said.send(fs::read(pipe).unwrap()));
    files::write_result(&path("pipe"), b"said").unwrap();
    let heard = heard.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!(heard.unwrap(), b"said");
    assert!(!path("pipe").is_file(), "the pipe is one still");
}
