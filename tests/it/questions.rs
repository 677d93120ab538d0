//! Extractive question answering, from a file in SQuAD's format through training, evaluation and use.

use crate::binary::{failure, output};
use crate::in_folder::at;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const EXPERIMENT: &str = r#"name = "own"
seed = 3
[model]
kind = "encoder"
n_layers = 2
d_model = 32
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 4 }
[tokenizer]
kind = "word"
[data]
kind = "questions"
path = "train.json"
valid_path = "valid.json"
context = 24
overlap = 4
[task]
kind = "question_answering"
longest_answer = 4
[optimizer]
kind = "adamw"
lr = 5e-3
[train]
steps = 400
batch_size = 16
eval_every = 400
"#;

/// Contexts like "anna lives in paris and likes red .", every second one without a colour, with a question about each kind of
/// word.
fn file(count: usize, from: usize) -> Value {
    let kinds: [(&str, &[&str]); 3] = [
        ("person", &["anna", "ben", "cleo", "dan"]),
        ("place", &["paris", "rome", "oslo", "york", "bonn"]),
        ("colour", &["red", "blue", "green"]),
    ];
    let paragraph = |i: usize| {
        let i = i + from;
        let words = kinds.map(|(_, words)| words[i % words.len()]);
        let likes = match i.is_multiple_of(2) {
            true => format!(" and likes {}", words[2]),
            false => String::new(),
        };
        let context = format!("{} lives in {}{likes} .", words[0], words[1]);
        let asked = |(kind, word): (&str, &str)| {
            let start = context.find(word);
            let answers = start.map(|start| json!({ "text": word, "answer_start": start }));
            json!({
                "id": format!("{i}-{kind}"), "question": format!("which {kind} is it"),
                "is_impossible": start.is_none(), "answers": answers.into_iter().collect::<Vec<_>>(),
            })
        };
        let kinds = kinds.map(|(kind, _)| kind).into_iter().zip(words);
        json!({ "context": context, "qas": kinds.map(asked).collect::<Vec<_>>() })
    };
    let articles = (0..count).map(|i| json!({ "title": "x", "paragraphs": [paragraph(i)] }));
    json!({ "version": "v2.0", "data": articles.collect::<Vec<_>>() })
}

/// The questions of a file as rows, in the format of the Hub's data sets; in every second row, the answers are a list.
fn rows(file: &Value) -> String {
    let mut rows = String::new();
    for article in file["data"].as_array().unwrap() {
        let paragraph = &article["paragraphs"][0];
        for asked in paragraph["qas"].as_array().unwrap() {
            let all = asked["answers"].as_array().unwrap();
            let column = |name: &str| all.iter().map(|one| one[name].clone()).collect::<Vec<_>>();
            let answers = match rows.len().is_multiple_of(2) {
                true => json!({ "text": column("text"), "answer_start": column("answer_start") }),
                false => asked["answers"].clone(),
            };
            let row = json!({
                "id": asked["id"], "title": article["title"], "context": paragraph["context"],
                "question": asked["question"], "answers": answers,
            });
            rows += &format!("{row}\n");
        }
    }
    rows
}

/// A file and its rows give the same questions.
#[test]
fn questions_in_rows_are_those_of_squad_s_format() {
    let short = EXPERIMENT.replace("400", "2");
    let (_project, run) = trained(&short);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        fs::write(folder.path().join(name), text).unwrap();
        at(folder.path(), name)
    };
    let scores = |name: &str, text: String| {
        let file = write(name, text);
        let found = json_of(&["eval", &run, "--data", &file, "--json"]);
        [found["loss"].clone(), found["f1"].clone()]
    };
    let file = file(8, 3);
    assert_eq!(
        scores("rows.jsonl", rows(&file)),
        scores("squad.json", file.to_string())
    );
    for (row, says) in [
        (
            json!({ "context": "a b", "question": "?" }),
            "no field `answers`",
        ),
        (
            json!({ "context": null, "question": "?", "answers": [] }),
            "`context` is empty",
        ),
        (
            json!({ "context": "a b", "question": "?", "answers": { "text": ["b"], "answer_start": [1] } }),
            "is not at character 1",
        ),
        (
            json!({ "context": "a b", "question": "?", "answers": { "text": ["b"], "answer_start": [] } }),
            "`answers` has 1 entries in `text`, but 0 in `answer_start`",
        ),
    ] {
        let file = write("wrong.jsonl", format!("{row}\n"));
        let (status, said) = failure(&["eval", &run, "--data", &file]);
        assert!(status == 2 && said.contains(says), "{said}");
        assert!(said.contains("wrong.jsonl:1: "), "{said}");
    }
}

fn project(experiment: &str, train: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("own.toml", experiment.into());
    write("train.json", train.to_string());
    write("valid.json", file(8, 3).to_string());
    folder
}

fn trained(experiment: &str) -> (tempfile::TempDir, String) {
    let folder = project(experiment, &file(24, 0));
    let run = at(folder.path(), "run");
    output(&[
        "train",
        &at(folder.path(), "own.toml"),
        "--quiet",
        "--run",
        &run,
    ]);
    (folder, run)
}

fn json_of(arguments: &[&str]) -> Value {
    serde_json::from_str(&output(arguments)).unwrap()
}

#[test]
fn questions_are_answered_from_their_context() {
    let (folder, run) = trained(EXPERIMENT);
    let predictions = at(folder.path(), "predictions.jsonl");
    let scores = json_of(&["eval", &run, "--predictions", &predictions, "--json"]);
    let of = |metric: &str| scores[metric].as_f64().unwrap();
    assert!(
        of("exact_match") > 0.8 && of("f1") >= of("exact_match"),
        "{scores}"
    );
    assert!(scores.get("perplexity").is_none(), "{scores}");
    let predictions = fs::read_to_string(predictions).unwrap();
    let lines: Vec<Value> = predictions
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The questions come in the order of the file, and none is left out.
    let ids: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["id"].as_str())
        .collect();
    assert_eq!((ids.len(), ids[0], ids[23]), (24, "3-person", "10-colour"));
    let right = lines.iter().filter(|line| {
        let label = line["label"].as_array().unwrap();
        match label.is_empty() {
            true => line["predicted"] == "",
            false => label.contains(&line["predicted"]),
        }
    });
    let share = right.count() as f64 / lines.len() as f64;
    assert!((share - of("exact_match")).abs() < 1e-6, "{share} {scores}");

    let context = "ben lives in bonn .";
    let asked = |kind: &str, more: &[&str]| -> String {
        let question = format!("which {kind} is it");
        let words = [
            "answer",
            &run,
            "--context",
            context,
            "--question",
            &question,
        ];
        output(&[&words[..], more].concat())
    };
    assert_eq!(asked("person", &[]), "ben\n");
    let told: Value = serde_json::from_str(&asked("place", &["--json"])).unwrap();
    assert_eq!(
        (&told["answer"], &told["from"], &told["to"]),
        (&"bonn".into(), &13.into(), &17.into())
    );
    assert!(told["score"].as_f64().unwrap() > told["no_answer_score"].as_f64().unwrap());
    assert_eq!(asked("colour", &["--or-none"]), "\n");
}

/// A context of several windows: an answer in the last one is found, with its byte range in the whole text.
#[test]
fn long_contexts_are_read_in_windows() {
    let (folder, run) = trained(EXPERIMENT);
    let filler = "it is so . ".repeat(12);
    let context = format!("{filler}dan lives in york .");
    fs::write(folder.path().join("context.txt"), &context).unwrap();
    let file = at(folder.path(), "context.txt");
    let question = "which place is it";
    let words = [
        "answer",
        &run,
        "--context-file",
        &file,
        "--question",
        question,
        "--json",
    ];
    let told = json_of(&words);
    assert_eq!(told["answer"], "york", "{told}");
    let from = told["from"].as_u64().unwrap() as usize;
    assert_eq!(context.find("york"), Some(from), "{told}");
}

#[test]
fn faults_of_files_of_questions_name_their_place() {
    let refused = |experiment: &str, train: &Value, says: &[&str]| {
        let folder = project(experiment, train);
        let run = at(folder.path(), "run");
        let (status, said) = failure(&["train", &at(folder.path(), "own.toml"), "--run", &run]);
        assert!(
            status > 0 && says.iter().all(|part| said.contains(part)),
            "{status}: {said}"
        );
        assert!(!Path::new(&run).join("steps").exists(), "{said}");
    };
    let says = &["train.json", "is not in SQuAD's format"];
    refused(EXPERIMENT, &json!({ "data": 3 }), says);
    let mut moved = file(4, 0);
    moved["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 1.into();
    refused(
        EXPERIMENT,
        &moved,
        &["question `0-person` is not at character 1"],
    );
    let mut silent = file(4, 0);
    silent["data"][1]["paragraphs"][0]["qas"][2]["is_impossible"] = false.into();
    refused(EXPERIMENT, &silent, &["question `1-colour` has no answer"]);
    refused(EXPERIMENT, &json!({ "data": [] }), &["has no questions"]);
    let wide = EXPERIMENT.replace("overlap = 4", "overlap = 12");
    refused(&wide, &file(4, 0), &["overlap = 12 leaves no new token"]);
    let none = EXPERIMENT.replace("longest_answer = 4", "longest_answer = 0");
    refused(&none, &file(4, 0), &["longest_answer"]);
}
