//! Runs with auxiliary losses: resumed bit for bit, extended to more steps, used and fine-tuned without the parameters that
//! only training needs.

use crate::binary::{failure, formwork, output};
use serde_json::Value;
use std::fs;
use std::path::Path;

const TINY: &str = "experiments/smoke/tiny.toml";
const LOSSES: [&str; 3] = [
    "model.n_layers=4",
    "task.intermediate_layers=true",
    "task.second_target=0.5",
];

fn command(words: &[&str], sets: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
    for set in sets {
        all.extend(["--set".into(), (*set).to_string()]);
    }
    all
}

/// Returns the training steps of the journal in which the layers before the last have a loss.
fn with_layers(run: &Path) -> Vec<u64> {
    let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let train = lines.filter(|line| line["split"] == "train");
    let train: Vec<Value> = train.collect();
    assert!(train.iter().all(|line| line["second_loss"].is_number()));
    let has = |line: &&Value| line["layer_loss"].is_number();
    train
        .iter()
        .filter(has)
        .map(|l| l["step"].as_u64().unwrap())
        .collect()
}

/// Returns the files of a step's weights, averaged weights and optimizer.
fn checkpoint(run: &Path, step: u64) -> Vec<Vec<u8>> {
    let folder = run.join(format!("steps/{step:08}"));
    let files = ["model.safetensors", "ema.safetensors", "optimizer.bpk"];
    files
        .map(|name| fs::read(folder.join(name)).unwrap())
        .into()
}

/// A run is resumed bit for bit after layers have stopped; if it is extended, the new last step decides when layers stop.
#[test]
fn a_run_goes_on_where_it_was_in_training() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, cut] = ["whole", "cut"].map(|name| folder.path().join(name));
    let shown = |run: &Path| run.display().to_string();
    let steps = [
        "train.steps=16",
        "train.checkpoint_every=5",
        "train.keep_last=9",
        "train.log_every=1",
    ];
    let sets = [&LOSSES[..], &steps].concat();
    let train = |run: &Path| {
        output(&command(
            &["train", TINY, "--quiet", "--run", &shown(run)],
            &sets,
        ))
    };
    train(&whole);
    // Layer 3 of 4 stops after 3/8 of 16 steps.
    assert_eq!(with_layers(&whole), (1..=6).collect::<Vec<u64>>());
    train(&cut);
    for step in [10, 15, 16] {
        fs::remove_dir_all(cut.join(format!("steps/{step:08}"))).unwrap();
    }
    output(&command(&["resume", &shown(&cut), "--quiet"], &[]));
    assert!(
        checkpoint(&cut, 16) == checkpoint(&whole, 16),
        "other weights"
    );
    assert_eq!(with_layers(&cut), with_layers(&whole));
    output(&command(
        &["resume", &shown(&cut), "--quiet"],
        &["train.steps=48"],
    ));
    // 3/8 of 48 steps.
    let (before, after) = (1..=6, 17..=18);
    assert_eq!(with_layers(&cut), before.chain(after).collect::<Vec<u64>>());
}

/// Every command that uses a run, and every run that begins from it, leaves out the parameters that only training needs.
#[test]
fn a_trained_run_is_used_without_the_extra_heads() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let run = place("run");
    let sets = [
        &LOSSES[..],
        &["task.positions=second_half", "train.steps=10"],
    ]
    .concat();
    output(&command(&["train", TINY, "--quiet", "--run", &run], &sets));
    let scores: Value =
        serde_json::from_slice(&fs::read(Path::new(&run).join("scores.json")).unwrap()).unwrap();
    let scored: Value = serde_json::from_str(&output(&["eval", &run, "--json"])).unwrap();
    let difference = scored["loss"].as_f64().unwrap() - scores["valid"]["loss"].as_f64().unwrap();
    assert!(difference.abs() < 1e-6, "{difference}");
    output(&["generate", &run, "--prompt", "abc=", "--tokens", "4"]);
    let exported = output(&["export", &run, &place("hf")]);
    assert!(exported.contains("llama with 54 tensors"), "{exported}");
    let planned: Value = serde_json::from_str(&output(&["plan", &run, "--json"])).unwrap();
    let extra = planned["parts"]["auxiliary"].as_u64().unwrap();
    let kept = planned["kept_params"].as_u64().unwrap();
    assert_eq!(planned["params"].as_u64().unwrap(), kept + extra);
    // Begins a run without these losses from one that has them, and the reverse.
    let from = |name: &str| format!("init.from={:?}", place(name));
    let (theirs, ours) = (from("run"), from("plain"));
    let more = ["model.n_layers=4", "train.steps=6"];
    let sets = [&more[..], &[&theirs]].concat();
    let said = notices(&command(&["train", TINY, "--run", &place("plain")], &sets));
    assert!(
        said.contains("skipped: auxiliary.layers.0.next.bias"),
        "{said}"
    );
    let sets = [&LOSSES[..], &["train.steps=6", &ours]].concat();
    let said = notices(&command(&["train", TINY, "--run", &place("again")], &sets));
    assert!(
        said.contains("new: auxiliary.layers.0.next.weight"),
        "{said}"
    );
}

#[test]
fn keys_without_effect_are_faults() {
    let fault = |set: &str| {
        let (status, said) = failure(&command(&["check", TINY], &[set, "model.n_layers=1"]));
        assert_eq!(status, 2, "{said}");
        said
    };
    let said = fault("task.intermediate_layers=true");
    assert!(said.contains("the model has only one layer"), "{said}");
    let said = fault("task.second_target=0.0");
    assert!(
        said.contains("second_target = 0.0 must be above 0"),
        "{said}"
    );
    let sets = ["task.second_target=0.5", "task.positions=last"];
    let (status, said) = failure(&command(&["check", TINY], &sets));
    assert!(
        status == 2 && said.contains("ends with its last target"),
        "{said}"
    );
    let said = fault("task.positions=half");
    assert!(said.contains("second_half"), "{said}");
}

/// Returns standard error of a command that must succeed.
fn notices(arguments: &[String]) -> String {
    let output = formwork(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}
