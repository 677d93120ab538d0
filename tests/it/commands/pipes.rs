//! Output whose reader has closed the pipe, or that cannot be written.

use super::json;
use crate::binary::{formwork, shipped};
use std::path::Path;
use std::process::Stdio;

const TINY: &str = "experiments/smoke/tiny.toml";

#[test]
fn a_run_goes_on_when_nobody_reads_its_reports() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    let mut child = formwork(&["train", TINY, "--plain", "--run", &shown])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
    assert!(run.join("steps/00000040/manifest.json").exists());
    assert!(run.join("scores.json").exists());
}

#[test]
fn a_reader_that_has_enough_ends_a_command_quietly() {
    let mut child = formwork(&["list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    for arguments in [
        &["list"][..],
        &["data", "list"],
        &["check", TINY],
        &["plan", "--preset", "gpt2"],
        &["--help"],
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ended = formwork(arguments).stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8(ended.stderr).unwrap();
        let help = arguments == ["--help"];
        assert!(
            help || said.contains("cannot write to standard output"),
            "{said}"
        );
    }
}

#[test]
fn verify_leaves_trained_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = shipped(TINY).display().to_string();
    let run = |arguments: &[&str]| {
        let ended = formwork(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    };
    run(&["train", &file, "--quiet", "--set", "train.steps=20"]);
    let expect = "expect.valid_loss.at_most=5.0";
    run(&["verify", &file, "--set", expect]);
    run(&["verify", &file, "--set", expect]);
    let state = |run: &str| {
        let path = Path::new("checkpoints").join(run).join("latest/state.json");
        json(&std::fs::read_to_string(folder.path().join(path)).unwrap())
    };
    assert_eq!(state("smoke-tiny")["step"], 20);
    assert_eq!(state("verify/smoke-tiny")["step"], 40);
}
