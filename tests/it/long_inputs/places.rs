//! Where each kind is allowed: every position scheme of texts, every direction of attention, documents, prefixes and segments
//! either work, or are refused with one error that names the kind.

use super::inline;
use crate::binary::{failure, formwork, output};
use formwork::nn::attention::KINDS;
use serde_json::{Value, json};

/// How positions may act on the heads of a kind, by its definition: rotations if query and key vectors are compared, scalars by
/// distance if single keys are, vectors by distance if the fused kernel computes scores in the order of the text.
const CARRIED: &[(&str, &[&str])] = &[
    (
        "multi_head",
        &[
            "rotation",
            "fading",
            "bias",
            "layer bias",
            "pair bias",
            "vectors",
        ],
    ),
    (
        "sliding_window",
        &["rotation", "fading", "bias", "layer bias", "vectors"],
    ),
    ("local", &["rotation", "bias", "vectors"]),
    ("big_bird", &["rotation", "bias", "vectors"]),
    ("strided", &["rotation", "bias"]),
    ("fixed", &["rotation"]),
    ("linformer", &[]),
    ("memory_compressed", &[]),
    ("adaptive_span", &["rotation", "bias", "vectors"]),
    ("linear", &[]),
    ("performer", &["rotation"]),
    ("lsh", &["rotation"]),
    ("latent", &["rotation", "bias"]),
    ("differential", &["rotation", "bias"]),
];

/// Position schemes of texts, and how they act on heads; those added to embeddings work with every kind.
const SCHEMES: &[(&str, Option<&str>)] = &[
    ("none", None),
    ("sinusoidal", None),
    ("learned", None),
    ("learned_per_layer", None),
    ("axial", None),
    ("rotary", Some("rotation")),
    ("alibi", Some("bias")),
    ("relative_bias", Some("bias")),
    ("dynamic_bias", Some("bias")),
    ("xpos", Some("fading")),
    ("kerple", Some("layer bias")),
    ("fire", Some("pair bias")),
    ("shaw", Some("vectors")),
    ("transformer_xl", Some("vectors")),
    ("disentangled", Some("vectors")),
];

/// Sizes that fit inputs of fourteen tokens.
fn small(kind: &str) -> Value {
    match kind {
        "sliding_window" => json!({ "kind": kind, "n_heads": 4, "window": 5 }),
        "local" => json!({ "kind": kind, "n_heads": 4, "block": 4 }),
        "big_bird" => json!({ "kind": kind, "n_heads": 4, "block": 2, "random": 1 }),
        "linformer" => json!({ "kind": kind, "n_heads": 4, "k": 4 }),
        "adaptive_span" => json!({ "kind": kind, "n_heads": 4, "max_span": 8, "ramp": 4 }),
        "lsh" => json!({ "kind": kind, "n_heads": 4, "chunk": 4 }),
        _ => json!({ "kind": kind, "n_heads": 4 }),
    }
}

fn checked(file: &str, sets: &[String]) -> Result<(), String> {
    let mut arguments = vec!["check".to_string(), format!("experiments/{file}.toml")];
    for set in sets {
        arguments.extend(["--set".to_string(), set.clone()]);
    }
    let output = formwork(&arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(said),
        other => panic!("status {other:?}: {said}"),
    }
}

#[test]
fn a_scheme_is_carried_or_refused_by_name() {
    let known: Vec<&str> = KINDS.iter().map(|kind| kind.kind).collect();
    let listed: Vec<&str> = CARRIED.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(listed, known);
    for (kind, carried) in CARRIED {
        // An encoder for kinds that attend in both directions, a decoder for the others.
        let file = match *kind {
            "big_bird" | "linformer" => "text_classification/listops",
            _ => "smoke/tiny",
        };
        for (scheme, means) in SCHEMES {
            let sets = [
                format!("model.attention={}", inline(&small(kind))),
                format!("model.position={{ kind = \"{scheme}\" }}"),
            ];
            let found = checked(file, &sets);
            if means.is_none_or(|means| carried.contains(&means)) {
                assert!(found.is_ok(), "{kind} with {scheme}: {found:?}");
                continue;
            }
            let said = found.unwrap_err();
            let both_ways = ["xpos", "fire"].contains(scheme) && file.contains("listops");
            let wanted = match both_ways {
                true => format!("kind = \"{scheme}\" is for stacks that read from left to right"),
                false => format!(
                    "kind = \"{scheme}\" cannot be used with attention of kind = \"{kind}\"; use learned"
                ),
            };
            assert!(said.contains(&wanted), "{kind} with {scheme}: {said}");
            assert_eq!(said.matches("error").count(), 1, "{said}");
        }
    }
}

/// A network of one or two stacks with a feature that the kind does not support: the error says so and names an alternative.
#[test]
fn a_kind_stands_where_its_definition_allows() {
    let attention = |kind: &str| format!("model.attention={}", inline(&small(kind)));
    let learned = "model.position={ kind = \"learned\" }".to_string();
    for (file, more, words) in [
        // In a decoder.
        ("smoke/tiny", [attention("big_bird"), learned.clone()], "reads both ways"),
        ("smoke/tiny", [attention("linformer"), learned.clone()], "reads both ways"),
        (
            "smoke/tiny",
            [
                "model.attention={ kind = \"sliding_window\", window = 4, global = \"own\" }".into(),
                learned.clone(),
            ],
            "global reads both ways",
        ),
        // In an encoder.
        (
            "text_classification/listops",
            [attention("strided"), learned.clone()],
            "reads from left to right",
        ),
        (
            "text_classification/listops",
            [attention("fixed"), learned.clone()],
            "reads from left to right",
        ),
        // With a source that sees all of itself.
        (
            "translation/dates",
            [
                "model={ kind = \"decoder\", n_layers = 1, d_model = 16, attention = { kind = \"linear\", n_heads = 4 } }".into(),
                "task.bidirectional_source=true".into(),
            ],
            "cannot show the whole source to itself",
        ),
        // With a memory of earlier segments.
        (
            "smoke/segments",
            [
                "model.attention={ kind = \"lsh\", n_heads = 4, memory = 8 }".into(),
                "model.position={ kind = \"rotary\" }".into(),
            ],
            "cannot attend to earlier segments",
        ),
        // With attention weights that are never formed.
        (
            "smoke/tiny",
            [
                "model.dropout_attention=0.1".into(),
                "model.attention={ kind = \"performer\", n_heads = 4 }".into(),
            ],
            "computes no weights of queries and keys",
        ),
    ] {
        let said = checked(file, &more).unwrap_err();
        assert!(said.contains(words), "{more:?}: {said}");
    }
}

/// A run whose attention is refused writes nothing.
#[test]
fn a_refused_kind_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let set = format!("model.attention={}", inline(&small("big_bird")));
    let file = "experiments/smoke/tiny.toml";
    let (status, said) = failure(&["train", file, "--set", &set, "--run", &run]);
    assert!(status == 2 && said.contains("big_bird"), "{said}");
    assert!(!std::path::Path::new(&run).exists());
    assert!(output(&["list", "attention"]).contains("big_bird"));
}
