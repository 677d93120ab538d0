//! `train.dtype`: runs that begin from a run in another number format, references and teachers in another one, and auxiliary
//! losses in half precision.

use crate::binary::{formwork, output, shown};
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use formwork::train::checkpoint::weights;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A decoder with tables that are computed rather than learned, in the device's number format.
const BASE: &str = r#"
name = "base"
seed = 1
[model]
kind = "decoder"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
position = "rotary"
[data]
kind = "arithmetic"
digits = 1
operations = ["+"]
valid_items = 20
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 4
batch_size = 4
eval_every = 2
"#;

const FORMATS: [(&str, Dtype); 4] = [
    ("f32", Dtype::F32),
    ("mixed_bf16", Dtype::F32),
    ("bf16", Dtype::BF16),
    ("f16", Dtype::F16),
];

/// Writes an experiment file into a folder and returns its path.
fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Trains an experiment with changed keys in a folder, and returns the messages.
fn train(experiment: &Path, run: &Path, sets: &[String]) -> String {
    let mut arguments = vec!["train".into(), experiment.display().to_string()];
    arguments.extend(["--run".into(), run.display().to_string()]);
    for set in sets {
        arguments.extend(["--set".into(), set.clone()]);
    }
    let ended = formwork(&arguments).output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {}", shown(&ended));
    String::from_utf8(ended.stderr).unwrap()
}

/// Trains a run of the base in each number format of weights.
fn bases(folder: &Path, experiment: &Path) -> Vec<(&'static str, PathBuf)> {
    let each = ["f32", "bf16", "f16"].into_iter().map(|dtype| {
        let run = folder.join(format!("base-{dtype}"));
        train(experiment, &run, &[format!("train.dtype={dtype}")]);
        (dtype, run)
    });
    each.collect()
}

/// Opens a run and returns the loss of an evaluation.
fn loss(run: &Path) -> f64 {
    let scores = output(&["eval", &run.display().to_string(), "--json"]);
    let scores: Value = serde_json::from_str(scores.trim()).unwrap();
    scores["loss"].as_f64().unwrap()
}

/// Checks that every tensor of a run's newest checkpoint has this number format.
fn has_format(run: &Path, format: Dtype) {
    let bytes = fs::read(run.join("latest/model.safetensors")).unwrap();
    for (path, tensor) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
        assert_eq!(tensor.dtype(), format, "{}: {path}", run.display());
    }
}

#[test]
fn a_run_has_its_own_format_whatever_it_begins_from() {
    let work = tempfile::tempdir().unwrap();
    let base = written(work.path(), "base.toml", BASE);
    for (theirs, from) in bases(work.path(), &base) {
        for (ours, format) in FORMATS {
            for lora in [false, true] {
                let run = work.path().join(format!("{theirs}-{ours}-{lora}"));
                let mut sets = vec![
                    format!("init.from={}", from.display()),
                    format!("train.dtype={ours}"),
                ];
                if lora {
                    sets.push("lora={rank=2}".into());
                }
                train(&base, &run, &sets);
                has_format(&run, format);
                assert!(loss(&run).is_finite(), "{}", run.display());
                let place = run.display().to_string();
                output(&["resume", &place, "--quiet", "--set", "train.steps=6"]);
                has_format(&run, format);
                assert!(loss(&run).is_finite(), "{}", run.display());
            }
        }
    }
}

/// bfloat16 is the upper half of a 32-bit float, so weights taken from such a run are unchanged.
#[test]
fn weights_of_fewer_bits_are_taken_as_they_are() {
    let work = tempfile::tempdir().unwrap();
    let base = written(work.path(), "base.toml", BASE);
    let (half, whole) = (work.path().join("half"), work.path().join("whole"));
    train(&base, &half, &["train.dtype=bf16".into()]);
    let sets = [
        format!("init.from={}", half.display()),
        "init.checkpoint=latest".into(),
        "lora={rank=2}".into(),
    ];
    train(&base, &whole, &sets);
    let read = |run: &Path| fs::read(run.join("latest/model.safetensors")).unwrap();
    let (half, whole) = (read(&half), read(&whole));
    let half = SafeTensors::deserialize(&half).unwrap();
    let whole = SafeTensors::deserialize(&whole).unwrap();
    for (path, tensor) in half.tensors() {
        let (pairs, words) = (tensor.data(), whole.tensor(&path).unwrap());
        let padded = pairs.as_chunks::<2>().0.iter();
        let padded: Vec<u8> = padded.flat_map(|b| [0, 0, b[0], b[1]]).collect();
        assert!(padded == words.data(), "{path}");
    }
}

#[test]
fn references_and_teachers_compute_in_the_format_of_the_run() {
    let work = tempfile::tempdir().unwrap();
    let base = written(work.path(), "base.toml", BASE);
    let preference = BASE
        .replace("\"arithmetic\"", "\"right_and_wrong\"")
        .replace("\"causal_lm\"", "\"preference\"");
    let preference = written(work.path(), "preference.toml", &preference);
    let student = BASE.replace(
        "kind = \"causal_lm\"",
        "kind = \"distillation\"\nof = { kind = \"causal_lm\" }\ncosine = 1.0\nteacher = \"TEACHER\"",
    );
    for (theirs, from) in bases(work.path(), &base) {
        for (ours, format) in FORMATS {
            let name = |what: &str| work.path().join(format!("{what}-{theirs}-{ours}"));
            let dtype = format!("train.dtype={ours}");
            let run = name("preference");
            let begins = format!("init.from={}", from.display());
            train(&preference, &run, &[begins, dtype.clone()]);
            has_format(&run, format);
            assert!(loss(&run).is_finite(), "{}", run.display());
            let text = student.replace("TEACHER", &from.display().to_string());
            let file = written(work.path(), "student.toml", &text);
            let run = name("student");
            let said = train(&file, &run, &[dtype]);
            let told = format!("was trained in {theirs} and computes in {ours} here");
            assert_eq!(said.contains(&told), theirs != ours, "{said}");
            has_format(&run, format);
            assert!(loss(&run).is_finite(), "{}", run.display());
        }
    }
}

/// Losses added by layers are measured in single precision, and added to the task's loss.
#[test]
fn added_losses_are_added_in_half_precision() {
    let work = tempfile::tempdir().unwrap();
    let experts = "{ kind = \"moe\", n_experts = 4, top_k = 2, balance_loss = 0.01, z_loss = 0.001, expert = { kind = \"gated\", d_ff = 16 } }";
    let corrected = "{ kind = \"moe\", n_experts = 4, top_k = 2, score = \"sigmoid\", correction = true, balance_loss = 0.01, expert = { kind = \"gated\", d_ff = 16 } }";
    let plain = "{ kind = \"multi_head\", n_heads = 2 }";
    let changes = [
        ("experts", plain, Some(experts)),
        ("corrected", plain, Some(corrected)),
        (
            "alike",
            "{ kind = \"multi_head\", n_heads = 2, head_diversity = 0.1 }",
            None,
        ),
        (
            "spans",
            "{ kind = \"adaptive_span\", n_heads = 2, max_span = 8, ramp = 2, init_span = 0.5, span_loss = 0.001 }",
            None,
        ),
    ];
    for (name, attention, feed_forward) in changes {
        let mut text = BASE.replace(plain, attention);
        if let Some(feed_forward) = feed_forward {
            let key = format!("[model]\nfeed_forward = {feed_forward}\n");
            text = text.replace("[model]\n", &key);
        }
        let file = written(work.path(), "added.toml", &text);
        for (dtype, format) in FORMATS {
            for recompute in [false, true] {
                let run = work.path().join(format!("{name}-{dtype}-{recompute}"));
                let sets = [
                    format!("train.dtype={dtype}"),
                    format!("train.recompute={recompute}"),
                ];
                train(&file, &run, &sets);
                has_format(&run, format);
                assert!(loss(&run).is_finite(), "{}", run.display());
            }
        }
    }
}

#[derive(Module, Debug)]
struct Vectors {
    one: Param<Tensor<1>>,
    other: Param<Tensor<1>>,
}

fn vectors(one: [f32; 2], other: [f32; 2], format: DType) -> Vectors {
    let device = Device::flex();
    let vector = |values: [f32; 2]| {
        let data = TensorData::new(values.to_vec(), [2]).convert_dtype(format);
        Param::from_tensor(Tensor::<1>::from_data(data, (&device, format)))
    };
    Vectors {
        one: vector(one),
        other: vector(other),
    }
}

/// Values between two numbers of the format are rounded, and 65,519 is the largest integer that does not become infinite.
#[test]
fn weights_beyond_the_range_of_the_format_are_refused_by_name() {
    let given = |values: [f32; 2]| {
        let data = TensorData::new(values.to_vec(), [2]);
        BTreeMap::from([("one".to_string(), data)])
    };
    let model = || vectors([0.0; 2], [0.0; 2], DType::F16);
    let filled = weights::fill(model(), given([1.0, -65_519.0])).unwrap();
    let values: Vec<f32> = filled.one.val().into_data().iter().collect();
    assert_eq!(values, [1.0, -65_504.0]);
    let expected = "[train] dtype = \"f16\" has the largest value 65504, but weights exceed it: `one` has 70000; set it to \"bf16\" or \
                    \"f32\"";
    let refused = |error: formwork::error::Error| {
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.exit_status(), 2);
    };
    refused(weights::fill(model(), given([1.0, -70_000.0])).unwrap_err());
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("model.safetensors");
    weights::save(&vectors([7e4, 1.0], [6e4, 2.0], DType::F32), &file).unwrap();
    refused(weights::load_converted(model(), &file).unwrap_err());
    // bfloat16 has the range of 32-bit floats.
    let wide = vectors([0.0; 2], [0.0; 2], DType::BF16);
    let wide = weights::load_converted(wide, &file).unwrap();
    let values: Vec<f32> = wide.one.val().into_data().iter().collect();
    assert_eq!(values, [70_144.0, 1.0]);
}
