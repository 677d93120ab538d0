//! Runs with a memory, through the commands: stopped and resumed they are the same bit for bit, evaluations in segments equal
//! one long pass, texts are generated beyond the context, and keys without effect are refused.

use crate::binary::{failure, output};
use crate::lanes::{self, files, train};
use serde_json::Value;
use std::fs;

const EXPERIMENT: &str = r#"
name = "remembers"
seed = 4
[model]
kind = "decoder"
n_layers = 2
d_model = 12
dropout = 0.1
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 2, memory = 10, memory_at_evaluation = 64 }"#;

fn folder(edits: &[(&str, &str)]) -> tempfile::TempDir {
    lanes::folder(EXPERIMENT, edits)
}

const APART: (&str, &str) = (
    "windows = \"contiguous\"",
    "windows = \"documents\"\nacross_documents = false\ndocument_separator = \"e\"",
);
const ENDS: (&str, &str) = (
    "kind = \"byte\"",
    "kind = \"byte\"\nend_of_text = \"<|e|>\"",
);

#[test]
fn a_resumed_run_goes_on_with_its_memory() {
    for edits in [&[][..], &[APART, ENDS]] {
        let folder = folder(edits);
        let folder = folder.path();
        output(&train(folder, "whole", &[]));
        output(&train(folder, "parts", &["train.steps=4"]));
        let parts = folder.join("parts").display().to_string();
        output(&["resume", &parts, "--quiet", "--set", "train.steps=9"]);
        assert!(files(folder, "whole") == files(folder, "parts"));
        let less = "model.attention.memory=3";
        output(&train(folder, "less", &[less]));
        assert!(files(folder, "whole")[0] != files(folder, "less")[0]);
    }
}

#[test]
fn an_evaluation_in_segments_is_one_long_pass() {
    for position in ["rotary", "alibi", "relative_bias"] {
        let position = format!("position = {{ kind = \"{position}\" }}");
        let folder = folder(&[("position = { kind = \"rotary\" }", &position)]);
        let folder = folder.path();
        output(&train(folder, "run", &[]));
        let run = folder.join("run").display().to_string();
        for context in ["4", "8", "64"] {
            output(&["eval", &run, "--context", context]);
        }
        output(&["eval", &run, "--memory", "0", "--context", "4"]);
        output(&["eval", &run, "--memory", "60"]);
        let scores = fs::read(folder.join("run/scores.json")).unwrap();
        let scores: Value = serde_json::from_slice(&scores).unwrap();
        let loss = |name: &str| {
            let loss = scores[name]["loss"].as_f64();
            loss.unwrap_or_else(|| panic!("{name} of {scores}"))
        };
        for segments in ["valid@4", "valid@8", "valid+60"] {
            assert!(
                (loss(segments) / loss("valid@64") - 1.0).abs() < 1e-5,
                "{scores}"
            );
        }
        assert!(
            (loss("valid@4+0") / loss("valid@4") - 1.0).abs() > 1e-4,
            "{scores}"
        );
    }
}

#[test]
fn a_text_is_generated_past_the_context() {
    let folder = folder(&[]);
    output(&train(folder.path(), "run", &[]));
    let run = folder.path().join("run").display().to_string();
    let text = output(&[
        "generate",
        &run,
        "--prompt",
        "abcdefghijklmn",
        "--tokens",
        "300",
    ]);
    assert!(text.len() > 300, "{text}");
}

/// Keys, the edits that make them wrong, and the message.
const FAULTS: &[(&str, &str, &str)] = &[
    (
        "carry_state = true",
        "carry_state = false",
        "memory has no effect: the rows of a step do not continue",
    ),
    (
        "kind = \"rotary\"",
        "kind = \"learned\"",
        "kind = \"learned\" has the same positions in every segment",
    ),
    (
        "kind = \"rotary\"",
        "kind = \"sinusoidal\"",
        "kind = \"sinusoidal\" has the same positions in every segment",
    ),
    (
        "memory = 10, memory_at_evaluation = 64",
        "memory = 99000000",
        "memory = 99000000 is not between 0 and",
    ),
    (
        "memory = 10, memory_at_evaluation = 64",
        "same_length = true",
        "same_length = true has no effect without memory",
    ),
    (
        "memory = 10, memory_at_evaluation = 64",
        "memory_at_evaluation = 0",
        "memory_at_evaluation = 0 has no effect",
    ),
    (
        "memory_at_evaluation = 64",
        "memory_at_evaluation = 0, same_length = true",
        "set memory and memory_at_evaluation to 1",
    ),
    (
        "\"multi_head\"",
        "\"sliding_window\", window = 9",
        "memory = 10 has no effect beyond 8",
    ),
    (
        "\"multi_head\"",
        "\"sliding_window\", same_length = true, window = 99",
        "same_length = true has no effect: a query",
    ),
    (
        "memory = 10, memory_at_evaluation = 64",
        "memory = 0",
        "carry_state = true has no effect",
    ),
    (
        "kind = \"decoder\"\nn_layers = 2",
        "kind = \"encoder_decoder\"",
        "memory has no effect",
    ),
    ("kind = \"causal_lm\"", "kind = \"masked_lm\"", "memory"),
];

#[test]
fn keys_without_effect_are_refused() {
    let sound = folder(&[]);
    output(&["check", &sound.path().join("x.toml").display().to_string()]);
    for (from, to, said) in FAULTS {
        let folder = folder(&[(from, to)]);
        let path = folder.path().join("x.toml").display().to_string();
        let (status, text) = failure(&["check", &path]);
        assert!(status == 2 && text.contains(said), "{to}: {text}");
    }
    // Cross-attention, and stacks that attend in both directions.
    let translation = "experiments/translation";
    let some = fs::read_dir(translation)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let some = some.display().to_string();
    for (table, said) in [
        ("cross", "memory has no effect in cross-attention"),
        ("attention", "memory has no effect"),
    ] {
        let set = format!("model.{table}={{ kind = \"multi_head\", n_heads = 4, memory = 4 }}");
        let (status, text) = failure(&["check", &some, "--set", &set]);
        assert!(status == 2 && text.contains(said), "{table}: {text}");
    }
}

#[test]
fn another_memory_needs_one() {
    let folder = folder(&[
        ("memory = 10, memory_at_evaluation = 64", "bias = true"),
        ("carry_state = true", ""),
    ]);
    output(&train(folder.path(), "run", &[]));
    let run = folder.path().join("run").display().to_string();
    let (status, text) = failure(&["eval", &run, "--memory", "4"]);
    assert!(
        status == 2 && text.contains("--memory has no effect"),
        "{text}"
    );
}

/// A step's cost includes the earlier positions that are projected and attended to.
#[test]
fn a_plan_counts_the_memory() {
    let flops = |memory: &str| -> f64 {
        let folder = folder(&[("memory = 10, memory_at_evaluation = 64", memory)]);
        let path = folder.path().join("x.toml").display().to_string();
        let plan: Value = serde_json::from_str(&output(&["plan", &path, "--json"])).unwrap();
        let flops = plan["flops_per_item"].as_f64();
        flops.unwrap_or_else(|| panic!("{plan}"))
    };
    // Two layers of width 12: projections to keys and to values for 10 more positions per window of 8 tokens, and 10 more keys
    // in two products for each token.
    let more = 6.0 * 2.0 * (2.0 * 144.0 * 10.0 / 8.0 + 2.0 * 10.0 * 12.0);
    assert!(
        (flops("memory = 10") - flops("memory = 0, memory_at_evaluation = 5") - more).abs() < 1e-3
    );
}
