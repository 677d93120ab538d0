//! `formwork submit`: the job script, its refusals, and its execution, with stand-ins for the programs of Slurm.

use crate::binary::{failure, formwork, output};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FILE: &str = "experiments/smoke/tiny.toml";
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Writes a program into `folder` that consists of these lines of shell.
fn stand_in(folder: &Path, name: &str, lines: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `formwork submit` on the smoke experiment with the programs of `folder` first in PATH; returns status, output,
/// messages.
fn submitted(path: &str, run: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let run = run.display().to_string();
    let mut arguments = vec!["submit", FILE, "--run", &run];
    arguments.extend(more);
    let done = formwork(&arguments).env("PATH", path).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn the_job_script_of_two_machines() {
    let said = output(&[
        "submit",
        FILE,
        "--run",
        "/there/it's 5%",
        "--set",
        "train.micro_batch_size=2",
        "--nodes",
        "2",
        "--tasks-per-node",
        "2",
        "--cpus-per-task",
        "4",
        "--time",
        "12:00:00",
        "--partition",
        "long",
        "--account",
        "ours",
        "--slurm-option=--mem=8G",
        "--dry-run",
    ]);
    let program = env!("CARGO_BIN_EXE_formwork");
    let wanted = format!(
        r#"#!/bin/sh
#SBATCH --job-name=it-s-5-
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --chdir='{ROOT}'
#SBATCH --output='/there/it'\''s 5%%.slurm-%j.log'
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=TERM@120
#SBATCH --time=12:00:00
#SBATCH --partition=long
#SBATCH --account=ours
#SBATCH --mem=8G

export RAYON_NUM_THREADS=4
srun --mpi=pmix --wait=60 --cpus-per-task=4 '{program}' train '{ROOT}/{FILE}' --run '/there/it'\''s 5%' --resume --plain --set 'train.micro_batch_size=2'
status=$?
# The run was saved before its time limit: requeue the job, and the next start resumes the run.
if [ "$status" -eq 130 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt 100 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
"#
    );
    assert_eq!(said, wanted);
    assert!(!Path::new("/there").exists());
}

#[test]
fn wrong_jobs_are_refused() {
    let asked = |more: &[&str]| {
        let mut arguments = vec!["submit", FILE, "--dry-run"];
        arguments.extend(more);
        let (status, told) = failure(&arguments);
        assert_eq!(status, 2, "{told}");
        told
    };
    let told = asked(&["--nodes", "3"]);
    assert!(
        told.contains(
            "--nodes 3 x --tasks-per-node 1: 3 ranks cannot share the 2 micro-batches of a step"
        ),
        "{told}"
    );
    assert!(told.contains("take 2"), "{told}");
    let told = asked(&["--nodes", "2", "--tasks-per-node", "2"]);
    assert!(
        told.contains("take 2, or set train.micro_batch_size = 2 for 4"),
        "{told}"
    );
    assert!(asked(&["--nodes", "0"]).contains("--nodes"));
    assert!(asked(&["--time", "3"]).contains("at least 5 minutes"));
    assert!(asked(&["--time", "soon"]).contains("not a Slurm time"));
    assert!(asked(&["--partition", "a b"]).contains("it is not a name"));
    assert!(asked(&["--slurm-option", "mem=8G"]).contains("is not an option of sbatch"));
    assert!(asked(&["--run", "a\nb"]).contains("a line break"));
    let told = asked(&["--set", "train.step=3"]);
    assert!(told.contains("did you mean `steps`?"), "{told}");
    let (_, told) = failure(&[
        "submit",
        "experiments/ablations/positions.toml",
        "--dry-run",
    ]);
    assert!(told.contains("formwork sweep"), "{told}");
}

#[test]
fn a_machine_without_slurm_says_so_and_keeps_the_script() {
    let place = tempfile::tempdir().unwrap();
    let (status, said, told) = submitted("/nowhere", &place.path().join("run"), &[]);
    assert_eq!((status, said.as_str()), (Some(2), ""), "{told}");
    assert!(
        told.contains("`sbatch` was not found on this machine"),
        "{told}"
    );
    let script = fs::read_to_string(place.path().join("run.sbatch")).unwrap();
    assert!(script.contains("\nsrun '/"), "{script}");
}

#[test]
fn the_number_of_a_job_is_shown_and_a_refusal_too() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().display().to_string();
    stand_in(place.path(), "sbatch", "echo Submitted batch job 7");
    let run = place.path().join("run");
    let (status, said, told) = submitted(&path, &run, &[]);
    assert_eq!(
        (status, said.as_str()),
        (Some(0), "Submitted batch job 7\n")
    );
    assert!(
        told.contains("run.sbatch") && told.contains("run.slurm-%j.log"),
        "{told}"
    );
    stand_in(place.path(), "sbatch", "echo no such partition >&2; exit 1");
    let (status, _, told) = submitted(&path, &run, &["--partition", "none"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("sbatch refused") && told.contains("no such partition"),
        "{told}"
    );
}

#[test]
fn several_tasks_need_a_program_with_mpi() {
    if cfg!(feature = "mpi") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let tasks = ["--tasks-per-node", "2"];
    let (status, _, told) = submitted("/nowhere", &place.path().join("run"), &tasks);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("--features mpi"), "{told}");
    assert!(!place.path().join("run.sbatch").exists());
}

/// Runs the job script of a run in `place` with a shell in which `srun` is these lines.
fn script_run(place: &Path, script: &Path, srun: &str, restarts: &str) -> (Option<i32>, String) {
    stand_in(place, "srun", srun);
    stand_in(place, "scontrol", "echo scontrol \"$@\"");
    let path = std::env::var("PATH").unwrap();
    let done = Command::new("sh")
        .arg(script)
        .env("PATH", format!("{}:{path}", place.display()))
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_RESTART_COUNT", restarts)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (done.status.code(), String::from_utf8(done.stdout).unwrap())
}

#[test]
fn a_job_that_saved_goes_back_into_the_queue_and_no_other() {
    let place = tempfile::tempdir().unwrap();
    let (at, run) = (place.path(), place.path().join("run"));
    stand_in(at, "sbatch", "echo Submitted batch job 7");
    submitted(&at.display().to_string(), &run, &["--restarts", "3"]);
    let script = at.join("run.sbatch");
    let ended = |srun: &str, restarts: &str| script_run(at, &script, srun, restarts);
    let requeued = "scontrol requeue 7\n".to_string();
    assert_eq!(ended("exit 130", "0"), (Some(0), requeued.clone()));
    assert_eq!(ended("exit 130", "2"), (Some(0), requeued));
    assert_eq!(ended("exit 130", "3"), (Some(130), String::new()));
    assert_eq!(ended("exit 0", "0"), (Some(0), String::new()));
    assert_eq!(ended("exit 1", "0"), (Some(1), String::new()));
}

/// The script's own command trains a run, or resumes it if it exists.
#[test]
fn a_job_trains_a_run_and_a_later_one_resumes_it() {
    let place = tempfile::tempdir().unwrap();
    let (at, run): (&Path, PathBuf) = (place.path(), place.path().join("run"));
    stand_in(at, "sbatch", "echo Submitted batch job 7");
    let path = at.display().to_string();
    submitted(&path, &run, &["--set", "train.steps=10"]);
    // The flags of srun end where the program's name begins.
    let srun = "while [ \"${1#-}\" != \"$1\" ]; do shift; done; exec \"$@\"";
    let (status, said) = script_run(at, &at.join("run.sbatch"), srun, "0");
    assert!(
        status == Some(0) && said.starts_with("done after 10 steps"),
        "{said}"
    );
    let (status, _, told) = submitted(&path, &run, &[]);
    assert_eq!(status, Some(2), "{told}");
    assert!(
        told.contains("already contains a run; resume it with `formwork submit"),
        "{told}"
    );
    let run = run.display().to_string();
    let more = ["submit", &run, "--set", "train.steps=20"];
    let done = formwork(&more).env("PATH", &path).output().unwrap();
    assert!(done.status.success());
    let (status, said) = script_run(at, &at.join("run.sbatch"), srun, "0");
    assert!(
        status == Some(0) && said.starts_with("done after 20 steps"),
        "{said}"
    );
}
