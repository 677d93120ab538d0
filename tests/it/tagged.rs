//! Token tagging and text regression, from files through training, evaluation and use.

use crate::binary::{failure, formwork, output};
use crate::in_folder::{at, goes_on_to_the_same_bits};
use serde_json::Value;
use std::fs;
use std::path::Path;

const HEAD: &str = r#"name = "own"
seed = 3
[model]
kind = "encoder"
n_layers = 1
d_model = 32
attention = { kind = "multi_head", n_heads = 2 }
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 60
batch_size = 8
eval_every = 60
"#;

/// Names are persons, and the words after "in" are places; `I` continues a place.
fn sentences(count: usize) -> String {
    let names = ["anna", "ben", "cleo", "dan"];
    let places = ["paris", "rome", "oslo"];
    let sentence = |i: usize| {
        let (name, place) = (names[i % 4], places[i % 3]);
        let second = if i.is_multiple_of(2) {
            "\nold\tI-place"
        } else {
            ""
        };
        format!("{name}\tB-person\nlives\tO\nin\tO\n{place}\tB-place{second}\n\t\n")
    };
    (0..count).map(sentence).collect()
}

fn project(table: &str, files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), format!("{HEAD}{table}")).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn trained(folder: &Path) -> String {
    let run = at(folder, "run");
    output(&["train", &at(folder, "own.toml"), "--quiet", "--run", &run]);
    run
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&output(arguments)).unwrap()
}

const TAGGED: &str = r#"[tokenizer]
kind = "word"
[data]
kind = "tagged_text"
path = "train.conll"
valid_path = "valid.conll"
context = 16
[task]
kind = "token_classification"
"#;

#[test]
fn words_get_their_tags_and_entities_are_counted() {
    let files = [
        ("train.conll", sentences(24)),
        ("valid.conll", sentences(6)),
    ];
    let folder = project(TAGGED, &files);
    let run = trained(folder.path());
    let scores = json(&["eval", &run, "--json"]);
    for metric in ["accuracy", "precision", "recall", "f1"] {
        assert_eq!(scores[metric], 1.0, "{metric}: {scores}");
    }
    assert!(scores.get("perplexity").is_none(), "{scores}");

    let told = output(&["classify", &run, "--text", "dan lives in rome old"]);
    let expected = "dan\tB-person\nlives\tO\nin\tO\nrome\tB-place\nold\tI-place\n\n";
    assert_eq!(told, expected);
    let told = json(&[
        "classify",
        &run,
        "--text",
        "dan lives in rome old",
        "--json",
    ]);
    let place = &told["entities"][1];
    assert_eq!(
        (&place["type"], &place["text"]),
        (&"place".into(), &"rome old".into())
    );
    assert!(told["words"][0]["probability"].as_f64().unwrap() > 0.5);

    // A table with other column names.
    let row = serde_json::json!({
        "tokens": ["anna", "lives", "in", "paris"], "ner_tags": ["B-person", "O", "O", "B-place"],
    });
    fs::write(folder.path().join("hub.jsonl"), format!("{row}\n")).unwrap();
    let hub = at(folder.path(), "hub.jsonl");
    let column = ["--set", "data.tag=ner_tags", "--json"];
    let of_hub = json(&[&["eval", &run, "--data", &hub], &column[..]].concat());
    assert_eq!(of_hub["accuracy"], 1.0, "{of_hub}");

    let table = output(&["eval", &run, "--confusion"]);
    assert!(
        table.contains("B-person") && table.contains("I-place"),
        "{table}"
    );
}

/// Words beyond the context get no tag, and the others keep theirs.
#[test]
fn words_beyond_the_context_are_not_tagged() {
    let files = [
        ("train.conll", sentences(24)),
        ("valid.conll", sentences(6)),
    ];
    let folder = project(TAGGED, &files);
    let run = trained(folder.path());
    let long = format!("dan lives in rome {}", "old ".repeat(20));
    let told = output(&["classify", &run, "--text", long.trim()]);
    let tags: Vec<&str> = told.lines().filter_map(|l| l.split('\t').nth(1)).collect();
    assert_eq!(tags.len(), 24);
    assert_eq!(
        (tags[0], tags[13], tags[14], tags[23]),
        ("B-person", tags[12], "_", "_")
    );

    // An evaluation reports them, and writes a line for all words of the file.
    let long = format!("dan\tB-person\n{}", "old\tO\n".repeat(20));
    fs::write(folder.path().join("long.conll"), long).unwrap();
    let (file, lines) = (
        at(folder.path(), "long.conll"),
        at(folder.path(), "lines.jsonl"),
    );
    let words = ["eval", &run, "--data", &file, "--predictions", &lines];
    let done = formwork(&words).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(
        said.contains("7 of 21 words are neither read nor scored"),
        "{said}"
    );
    let line: Value = serde_json::from_str(&fs::read_to_string(&lines).unwrap()).unwrap();
    for key in ["words", "label", "predicted"] {
        assert_eq!(line[key].as_array().unwrap().len(), 21, "{key}: {line}");
    }
    assert_eq!(
        (&line["words"][20], &line["label"][20]),
        (&"old".into(), &"O".into())
    );
    assert!(line["predicted"][13].is_string() && line["predicted"][14].is_null());
    let (status, said) = failure(&["eval", &run, "--predictions", "-"]);
    assert!(status == 2 && said.contains("give a file"), "{said}");
}

/// The same sentences in JSON lines give the same losses.
#[test]
fn one_corpus_in_two_forms_is_one_corpus() {
    let objects = |count: usize| -> String {
        let blocks = sentences(count);
        let blocks = blocks.split("\n\t\n").filter(|block| !block.is_empty());
        let object = |block: &str| {
            let (words, tags): (Vec<&str>, Vec<&str>) = block
                .lines()
                .filter_map(|line| line.split_once('\t'))
                .unzip();
            format!("{}\n", serde_json::json!({ "tokens": words, "tags": tags }))
        };
        blocks.map(object).collect()
    };
    let losses = |table: &str, files: &[(&str, String)]| {
        let folder = project(table, files);
        let run = trained(folder.path());
        json(&["eval", &run, "--json"])["loss"].as_f64().unwrap()
    };
    let plain = [
        ("train.conll", sentences(24)),
        ("valid.conll", sentences(6)),
    ];
    let objects = [("train.jsonl", objects(24)), ("valid.jsonl", objects(6))];
    let table = TAGGED.replace(".conll", ".jsonl");
    assert_eq!(losses(TAGGED, &plain), losses(&table, &objects));
}

#[test]
fn faults_of_tagged_files_name_their_place() {
    let refused = |table: &str, train: &str, says: &[&str]| {
        let files = [("train.conll", train.into()), ("valid.conll", sentences(6))];
        let folder = project(table, &files);
        let run = at(folder.path(), "run");
        let (status, said) = failure(&["train", &at(folder.path(), "own.toml"), "--run", &run]);
        assert!(
            status > 0 && says.iter().all(|part| said.contains(part)),
            "{status}: {said}"
        );
        assert!(!Path::new(&run).join("steps").exists(), "{said}");
    };
    let says = &["train.conll:2", "there is no column 2: the line has 1"];
    refused(TAGGED, "anna\tB-person\nlives\n", says);
    refused(
        TAGGED,
        "a\tO\nb\tO\n",
        &["every training word has the tag `O`"],
    );
    let unknown = "a\tO\nb\tB-person\n";
    refused(
        TAGGED,
        unknown,
        &["valid.conll:1", "unknown label `B-place`"],
    );
    let named = TAGGED.replace("context", "tag = \"ner\"\ncontext");
    refused(&named, unknown, &["own.toml", "tag = `ner` is a name"]);
    let same = TAGGED.replace("context", "tag = 1\ncontext");
    refused(&same, unknown, &["word and tag both name the column 1"]);
    let other = TAGGED.replace("token_classification", "text_classification");
    refused(
        &other,
        unknown,
        &["reads texts with a class", "texts with a tag for each word"],
    );
}

const SCORED: &str = r#"[tokenizer]
kind = "word"
[data]
kind = "labelled_text"
path = "train.tsv"
valid_path = "valid.tsv"
text = 1
score = 2
context = 16
[task]
kind = "regression"
pooling = "mean"
"#;

/// Numbers are the share of words that are "good".
fn scored(count: usize) -> String {
    let row = |i: usize| {
        let good = i % 5;
        let words: Vec<&str> = (0..4)
            .map(|w| if w < good { "good" } else { "bad" })
            .collect();
        format!("{}\t{:.2}\n", words.join(" "), good as f64 / 2.0 - 0.5)
    };
    (0..count).map(row).collect()
}

#[test]
fn texts_get_their_numbers() {
    let files = [("train.tsv", scored(40)), ("valid.tsv", scored(15))];
    let folder = project(SCORED, &files);
    let run = trained(folder.path());
    let scores = json(&["eval", &run, "--json"]);
    let of = |metric: &str| scores[metric].as_f64().unwrap();
    assert!(of("pearson") > 0.95 && of("spearman") > 0.95, "{scores}");
    assert!(
        scores.get("perplexity").is_none() && scores.get("f1").is_none(),
        "{scores}"
    );

    let number = |text: &str| json(&["classify", &run, "--text", text, "--json"])["score"].as_f64();
    let (good, bad) = (number("good good good good"), number("bad bad bad bad"));
    assert!(good.unwrap() > bad.unwrap() + 1.0, "{good:?} {bad:?}");
    let said = output(&["classify", &run, "--text", "bad bad"]);
    assert!(said.starts_with("bad bad: "), "{said}");
    let (status, said) = failure(&["classify", &run, "--text", "bad", "--top", "2"]);
    assert!(
        status == 2 && said.contains("--top has no effect"),
        "{said}"
    );
    let (status, said) = failure(&["eval", &run, "--confusion"]);
    assert!(
        status == 2 && said.contains("does not predict classes"),
        "{said}"
    );
}

#[test]
fn faults_of_numbers_name_their_place() {
    let refused = |table: &str, train: &str, says: &[&str]| {
        let folder = project(
            table,
            &[("train.tsv", train.into()), ("valid.tsv", scored(6))],
        );
        let run = at(folder.path(), "run");
        let (status, said) = failure(&["train", &at(folder.path(), "own.toml"), "--run", &run]);
        assert!(
            status > 0 && says.iter().all(|part| said.contains(part)),
            "{status}: {said}"
        );
    };
    let says = &["train.tsv:2", "the score `much` is not a number"];
    refused(SCORED, "good\t1\nbad\tmuch\n", says);
    refused(
        SCORED,
        "good\t1\nbad\tinf\n",
        &["the score `inf` is not a number"],
    );
    let says = &["train.tsv:2", "the score `NaN` is not a number"];
    refused(SCORED, "good\t1\nbad\tNaN\n", says);
    let as_classes = SCORED.replace("score = 2", "label = 2");
    let as_classes = as_classes.replace("regression", "text_classification");
    let says = &["own.toml", "numbers, for example 0.5", "score = 2"];
    refused(&as_classes, "good\t1\nbad\t0.5\n", says);
    let both = SCORED.replace("score = 2", "score = 2\nlabel = 3");
    refused(&both, "good\t1\n", &["label has no effect beside score"]);
    let classes = SCORED.replace("regression", "text_classification");
    refused(
        &classes,
        "good\t1\n",
        &[
            "reads texts with a class",
            "provides texts with a number; set `label` instead of `score`",
        ],
    );
}

/// A run that pauses and continues ends with the weights of an uninterrupted one.
#[test]
fn paused_runs_go_on_to_the_bit() {
    let tagged = vec![
        ("train.conll", sentences(24)),
        ("valid.conll", sentences(6)),
    ];
    let numbered = vec![("train.tsv", scored(40)), ("valid.tsv", scored(15))];
    for (table, files) in [(TAGGED, tagged), (SCORED, numbered)] {
        let folder = project(table, &files);
        goes_on_to_the_same_bits(folder.path(), &format!("{HEAD}{table}"), [30, 60]);
    }
}
