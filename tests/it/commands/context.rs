//! `eval --context`: windows of another length than those of training.

use crate::binary::{failure, output};
use std::fs;
use std::path::Path;

/// Trains a few steps on some text with windows of 16, and gives the run's folder.
fn run(folder: &Path, position: &str) -> String {
    let text: String = (0..400).map(|i| format!("{} and {}\n", i, i * i)).collect();
    fs::write(folder.join("text.txt"), text).unwrap();
    let file = folder.join(format!("{position}.toml"));
    let experiment = format!(
        "name = \"{position}\"\n[model]\nkind = \"decoder\"\nn_layers = 1\nd_model = 16\n\
         position = {{ kind = \"{position}\" }}\nattention = {{ kind = \"multi_head\", n_heads = 2 }}\n\
         [tokenizer]\nkind = \"char\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\nvalid_fraction = 0.2\n\
         context = 16\n[task]\nkind = \"causal_lm\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-2\n\
         [train]\nsteps = 5\nbatch_size = 4\n"
    );
    fs::write(&file, experiment).unwrap();
    let run = folder.join("run").join(position).display().to_string();
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
    assert!(told.contains("the run cannot read windows of 32"), "{told}");
}
