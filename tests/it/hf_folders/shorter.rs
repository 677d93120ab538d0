//! Runs that begin from an imported one and cut texts shorter: their exported folders give the lengths of the original model.

use super::shown;
use super::ties::config;
use crate::binary::output;
use serde_json::Value;
use std::path::Path;

const TRAINED: &str = "seed = 1
name = \"x\"
[train]
steps = 1
batch_size = 2
[optimizer]
kind = \"adamw\"
lr = 1e-3
[tokenizer]
kind = \"byte\"
[data]
kind = \"text\"
path = \"text.txt\"
valid_fraction = 0.2
context = 24
";
const LLAMA: &str = "[task]
kind = \"causal_lm\"
[model]
preset = \"llama2-7b\"
n_layers = 1
d_model = 16
attention = { n_heads = 2 }
feed_forward = { d_ff = 32 }
";
const BERT: &str = "[task]
kind = \"masked_lm\"
[model]
preset = \"bert-base\"
n_layers = 1
d_model = 16
attention = { n_heads = 2 }
feed_forward = { d_ff = 32 }
position = { kind = \"learned\" }
";

/// Returns the number of positions in config.json and the length in tokenizer_config.json.
fn lengths(out: &str) -> [u64; 2] {
    let tokenizer = std::fs::read(Path::new(out).join("tokenizer_config.json")).unwrap();
    let tokenizer: Value = serde_json::from_slice(&tokenizer).unwrap();
    let positions = config(Path::new(out))["max_position_embeddings"].clone();
    [positions, tokenizer["model_max_length"].clone()].map(|n| n.as_u64().unwrap())
}

/// Imports a model for texts of 24 tokens into `work/imported`.
fn imported(work: &Path, model: &str) {
    let at = |name: &str| shown(&work.join(name));
    let text = "the cat sat on the mat and saw the dog\n".repeat(30);
    std::fs::write(at("text.txt"), text).unwrap();
    std::fs::write(at("x.toml"), format!("{TRAINED}{model}")).unwrap();
    output(&["train", &at("x.toml"), "--quiet", "--run", &at("run")]);
    output(&["export", &at("run"), &at("folder")]);
    output(&["import", &at("folder"), &at("imported")]);
}

/// Trains on texts of 8 tokens from the run `from`, and returns the lengths in its exported folder.
fn tuned(work: &Path, from: &str, name: &str, further: &str) -> [u64; 2] {
    let at = |name: &str| shown(&work.join(name));
    let text = format!(
        "extends = \"imported/resolved.toml\"\nname = \"x\"\n[data]\nkind = \"text\"\npath = \"text.txt\"\nvalid_fraction = 0.2\n\
         context = 8\n[optimizer]\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 2\n[init]\nfrom = {:?}\n{further}",
        at(from)
    );
    let file = at(&format!("{name}.toml"));
    std::fs::write(&file, text).unwrap();
    output(&["train", &file, "--quiet", "--run", &at(name)]);
    let out = at(&format!("{name}-folder"));
    output(&["export", &at(name), &out]);
    lengths(&out)
}

/// Rotary positions have no table: the limit is recorded in the run, so it survives without the original run.
#[test]
fn positions_without_a_table_keep_their_limit() {
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    imported(work, LLAMA);
    assert_eq!(lengths(&shown(&work.join("folder"))), [24, 24]);
    assert_eq!(tuned(work, "imported", "once", ""), [24, 24]);
    assert_eq!(tuned(work, "once", "twice", ""), [24, 24]);
    std::fs::rename(work.join("imported"), work.join("elsewhere")).unwrap();
    let again = shown(&work.join("again"));
    output(&["export", &shown(&work.join("once")), &again]);
    assert_eq!(lengths(&again), [24, 24]);
    let data = std::fs::read(work.join("once/data.json")).unwrap();
    let data: Value = serde_json::from_slice(&data).unwrap();
    assert_eq!(data["context"], 8);
    assert_eq!(data["limit"]["positions"], 24);
}

/// A table determines its own length: the original one is kept, and one that was shortened ends earlier.
#[test]
fn a_table_of_positions_says_how_long_it_is() {
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    imported(work, BERT);
    assert_eq!(tuned(work, "imported", "kept", ""), [24, 24]);
    let shorter =
        "resample = [\"position\"]\n[model]\nposition = { kind = \"learned\", max_len = 16 }\n";
    assert_eq!(tuned(work, "imported", "shorter", shorter), [16, 16]);
    let shortest =
        "resample = [\"position\"]\n[model]\nposition = { kind = \"learned\", max_len = 8 }\n";
    assert_eq!(tuned(work, "imported", "shortest", shortest), [8, 8]);
}
