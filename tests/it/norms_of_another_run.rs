//! `[init] from` a run with another kind of norm: gains have the same name and shape in both, but must not be taken over.

use crate::binary::{failure, output};
use std::fs;
use std::path::Path;

const SOURCE: &str = r#"
name = "source"
[model]
kind = "decoder"
n_layers = 1
d_model = 8
attention = { kind = "multi_head", n_heads = 2 }
norm = { kind = "layer", bias = false }
[data]
kind = "random_tokens"
vocab_size = 13
context = 6
valid_items = 0
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-1
[train]
steps = 2
batch_size = 2
"#;

/// Arguments that train from the run in `folder` with further settings.
fn arguments(folder: &Path, run: &str, sets: &[&str]) -> Vec<String> {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut all: Vec<String> = ["train", &at("source.toml"), "--run", &at(run), "--quiet"]
        .map(String::from)
        .to_vec();
    for set in sets {
        all.extend(["--set".into(), set.to_string()]);
    }
    all
}

#[test]
fn gains_of_another_kind_of_norm_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("source.toml"), SOURCE).unwrap();
    output(&arguments(folder, "source", &[]));
    let from = format!("init.from={:?}", folder.join("source"));
    let rms = [from.as_str(), "model.norm={ kind = \"rms\" }"];
    let (status, said) = failure(&arguments(folder, "refused", &rms));
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains(
            "belong to norms of kind \"layer\" in the other run and of kind \"rms\" here"
        ),
        "{said}"
    );
    assert!(!folder.join("refused").exists());
    // Following the advice works, and runs without a gain to confuse are as before.
    let anew = [&rms[..], &["init.new=[\"norm\"]"]].concat();
    output(&arguments(folder, "anew", &anew));
    let window = [
        from.as_str(),
        "model.attention={ kind = \"sliding_window\", n_heads = 2, window = 3 }",
    ];
    output(&arguments(folder, "window", &window));
}
