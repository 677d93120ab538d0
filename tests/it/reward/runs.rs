//! Reward runs: begun from a language model, with adapters, with margins, resumed exactly, on several ranks, and refused.

use crate::in_folder::{good, refused, resumes_exactly, run, text, weights};
use crate::preference::runs::{file, with_base};
use crate::ranks::{every_count_gives_the_same_bits, experiments::Files};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub(super) const REWARDS: &str = r#"
[init]
from = "checkpoints/base"
new = ["^head"]
[data]
kind = "preferences"
path = "pairs.jsonl"
valid_fraction = 0.25
context = 16
[task]
kind = "reward"
"#;

/// Returns the rewards that `classify` prints line by line.
pub(super) fn rewards(folder: &Path, arguments: &[&str]) -> Vec<f64> {
    let all = [&["classify"][..], arguments, &["--json"]].concat();
    let told = good(folder, &all);
    let reward = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["reward"].as_f64().unwrap()
    };
    told.lines().map(reward).collect()
}

/// Returns the rewards that `eval` writes for each example of a split.
pub(super) fn predicted(folder: &Path, run: &str) -> Vec<[f64; 2]> {
    good(folder, &["eval", run, "--predictions", "predicted.jsonl"]);
    let lines = text(folder, "predicted.jsonl");
    let pair = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        ["chosen", "rejected"].map(|key| line[key].as_f64().unwrap())
    };
    lines.lines().map(pair).collect()
}

#[test]
fn a_run_from_texts_resumes_exactly_and_scores_answers() {
    let folder = with_base();
    let at = folder.path();
    file(at, "rewards", REWARDS);
    good(at, &["check", "rewards.toml"]);
    good(at, &["plan", "rewards.toml", "--no-probe"]);
    resumes_exactly(at, "rewards", [2, 4]);

    let scores: Value =
        serde_json::from_str(&good(at, &["eval", "checkpoints/rewards", "--json"])).unwrap();
    let found = predicted(at, "checkpoints/rewards");
    let margin = found.iter().map(|[a, b]| a - b).sum::<f64>() / found.len() as f64;
    assert!((scores["reward_margin"].as_f64().unwrap() - margin).abs() < 1e-5);
    let right = found.iter().filter(|[a, b]| a > b).count() as f64;
    let share = scores["reward_accuracy"].as_f64().unwrap();
    assert!((share - right / found.len() as f64).abs() < 1e-6);
    assert!(scores["perplexity"].is_null() && scores["reward_chosen"].is_number());

    // A prompt with its answer is scored like their joined text.
    let [apart] = rewards(
        at,
        &["checkpoints/rewards", "--text", "abc ", "--pair", "dd"],
    )[..] else {
        panic!("one reward");
    };
    fs::write(at.join("lines.txt"), "abc \tdd\nabc dd\n").unwrap();
    let lines = rewards(at, &["checkpoints/rewards", "--input", "lines.txt"]);
    assert_eq!(lines, [apart, apart]);
    let told = good(
        at,
        &[
            "classify",
            "checkpoints/rewards",
            "--text",
            "abc ",
            "--pair",
            "dd",
        ],
    );
    assert!(told.starts_with("abc dd: "), "{told}");
    let long = "a".repeat(40);
    let said = refused(at, &["classify", "checkpoints/rewards", "--text", &long]);
    assert!(said.contains("but the run reads at most 16"), "{said}");
    let said = refused(at, &["generate", "checkpoints/rewards", "--prompt", "ab"]);
    assert!(said.contains("does not continue text"), "{said}");
}

#[test]
fn adapters_learn_beside_a_language_model() {
    let folder = with_base();
    let at = folder.path();
    let adapted = format!("{REWARDS}[lora]\nrank = 2\nalpha = 4.0\nin_full = [\"head\"]\n");
    file(at, "adapted", &adapted);
    good(at, &["train", "adapted.toml", "--quiet"]);
    good(at, &["eval", "checkpoints/adapted"]);
    assert_eq!(
        rewards(at, &["checkpoints/adapted", "--text", "abc "]).len(),
        1
    );
}

#[test]
fn margins_stand_in_a_field_of_their_own() {
    let folder = with_base();
    let at = folder.path();
    let lines = text(at, "pairs.jsonl");
    let with = lines.lines().enumerate().map(|(number, line)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["by"] = json!(number % 3);
        format!("{line}\n")
    });
    fs::write(at.join("pairs.jsonl"), with.collect::<String>()).unwrap();
    file(at, "plain", REWARDS);
    file(
        at,
        "margins",
        &REWARDS.replace("context = 16", "context = 16\nmargin = \"by\""),
    );
    good(at, &["train", "plain.toml", "--quiet"]);
    good(at, &["train", "margins.toml", "--quiet"]);
    assert!(weights(at, "plain", 4) != weights(at, "margins", 4));
    let margins = ["check", "margins.toml", "--set"];
    for (set, wanted) in [
        ("data.margin=of", "no field `of`"),
        ("data.margin=chosen", "`chosen` is not a number"),
        ("task={kind=\"preference\"}", "margin has no effect"),
    ] {
        let said = refused(at, &[&margins[..], &[set]].concat());
        assert!(said.contains(wanted), "{set}: {said}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let folder = with_base();
    let at = folder.path();
    file(at, "rewards", REWARDS);
    for (set, wanted) in [
        ("task.center_rewards_coefficient=0.0", "must be above 0"),
        ("task.dropout=1.0", "dropout = 1.0"),
        ("task.head_biass=true", "did you mean `head_bias`?"),
        (
            "data.kind=conversations",
            "kind = \"reward\" reads a better and a worse text",
        ),
    ] {
        let output = run(at, &["check", "rewards.toml", "--set", set]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{set}");
        assert!(said.contains(wanted), "{set}: {said}");
    }
    let long = json!({ "prompt": "b".repeat(30), "chosen": "a", "rejected": "b" });
    let lines = text(at, "pairs.jsonl");
    fs::write(at.join("pairs.jsonl"), format!("{lines}{long}\n")).unwrap();
    let output = run(at, &["check", "rewards.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = "a text is longer than context = 16 tokens";
    assert!(output.status.success() && said.contains(wanted), "{said}");
    // Texts of a pair are in separate rows, so attention needs no mask between them.
    let compressed = "model.attention={kind=\"memory_compressed\", n_heads=2}";
    let begun = [
        "check",
        "rewards.toml",
        "--set",
        compressed,
        "--set",
        "init.new=[\"head\", \"attention\"]",
        "--set",
        "init.skip=[\"attention\"]",
    ];
    let output = run(at, &begun);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}

/// Dropout, micro-batches, texts of different lengths, a loss of two terms.
#[test]
fn every_count_of_ranks_gives_the_same_bits() {
    let letter = |n: usize| char::from(b'a' + (n % 7) as u8);
    let pair = |n: usize| {
        let text = |m: usize| {
            (0..1 + m % 5)
                .map(|i| letter(i * m + n))
                .collect::<String>()
        };
        let line = json!({ "prompt": text(n), "chosen": text(n + 1), "rejected": format!("{}z", text(n + 3)) });
        format!("{line}\n")
    };
    let pairs: String = (0..40).map(pair).collect();
    let toml = r#"name = "rewards"
[model]
kind = "decoder"
n_layers = 1
d_model = 16
dropout = 0.1
norm = { kind = "rms" }
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense" }
[data]
kind = "preferences"
path = "PATH"
valid_fraction = 0.25
context = 16
[tokenizer]
kind = "char"
[task]
kind = "reward"
center_rewards_coefficient = 0.1
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 6
batch_size = 8
micro_batch_size = 2
eval_every = 3
checkpoint_every = 2
log_every = 2
"#;
    let files = Files::with(toml, &[("pairs.jsonl", pairs.into_bytes())]);
    let path = files.path("pairs.jsonl").display().to_string();
    let file = files.path("x.toml");
    let toml = fs::read_to_string(&file).unwrap().replace("PATH", &path);
    fs::write(file, toml).unwrap();
    every_count_gives_the_same_bits(&files, &[1, 2, 4], &[]);
}
