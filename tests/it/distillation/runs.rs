//! Runs with a teacher: they resume exactly, identify their teacher by its weights, and need no teacher once they are trained.

use crate::in_folder::{good, resumes_exactly, run, weights};
use safetensors::SafeTensors;
use std::fs;
use std::path::Path;

/// Writes an experiment on a decoder with this number of layers, on three reversed symbols; `more` is appended.
fn file(folder: &Path, name: &str, layers: usize, task: &str, more: &str) {
    let text = format!(
        r#"
name = "{name}"
[model]
kind = "decoder"
n_layers = {layers}
d_model = 8
dropout = 0.1
position = {{ kind = "learned" }}
attention = {{ kind = "multi_head", n_heads = 2 }}
[data]
kind = "reverse"
length = 3
symbols = 4
valid_items = 8
[task]
{task}
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 4
batch_size = 4
micro_batch_size = 2
checkpoint_every = 2
keep_last = 3
{more}
"#
    );
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

const PLAIN: &str = "kind = \"causal_lm\"";
const TAUGHT: &str =
    "kind = \"distillation\"\nteacher = \"checkpoints/teacher\"\nof = { kind = \"causal_lm\" }";

/// Creates a folder with a trained teacher of two layers, and the experiment of a student of one.
fn with_teacher() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "teacher", 2, PLAIN, "");
    file(folder.path(), "student", 1, TAUGHT, "");
    good(folder.path(), &["train", "teacher.toml", "--quiet"]);
    folder
}

/// Returns the only error of a command that is refused.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    let errors = said.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{said}");
    said
}

#[test]
fn a_student_resumes_exactly_and_keeps_nothing_of_its_teacher() {
    let folder = with_teacher();
    let at = folder.path();
    resumes_exactly(at, "student", [2, 4]);
    let whole = weights(at, "student", 4);
    // The parameters are those without a teacher, with other values.
    file(at, "alone", 1, PLAIN, "");
    good(at, &["train", "alone.toml", "--quiet"]);
    let alone = weights(at, "alone", 4);
    let names = |bytes: &[u8]| {
        let file = SafeTensors::deserialize(bytes).unwrap();
        let mut names: Vec<String> = file.names().into_iter().map(Into::into).collect();
        names.sort();
        names
    };
    assert_eq!(names(&whole), names(&alone));
    assert!(whole != alone);
    // The training journal has the losses against the teacher; evaluations are the task's own.
    let journal = fs::read_to_string(at.join("checkpoints/student/metrics.jsonl")).unwrap();
    assert!(journal.contains("soft_loss") && journal.contains("cosine_loss"));
    let kept = fs::read_to_string(at.join("checkpoints/student/teacher.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn a_trained_student_needs_no_teacher() {
    let folder = with_teacher();
    let at = folder.path();
    good(at, &["train", "student.toml", "--quiet"]);
    fs::remove_dir_all(at.join("checkpoints/teacher")).unwrap();
    good(at, &["eval", "checkpoints/student"]);
    good(
        at,
        &[
            "generate",
            "checkpoints/student",
            "--prompt",
            "ab=",
            "--tokens",
            "3",
        ],
    );
    // A finished run is left alone; if it is to continue, the message says what is missing.
    good(at, &["resume", "checkpoints/student", "--quiet"]);
    let more = ["resume", "checkpoints/student", "--set", "train.steps=6"];
    let said = refused(at, &more);
    assert!(
        said.contains("teacher") && said.contains("there is no run"),
        "{said}"
    );
    // Another run can begin from it like from any other.
    file(
        at,
        "tuned",
        1,
        PLAIN,
        "[init]\nfrom = \"checkpoints/student\"",
    );
    good(at, &["train", "tuned.toml", "--quiet"]);
}

#[test]
fn a_run_goes_on_with_the_teacher_that_it_began_with() {
    let folder = with_teacher();
    let at = folder.path();
    good(at, &["train", "student.toml", "--quiet"]);
    let more = [
        "resume",
        "checkpoints/student",
        "--quiet",
        "--set",
        "train.steps=6",
    ];
    // A teacher with the same weights elsewhere is the same teacher.
    fs::rename(at.join("checkpoints/teacher"), at.join("moved")).unwrap();
    let moved = [&more[..], &["--set", "task.teacher=moved"]].concat();
    good(at, &moved);
    // A teacher trained with another seed is another teacher.
    good(
        at,
        &[
            "train",
            "teacher.toml",
            "--quiet",
            "--set",
            "seed=2",
            "--run",
            "other",
        ],
    );
    let other = [
        "resume",
        "checkpoints/student",
        "--set",
        "train.steps=8",
        "--set",
        "task.teacher=other",
    ];
    let said = refused(at, &other);
    assert!(
        said.contains("is not the teacher that the run began with"),
        "{said}"
    );
    // Other weights of the losses are refused as another run.
    let soft = [
        "resume",
        "checkpoints/student",
        "--set",
        "train.steps=8",
        "--set",
        "task.soft=1.0",
    ];
    assert!(refused(at, &soft).contains("task.soft"));
    // The place where the teacher was found is stored.
    good(
        at,
        &[
            "resume",
            "checkpoints/student",
            "--quiet",
            "--set",
            "train.steps=7",
        ],
    );
}

#[test]
fn a_teacher_that_does_not_fit_is_refused_before_training() {
    let folder = with_teacher();
    let at = folder.path();
    for (sets, wanted) in [
        (vec!["data.symbols=5"], "a different vocabulary"),
        (vec!["data.length=4"], "has positions for"),
        (
            vec!["model.d_model=12"],
            "cosine = 1.0 compares hidden states, which are 12 wide here and 8 wide",
        ),
        (vec!["task.of={kind=\"translation\"}"], "task causal_lm"),
        (vec!["task.teacher=checkpoints/missing"], "there is no run"),
        (
            vec!["task.teacher_checkpoint=average:2"],
            "a teacher must be a single checkpoint",
        ),
        (
            vec!["task.teacher_checkpoint=\"3\""],
            "no checkpoint of step 3",
        ),
        (
            vec!["task.temperature=0.0"],
            "temperature = 0.0 must be above 0",
        ),
        (
            vec!["task.soft=0.0", "task.cosine=0.0"],
            "disable the teacher",
        ),
        (
            vec!["task.soft=0.0", "task.temperature=3.0"],
            "temperature = 3.0 has no effect",
        ),
        (
            vec!["task.hard_labels=true"],
            "hard_labels = true needs classes",
        ),
        (
            vec!["task.of.second_target=0.5"],
            "a teacher has no such predictions",
        ),
        (
            vec!["task.of.label_smoothing=2.0"],
            "[task.of] label_smoothing",
        ),
    ] {
        let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
        let arguments = [&["train", "student.toml"][..], &sets].concat();
        let output = run(at, &arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{sets:?}: {said}");
        assert!(said.contains(wanted), "{sets:?}: {said}");
        assert!(!at.join("checkpoints/student").exists(), "{sets:?}");
    }
}

#[test]
fn verify_trains_the_teacher_and_a_student_takes_some_of_its_layers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "teacher", 2, PLAIN, "");
    let taught = TAUGHT.replace("checkpoints/teacher", "teacher.toml");
    let rest = "[init]\nfrom = \"teacher.toml\"\nlayers = \"every_second\"\n[expect]\nvalid_loss = { at_most = 100.0 }";
    file(at, "student", 1, &taught, rest);
    let said = good(at, &["verify", "student.toml"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].contains("teacher") && lines[1].contains("holds  student"),
        "{said}"
    );
    let resolved = fs::read_to_string(at.join("checkpoints/verify/student/resolved.toml")).unwrap();
    assert_eq!(resolved.matches("\"../teacher\"").count(), 2, "{resolved}");
    // The second of two layers can be taken; three layers do not exist.
    good(at, &["train", "teacher.toml", "--quiet"]);
    let second = [
        "train",
        "student.toml",
        "--set",
        "init.layers=\"1\"",
        "--run",
        "second",
        "--quiet",
    ];
    good(at, &second);
    for (layers, wanted) in [
        ("2", "numbered from 0 to 1"),
        ("0,1", "list one for each"),
        ("last", "is not a list of layers"),
    ] {
        let set = format!("init.layers={layers:?}");
        let arguments = ["train", "student.toml", "--set", &set, "--run", "third"];
        assert!(refused(at, &arguments).contains(wanted), "{layers}");
    }
}

/// The plan counts a forward pass of the teacher, and only the student's parameters.
#[test]
fn plans_count_the_teacher_s_pass() {
    let folder = with_teacher();
    let at = folder.path();
    file(at, "alone", 1, PLAIN, "");
    let plan = |file: &str| -> serde_json::Value {
        let said = good(at, &["plan", file, "--no-probe", "--json"]);
        serde_json::from_str(&said).unwrap()
    };
    let [teacher, student, alone] = ["teacher.toml", "student.toml", "alone.toml"].map(plan);
    assert_eq!(student["params"], alone["params"]);
    let flops = |plan: &serde_json::Value| plan["flops_per_item"].as_f64().unwrap();
    let wanted = flops(&alone) + flops(&teacher) / 3.0;
    assert!((flops(&student) / wanted - 1.0).abs() < 1e-9, "{student}");
    // Adapters can be distilled as well as weights.
    let adapted = ["train", "student.toml", "--quiet", "--set", "lora.rank=2"];
    good(at, &adapted);
}
