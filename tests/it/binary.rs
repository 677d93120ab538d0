//! Runs the built binary as a user would.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The binary with its arguments, shielded from the caller's environment.
pub fn formwork<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_formwork"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    command
}

/// Returns standard output of a command that must succeed.
pub fn output<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> String {
    let output = formwork(arguments).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns standard output of a command that reads `input` and must succeed.
pub fn piped<S: AsRef<std::ffi::OsStr>>(arguments: &[S], input: &str) -> String {
    let mut child = formwork(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).unwrap();
    drop(pipe);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", shown(&ended));
    String::from_utf8(ended.stdout).unwrap()
}

/// Returns exit status and standard error of a command that must fail.
pub fn failure<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> (i32, String) {
    let output = formwork(arguments).output().unwrap();
    assert!(!output.status.success(), "{}", shown(&output));
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Formats exit status and everything that a command printed.
pub fn shown(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Path of a file in the repository.
pub fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Paths of all shipped experiments.
pub fn experiments() -> Vec<PathBuf> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|e| e == "toml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    visit(&shipped("experiments"), &mut found);
    found.sort();
    found
}
