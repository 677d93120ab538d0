//! Runs on folders of a user's own pictures: other files in them, and pictures that are added or removed.

use crate::binary::{failure, formwork, output, shown};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const PICTURES: &str = r#"name = "pictures"
[model]
kind = "vision"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
stem = { kind = "patches", size = 4 }
[data]
kind = "images"
path = "shapes"
valid_fraction = 0.25
[task]
kind = "image_classification"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 2
batch_size = 4
eval_every = 2
"#;

fn picture(path: &Path, grey: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let picture = image::GrayImage::from_pixel(8, 8, image::Luma([grey]));
    picture.save(path).unwrap();
}

/// Creates a folder with pictures of two classes and a file that is no image, and a run of it.
fn project() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_path_buf();
    for number in 0..8 {
        let class = ["dark", "light"][number % 2];
        let grey = 20 + 100 * (number % 2) as u8 + number as u8;
        picture(&root.join(format!("shapes/{class}/{number}.png")), grey);
    }
    fs::write(root.join("shapes/notes.txt"), "mine").unwrap();
    fs::write(root.join("pictures.toml"), PICTURES).unwrap();
    let run = root.join("run").display().to_string();
    (folder, root, run)
}

#[test]
fn files_that_are_no_pictures_are_told_and_change_no_run() {
    let (_folder, root, run) = project();
    let shapes = root.join("shapes");
    let experiment = root.join("pictures.toml").display().to_string();
    let trained = ["train", &experiment, "--plain", "--run", &run];
    let trained = shown(&formwork(&trained).output().unwrap());
    let told = "a file that is not an image is ignored: notes.txt";
    assert_eq!(trained.matches(told).count(), 1, "{trained}");
    // Such files may be added and removed.
    fs::write(shapes.join("dark/Thumbs.db"), "made by a viewer").unwrap();
    output(&["eval", &run]);
    fs::remove_file(shapes.join("notes.txt")).unwrap();
    output(&["resume", &run, "--quiet", "--set", "train.steps=3"]);
    let checked = shown(&formwork(&["check", &experiment]).output().unwrap());
    let told = "a file that is not an image is ignored: dark/Thumbs.db";
    assert!(checked.contains(told), "{checked}");
}

#[test]
fn pictures_that_came_or_went_are_named() {
    let (_folder, root, run) = project();
    let shapes = root.join("shapes");
    let experiment = root.join("pictures.toml").display().to_string();
    output(&["train", &experiment, "--quiet", "--run", &run]);
    picture(&shapes.join("dark/90.png"), 3);
    fs::rename(shapes.join("light/1.png"), shapes.join("light/01.png")).unwrap();
    for command in ["eval", "resume"] {
        let mut words = vec![command, &run];
        if command == "resume" {
            words.extend(["--set", "train.steps=3"]);
        }
        let (status, said) = failure(&words);
        assert_eq!(status, 2, "{said}");
        let differences = "shapes differs from the one that the run began with (dark/90.png is new, light/01.png is new, \
                           light/1.png is gone): its content changed";
        assert!(said.contains(differences), "{said}");
    }
    // Once restored, the pictures are the same data; each prediction names its picture.
    fs::remove_file(shapes.join("dark/90.png")).unwrap();
    fs::rename(shapes.join("light/01.png"), shapes.join("light/1.png")).unwrap();
    let lines = root.join("lines.jsonl").display().to_string();
    output(&["eval", &run, "--predictions", &lines]);
    for line in fs::read_to_string(&lines).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let file = Path::new(line["file"].as_str().unwrap());
        assert!(file.is_file(), "{line}");
        let class = file.parent().unwrap().file_name().unwrap();
        assert_eq!(class.to_str().unwrap(), line["label"], "{line}");
    }
}
