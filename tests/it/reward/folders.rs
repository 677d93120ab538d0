//! Reward models as Hugging Face folders, exported and imported again.

use crate::in_folder::{good, refused, text};
use crate::preference::runs::{file, with_base};
use serde_json::{Value, json};
use std::path::Path;

const TABLES: &str = r#"
[init]
from = "checkpoints/base"
new = ["^head"]
[data]
kind = "preferences"
path = "pairs.jsonl"
context = 16
[task]
kind = "reward"
"#;

fn reward(folder: &Path, run: &str) -> String {
    good(
        folder,
        &["classify", run, "--text", "abc ", "--pair", "dd", "--json"],
    )
}

#[test]
fn a_decoder_goes_out_as_a_class_of_one_number_and_comes_in_as_a_run_of_rewards() {
    let folder = with_base();
    let at = folder.path();
    file(at, "rewards", TABLES);
    good(at, &["train", "rewards.toml", "--quiet"]);
    good(at, &["export", "checkpoints/rewards", "out"]);
    let config: Value = serde_json::from_str(&text(at, "out/config.json")).unwrap();
    assert_eq!(
        config["architectures"],
        json!(["GPT2ForSequenceClassification"])
    );
    assert_eq!(config["id2label"].as_object().unwrap().len(), 1);
    good(at, &["import", "out", "again", "--reward"]);
    let resolved = text(at, "again/resolved.toml");
    assert!(resolved.contains("kind = \"reward\""), "{resolved}");
    assert_eq!(reward(at, "checkpoints/rewards"), reward(at, "again"));
    // Without the flag, it is imported as a regression; a run imported with the flag reports preference metrics.
    good(at, &["import", "out", "plain"]);
    assert!(text(at, "plain/resolved.toml").contains("kind = \"regression\""));
    let ours: Value = serde_json::from_str(&good(
        at,
        &["eval", "again", "--data", "pairs.jsonl", "--json"],
    ))
    .unwrap();
    assert!(ours["reward_accuracy"].is_number(), "{ours}");
    // A run can begin from it.
    let tables = TABLES.replace("checkpoints/base", "again");
    file(at, "further", &tables.replace("new = [\"^head\"]\n", ""));
    good(at, &["train", "further.toml", "--quiet"]);
    // A language model has no reward head.
    good(at, &["export", "checkpoints/base", "base"]);
    let said = refused(at, &["import", "base", "none", "--reward"]);
    assert!(
        said.contains("ForSequenceClassification with num_labels = 1"),
        "{said}"
    );
}
