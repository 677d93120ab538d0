//! Faults of the keys of global tokens, each with its rule.

use crate::binary::{failure, shipped};

#[test]
fn faults_of_global_tokens() {
    let window = "kind = \"sliding_window\", n_heads = 4, window = 9";
    let own = format!("model.attention={{ {window}, global = \"own\" }}");
    let roberta = "experiments/systems/roberta.toml";
    let all = [
        (roberta, vec![own.as_str()], "global_tokens is missing"),
        (
            roberta,
            vec!["task.global_tokens=\"first\""],
            "global_tokens has no effect: no attention of [model] sees global tokens",
        ),
        (
            roberta,
            vec![own.as_str(), "task.global_tokens=\"first_segment\""],
            "makes every token global: texts have one segment",
        ),
        (
            roberta,
            vec![
                own.as_str(),
                "task.global_tokens=\"first\"",
                "model.position={ kind = \"shaw\" }",
            ],
            "kind = \"shaw\" cannot be used with attention of kind = \"sliding_window\"",
        ),
        (
            "experiments/quickstart.toml",
            vec![own.as_str()],
            "global reads both ways, but this stack reads from left to right",
        ),
        (
            "experiments/quickstart.toml",
            vec![
                "model.attention={ kind = \"sliding_window\", n_heads = 4, window = 9, global = \"own\", memory = 4 }",
            ],
            "global reads both ways, but memory contains segments",
        ),
        (
            "experiments/systems/bart.toml",
            vec![
                "model.encoder_layers=[{ attention = { kind = \"sliding_window\", n_heads = 4, window = 9, global = \"own\" }, \
                 feed_forward = { kind = \"dense\" } }]",
            ],
            "kind = \"denoising\" marks no token as global",
        ),
        (
            "experiments/systems/led.toml",
            vec!["task.global_tokens=\"first_segment\""],
            "a source has one segment",
        ),
        (
            "experiments/systems/led.toml",
            vec!["model.target_max_len=20"],
            "has positions for 20 tokens of a target",
        ),
        (
            "experiments/systems/led.toml",
            vec!["data.max_target_len=4000"],
            "max_target_len = 4000 must be at least 3 and below max_len",
        ),
        (
            "experiments/systems/longformer.toml",
            vec!["init.repeat=[\"[\"]"],
            "repeat",
        ),
    ];
    for (file, sets, said) in all {
        let file = shipped(file).display().to_string();
        let mut arguments = vec!["check", &file];
        for set in &sets {
            arguments.extend(["--set", set]);
        }
        let (status, text) = failure(&arguments);
        assert!(status == 2 && text.contains(said), "{said}: {text}");
    }
}
