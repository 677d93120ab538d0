//! Runs on a user's own data: files that move, runs that move, labels that change.

use crate::binary::{failure, formwork, output};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLASSIFIER: &str = r#"name = "own"
[model]
kind = "encoder"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
[tokenizer]
kind = "char"
[data]
kind = "labelled_text"
path = "data/train.tsv"
valid_path = "data/valid.tsv"
text = 1
label = 2
context = 16
[task]
kind = "text_classification"
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 4
batch_size = 4
eval_every = 2
"#;

/// Writes rows `texts⇥label`, labelled by the first letter of the text.
fn table(labels: [&str; 3], count: usize) -> String {
    let words = ["apple", "berry", "cherry"];
    let row = |i: usize| format!("{} {i}\t{}\n", words[i % 3], labels[i % 3]);
    (0..count).map(row).collect()
}

/// Creates a folder with an experiment on its own data, and a run of it.
fn project() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    fs::create_dir_all(root.join("data")).unwrap();
    fs::write(root.join("own.toml"), CLASSIFIER).unwrap();
    fs::write(
        root.join("data/train.tsv"),
        table(["red", "blue", "dark"], 30),
    )
    .unwrap();
    fs::write(
        root.join("data/valid.tsv"),
        table(["red", "blue", "dark"], 9),
    )
    .unwrap();
    let experiment = root.join("own.toml").display().to_string();
    let run = root.join("runs/own").display().to_string();
    output(&["train", &experiment, "--quiet", "--run", &run]);
    (folder, root)
}

fn evaluated(run: &Path, more: &[&str]) -> Value {
    let run = run.display().to_string();
    let text = output(&[&["eval", &run, "--json"], more].concat());
    serde_json::from_str(&text).unwrap()
}

fn resumed(run: &Path, sets: &[&str]) {
    let run = run.display().to_string();
    let mut words = vec!["resume", &run, "--quiet"];
    for set in sets {
        words.extend(["--set", set]);
    }
    output(&words);
}

#[test]
fn classes_have_the_numbers_of_the_run() {
    let (_folder, root) = project();
    let run = root.join("runs/own");
    let shown = run.display().to_string();
    let valid = root.join("data/valid.tsv");
    let before = evaluated(&run, &[]);
    // A renamed or new label: the files are not the run's, and nothing is evaluated silently.
    for labels in [["red", "blue", "green"], ["red", "blue", "aaa"]] {
        fs::write(&valid, table(labels, 9)).unwrap();
        for command in ["eval", "resume"] {
            let mut words = vec![command, &shown];
            if command == "resume" {
                words.extend(["--set", "train.steps=6"]);
            }
            let (status, said) = failure(&words);
            assert_eq!(status, 2, "{said}");
            assert!(
                said.contains("valid.tsv differs from the one that the run began with"),
                "{said}"
            );
            words.push("--other-data");
            let (status, said) = failure(&words);
            assert_eq!(status, 2, "{said}");
            let unknown = format!("not trained on the label `{}`", labels[2]);
            assert!(
                said.contains("valid.tsv:3: ") && said.contains(&unknown),
                "{said}"
            );
            assert!(said.contains("`blue`, `dark`, `red`"), "{said}");
            assert!(!said.contains("panicked"), "{said}");
        }
    }
    // Labels come in another order in the training table: their numbers are still the run's.
    fs::write(&valid, table(["red", "blue", "dark"], 9)).unwrap();
    let train = root.join("data/train.tsv");
    let text = fs::read_to_string(&train).unwrap();
    let without: Vec<&str> = text
        .lines()
        .filter(|line| !line.ends_with("blue"))
        .collect();
    fs::write(&train, without.join("\n") + "\n").unwrap();
    let scores = evaluated(&run, &["--other-data", "--confusion"]);
    assert_eq!(
        scores["classes"],
        serde_json::json!(["blue", "dark", "red"])
    );
    assert_eq!(scores["loss"], before["loss"]);
    assert_eq!(scores["accuracy"], before["accuracy"]);
}

#[test]
fn a_run_and_its_data_move_together_apart_and_by_name() {
    let (folder, root) = project();
    let run = root.join("runs/own");
    let resolved = fs::read_to_string(run.join("resolved.toml")).unwrap();
    assert!(
        resolved.contains("path = \"../../data/train.tsv\""),
        "{resolved}"
    );
    let loss = evaluated(&run, &[])["loss"].clone();
    // Compared with a run in a folder of another depth, nothing differs.
    let beside = folder.path().join("beside").display().to_string();
    let experiment = root.join("own.toml").display().to_string();
    output(&["train", &experiment, "--quiet", "--run", &beside]);
    let text = output(&["compare", &run.display().to_string(), &beside]);
    assert!(text.contains("no setting differs"), "{text}");
    // Run and data move together.
    let moved = folder.path().join("moved");
    fs::rename(&root, &moved).unwrap();
    assert_eq!(evaluated(&moved.join("runs/own"), &[])["loss"], loss);
    resumed(&moved.join("runs/own"), &["train.steps=6"]);
    // Only the run moves.
    let alone = folder.path().join("alone");
    fs::rename(moved.join("runs/own"), &alone).unwrap();
    evaluated(&alone, &[]);
    resumed(&alone, &["train.steps=8"]);
    // Only the data moves; the command runs in another working directory, where files of the same names have other content.
    let data = folder.path().join("x/elsewhere");
    fs::create_dir_all(&data).unwrap();
    for name in ["train.tsv", "valid.tsv"] {
        fs::rename(moved.join("data").join(name), data.join(name)).unwrap();
    }
    let shown = alone.display().to_string();
    let (status, said) = failure(&["resume", &shown, "--set", "train.steps=10"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("no file or folder"), "{said}");
    let remedy = format!(
        "if it was moved, set its new path with `formwork resume {shown} --set data.path=NEW`"
    );
    assert!(said.contains(&remedy), "{said}");
    let (status, said) = failure(&["eval", &shown]);
    assert!(status == 2 && said.contains(&remedy), "{said}");
    let sets: Vec<String> = [("path", "train"), ("valid_path", "valid")]
        .iter()
        .map(|(key, name)| format!("data.{key}={}", data.join(format!("{name}.tsv")).display()))
        .collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    // A finished run accepts the new path, too.
    resumed(&alone, &sets);
    evaluated(&alone, &[]);
    resumed(&alone, &["train.steps=10"]);
    resumed(&alone, &["train.steps=12"]);
    evaluated(&alone, &[]);
    let state = fs::read_to_string(alone.join("latest/state.json")).unwrap();
    assert!(!state.contains("data."), "a place is no change: {state}");
    // Other content is other data, wherever it is.
    let other = folder.path().join("other.tsv");
    fs::write(&other, table(["red", "blue", "dark"], 33)).unwrap();
    let set = format!("data.path={}", other.display());
    let (status, said) = failure(&["resume", &shown, "--set", "train.steps=14", "--set", &set]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("other.tsv differs from the one that the run began with"),
        "{said}"
    );
}

/// A file of the same name in the working directory does not replace a run's own file.
#[test]
fn the_working_folder_gives_a_run_no_other_data() {
    let (folder, root) = project();
    let run = root.join("runs/own");
    let loss = evaluated(&run, &[])["loss"].clone();
    let trap = folder.path().join("a/b");
    fs::create_dir_all(&trap).unwrap();
    fs::create_dir_all(folder.path().join("data")).unwrap();
    for name in ["train.tsv", "valid.tsv"] {
        let other = table(["dark", "red", "blue"], 12);
        fs::write(folder.path().join("data").join(name), other).unwrap();
    }
    let shown = run.display().to_string();
    let here = |words: &[&str]| -> Command {
        let mut command = formwork(words);
        command.current_dir(&trap);
        command
    };
    let ended = here(&["eval", &shown, "--json"]).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    let scores: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(scores["loss"], loss);
    // After the run moved, its path leads to a copy with other content, so the data of the old place is used.
    let moved = folder.path().join("runs/own");
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::rename(&run, &moved).unwrap();
    assert_eq!(evaluated(&moved, &[])["loss"], loss);
    // A run's `resolved.toml` is an experiment, too.
    let again = folder.path().join("again").display().to_string();
    let resolved = moved.join("resolved.toml").display().to_string();
    let ended = here(&["train", &resolved, "--quiet", "--run", &again])
        .output()
        .unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

/// Any program can set size and modification time of a file, but not the time of its inode's last change.
#[test]
#[cfg(unix)]
fn another_content_of_the_same_size_and_date_is_noticed() {
    let (_folder, root) = project();
    let run = root.join("runs/own").display().to_string();
    let table = root.join("data/train.tsv");
    let date = fs::metadata(&table).unwrap().modified().unwrap();
    let text = fs::read_to_string(&table).unwrap();
    fs::write(&table, text.replace("apple", "grape")).unwrap();
    let file = fs::File::options().append(true).open(&table).unwrap();
    file.set_modified(date).unwrap();
    let (status, said) = failure(&["resume", &run, "--set", "train.steps=6"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("train.tsv differs from the one that the run began with"),
        "{said}"
    );
    fs::write(&table, text).unwrap();
    output(&["resume", &run, "--quiet", "--set", "train.steps=6"]);
}

/// A table with a header, for a run whose own tables have none.
#[test]
fn a_first_line_that_names_columns_is_told_with_the_flag() {
    let (_folder, root) = project();
    let run = root.join("runs/own").display().to_string();
    let file = root.join("named.tsv").display().to_string();
    let rows = table(["red", "blue", "dark"], 6);
    fs::write(&file, format!("text\tlabel\n{rows}")).unwrap();
    let (status, said) = failure(&["eval", &run, "--data", &file]);
    assert_eq!(status, 2, "{said}");
    let place = "named.tsv:1: the run was not trained on the label `label`";
    let remedy = "; if the first line names the columns, add --set data.header=true";
    assert!(said.contains(place) && said.contains(remedy), "{said}");
    output(&["eval", &run, "--data", &file, "--set", "data.header=true"]);
    // Further down, it is a label like any other.
    fs::write(&file, format!("{rows}text\tlabel\n")).unwrap();
    let (_, said) = failure(&["eval", &run, "--data", &file]);
    assert!(
        said.contains("named.tsv:7") && !said.contains("header"),
        "{said}"
    );
}
