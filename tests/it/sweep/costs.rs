//! The number of items by which a sweep plans and budgets is the one that its runs count: for pairs, the tokens of both sides.

use crate::binary::{output, shipped};
use formwork::experiment::{assemble, cost, load};
use serde_json::Value;

const SMALL: [&str; 4] = [
    "train.steps=1",
    "train.batch_size=3",
    "data.vocab_size=50",
    "data.valid_items=2",
];

/// Returns the items of the single step of a run on pairs of 32 and 32 tokens: as planned, and as in its journal.
fn items(sets: &[&str]) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    let file = shipped("experiments/bench/seq2seq.toml");
    let (shown, run_folder) = (file.display().to_string(), root.display().to_string());
    let sets: Vec<String> = [&SMALL[..], sets]
        .concat()
        .into_iter()
        .map(str::to_string)
        .collect();
    let mut arguments = vec!["train", &shown, "--run", &run_folder, "--quiet"];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
    output(&arguments);
    let loaded = load(&file, &sets).unwrap();
    let data = assemble::training_data(&loaded).unwrap();
    let planned = cost::items_per_step(&loaded.experiment, &data.shape);
    let journal = std::fs::read_to_string(root.join("metrics.jsonl")).unwrap();
    let counted = journal.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["items"].as_f64()
    });
    (planned, counted.unwrap())
}

#[test]
fn items_of_pairs_are_planned_as_they_are_counted() {
    let both = [
        "model.n_encoder_layers=1",
        "model.n_decoder_layers=1",
        "model.d_model=32",
    ];
    let decoder = [
        "model={ kind = \"decoder\", n_layers = 1, d_model = 32, position = { kind = \"rotary\" } }",
    ];
    for model in [&both[..], &decoder[..]] {
        assert_eq!(items(model), (192.0, 192.0), "{model:?}");
    }
    // Batches by tokens are limited by the longer side, so a step has at most twice their tokens.
    let by_tokens = [&both[..], &["train.batch_tokens=100"]].concat();
    let (planned, counted) = items(&by_tokens);
    assert_eq!(planned, 200.0);
    assert!(counted > 100.0 && counted <= planned, "{counted}");
}
