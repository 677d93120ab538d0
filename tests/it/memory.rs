//! Memory use is flat: a long run needs no more than a short one.

use crate::binary::formwork;
use std::process::Stdio;
use std::time::Duration;

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the step of a journal's last line.
fn step(journal: &std::path::Path) -> u64 {
    let lines = formwork::train::journal::read(journal).unwrap_or_default();
    lines.last().map_or(0, |line| line.step)
}

#[cfg(target_os = "linux")]
#[test]
fn resident_size_after_4000_steps_is_that_after_200() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let shown = run.display().to_string();
    let mut child = formwork(&[
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &shown,
        "--set",
        "train.steps=1000000",
        "--set",
        "train.eval_every=50",
        "--set",
        "train.checkpoint_every=100",
        "--set",
        "train.log_every=20",
    ])
    .stdout(Stdio::null())
    .spawn()
    .unwrap();
    let journal = run.join("metrics.jsonl");
    // The maximum between two steps, since a single reading may or may not fall on an evaluation.
    let mut most = |from: u64, to: u64| {
        let mut most = 0.0_f64;
        loop {
            assert!(child.try_wait().unwrap().is_none(), "the run ended early");
            let now = step(&journal);
            if now >= from {
                most = most.max(resident(child.id()).unwrap());
            }
            if now >= to {
                return most;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let (early, late) = (most(200, 700), most(4000, 4500));
    child.kill().unwrap();
    child.wait().unwrap();
    // The allocator takes and returns chunks of up to 1.6 MB, which is 5 % of this small run's memory.
    assert!(
        late <= early * 1.08,
        "at most {early} KiB from step 200, {late} KiB from step 4000"
    );
}
