//! Files of data that are not what the experiment says: found before anything runs, with the place, status 2.

use crate::binary::{failure, shipped};
use std::path::Path;

/// What training a shipped experiment on these `[data]` is refused with.
fn refused(folder: &Path, file: &str, data: &str) -> String {
    let run = folder.join("run").display().to_string();
    let (file, data) = (
        shipped(file).display().to_string(),
        format!("data={{ {data} }}"),
    );
    let tokenizer = "tokenizer={ kind = \"char\" }";
    let mut arguments = vec!["train", &file, "--run", &run, "--quiet", "--set", &data];
    if data.contains("text") {
        arguments.extend(["--set", tokenizer]);
    }
    let (status, said) = failure(&arguments);
    assert_eq!(status, 2, "{said}");
    assert!(!Path::new(&run).exists(), "{said}");
    said
}

#[test]
fn parallel_files_of_different_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = ["a.txt", "b.txt"].map(|name| folder.path().join(name));
    std::fs::write(&source, "one\ntwo\nthree\n").unwrap();
    std::fs::write(&target, "eins\nzwei\n").unwrap();
    let data = format!("kind = \"pairs\", source = {source:?}, target = {target:?}, max_len = 16");
    let said = refused(folder.path(), "experiments/translation/dates.toml", &data);
    assert!(said.contains("a.txt") && said.contains("b.txt"), "{said}");
}

#[test]
fn a_table_without_the_column() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t.tsv");
    std::fs::write(&table, "good\t1\nbad\n").unwrap();
    let data = format!("kind = \"labelled_text\", path = {table:?}, context = 16");
    let said = refused(
        folder.path(),
        "experiments/text_classification/listops.toml",
        &data,
    );
    assert!(said.contains("t.tsv:2"), "{said}");
}

#[test]
fn damaged_images() {
    let folder = tempfile::tempdir().unwrap();
    let class = folder.path().join("cats");
    std::fs::create_dir(&class).unwrap();
    std::fs::write(class.join("1.png"), b"no picture").unwrap();
    let data = format!("kind = \"images\", path = {:?}", folder.path());
    let said = refused(
        folder.path(),
        "experiments/image_classification/shapes.toml",
        &data,
    );
    assert!(said.contains("1.png"), "{said}");
}
