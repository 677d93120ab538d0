//! A run from its experiment to its commands: trained, resumed, evaluated, used, exported and imported.

use crate::binary::{failure, formwork, output};
use crate::in_folder::{at, written};
use serde_json::Value;
use std::fs;
use std::path::Path;

const THEMES: &str = r#"name = "themes"
seed = 2
[model]
kind = "encoder"
n_layers = 2
d_model = 32
norm_placement = "post"
embedding_norm = true
pooler = true
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense", activation = "gelu", bias = true }
[data]
kind = "themes"
valid_items = 200
[task]
kind = "multi_label_classification"
[optimizer]
kind = "adamw"
lr = 3e-3
[schedule]
kind = "cosine"
warmup_steps = 20
[train]
steps = 1000
batch_size = 32
checkpoint_every = 500
eval_every = 250
best_by = "micro_f1"
"#;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&output(arguments)).unwrap()
}

#[test]
fn themes_are_learned_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "x.toml", THEMES);
    let run = at(folder.path(), "run");
    output(&["train", &file, "--quiet", "--run", &run]);
    let scores = json(&["eval", &run, "--json"]);
    let of = |name: &str| {
        scores[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {scores}"))
    };
    // A guess by class frequency predicts no class, since none is above one half: F1 is 0.
    assert!(of("micro_f1") > 0.8 && of("macro_f1") > 0.7, "{scores}");
    assert!(of("exact_match") > 0.4 && of("roc_auc") > 0.9, "{scores}");

    let text = "the otter near the harbour with a tide and a heron";
    let told = output(&["classify", &run, "--text", text]);
    assert!(told.contains("animals") && told.contains("sea"), "{told}");
    assert!(!told.contains("kitchen"), "{told}");
    let all = json(&["classify", &run, "--text", text, "--json"]);
    let classes = all["classes"].as_array().unwrap();
    assert_eq!(classes.len(), 6);
    let predicted = classes.iter().filter(|class| class["predicted"] == true);
    let predicted: Vec<&Value> = predicted.map(|class| &class["class"]).collect();
    assert!(predicted.len() >= 2, "{all}");
    let top = output(&["classify", &run, "--text", text, "--top", "3"]);
    assert_eq!(top.matches('%').count(), 3, "{top}");
    let (status, message) = failure(&["eval", &run, "--confusion"]);
    assert_eq!(status, 2);
    assert!(message.contains("--confusion has no effect"), "{message}");

    let exported = at(folder.path(), "hf");
    output(&["export", &run, &exported]);
    let config = fs::read_to_string(folder.path().join("hf/config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["problem_type"], "multi_label_classification");
    let again = at(folder.path(), "again");
    output(&["import", &exported, &again]);
    let theirs = json(&["classify", &again, "--text", text, "--json"]);
    for (ours, theirs) in classes.iter().zip(theirs["classes"].as_array().unwrap()) {
        let [a, b] = [ours, theirs].map(|class| class["probability"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-5, "{all} and {theirs}");
    }
}

/// A run on a table with another threshold, killed and resumed; a text without a class is shown as such.
#[test]
fn a_table_of_indicators_resumes_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        "red car",
        "blue car",
        "red bike",
        "a thing",
        "blue bike",
        "another thing",
    ];
    let mut table = String::from("text,red,car\n");
    for row in rows.iter().cycle().take(60) {
        let has = |word: &str| i32::from(row.contains(word));
        table += &format!("{row},{},{}\n", has("red"), has("car"));
    }
    written(folder.path(), "table.csv", &table);
    let data = "[data]\nkind = \"labelled_text\"\npath = \"table.csv\"\nheader = true\ntext = \"text\"\n\
                indicators = [\"red\", \"car\"]\n[tokenizer]\nkind = \"word\"\n";
    let experiment = THEMES
        .replace("[data]\nkind = \"themes\"\nvalid_items = 200\n", data)
        .replace("[schedule]\nkind = \"cosine\"\nwarmup_steps = 20\n", "")
        .replace("steps = 1000", "steps = 120")
        .replace(
            "checkpoint_every = 500\neval_every = 250",
            "checkpoint_every = 60\neval_every = 60",
        )
        .replace(
            "classification\"\n[opt",
            "classification\"\nthreshold = 0.6\n[opt",
        );
    let file = written(folder.path(), "x.toml", &experiment);
    let [whole, parts] = ["whole", "parts"].map(|name| at(folder.path(), name));
    output(&["train", &file, "--quiet", "--run", &whole]);
    let half = ["--set", "train.steps=60"];
    output(&[&["train", &file, "--quiet", "--run", &parts], &half[..]].concat());
    output(&["resume", &parts, "--quiet", "--set", "train.steps=120"]);
    let weights =
        |run: &str| fs::read(Path::new(run).join("steps/00000120/model.safetensors")).unwrap();
    assert!(weights(&whole) == weights(&parts));
    let told = output(&["classify", &whole, "--text", "red car", "--text", "a thing"]);
    assert!(told.contains("red car: "), "{told}");
    assert!(told.contains("a thing: no class"), "{told}");
    let scores = json(&["eval", &whole, "--json"]);
    assert_eq!(scores["exact_match"], 1.0, "{scores}");
    // The training file given as other data, and its rows in another format, under the run's classes.
    let table = at(folder.path(), "table.csv");
    let of_table = json(&["eval", &whole, "--data", &table, "--json"]);
    let lists = written(
        folder.path(),
        "lists.csv",
        "text,labels\nred car,car|red\na thing,\n",
    );
    let set = |key: &'static str| ["--set", key];
    let sets = [set("data.labels=labels"), set("data.label_separator=\"|\"")].concat();
    let of_lists = json(&[&["eval", &whole, "--data", &lists, "--json"], &sets[..]].concat());
    let (status, said) = failure(&["eval", &whole, "--data", &table, "--set", "data.path=x.csv"]);
    assert!(
        status == 2 && said.contains("does not affect how a file is read"),
        "{said}"
    );
    // As a Hugging Face folder: its config has no key for the threshold, and class names may be numbers.
    let exported = at(folder.path(), "hf");
    let said = formwork(&["export", &whole, &exported]).output().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    assert!(said.contains("task.threshold = 0.6"), "{said}");
    let imported = at(folder.path(), "imported");
    output(&["import", &exported, &imported]);
    let numbers = written(
        folder.path(),
        "numbers.jsonl",
        "{\"text\": \"red car\", \"label\": [0, 1]}\n{\"text\": \"a thing\", \"label\": []}\n",
    );
    let again = json(&["eval", &imported, "--data", &numbers, "--json"]);
    same(&again, &of_lists);
    // If a header names the columns, labels are read from the column of their name, not from the second one.
    let named = "label,text\n\"car,red\",red car\n,a thing\n";
    let named = written(folder.path(), "named.csv", named);
    let header = set("data.header=true");
    let of_named = ["eval", &imported, "--data", &named, "--json"];
    let again = json(&[&of_named[..], &header[..]].concat());
    same(&again, &of_lists);
    let (status, said) = failure(&[&["eval", &imported, "--data", &lists], &header[..]].concat());
    let told = "no column `label`; did you mean `labels`?; text = 1 and labels = 2";
    assert!(status != 0 && said.contains(told), "{said}");
    let indicated = [
        "--set",
        "data.header=true",
        "--set",
        "data.text=text",
        "--set",
        "data.indicators=[\"red\", \"car\"]",
    ];
    let again = json(
        &[
            &["eval", &imported, "--data", &table, "--json"],
            &indicated[..],
        ]
        .concat(),
    );
    same(&again, &of_table);
}

/// Checks that two evaluations cover the same rows with the same classes.
fn same(ours: &Value, theirs: &Value) {
    let of = |scores: &Value, name: &str| scores[name].as_f64().unwrap();
    assert!(
        (of(ours, "loss") - of(theirs, "loss")).abs() < 1e-5,
        "{ours} and {theirs}"
    );
    assert_eq!(ours["roc_auc"], theirs["roc_auc"], "{ours} and {theirs}");
}

#[test]
fn faults_stand_at_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let says = |from: &str, to: &str, what: &str| {
        let file = written(folder.path(), "x.toml", &THEMES.replacen(from, to, 1));
        let (status, message) = failure(&["check", &file]);
        assert_eq!(status, 2, "{message}");
        assert!(message.contains(what), "{message}");
    };
    let kind = "kind = \"multi_label_classification\"";
    says(
        kind,
        &format!("{kind}\nthreshold = 1.0"),
        "threshold = 1.0 must be a probability",
    );
    says(
        "kind = \"themes\"",
        "kind = \"listops\"",
        "texts with any number of classes",
    );
    says(kind, "kind = \"text_classification\"", "texts with a class");
    says(
        "valid_items = 200",
        "filling = 0",
        "filling = 0 must be at least 1",
    );
    says(
        "valid_items = 200",
        "held_out = 1e-12",
        "to the valid split: hardly any text belongs to it with held_out = ",
    );
    says(kind, &format!("{kind}\nthreshhold = 0.4"), "threshold");
}
