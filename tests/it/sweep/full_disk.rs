//! A sweep on a disk without space.

#![cfg(target_os = "linux")]

use super::Place;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command on a file system of a few megabytes that only this process sees; `None` if the system does not allow that.
fn on_small_disk(command: &Command, disk: &Path, rest: &str) -> Option<Output> {
    let program = command.get_program();
    let words = command.get_args();
    let script = format!("mount -t tmpfs -o size=3m tmpfs \"$0\" || exit 77\n{rest}");
    let mut mounted = Command::new("unshare");
    mounted.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    mounted.arg(disk).arg(program).args(words);
    mounted
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    let output = mounted.output().ok()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let refused = output.status.code() == Some(77) || told.starts_with("unshare:");
    (!refused).then_some(output)
}

/// No cell fails because of a full disk: the sweep stops, and continues where it was once there is space.
#[test]
fn a_full_disk_stops_a_sweep_which_then_goes_on() {
    let place = Place::new();
    let arms = "seeds = 3\n[ablation.axes]\n\"optimizer.lr\" = [1e-3, 2e-3]\n";
    let file = place.file("full", arms);
    fs::create_dir(place.path("disk")).unwrap();
    let sets = ["--set", "model.d_model=128", "--jobs", "2"];
    let sweep = place.sweep(&file, "disk/sweep", &sets);
    let rest = "\"$@\"; echo status $?; cat \"$0\"/sweep/ledger/*.end.json\n\
                mount -o remount,size=200m \"$0\" && \"$@\"; echo status $?";
    let Some(output) = on_small_disk(&sweep, &place.path("disk"), rest) else {
        eprintln!("no file system can be mounted here");
        return;
    };
    let said = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let (first, then) = said.split_once("status 1\n").expect(&told);
    assert!(!first.contains("cells done"), "{said}{told}");
    assert!(!then.contains("\"failed\""), "{said}{told}");
    let stopped = told.matches("error: the disk is full, so the sweep has stopped: ");
    assert_eq!(stopped.count(), 1, "{told}");
    let wanted = "of 6 cells are left; free some space, then continue with: formwork sweep ";
    assert!(told.contains(wanted), "{told}");
    assert!(!told.contains("failed"), "{told}");
    assert!(
        then.contains("6 cells done, 0 diverged, 0 failed, 0 with"),
        "{said}{told}"
    );
    assert!(then.ends_with("status 0\n"), "{said}{told}");
}
