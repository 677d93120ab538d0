//! An LSTM language model that carries its state, through the commands: stopped and resumed it is the same run bit for bit, and
//! an evaluation in segments equals one long pass.

use crate::binary::{failure, output};
use crate::lanes::{self, files, train};
use formwork::train::run_manifest;
use serde_json::Value;
use std::fs;

const LSTM: &str = r#"
name = "carried"
seed = 4
[model]
kind = "recurrent"
cell = { kind = "lstm" }
n_layers = 2
d_model = 12
dropout = 0.1"#;

fn folder(edits: &[(&str, &str)]) -> tempfile::TempDir {
    lanes::folder(LSTM, edits)
}

#[test]
fn a_resumed_run_goes_on_with_its_state() {
    let folder = folder(&[]);
    let folder = folder.path();
    output(&train(folder, "whole", &[]));
    output(&train(folder, "parts", &["train.steps=4"]));
    let parts = folder.join("parts").display().to_string();
    output(&["resume", &parts, "--quiet", "--set", "train.steps=9"]);
    assert!(files(folder, "whole") == files(folder, "parts"));
    // Without its state the run could not continue as before, so it is refused.
    let (status, said) = failure(&["resume", &parts, "--set", "train.carry_state=false"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("train.carry_state is true in the run"),
        "{said}"
    );
}

/// Documents may begin anywhere in a window: the state is reset at each, and the run is resumed bit for bit.
#[test]
fn a_run_over_documents_apart_is_resumed_with_its_state() {
    let apart = "windows = \"documents\"\nacross_documents = false\ndocument_separator = \"e\"";
    let folder = folder(&[
        ("windows = \"contiguous\"", apart),
        (
            "kind = \"byte\"",
            "kind = \"byte\"\nend_of_text = \"<|e|>\"",
        ),
    ]);
    let folder = folder.path();
    output(&train(folder, "whole", &[]));
    output(&train(folder, "parts", &["train.steps=4"]));
    let parts = folder.join("parts").display().to_string();
    output(&["resume", &parts, "--quiet", "--set", "train.steps=9"]);
    assert!(files(folder, "whole") == files(folder, "parts"));
    output(&train(folder, "across", &["data.across_documents=true"]));
    assert!(files(folder, "whole") != files(folder, "across"));
}

#[test]
fn an_evaluation_in_segments_is_one_long_pass() {
    let folder = folder(&[]);
    let folder = folder.path();
    output(&train(folder, "run", &[]));
    let run = folder.join("run").display().to_string();
    for context in ["4", "8", "64"] {
        output(&["eval", &run, "--context", context]);
    }
    let scores = fs::read(folder.join("run/scores.json")).unwrap();
    let scores: Value = serde_json::from_slice(&scores).unwrap();
    let loss = |context: &str| {
        let name = format!("valid@{context}");
        scores[&name]["loss"]
            .as_f64()
            .unwrap_or_else(|| panic!("{scores}"))
    };
    // Windows cover the whole validation text, whatever their length.
    for segments in ["4", "8"] {
        assert!((loss(segments) / loss("64") - 1.0).abs() < 1e-5, "{scores}");
    }
    // With two lanes, the second begins with an empty state.
    let start = fs::read_to_string(folder.join("run/resolved.toml")).unwrap();
    let two = start.replace("eval_batch_size = 1", "eval_batch_size = 2");
    fs::write(folder.join("run/resolved.toml"), two).unwrap();
    run_manifest::seal(&folder.join("run")).unwrap();
    output(&["eval", &run, "--context", "4"]);
    let later = fs::read(folder.join("run/scores.json")).unwrap();
    let later: Value = serde_json::from_slice(&later).unwrap();
    let two = later["valid@4"]["loss"].as_f64().unwrap();
    assert!((two / loss("64") - 1.0).abs() > 1e-4, "{later}");
}

#[test]
fn a_model_without_a_state_is_told_so() {
    let folder = folder(&[(
        "kind = \"recurrent\"\ncell = { kind = \"lstm\" }",
        "kind = \"decoder\"\nattention = { kind = \"multi_head\", n_heads = 2 }",
    )]);
    let (status, said) = failure(&train(folder.path(), "run", &[]));
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("[train] carry_state = true has no effect"),
        "{said}"
    );
    assert!(!folder.path().join("run").exists());
}
