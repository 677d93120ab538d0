//! The tasks of the Long Range Arena at the lengths of its paper: the shipped experiments train at these lengths if their keys
//! are set as their comments say.

use crate::binary::output;
use serde_json::Value;

/// Experiments, whether they read the development data, and the keys that make their texts as long as the arena's.
const FULL: &[(&str, bool, &[&str])] = &[
    (
        "lra_listops",
        false,
        &[
            "data={ kind = \"listops\", max_depth = 9, max_args = 10, min_length = 501, max_length = 1999, valid_items = 2 }",
        ],
    ),
    (
        "lra_pathfinder",
        false,
        &[
            "data={ kind = \"pathfinder\", sequence = true, size = 32, length = 6, distractors = 2, valid_items = 2 }",
        ],
    ),
    ("lra_bytes", true, &["data.context=4000"]),
    ("lra_pixels", true, &["data.size=[28, 28]"]),
    ("lra_retrieval", true, &["data.context=8003"]),
];

#[test]
fn a_step_at_the_arena_s_lengths() {
    let has_data = std::env::var_os("FORMWORK_DATA").is_some();
    for (name, needs_data, keys) in FULL {
        if *needs_data && !has_data {
            eprintln!("left out: FORMWORK_DATA is not set, which {name} reads");
            continue;
        }
        let file = format!("experiments/text_classification/{name}.toml");
        let mut arguments = vec!["bench", "train", &file, "--json", "--steps", "1"];
        arguments.extend(["--warmup", "0", "--set", "train.batch_size=2"]);
        for key in *keys {
            arguments.extend(["--set", key]);
        }
        let found: Value = serde_json::from_str(&output(&arguments)).unwrap();
        let time = found["step_ms_median"].as_f64().unwrap();
        assert!(time > 0.0, "{name}: {found}");
        println!("{name}: {time:.0} ms a step of two texts");
    }
}
