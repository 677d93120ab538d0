//! The program itself, killed and interrupted: a resumed run equals one that was left alone.
//!
//! The experiment has dropout, accumulation and averaged weights on, and saves every seven steps.

use formwork::rng::{Purpose, Stream};
use formwork::train::checkpoint::newest_whole;
use formwork::train::journal;
use formwork::train::run_dir::METRICS;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SETS: [&str; 3] = [
    "train.steps=300",
    "train.eval_every=50",
    "train.checkpoint_every=7",
];

fn formwork(arguments: &[&str], run: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_formwork"));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .arg(run)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn train(run: &Path) -> Command {
    let mut command = formwork(&["train", "experiments/smoke/tiny.toml", "--run"], run);
    for set in SETS {
        command.args(["--set", set]);
    }
    command
}

fn resume(run: &Path) -> Command {
    formwork(&["resume"], run)
}

/// Weights, averages and moments as they lie on the disk, and the journal without its times.
fn remains(run: &Path) -> (Vec<Vec<u8>>, Vec<journal::Line>) {
    let files = ["model.safetensors", "ema.safetensors", "optimizer.bpk"];
    let latest = |file: &str| std::fs::read(run.join("latest").join(file)).unwrap();
    let lines = journal::read(run.join(METRICS)).unwrap();
    (
        files.map(latest).to_vec(),
        lines.into_iter().map(journal::Line::timeless).collect(),
    )
}

fn step(run: &Path) -> u64 {
    newest_whole(run).found.map_or(0, |saved| saved.state().step)
}

/// Waits until the run has a checkpoint at or after `least`, or has ended.
fn until(process: &mut Child, run: &Path, least: u64) {
    while process.try_wait().unwrap().is_none() && step(run) < least {
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
#[cfg(unix)]
fn killed_and_interrupted_runs_end_like_one_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let whole = temp.path().join("whole");
    assert!(train(&whole).status().unwrap().success());
    let expected = remains(&whole);

    let killed = temp.path().join("killed");
    let mut moments = Stream::new(11, Purpose::Split, (0, 0, 0));
    let mut process = train(&killed).spawn().unwrap();
    for round in 1..=12 {
        until(&mut process, &killed, round * 20);
        std::thread::sleep(Duration::from_millis(moments.below(25)));
        process.kill().unwrap();
        process.wait().unwrap();
        process = resume(&killed).spawn().unwrap();
    }
    assert!(process.wait().unwrap().success());
    assert!(remains(&killed) == expected, "the killed run differs");

    let asked = temp.path().join("asked");
    let mut process = train(&asked).spawn().unwrap();
    for (signal, at) in [("-INT", 30), ("-TERM", 120)] {
        until(&mut process, &asked, at);
        let sent = Command::new("kill")
            .args([signal, &process.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert_eq!(process.wait().unwrap().code(), Some(130));
        process = resume(&asked).spawn().unwrap();
    }
    assert!(process.wait().unwrap().success());
    assert!(remains(&asked) == expected, "the interrupted run differs");
}
