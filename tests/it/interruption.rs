//! Interrupted saves: a kill at any moment, a full disk.

use crate::small_run::{Run, files, folder};
use formwork::rng::{Purpose, Stream};
use formwork::train::checkpoint::{self, newest_complete};
use formwork::train::run_dir::RunDir;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "FORMWORK_TEST_FOLDER";

/// Runs this test binary in another process, on one of the parts below.
fn child(part: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            part,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FOLDER, folder);
    command
}

/// Saves after every step until the process is killed.
#[test]
#[ignore = "part of another test"]
fn part_saves_forever() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let dir = RunDir::open(&folder).unwrap();
    checkpoint::clean(&dir).unwrap();
    let mut run = match newest_complete(&folder).found {
        Some(saved) => Run::load(&saved, 64),
        None => Run::new(64),
    };
    loop {
        run = run.step();
        run.save(&dir, 1);
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_whole_checkpoint() {
    let (_temp, dir) = folder();
    dir.write("experiment.toml", b"").unwrap();
    dir.write("resolved.toml", b"").unwrap();
    let root = dir.root().to_path_buf();
    drop(dir);
    let mut stream = Stream::new(5, Purpose::Split, (0, 0, 0));
    let mut last = 0;
    for round in 0..12 {
        let mut process = child("interruption::part_saves_forever", &root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(120 + stream.below(120)));
        process.kill().unwrap();
        process.wait().unwrap();
        let dir = RunDir::open(&root).unwrap();
        checkpoint::clean(&dir).unwrap();
        let search = newest_complete(&root);
        assert!(search.refused.is_empty(), "{:?}", search.refused);
        let step = search.found.map_or(0, |c| c.state().step);
        assert!(
            step >= last,
            "round {round} went from {last} back to {step}"
        );
        last = step;
    }
    assert!(last > 0, "no process came to its first checkpoint");
    let saved = newest_complete(&root).found.unwrap();
    assert_eq!(
        Run::load(&saved, 64).hashes(),
        Run::new(64).steps(last).hashes()
    );
}

/// Saves a checkpoint that exceeds what the process may write.
#[test]
#[ignore = "part of another test"]
fn part_saves_into_a_full_disk() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let dir = RunDir::open(&folder).unwrap();
    let saved = newest_complete(&folder).found.unwrap();
    let run = Run::load(&saved, 64).step();
    let error = run.try_save(&dir, 1).unwrap_err();
    eprintln!("refused: {error}");
}

#[test]
#[cfg(unix)]
fn a_full_disk_leaves_the_last_checkpoint_whole() {
    let (_temp, dir) = folder();
    dir.write("experiment.toml", b"").unwrap();
    dir.write("resolved.toml", b"").unwrap();
    let run = Run::new(64).steps(2);
    let whole = files(&run.save(&dir, 1));
    let root = dir.root().to_path_buf();
    drop(dir);
    let largest = whole.iter().map(|(_, bytes)| bytes.len()).max().unwrap();
    // A limit on file size stands in for the end of the disk: one limit that stops the first file, and one that stops only the
    // largest. `sh` counts it in blocks of 512 bytes.
    for blocks in [1, largest / 512 - 8] {
        let plain = child("interruption::part_saves_into_a_full_disk", &root);
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &script])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env(FOLDER, &root)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        assert!(told.contains("refused: cannot write"), "{told}");
        let search = newest_complete(&root);
        assert!(search.refused.is_empty());
        assert_eq!(files(search.found.unwrap().folder()), whole);
        assert_eq!(std::fs::read_dir(root.join("steps")).unwrap().count(), 1);
    }
}
