//! Heads with their own weights though config.json ties them, as transformers 5 loads them; and rotary keys at the place where
//! it reads them.

use super::files::{self, Numbers, copy, parts, write_parts};
use super::{Tensors, assert_outputs, assert_tensors, fixture, infer, shown, tokens};
use crate::binary::{formwork, output};
use serde_json::{Value, json};
use std::path::Path;

const WEIGHTS: &str = "model.safetensors";

pub fn config(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap()
}

pub fn with_keys(dir: &Path, keys: &[(&str, Value)]) {
    let mut found = config(dir);
    for (key, value) in keys {
        found[*key] = value.clone();
    }
    std::fs::write(dir.join("config.json"), found.to_string()).unwrap();
}

/// Appends a tensor of 32-bit floats.
pub fn with_tensor(dir: &Path, name: &str, tensor: &Numbers) {
    let (mut header, mut data) = parts(&dir.join(WEIGHTS));
    let start = data.len();
    data.extend(tensor.values.iter().flat_map(|x| x.to_le_bytes()));
    header[name] =
        json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": [start, data.len()]});
    write_parts(&dir.join(WEIGHTS), &header.to_string(), &data);
}

/// Imports a folder and returns standard error.
pub fn import(dir: &Path, run: &Path) -> String {
    let output = formwork(&["import", &shown(dir), &shown(run)])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {said}", dir.display());
    said
}

/// Folders that were saved untied, with outputs of transformers: these stay the same if the config claims that weights are
/// tied.
#[test]
fn a_head_with_numbers_of_its_own_is_not_tied() {
    for name in [
        "gpt2_2",
        "gpt_neo_2",
        "gpt_neox_1",
        "llama_1",
        "mistral_1",
        "mixtral_1",
        "deepseek_v2_1",
        "deepseek_v3_1",
        "diffllama_1",
        "olmo_1",
        "gpt_oss_1",
        "qwen3_next_1",
        "qwen2_2",
        "qwen3_1",
        "olmo2_1",
        "olmoe_1",
        "opt_2",
        "phi3_1",
        "smollm3_2",
        "starcoder2_2",
        "stablelm_1",
        "gemma_2",
        "falcon_2",
        "bloom_2",
        "mpt_2",
        "mamba_2",
        "mamba2_2",
        "rwkv_1",
        "bert_4",
        "albert_4",
        "electra_4",
        "distilbert_3",
        "deberta_3",
        "roformer_5",
        "modernbert_2",
        "bart_3",
        "mbart_3",
        "m2m_100_3",
        "pegasus_3",
        "led_2",
    ] {
        let folder = copy(&fixture(name));
        with_keys(folder.path(), &[("tie_word_embeddings", json!(true))]);
        let work = tempfile::tempdir().unwrap();
        let (run, exported) = (work.path().join("run"), work.path().join("exported"));
        let said = import(folder.path(), &run);
        assert!(said.contains("separate values"), "{name}: {said}");
        let outputs = infer(folder.path(), "reference", &shown(&run), &[]);
        assert_outputs(name, folder.path(), "reference", &outputs);
        output(&["export", &shown(&run), &shown(&exported)]);
        assert_eq!(config(&exported)["tie_word_embeddings"], false, "{name}");
        assert_tensors(name, folder.path(), &exported);
    }
}

/// A head of twice the embedding table, stored beside it: logits without their bias double. An equal head stays tied.
#[test]
fn a_head_beside_the_one_table() {
    for (name, table, head) in [
        ("gpt2_1", "transformer.wte.weight", "lm_head.weight"),
        (
            "openai_gpt_1",
            "transformer.tokens_embed.weight",
            "lm_head.weight",
        ),
        ("bart_1", "model.shared.weight", "lm_head.weight"),
    ] {
        let tensors = files::read(&fixture(name).join(WEIGHTS));
        let bias = tensors.get("final_logits_bias");
        for factor in [1.0, 2.0] {
            let folder = copy(&fixture(name));
            let mut own = tensors[table].clone();
            own.values.iter_mut().for_each(|x| *x *= factor);
            with_tensor(folder.path(), head, &own);
            let work = tempfile::tempdir().unwrap();
            let (run, exported) = (work.path().join("run"), work.path().join("exported"));
            let said = import(folder.path(), &run);
            let tied = factor == 1.0;
            assert_eq!(said.contains("separate values"), !tied, "{name}");
            let outputs = infer(folder.path(), "reference", &shown(&run), &[]);
            let expected = files::read(&folder.path().join("reference.safetensors"));
            assert_scores(&outputs, &expected, factor, bias);
            output(&["export", &shown(&run), &shown(&exported)]);
            assert_eq!(config(&exported)["tie_word_embeddings"], tied, "{name}");
        }
    }
}

fn assert_scores(ours: &Tensors, reference: &Tensors, factor: f32, bias: Option<&Numbers>) {
    let (ours, theirs) = (&ours["logits"], &reference["expected.logits"]);
    let vocab = theirs.shape[2];
    let seen = tokens("logits", &theirs.shape, reference);
    let places = ours.values.iter().zip(&theirs.values).enumerate();
    for (place, (a, b)) in places.filter(|(place, _)| seen(*place)) {
        let bias = bias.map_or(0.0, |bias| bias.values[place % vocab]);
        let wanted = factor * (b - bias) + bias;
        assert!((a - wanted).abs() < 3e-4, "{a}, not {wanted}");
    }
}

/// If there are two objects of rotary keys, transformers takes `rope_scaling`; its classes ignore a rotated fraction of heads.
#[test]
fn rotary_keys_count_where_transformers_reads_them() {
    for name in ["llama_1", "falcon_1"] {
        let scaling = json!({"rope_type": "linear", "factor": 3.0, "rope_theta": 777.0});
        let alone = copy(&fixture(name));
        with_keys(
            alone.path(),
            &[
                ("rope_parameters", Value::Null),
                ("rope_scaling", scaling.clone()),
            ],
        );
        let both = copy(&fixture(name));
        with_keys(
            both.path(),
            &[
                (
                    "rope_parameters",
                    json!({"rope_type": "default", "rope_theta": 55.0}),
                ),
                ("rope_scaling", scaling),
            ],
        );
        let work = tempfile::tempdir().unwrap();
        let [one, two] = [(&alone, "alone"), (&both, "both")].map(|(folder, part)| {
            let run = work.path().join(part);
            let said = import(folder.path(), &run);
            assert_eq!(
                said.contains("no effect with `rope_scaling`"),
                part == "both"
            );
            let outputs = infer(folder.path(), "reference", &shown(&run), &[]);
            outputs["logits"].clone()
        });
        assert!(
            one == two,
            "{name}: `rope_parameters` counts beside `rope_scaling`"
        );
        let part = copy(&fixture(name));
        with_keys(part.path(), &[("partial_rotary_factor", json!(0.5))]);
        let what = format!("{name}: a part of heads");
        super::hostile::refused(&what, part.path(), &["partial_rotary_factor", "0.5"]);
    }
}

/// Another family's name for a setting, with a value that contradicts the family's own key.
#[test]
fn names_of_rotary_keys_that_disagree_are_told() {
    for (keys, words) in [
        (
            vec![
                ("partial_rotary_factor", json!(0.75)),
                ("rotary_pct", json!(0.5)),
            ],
            [
                "`partial_rotary_factor` = 0.75",
                "`rotary_pct` = 0.5",
                "disagree",
            ],
        ),
        (
            vec![
                ("rope_theta", json!(77.0)),
                ("rotary_emb_base", json!(500.0)),
            ],
            [
                "`rope_theta` = 77.0",
                "`rotary_emb_base` = 500.0",
                "disagree",
            ],
        ),
    ] {
        let folder = copy(&fixture("gpt_neox_1"));
        with_keys(folder.path(), &[("rope_parameters", Value::Null)]);
        with_keys(folder.path(), &keys);
        super::hostile::refused("names that disagree", folder.path(), &words);
    }
    let folder = copy(&fixture("gpt_neox_1"));
    let rotary = json!({"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5});
    with_keys(
        folder.path(),
        &[("rope_parameters", rotary), ("rotary_pct", json!(0.25))],
    );
    let words = ["`rotary_pct` = 0.25", "= 0.5 in `rope_parameters`"];
    super::hostile::refused("names that disagree", folder.path(), &words);
}

/// A fault of the model that a file describes is reported in terms of the file's keys.
#[test]
fn a_model_that_cannot_be_is_told_by_the_file_s_keys() {
    let folder = copy(&fixture("reformer_1"));
    with_keys(folder.path(), &[("axial_pos_embds_dim", json!([3, 4]))]);
    let words = [
        "config.json: ",
        "`axial_pos_embds_dim` = [3,4]",
        "`hidden_size` = 16",
    ];
    super::hostile::refused("widths that do not add up", folder.path(), &words);
}

/// A single class, whose logit is the first of three.
#[test]
fn a_vit_of_one_class_is_imported() {
    let (folder, whole) = (copy(&fixture("vit_1")), fixture("vit_1"));
    with_keys(
        folder.path(),
        &[
            ("id2label", json!({"0": "score"})),
            ("label2id", json!({"score": 0})),
        ],
    );
    let (mut header, mut data) = parts(&folder.path().join(WEIGHTS));
    for (name, shape) in [
        ("classifier.weight", json!([1, 16])),
        ("classifier.bias", json!([1])),
    ] {
        let numbers = files::read(&whole.join(WEIGHTS))[name].values.clone();
        let first = &numbers[..numbers.len() / 3];
        let start = data.len();
        data.extend(first.iter().flat_map(|x| x.to_le_bytes()));
        header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
    }
    write_packed(&folder.path().join(WEIGHTS), &header, &data);
    let work = tempfile::tempdir().unwrap();
    let (run, exported) = (work.path().join("run"), work.path().join("exported"));
    import(folder.path(), &run);
    let ours = infer(folder.path(), "reference", &shown(&run), &[])["logits"].clone();
    let theirs = files::read(&whole.join("reference.safetensors"))["expected.logits"].clone();
    assert_eq!(ours.shape, [theirs.shape[0], 1]);
    for (row, score) in ours.values.iter().enumerate() {
        assert!((score - theirs.values[3 * row]).abs() < 1e-4, "row {row}");
    }
    output(&["export", &shown(&run), &shown(&exported)]);
    assert_eq!(config(&exported)["id2label"], json!({"0": "score"}));
    assert_tensors("vit_1", folder.path(), &exported);
}

/// Writes the tensors of a header one after the other, dropping bytes that belong to none.
fn write_packed(path: &Path, header: &Value, data: &[u8]) {
    let (mut packed, mut bytes) = (header.clone(), Vec::new());
    for (name, entry) in packed.as_object_mut().unwrap() {
        if name == "__metadata__" {
            continue;
        }
        let at = |n: usize| entry["data_offsets"][n].as_u64().unwrap() as usize;
        let start = bytes.len();
        bytes.extend_from_slice(&data[at(0)..at(1)]);
        entry["data_offsets"] = json!([start, bytes.len()]);
    }
    write_parts(path, &packed.to_string(), &bytes);
}

/// With one expert per token, its weight is always 1.
#[test]
fn a_mixtral_of_one_expert_a_token_is_imported() {
    let folder = copy(&fixture("mixtral_1"));
    with_keys(folder.path(), &[("num_experts_per_tok", json!(1))]);
    let work = tempfile::tempdir().unwrap();
    let (run, exported) = (work.path().join("run"), work.path().join("exported"));
    import(folder.path(), &run);
    let outputs = infer(folder.path(), "reference", &shown(&run), &[]);
    assert!(outputs["logits"].values.iter().all(|x| x.is_finite()));
    output(&["export", &shown(&run), &shown(&exported)]);
    assert_eq!(config(&exported)["num_experts_per_tok"], 1);
}
