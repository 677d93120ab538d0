//! Models with more embedding rows than their tokenizer has tokens, as published ones have: runs that begin from them,
//! preference runs with them as reference, and students of them.

use crate::binary::output;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const SMALL: &str = r#"
name = "small"
seed = 1
[model]
preset = "gpt2"
n_layers = 1
d_model = 16
attention = { n_heads = 2 }
feed_forward = { d_ff = 32 }
[tokenizer]
kind = "bpe"
vocab_size = 300
[data]
kind = "text"
path = "t.txt"
context = 16
valid_fraction = 0.2
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 4
batch_size = 2
"#;

/// Number of rows without a token.
const MORE: usize = 7;

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Adds rows to the embedding table of an HF folder.
fn pad(folder: &Path) {
    let (config, weights) = (folder.join("config.json"), folder.join("model.safetensors"));
    let text = fs::read_to_string(&config).unwrap();
    let mut keys: Value = serde_json::from_str(&text).unwrap();
    let tokens = keys["vocab_size"].as_u64().unwrap() as usize;
    keys["vocab_size"] = (tokens + MORE).into();
    fs::write(&config, keys.to_string()).unwrap();
    let bytes = fs::read(&weights).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let padded = file.tensors().into_iter().map(|(name, tensor)| {
        let (mut shape, mut data) = (tensor.shape().to_vec(), tensor.data().to_vec());
        if name.ends_with("wte.weight") {
            assert_eq!(shape[0], tokens);
            let row = data.len() / tokens;
            data.resize(data.len() + MORE * row, 0);
            shape[0] += MORE;
        }
        (name, tensor.dtype(), shape, data)
    });
    let padded: Vec<_> = padded.collect();
    let views = padded.iter().map(|(name, dtype, shape, data)| {
        let view = TensorView::new(*dtype, shape.clone(), data).unwrap();
        (name.clone(), view)
    });
    safetensors::serialize_to_file(views, None, &weights).unwrap();
}

/// Returns the imported run, its number of rows, and the experiment file of the original run without additional rows.
fn imported(work: &Path) -> (PathBuf, u64, PathBuf) {
    let words = ["the", "cat", "dog", "sat", "on", "mat", "and", "ran", "far"];
    let line = |n: usize| {
        let each = (0..12).map(|m| words[(n * 7 + m * m * 3 + m) % words.len()]);
        each.collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = (0..200).map(line).collect();
    fs::write(work.join("t.txt"), lines.join(".\n")).unwrap();
    let small = work.join("small.toml");
    fs::write(&small, SMALL).unwrap();
    let [run, folder, padded] = ["small", "hf", "padded"].map(|name| work.join(name));
    output(&["train", &shown(&small), "--quiet", "--run", &shown(&run)]);
    output(&["export", &shown(&run), &shown(&folder)]);
    pad(&folder);
    output(&["import", &shown(&folder), &shown(&padded)]);
    let rows = rows(&padded);
    (padded, rows, small)
}

/// Returns the number of rows that a run reports.
fn rows(run: &Path) -> u64 {
    let text = fs::read_to_string(run.join("data.json")).unwrap();
    let shape: Value = serde_json::from_str(&text).unwrap();
    shape["vocab_size"].as_u64().unwrap()
}

fn train(work: &Path, name: &str, text: &str) -> PathBuf {
    let (file, run) = (work.join(format!("{name}.toml")), work.join(name));
    fs::write(&file, text).unwrap();
    output(&["check", &shown(&file)]);
    output(&["plan", &shown(&file), "--no-probe"]);
    output(&["train", &shown(&file), "--quiet", "--run", &shown(&run)]);
    run
}

fn loss(run: &Path) -> f64 {
    let scores = output(&["eval", &shown(run), "--json"]);
    let scores: Value = serde_json::from_str(scores.trim()).unwrap();
    scores["loss"].as_f64().unwrap()
}

#[test]
fn a_run_that_begins_from_one_has_its_rows() {
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    let (padded, there, _) = imported(work);
    let text = format!(
        "extends = \"padded/resolved.toml\"\nname = \"tuned\"\n[init]\nfrom = {:?}\n[data]\nkind = \"text\"\npath = \"t.txt\"\n\
         context = 16\nvalid_fraction = 0.2\n[optimizer]\nlr = 1e-3\n[train]\nsteps = 4\nbatch_size = 2\n",
        shown(&padded)
    );
    let run = train(work, "tuned", &text);
    assert_eq!(rows(&run), there);
    assert!(loss(&run).is_finite());
    output(&["resume", &shown(&run), "--quiet", "--set", "train.steps=6"]);
    assert_eq!(rows(&run), there);
    assert!(loss(&run).is_finite());
    let folder = work.join("out");
    output(&["export", &shown(&run), &shown(&folder)]);
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["vocab_size"].as_u64(), Some(there));
    // The same tokens from the user's own file.
    let own = text.replace(
        "[train]",
        &format!(
            "[tokenizer]\nkind = \"pretrained\"\npath = {:?}\n[train]",
            shown(&padded.join("tokenizer.json"))
        ),
    );
    assert_eq!(rows(&train(work, "own", &own)), there);
}

#[test]
fn preferences_are_learned_beside_one() {
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    let (padded, there, _) = imported(work);
    let pair =
        "{\"prompt\": \"the cat \", \"chosen\": \"sat on the mat\", \"rejected\": \"ran far\"}\n";
    fs::write(work.join("p.jsonl"), pair.repeat(20)).unwrap();
    let text = format!(
        "extends = \"padded/resolved.toml\"\nname = \"preferred\"\n[init]\nfrom = {:?}\n[data]\nkind = \"preferences\"\n\
         path = \"p.jsonl\"\nvalid_fraction = 0.2\ncontext = 16\n[task]\nkind = \"preference\"\n[optimizer]\nlr = 1e-3\n[train]\nsteps = 4\n\
         batch_size = 2\n",
        shown(&padded)
    );
    let run = train(work, "preferred", &text);
    assert_eq!(rows(&run), there);
    assert!(loss(&run).is_finite());
}

/// A student that begins from scratch has one row per token; the teacher's logits of other rows are left out.
#[test]
fn a_student_learns_from_one_at_the_tokens() {
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    let (padded, there, small) = imported(work);
    let student = |name: &str, from: &str| {
        format!(
            "extends = {:?}\nname = {name:?}\n{from}[tokenizer]\nkind = \"pretrained\"\npath = {:?}\n[task]\n\
             kind = \"distillation\"\nteacher = {:?}\nof = {{ kind = \"causal_lm\" }}\n",
            shown(&small),
            shown(&padded.join("tokenizer.json")),
            shown(&padded)
        )
    };
    let run = train(work, "student", &student("student", ""));
    assert_eq!(rows(&run), there - MORE as u64);
    assert!(loss(&run).is_finite());
    let from = format!("[init]\nfrom = {:?}\n", shown(&padded));
    let run = train(work, "further", &student("further", &from));
    assert_eq!(rows(&run), there);
    assert!(loss(&run).is_finite());
}
