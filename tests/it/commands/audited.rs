//! Finished runs used in bulk: many inputs at once, files with other columns, predictions; runs whose checkpoints are gone.

use super::json;
use crate::binary::{failure, formwork, output, piped, shipped};
use crate::in_folder::{at, written};
use std::fs;
use std::path::Path;

pub const CLASSES: &str = r#"name = "classes"
seed = 2
[model]
kind = "encoder"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
[data]
kind = "labelled_text"
path = "train.csv"
header = true
valid_fraction = 0.0
[tokenizer]
kind = "word"
[task]
kind = "text_classification"
pooling = "mean"
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 40
batch_size = 8
"#;

/// An experiment on rows whose text is not in the first column.
fn classified(folder: &Path) -> String {
    let mut table = String::from("id,label,text\n");
    for number in 0..40 {
        let (label, text) = [("up", "sun rises"), ("down", "sun sets")][number % 2];
        table += &format!("row{number},{label},{text}\n");
    }
    written(folder, "train.csv", &table);
    let file = written(folder, "x.toml", CLASSES);
    let run = at(folder, "run");
    output(&["train", &file, "--quiet", "--run", &run]);
    run
}

#[test]
fn columns_with_names_are_found_by_them_and_lines_are_classified() {
    let folder = tempfile::tempdir().unwrap();
    let run = classified(folder.path());
    let lines = "sun rises\nsun sets\n";
    let input = written(folder.path(), "lines.txt", lines);
    let told = output(&["classify", &run, "--input", &input, "--top", "1"]);
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told.len(), 2);
    assert!(
        told[0].starts_with("sun rises: up") && told[1].starts_with("sun sets: down"),
        "{told:?}"
    );
    assert_eq!(
        piped(&["classify", &run, "--input", "-", "--top", "1"], lines)
            .lines()
            .count(),
        2
    );
    // A closed standard output ends the command; a single line that cannot be read does not.
    let whole = "sun rises\n".repeat(20_000);
    let many = written(folder.path(), "many.txt", &whole);
    let mut child = formwork(&["classify", &run, "--input", &many])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let said = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).lines().count() < 3);
    let bytes = at(folder.path(), "bytes.txt");
    fs::write(&bytes, b"sun rises\nb\xff\nsun sets\n").unwrap();
    let done = formwork(&["classify", &run, "--input", &bytes])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        said.contains("bytes.txt:2: the line is not UTF-8"),
        "{said}"
    );
    assert_eq!(String::from_utf8_lossy(&done.stdout).lines().count(), 2);

    // Another table with other column names, under the run's classes.
    let other = written(
        folder.path(),
        "other.tsv",
        "sentence\tkind\nsun sets\tdown\nsun rises\tup\n",
    );
    let sets = ["--set", "data.text=sentence", "--set", "data.label=kind"];
    let scores = json(&output(
        &[&["eval", &run, "--data", &other, "--json"], &sets[..]].concat(),
    ));
    assert_eq!(scores["accuracy"], 1.0, "{scores}");
    let predictions = at(folder.path(), "predictions.jsonl");
    output(
        &[
            &[
                "eval",
                &run,
                "--data",
                &other,
                "--predictions",
                &predictions,
            ],
            &sets[..],
        ]
        .concat(),
    );
    let predicted = fs::read_to_string(&predictions).unwrap();
    let predicted: Vec<serde_json::Value> = predicted.lines().map(json).collect();
    assert_eq!(predicted.len(), 2);
    for (number, (line, class)) in predicted.iter().zip(["down", "up"]).enumerate() {
        assert_eq!(
            (&line["example"], &line["label"], &line["predicted"]),
            (&number.into(), &class.into(), &class.into())
        );
        assert_eq!(line["scores"].as_array().unwrap().len(), 2);
    }
    let (status, said) = failure(&[&["eval", &run], &sets[..]].concat());
    assert!(status == 2 && said.contains("give --data"), "{said}");
    let (status, said) = failure(&["eval", &run, "--data", &other, "--set", "train.steps=3"]);
    assert!(
        status == 2 && said.contains("begin with `decode.`"),
        "{said}"
    );
    let (status, said) = failure(&["eval", &run, "--data", &other]);
    assert!(status == 2 && said.contains("no column `text`"), "{said}");
}

#[test]
fn a_header_without_the_usual_names_and_one_that_is_not_announced_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "a b,up\nc d,down\n".repeat(12);
    written(folder.path(), "train.csv", &format!("words,kind\n{rows}"));
    let file = written(folder.path(), "x.toml", CLASSES);
    let (status, said) = failure(&["check", &file]);
    assert!(
        status == 2 && said.contains("no column `text`; allowed: `words`, `kind`"),
        "{said}"
    );
    written(folder.path(), "train.csv", &format!("text,label\n{rows}"));
    let (status, said) = failure(&["check", &file, "--set", "data.header=false"]);
    assert!(
        status == 2 && said.contains("names the columns: set [data] header = true"),
        "{said}"
    );
    written(
        folder.path(),
        "train.csv",
        &format!("text,label\n{}", "a b,up\n".repeat(9)),
    );
    let (status, said) = failure(&["check", &file]);
    assert!(
        status == 2 && said.contains("`up` is the only label"),
        "{said}"
    );
}

#[test]
fn a_run_without_its_checkpoints_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = classified(folder.path());
    let journal = || fs::read_to_string(Path::new(&run).join("metrics.jsonl")).unwrap();
    let before = journal();
    fs::remove_dir_all(Path::new(&run).join("steps")).unwrap();
    let (status, said) = failure(&["resume", &run]);
    assert!(
        status == 1 && said.contains("has no complete checkpoint left"),
        "{said}"
    );
    assert_eq!(journal(), before);
}

#[test]
fn pictures_of_a_folder_are_told_though_one_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let file = shipped("experiments/image_classification/shapes.toml")
        .display()
        .to_string();
    let run = at(folder.path(), "run");
    output(&[
        "train",
        &file,
        "--quiet",
        "--run",
        &run,
        "--set",
        "train.steps=2",
        "--set",
        "schedule.warmup_steps=1",
        "--set",
        "data.valid_items=8",
    ]);
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    for name in ["b.png", "a.png"] {
        image::GrayImage::new(28, 28)
            .save(pictures.join(name))
            .unwrap();
    }
    written(&pictures, "note.txt", "none");
    let told = output(&["classify", &run, &pictures.display().to_string()]);
    let names: Vec<bool> = told
        .lines()
        .zip(["a.png", "b.png"])
        .map(|(line, name)| line.contains(name))
        .collect();
    assert_eq!(names, [true, true], "{told}");
    // A folder may contain only folders; hidden files are skipped.
    let tree = folder.path().join("tree");
    for name in ["dog/1.png", "cat/grey/2.png", "cat/.3.png"] {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::GrayImage::new(28, 28).save(path).unwrap();
    }
    let told = output(&["classify", &run, &tree.display().to_string()]);
    let files = told.lines().map(|line| line.split(": ").next().unwrap());
    let files: Vec<&Path> = files.map(Path::new).collect();
    assert_eq!(files, [tree.join("cat/grey/2.png"), tree.join("dog/1.png")]);
    written(&pictures, "aa.png", "no picture");
    let done = formwork(&["classify", &run, &pictures.display().to_string()])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&done.stdout).lines().count(), 2);
    assert!(String::from_utf8_lossy(&done.stderr).contains("aa.png cannot be read as PNG or JPEG"));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let (status, said) = failure(&["classify", &run, &empty.display().to_string()]);
    assert!(
        status == 2 && said.contains("contain no PNG or JPEG file"),
        "{said}"
    );
}
