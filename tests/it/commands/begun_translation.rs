//! A translation run that begins from a denoising run uses the training frame when it writes: over-fitted, it writes its
//! targets.

use super::json;
use crate::binary::{failure, output, piped};
use formwork::train::run_manifest;
use std::fs;
use std::path::Path;

const DENOISING: &str = r#"
name = "denoising"
[model]
preset = "bart-base"
d_model = 32
n_encoder_layers = 1
n_decoder_layers = 1
attention = { n_heads = 2 }
position = { max_len = 26 }
feed_forward = { d_ff = 64 }
dropout = 0.0
dropout_feed_forward = 0.0
[tokenizer]
kind = "bpe"
vocab_size = 300
[data]
kind = "text"
path = "FOLDER/text.txt"
valid_path = "FOLDER/text.txt"
context = 16
[task]
kind = "denoising"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 10
batch_size = 4
"#;

const TRANSLATION: &str = r#"
extends = "denoising.toml"
name = "translation"
task = { kind = "translation" }
[data]
kind = "pairs"
source = "FOLDER/a.en"
target = "FOLDER/a.de"
valid_source = "FOLDER/a.en"
valid_target = "FOLDER/a.de"
max_len = 24
[init]
from = "FOLDER/denoising"
[train]
steps = 400
batch_size = 8
"#;

/// Eight sentences of six words in two invented languages.
fn sentences(words: [&str; 8]) -> Vec<String> {
    let sentence = |n: usize| {
        let words = (0..6).map(|i| words[(n * 5 + i * (n % 3 + 1)) % 8]);
        words.collect::<Vec<_>>().join(" ")
    };
    (0..8).map(sentence).collect()
}

fn lines(sentences: &[String]) -> String {
    sentences.iter().map(|line| format!("{line}\n")).collect()
}

/// Trains an experiment in a folder and returns the run's folder.
fn trained(folder: &Path, name: &str, text: &str, sets: &[&str]) -> String {
    let (file, run) = (folder.join(format!("{name}.toml")), folder.join(name));
    let text = text.replace("FOLDER", &folder.display().to_string());
    fs::write(&file, text).unwrap();
    let run = run.display().to_string();
    let file = file.display().to_string();
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let arguments: Vec<&str> = ["train", &file, "--run", &run, "--quiet"]
        .into_iter()
        .chain(sets)
        .collect();
    output(&arguments);
    run
}

#[test]
fn an_over_fitted_run_writes_its_targets() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sources = sentences(["red", "blue", "owl", "fox", "sees", "the", "old", "two"]);
    let targets = sentences([
        "rot", "blau", "eule", "fuchs", "sieht", "die", "alt", "zwei",
    ]);
    fs::write(folder.join("a.en"), lines(&sources)).unwrap();
    fs::write(folder.join("a.de"), lines(&targets)).unwrap();
    let both = lines(&sources) + &lines(&targets);
    fs::write(folder.join("text.txt"), both).unwrap();
    trained(folder, "denoising", DENOISING, &[]);
    let run = trained(folder, "translation", TRANSLATION, &["train.steps=200"]);
    let shape = json(&fs::read_to_string(Path::new(&run).join("data.json")).unwrap());
    assert_eq!(shape["framed"], true);
    // A resumed run keeps its frame.
    output(&["resume", &run, "--set", "train.steps=400", "--quiet"]);
    let scores = json(&output(&["eval", &run, "--json"]));
    assert!(scores["bleu"].as_f64().unwrap() > 99.0, "{scores}");
    assert_eq!(
        piped(&["translate", &run], &lines(&sources)),
        lines(&targets)
    );
    let two = [
        "translate",
        &run,
        "--text",
        &sources[0],
        "--text",
        &sources[1],
    ];
    assert_eq!(output(&two), lines(&targets[..2]));
    let both = [&two[..], &["--input", "-"]].concat();
    assert_eq!(failure(&both).0, 2);
}

/// A run of an earlier version stores no frame and reads sources with only the end token; so does a run that begins from it.
#[test]
fn a_run_reads_sources_as_the_earlier_one_that_it_begins_from() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sources = sentences(["red", "blue", "owl", "fox", "sees", "the", "old", "two"]);
    for name in ["a.en", "a.de", "text.txt"] {
        fs::write(folder.join(name), lines(&sources)).unwrap();
    }
    trained(folder, "denoising", DENOISING, &[]);
    let framed = trained(folder, "translation", TRANSLATION, &["train.steps=1"]);
    let ids = |run: &str| {
        let said = output(&["tokenize", run, "red owl", "--framed", "--json"]);
        json(&said)["ids"].as_array().unwrap().len()
    };
    let with_frame = ids(&framed);
    let data = Path::new(&framed).join("data.json");
    let mut shape = json(&fs::read_to_string(&data).unwrap());
    shape.as_object_mut().unwrap().remove("framed");
    fs::write(&data, shape.to_string()).unwrap();
    run_manifest::seal(Path::new(&framed)).unwrap();
    let earlier = framed;
    assert_eq!(ids(&earlier), with_frame - 1);
    let from = format!("init.from={earlier:?}");
    let sets = ["train.steps=1", &from];
    let begun = trained(folder, "begun", TRANSLATION, &sets);
    let shape = json(&fs::read_to_string(Path::new(&begun).join("data.json")).unwrap());
    assert_eq!(shape.get("framed"), None);
    assert_eq!(ids(&begun), with_frame - 1);
}
