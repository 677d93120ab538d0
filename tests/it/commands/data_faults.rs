//! Data files that contradict the experiment: found before anything runs, with the place and exit status 2.

use crate::binary::{failure, output, shipped};
use formwork::tokenizer::{BpeConfig, Tokenizer, TokenizerConfig};
use std::path::Path;

/// Returns the message with which training a shipped experiment on this `[data]` is refused.
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
fn parallel_files_without_texts_and_keys_without_effect() {
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = ["a-text.txt", "b-text.txt"].map(|name| folder.path().join(name));
    std::fs::write(&source, "one\ntwo\n").unwrap();
    std::fs::write(&target, "\n \n").unwrap();
    let of = |source: &Path, target: &Path| {
        format!("kind = \"pairs\", source = {source:?}, target = {target:?}, max_len = 16")
    };
    let told = |data: &str| refused(folder.path(), "experiments/translation/dates.toml", data);
    let said = told(&of(&source, &target));
    assert!(said.contains("[data] target: every target"), "{said}");
    let said = told(&of(&target, &source));
    assert!(said.contains("[data] source: every source"), "{said}");
    assert!(said.contains("error: --set data="), "{said}");
    let data = format!("{}, all_references = true", of(&source, &source));
    let said = told(&data);
    assert!(
        said.contains("all_references = true has no effect"),
        "{said}"
    );
    assert!(said.contains("error: --set data="), "{said}");
}

/// A vocabulary that lacks the tokens around a target is reported at the table that can name them.
#[test]
fn a_vocabulary_that_begins_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let pairs = ["a.txt", "b.txt"].map(at);
    for file in &pairs {
        std::fs::write(file, "a b\nb a\n").unwrap();
    }
    let vocabulary = Tokenizer::build(&TokenizerConfig::Bpe(BpeConfig::default()), &["a b"]);
    let json = at("tokenizer.json");
    vocabulary.unwrap().save(Path::new(&json)).unwrap();
    let [source, target] = &pairs;
    let keys = format!("kind = \"pairs\", source = {source:?}, target = {target:?}, max_len = 16");
    let file = shipped("experiments/translation/dates.toml")
        .display()
        .to_string();
    let (status, said) = failure(&[
        "check",
        &file,
        "--set",
        &format!("data={{ {keys} }}"),
        "--set",
        &format!("tokenizer={{ kind = \"pretrained\", path = {json:?} }}"),
    ]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("error: --set data="), "{said}");
    assert!(
        said.contains("[data] the vocabulary has no token that begins a text"),
        "{said}"
    );
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

/// An empty text is reported at the key that names it; a fault of special tokens at the `--set` that sets them.
#[test]
fn faults_of_a_value_stand_where_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("empty.txt");
    std::fs::write(&text, "").unwrap();
    let data = format!("kind = \"text\", path = {text:?}, context = 16");
    let said = refused(folder.path(), "experiments/smoke/tiny.toml", &data);
    assert!(said.contains("the training text is empty"), "{said}");
    assert!(said.starts_with("error: --set data="), "{said}");
    let special = "tokenizer={ kind = \"bpe\", special_tokens = [\"a\", \"a\"] }";
    let data = format!("data={{ {data} }}");
    let file = shipped("experiments/smoke/tiny.toml").display().to_string();
    let sets = ["--set", &data, "--set", special];
    let (status, said) = failure(&[&["check", &file][..], &sets].concat());
    assert_eq!(status, 2, "{said}");
    assert!(said.starts_with("error: --set tokenizer="), "{said}");
}

#[test]
fn files_of_an_evaluation_that_hold_nothing_or_too_little() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).unwrap();
        folder.path().join(name).display().to_string()
    };
    let text = at("text.txt", &"abcd efgh ".repeat(200));
    let run = folder.path().join("run").display().to_string();
    let file = shipped("experiments/smoke/tiny.toml").display().to_string();
    let data = format!("data={{ kind = \"text\", path = {text:?}, context = 16 }}");
    let sets = ["--set", &data, "--set", "tokenizer={ kind = \"char\" }"];
    output(&[&["train", &file, "--quiet", "--run", &run][..], &sets].concat());
    let cases = [
        (at("empty.txt", "\n"), "the file is empty"),
        (at("short.txt", "a"), "; give a larger file"),
        (
            at("new.txt", &"xyz ".repeat(50)),
            "the text that the tokenizer was trained on; remove it",
        ),
    ];
    for (file, says) in cases {
        let (status, said) = failure(&["eval", &run, "--data", &file]);
        assert!(said.contains(says), "{said}");
        assert!(!said.contains("fraction"), "{said}");
        assert_eq!(status, 2, "{said}");
    }
    let (status, said) = failure(&["tokenize", &run, "\u{2603}"]);
    assert!(status == 2 && said.contains("U+2603"), "{said}");
    let other = "data.path=nofile.txt";
    let (status, said) = failure(&["resume", &run, "--set", "train.steps=50", "--set", other]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains(&format!("--set {other}: ")), "{said}");
}
