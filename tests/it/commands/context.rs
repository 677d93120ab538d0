//! `eval --context`: windows of another length than in training.

use crate::binary::{failure, output};
use std::fs;
use std::path::Path;

/// Trains a few steps on some text with windows of 16, and returns the run's folder.
fn run(folder: &Path, position: &str) -> String {
    run_with(folder, position, position, "")
}

/// The same under a given name, with further keys of the positions.
fn run_with(folder: &Path, name: &str, position: &str, keys: &str) -> String {
    let text: String = (0..400).map(|i| format!("{} and {}\n", i, i * i)).collect();
    fs::write(folder.join("text.txt"), text).unwrap();
    let file = folder.join(format!("{name}.toml"));
    let experiment = format!(
        "name = \"{name}\"\n[model]\nkind = \"decoder\"\nn_layers = 1\nd_model = 16\n\
         position = {{ kind = \"{position}\"{keys} }}\nattention = {{ kind = \"multi_head\", n_heads = 2 }}\n\
         [tokenizer]\nkind = \"char\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\nvalid_fraction = 0.2\n\
         context = 16\n[task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-2\n\
         [train]\nsteps = 5\nbatch_size = 4\n"
    );
    fs::write(&file, experiment).unwrap();
    let run = folder.join("run").join(name).display().to_string();
    output(&["train", &file.display().to_string(), "--run", &run]);
    run
}

#[test]
fn positions_that_go_on_are_measured_further_and_tables_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let rotary = run(folder.path(), "rotary");
    let scores = |n: &str| -> serde_json::Value {
        let said = output(&["eval", &rotary, "--context", n, "--json"]);
        serde_json::from_str(&said).unwrap()
    };
    let (own, longer) = (scores("16"), scores("32"));
    assert_eq!(longer["split"], "valid@32");
    let kept = fs::read_to_string(Path::new(&rotary).join("scores.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["valid@32"]["loss"], longer["loss"]);
    assert_eq!(kept["valid@16"]["loss"], kept["valid"]["loss"]);
    assert_ne!(own["loss"], longer["loss"]);
    let learned = run(folder.path(), "learned");
    let (status, told) = failure(&["eval", &learned, "--context", "32"]);
    assert_eq!(status, 2, "{told}");
    let limit = "error: the run cannot read windows of 32 tokens: it reads at most 16, the length of its `model.position.table`\n";
    assert!(told.ends_with(limit), "{told}");
    let longer = run_with(folder.path(), "longer", "learned", ", max_len = 20");
    output(&["eval", &longer, "--context", "20"]);
    let (status, told) = failure(&["eval", &longer, "--context", "32"]);
    let limit = "error: --context 32: [model.position] max_len = 20 is shorter than the context of 32 tokens; the run reads at \
                 most --context 20\n";
    assert_eq!((status, told.as_str()), (2, limit));
}

/// A position table as long as the training windows evaluates shorter windows like a table of that length set by key.
#[test]
fn tables_of_positions_serve_shorter_windows() {
    let folder = tempfile::tempdir().unwrap();
    let followed = run(folder.path(), "learned");
    let given = run_with(folder.path(), "given", "learned", ", max_len = 16");
    let loss = |run: &str, flag: &str| {
        let said = output(&["eval", run, flag, "8", "--json"]);
        let scores: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(scores["split"], "valid@8");
        scores["loss"].clone()
    };
    assert_eq!(loss(&followed, "--context"), loss(&given, "--context"));
    let flag = "--attention-length";
    assert_eq!(loss(&followed, flag), loss(&given, "--context"));

    // If a run begins from it with shorter windows, the message names the keys that help.
    let file = folder.path().join("learned.toml").display().to_string();
    let (from, other) = (format!("init.from={followed}"), format!("{followed}-2"));
    let begun = |more: &[&str]| {
        let mut words = vec!["train", &file, "--quiet", "--run", &other, "--set", &from];
        let sets = ["data.context=8"].iter().chain(more);
        sets.for_each(|set| words.extend(["--set", set]));
        words
            .iter()
            .map(|word| (*word).to_string())
            .collect::<Vec<String>>()
    };
    let (status, told) = failure(&begun(&[]));
    assert_eq!(status, 2, "{told}");
    for part in ["`max_len = 16` in [model.position]", "`resample`", "`new`"] {
        assert!(told.contains(part), "{told}");
    }
    output(&begun(&["model.position.max_len=16"]));
}
