//! `bench`: measurements of training steps, attention and generation, and the flags that are refused.

use super::json;
use crate::binary::{failure, output};
use formwork::nn::attention::{AttentionConfig, KINDS, ReadingDirection};
use serde_json::{Value, json};

const LM_S: &str = "experiments/bench/lm_s.toml";

fn positive(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object[key].as_f64().unwrap() > 0.0, "{key}: {object}");
    }
}

#[test]
fn training_steps_and_where_their_time_goes() {
    let arguments = ["bench", "train", LM_S, "--steps", "2", "--warmup", "1"];
    let bench = json(&output(
        &[&arguments[..], &["--json", "--profile"]].concat(),
    ));
    assert_eq!(bench["case"], "lm_s");
    assert_eq!(bench["params"], 818_176);
    positive(
        &bench,
        &[
            "step_ms_median",
            "items_per_s",
            "peak_rss_mb",
            "loss_first",
            "loss_last",
        ],
    );
    positive(&bench["parts_ms"], &["forward", "backward", "update"]);
    let sum = |table: &str| -> f64 {
        let times = bench[table].as_object().unwrap().values();
        times.map(|ms| ms.as_f64().unwrap()).sum()
    };
    let (parts, kernels) = (sum("parts_ms"), sum("kernels_ms"));
    assert!(kernels > 0.0 && kernels <= parts, "{bench}");
    positive(
        &bench["kernels_ms"],
        &["linear", "attention", "head and loss"],
    );
    let shown = output(&[&arguments[..], &["--profile"]].concat());
    for row in ["backward", "attention, backward", "everything else"] {
        assert!(shown.contains(row), "{shown}");
    }
}

#[test]
fn attention_by_the_length_of_the_text() {
    let sizes = ["--context", "64,32", "--heads", "4", "--kv-heads", "2"];
    let sizes = [&["bench", "attention"], &sizes[..], &["--rounds", "1"]].concat();
    let window = ["--kind", "sliding_window", "--set", "window=8"];
    for (kind, more) in [("multi_head", &[][..]), ("sliding_window", &window)] {
        let shown = output(&[&sizes[..], more, &["--json"]].concat());
        let lines: Vec<Value> = shown.lines().map(json).collect();
        assert_eq!(lines.len(), 3, "{shown}");
        for (line, context) in lines.iter().zip([32, 64]) {
            assert_eq!(
                (&line["kind"], &line["context"]),
                (&kind.into(), &context.into())
            );
            positive(line, &["forward_ms"]);
            assert!(line["backward_ms"].is_number() && line["peak_mb"].is_number());
        }
        assert!(lines[2]["exponent_time"].is_number(), "{shown}");
        assert!(lines[2].get("exponent_memory").is_some(), "{shown}");
    }
    let both = [
        "--kind",
        "multi_head,sliding_window",
        "--set",
        "sliding_window.window=8",
        "--json",
    ];
    let shown = output(&[&sizes[..], &both].concat());
    let lines: Vec<Value> = shown.lines().map(json).collect();
    let kinds: Vec<&Value> = lines.iter().map(|line| &line["kind"]).collect();
    let [dense, window] = ["multi_head", "sliding_window"];
    assert_eq!(kinds, [dense, dense, dense, window, window, window]);
    assert!(lines.iter().all(|line| line["causal"] == true), "{shown}");
    let refused = |more: &[&str]| failure(&[&["bench", "attention"], more].concat());
    let (status, said) = refused(&["--kind", "windows"]);
    assert!(status == 2 && said.contains("sliding_window"), "{said}");
    let (status, said) = refused(&["--kind", "sliding_window", "--set", "window=0"]);
    assert!(status == 2 && said.contains("window = 0"), "{said}");
    let (status, said) = refused(&["--kind", "sliding_window", "--set", "windo=3"]);
    assert!(
        status == 2 && said.contains("there is no key `windo`; did you mean `window`?"),
        "{said}"
    );
    let (status, said) = refused(&["--set", "window=8"]);
    assert!(status == 2 && said.contains("window"), "{said}");
    let (status, said) = refused(&["--set", "sliding_window.window=8"]);
    assert!(
        status == 2 && said.contains("sliding_window is not measured"),
        "{said}"
    );
    let (status, said) = refused(&["--all", "--kind", "multi_head"]);
    assert!(status == 2 && said.contains("--all"), "{said}");
    let wrong = ["--heads", "4", "--kv-heads", "3"];
    let (status, said) = failure(&[&["bench", "attention"], &wrong[..]].concat());
    assert!(status == 2 && said.contains("--kv-heads 3"), "{said}");
    let (status, said) = failure(&["bench", "attention", "--context", "0"]);
    assert!(status == 2 && said.contains("--context"), "{said}");
}

/// Every kind of attention with its default keys, causal or bidirectional as each allows.
#[test]
fn attention_of_every_kind() {
    let sizes = [
        "--context",
        "512",
        "--heads",
        "2",
        "--head-width",
        "8",
        "--rounds",
        "1",
    ];
    for flag in [&[][..], &["--bidirectional"]] {
        let shown =
            output(&[&["bench", "attention", "--all", "--json"], &sizes[..], flag].concat());
        let lines: Vec<Value> = shown.lines().map(json).collect();
        let measured: Vec<&str> = lines
            .iter()
            .map(|line| line["kind"].as_str().unwrap())
            .collect();
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.kind).collect();
        assert_eq!(measured, known);
        for line in &lines {
            let kind = json!({ "kind": line["kind"] });
            let config: AttentionConfig = serde_json::from_value(kind).unwrap();
            let causal = match config.facts().abilities().reads {
                ReadingDirection::Either => flag.is_empty(),
                ReadingDirection::Bidirectional => false,
                ReadingDirection::Causal => true,
            };
            assert_eq!(line["causal"], causal, "{line}");
        }
    }
}

#[test]
fn generated_tokens() {
    let arguments = ["bench", "generate", LM_S, "--tokens", "3", "--rounds", "1"];
    let bench = json(&output(
        &[&arguments[..], &["--batch", "2", "--json"]].concat(),
    ));
    assert_eq!((&bench["batch"], &bench["tokens"]), (&2.into(), &3.into()));
    positive(&bench, &["tokens_per_s", "prompt_ms"]);
    let timed = json(&output(
        &[&arguments[..], &["--profile", "--json"]].concat(),
    ));
    positive(&timed, &["token_ms"]);
    positive(&timed["kernels_ms"], &["linear", "attention"]);
    let said = output(&[&arguments[..], &["--profile"]].concat());
    assert!(
        said.contains("ms a token") && said.contains("everything else"),
        "{said}"
    );
    let (status, said) = failure(&[&arguments[..], &["--batch", "0"]].concat());
    assert!(status == 2 && said.contains("--batch 0"), "{said}");
    let vast = ["--batch", "1048576", "--tokens", "1048576"];
    let (status, said) = failure(&[&["bench", "generate", LM_S], &vast[..]].concat());
    assert!(
        status == 2 && said.contains("--batch 1048576 x") && said.contains("FORMWORK_MEMORY"),
        "{said}"
    );
    let (status, said) = failure(&["bench", "generate", "experiments/bench/mlm.toml"]);
    assert!(status == 2 && said.contains("masked_lm"), "{said}");
}
