//! Folders with other keys than they were saved with: expected values are those of transformers 5.24 for the same keys and
//! weights, or follow from those of the folder.

use super::files;
use super::ties::{config, import, with_keys, with_tensor};
use super::{Tensors, assert_outputs, files::copy, fixture, infer, shown, tokens};
use crate::binary::output;
use formwork::interop::{ReadConfig, computation_differences, read_config};
use serde_json::{Value, json};
use std::path::Path;

const WEIGHTS: &str = "model.safetensors";

/// Returns the outputs of a folder with these keys, which must survive export and import, and the messages of import.
fn outputs(name: &str, keys: &[(&str, Value)]) -> (Tensors, String) {
    let folder = copy(&fixture(name));
    with_keys(folder.path(), keys);
    let (found, said, _) = round(folder.path());
    (found, said)
}

/// The same for an existing folder, with the exported config.json.
fn round(folder: &Path) -> (Tensors, String, Value) {
    let work = tempfile::tempdir().unwrap();
    let [run, exported, again] = ["run", "exported", "again"].map(|part| work.path().join(part));
    let said = import(folder, &run);
    let found = infer(folder, "reference", &shown(&run), &[]);
    output(&["export", &shown(&run), &shown(&exported)]);
    import(&exported, &again);
    let second = infer(folder, "reference", &shown(&again), &[]);
    assert!(found == second, "an exported folder gives other outputs");
    (found, said, config(&exported))
}

/// Compares the first four logits at the last position of the first text.
#[test]
fn windows_positions_and_groups_are_those_of_the_class() {
    let yarn = json!({
        "rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32,
    });
    let window = |keys: usize| {
        vec![
            ("use_sliding_window", json!(true)),
            ("sliding_window", json!(keys)),
        ]
    };
    let with = |keys: &[(&'static str, Value)], more: (&'static str, Value)| {
        let mut all = keys.to_vec();
        all.push(more);
        all
    };
    let upper = with(&window(3), ("layer_types", Value::Null));
    let kinds = json!(["sliding_attention", "full_attention"]);
    for (name, keys, expected) in [
        (
            "qwen2_1",
            with(&upper, ("max_window_layers", json!(1))),
            [0.023134, -2.576844, 0.352095, -0.743541],
        ),
        (
            "qwen3_1",
            with(&window(2), ("layer_types", kinds)),
            [-2.886345, 3.577384, -2.400291, 1.549772],
        ),
        (
            "smollm3_1",
            with(&window(2), ("layer_types", Value::Null)),
            [1.156518, -1.067215, 1.188778, -0.013315],
        ),
        (
            "smollm3_1",
            vec![("no_rope_layers", json!([0, 0, 0, 0]))],
            [-0.140239, -1.849048, 2.132007, -0.868344],
        ),
        (
            "llama_1",
            vec![
                ("rope_scaling", Value::Null),
                ("rope_parameters", yarn),
                ("original_max_position_embeddings", json!(8)),
            ],
            [-1.681616, -0.689212, 0.030177, 1.561808],
        ),
        (
            "albert_1",
            vec![("num_hidden_layers", json!(2))],
            [0.278578, -0.652434, 0.280144, -2.381647],
        ),
    ] {
        let (found, _) = outputs(name, &keys);
        let logits = &found["logits"];
        let last = (logits.shape[1] - 1) * logits.shape[2];
        for (ours, theirs) in logits.values[last..].iter().zip(expected) {
            let theirs: f32 = theirs;
            assert!((ours - theirs).abs() < 1e-4, "{name}: {ours}, not {theirs}");
        }
    }
}

/// Keys with a default in the class, or without effect.
#[test]
fn absent_keys_are_those_of_the_class() {
    for (name, key, value) in [
        ("mixtral_1", "rms_norm_eps", json!(1e-5)),
        ("smollm3_1", "tie_word_embeddings", json!(true)),
    ] {
        let (given, _) = outputs(name, &[(key, value)]);
        let (absent, _) = outputs(name, &[(key, Value::Null)]);
        assert!(given == absent, "{name}: {key}");
    }
    let (found, said) = outputs("gemma3_1", &[("attn_logit_softcapping", json!(0.5))]);
    assert_outputs("gemma3_1", &fixture("gemma3_1"), "reference", &found);
    let words = "`attn_logit_softcapping` = 0.5 has no effect";
    assert!(said.contains(words), "{said}");
    let folder = copy(&fixture("big_bird_1"));
    with_keys(folder.path(), &[("num_random_blocks", json!(1))]);
    let work = tempfile::tempdir().unwrap();
    let said = import(folder.path(), &work.path().join("run"));
    assert!(said.contains("more than 14 tokens"), "{said}");
}

/// The bias of a Reformer's LM head under its name since 5.24: logits rise by it, and it is exported under both names.
#[test]
fn a_reformer_s_bias_has_two_names() {
    let folder = copy(&fixture("reformer_1"));
    let mut bias = files::read(&folder.path().join(WEIGHTS))["lm_head.bias"].clone();
    for (token, x) in bias.values.iter_mut().enumerate() {
        *x = token as f32 / 8.0;
    }
    with_tensor(folder.path(), "lm_head.decoder.bias", &bias);
    let work = tempfile::tempdir().unwrap();
    let (run, exported) = (work.path().join("run"), work.path().join("exported"));
    import(folder.path(), &run);
    let ours = infer(folder.path(), "reference", &shown(&run), &[])["logits"].clone();
    let reference = files::read(&folder.path().join("reference.safetensors"));
    let theirs = &reference["expected.logits"];
    let seen = tokens("logits", &theirs.shape, &reference);
    let pairs = ours.values.iter().zip(&theirs.values).enumerate();
    for (place, (a, b)) in pairs.filter(|(place, _)| seen(*place)) {
        let wanted = b + bias.values[place % bias.values.len()];
        assert!((a - wanted).abs() < 3e-4, "{a}, not {wanted}");
    }
    output(&["export", &shown(&run), &shown(&exported)]);
    let written = files::read_folder(&exported);
    for name in ["lm_head.bias", "lm_head.decoder.bias"] {
        assert!(written[name] == bias, "{name}");
    }
}

/// Two embedding tables of equal size: with the values of the shared table they give its outputs, and stay two.
#[test]
fn two_tables_of_marian_s_may_be_of_one_size() {
    let folder = copy(&fixture("marian_1"));
    let table = files::read(&folder.path().join(WEIGHTS))["model.shared.weight"].clone();
    with_keys(
        folder.path(),
        &[("share_encoder_decoder_embeddings", json!(false))],
    );
    for side in ["encoder", "decoder"] {
        let name = format!("model.{side}.embed_tokens.weight");
        with_tensor(folder.path(), &name, &table);
    }
    let (found, _, written) = round(folder.path());
    assert_outputs("marian_1", folder.path(), "reference", &found);
    assert_eq!(written["share_encoder_decoder_embeddings"], false);
}

pub(super) fn read(value: &Value) -> formwork::error::Result<ReadConfig> {
    read_config(Path::new("config.json"), value.clone(), &[], None)
}

pub(super) fn changed(name: &str, keys: &[(&str, Value)]) -> Value {
    let mut value = config(&fixture(name));
    for (key, of_key) in keys {
        value[*key] = of_key.clone();
    }
    value
}

/// Networks whose layers are all of a family's second kind are exported, and read back as the same.
#[test]
fn layers_of_one_kind_go_out_again() {
    let full = json!(["full_attention", "full_attention"]);
    let linear = json!(["linear_attention", "linear_attention"]);
    let by_kind = json!({
        "full_attention": {"rope_theta": 1000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 100.0, "rope_type": "linear", "factor": 2.0},
    });
    for (name, key, value) in [
        ("deepseek_v2_1", "first_k_dense_replace", json!(2)),
        ("qwen3_next_1", "layer_types", full),
        ("qwen3_next_1", "mlp_only_layers", json!([0, 1])),
        ("smollm3_1", "no_rope_layers", json!([0, 0, 0, 0])),
        ("gemma3_1", "rope_parameters", by_kind),
    ] {
        let first = read(&changed(name, &[(key, value)])).unwrap();
        let Some(mut written) = first.family.config_json(&first.shape) else {
            panic!("{name}: {key} is not written")
        };
        written["model_type"] = json!(first.family.model_type);
        let again = read(&written).unwrap();
        let differ = computation_differences(&first.shape, &again.shape);
        assert!(differ.is_empty(), "{name}: {key}: {differ:?}");
    }
    let class = ("architectures", json!(["Qwen3NextForQuestionAnswering"]));
    let keys = [class, ("layer_types", linear)];
    let why = read(&changed("qwen3_next_1", &keys))
        .unwrap_err()
        .to_string();
    assert!(
        why.contains("cannot be imported with the other keys of this \"qwen3_next\""),
        "{why}"
    );
}
