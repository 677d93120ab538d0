//! Runs written by formwork at commit e1903db (`tests/fixtures/e1903db/make.py`): version 1 of weight files, with linear
//! weights as `[d_in, d_out]` and names of enum variants in paths. They load, and continue as with that version.

use crate::binary::{failure, output, shipped};
use crate::kinds;
use crate::small_run::{self, Run, folder};
use burn::tensor::{Bytes, Device};
use burn_pack::{Reader, Tensor, Writer};
use formwork::data::Shape;
use formwork::model::BuildContext;
use formwork::train::checkpoint::{Checkpoint, VERSION, load_weights};
use formwork::train::{manifest, parameters};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A run for each kind of network, each with another optimizer: AdamW, Lamb, Lion, Adafactor, SGD, Muon.
const RUNS: [&str; 6] = [
    "decoder",
    "encoder",
    "encoder_decoder",
    "gated",
    "resnet",
    "vision",
];

/// The step of the newest checkpoint.
const STEP: u64 = 6;

/// Largest relative difference of a loss; sums are added in another order.
const NEAR: f64 = 2e-6;

/// Reads the results that formwork of that commit got from a run.
fn expected(name: &str) -> Value {
    let file = shipped("tests/fixtures/e1903db").join(name);
    serde_json::from_slice(&fs::read(file.join("expected.json")).unwrap()).unwrap()
}

/// Copies a run, so that it can be changed; returns the folder that contains it, and the run.
fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    fn all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            match path.is_dir() {
                true => all(&path, &target),
                false => drop(fs::copy(&path, target).unwrap()),
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join(name);
    all(&shipped("tests/fixtures/e1903db").join(name), &run);
    (folder, run)
}

fn resume(run: &Path, steps: u64) {
    let steps = format!("train.steps={steps}");
    output(&["resume", run.to_str().unwrap(), "--quiet", "--set", &steps]);
}

/// Reads the journal's lines.
fn lines(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// Returns the largest relative difference between a journal's lines after [`STEP`] and the expected ones.
fn distance(run: &Path, expected: &Value) -> f64 {
    let notes = |line: &Value| line["split"] == "note";
    let found: Vec<Value> = lines(run).into_iter().filter(|line| !notes(line)).collect();
    let wanted = expected["lines"].as_array().unwrap();
    let found = &found[found.len() - wanted.len()..];
    let mut worst = 0.0_f64;
    for (found, wanted) in found.iter().zip(wanted) {
        for (key, wanted) in wanted.as_object().unwrap() {
            // For image classes, perplexity is no longer written.
            if key == "perplexity" && found.get(key).is_none() {
                continue;
            }
            let Some(wanted) = wanted.as_f64() else {
                assert_eq!(found[key], *wanted);
                continue;
            };
            let off = (found[key].as_f64().unwrap() / wanted - 1.0).abs();
            worst = worst.max(if wanted == 0.0 { 0.0 } else { off });
        }
    }
    worst
}

#[test]
fn they_go_on_as_they_would_have() {
    for name in RUNS {
        let (_folder, run) = copy(name);
        resume(&run, 12);
        let off = distance(&run, &expected(name));
        println!("{name}: off by {off:.1e}");
        assert!(off < NEAR, "{name} is off by {off:e}");
        let last = Checkpoint::open(run.join("latest")).unwrap();
        assert_eq!((last.version(), last.state().step), (VERSION, 12));
        // The note comes once, where the run continued.
        resume(&run, 13);
        let notes: Vec<Value> = lines(&run)
            .into_iter()
            .filter(|line| line["split"] == "note")
            .collect();
        assert_eq!(notes.len(), 1, "{name}");
        assert_eq!(notes[0]["step"], STEP);
        let text = notes[0]["note"].as_str().unwrap();
        assert!(text.contains("version 1"), "{text}");
    }
}

/// Changes every moment of the newest checkpoint.
fn change_moments(run: &Path, change: impl Fn(&[usize], Vec<f32>) -> Vec<f32>) {
    let folder = run.join(format!("steps/{STEP:08}"));
    let file = folder.join("optimizer.bpk");
    let bytes = Bytes::from_bytes_vec(fs::read(&file).unwrap());
    let reader = Reader::from_bytes(bytes).unwrap();
    let (metadata, scalars) = (reader.metadata().clone(), reader.scalars().clone());
    let tensors = reader.into_tensors().unwrap().into_iter().map(|tensor| {
        let (name, dtype, shape, id, bytes) = tensor.into_parts().unwrap();
        let values = bytes
            .chunks_exact(4)
            .map(|x| f32::from_le_bytes(x.try_into().unwrap()));
        let changed = change(&shape.to_vec(), values.collect());
        let bytes: Vec<u8> = changed.iter().flat_map(|x| x.to_le_bytes()).collect();
        Tensor::new(name, dtype, shape, id, Bytes::from_bytes_vec(bytes))
    });
    let mut writer = Writer::new(tensors.collect()).overwrite(true);
    for (id, path) in &metadata {
        writer = writer.with_metadata(id, path);
    }
    for (name, value) in scalars {
        writer = writer.with_scalar(&name, value);
    }
    writer.write_to_file(&file).unwrap();
    reseal(&folder);
}

/// Makes a changed checkpoint valid again.
fn reseal(folder: &Path) {
    let opened = fs::read(folder.join("manifest.json")).unwrap();
    let names: Value = serde_json::from_slice(&opened).unwrap();
    let names: Vec<&str> = names["files"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    manifest::seal(folder, &names).unwrap();
}

/// The test above would detect lost moments, and transposed moments of matrices.
#[test]
fn other_moments_would_be_seen() {
    for name in RUNS {
        for lost in [true, false] {
            let (_folder, run) = copy(name);
            change_moments(&run, |shape, values| match shape {
                _ if lost => vec![0.0; values.len()],
                &[rows, columns] => (0..values.len())
                    .map(|i| values[i % rows * columns + i / rows])
                    .collect(),
                _ => values,
            });
            let matrices_move_nothing = !lost && matches!(name, "gated" | "resnet");
            if matrices_move_nothing {
                // Adafactor's rows and columns are vectors; a residual network has only one matrix, its last parameter.
                continue;
            }
            resume(&run, 12);
            let off = distance(&run, &expected(name));
            println!("{name}, lost {lost}: off by {off:.1e}");
            assert!(off > 20.0 * NEAR, "{name}, lost {lost}: {off:e}");
        }
    }
}

/// Without variant names, all parameters of a model still have different paths.
#[test]
fn no_two_parameters_have_one_path() {
    for (name, config) in kinds::all() {
        let model = config.init(&BuildContext {
            shape: &Shape::of_text(16, 17),
            seed: 5,
            device: &Device::flex(),
        });
        let all = parameters::list_with_state(&model);
        let paths: BTreeSet<&str> = all.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths.len(), all.len(), "{name}");
        let variants = |path: &&str| path.contains(|c: char| c.is_ascii_uppercase());
        assert_eq!(paths.into_iter().find(variants), None, "{name}");
    }
}

fn near(found: f64, wanted: f64) -> bool {
    (found / wanted - 1.0).abs() < NEAR
}

fn evaluated(run: &Path, which: &str) -> f64 {
    let run = run.to_str().unwrap();
    let scores = output(&["eval", run, "--checkpoint", which, "--json"]);
    let scores: Value = serde_json::from_str(&scores).unwrap();
    scores["loss"].as_f64().unwrap()
}

#[test]
fn they_are_evaluated_averaged_and_continued() {
    for name in RUNS {
        let (_folder, run) = copy(name);
        let expected = expected(name);
        for (which, wanted) in expected["eval"].as_object().unwrap() {
            let found = evaluated(&run, which);
            assert!(
                near(found, wanted.as_f64().unwrap()),
                "{name} {which}: {found}"
            );
        }
        if let Some(text) = expected["text"].as_str() {
            let run = run.to_str().unwrap();
            let words = [
                "generate",
                run,
                "--prompt",
                "abc=",
                "--tokens",
                "12",
                "--temperature",
                "0",
            ];
            assert_eq!(output(&words), text, "{name}");
        }
    }
}

#[test]
fn a_mean_of_both_versions_is_one_of_weights() {
    let (_folder, run) = copy("decoder");
    resume(&run, 9);
    let versions = [6, 9].map(|step| {
        let folder = run.join(format!("steps/{step:08}"));
        Checkpoint::open(folder).unwrap().version()
    });
    assert_eq!(versions, [1, VERSION]);
    let [old, new, both] = ["6", "9", "average:2"].map(|which| evaluated(&run, which));
    assert!(both < old.max(new) + 0.05, "{old} and {new} give {both}");
}

#[test]
fn other_runs_begin_from_them() {
    for name in RUNS {
        let folder = tempfile::tempdir().unwrap();
        let from = shipped("tests/fixtures/e1903db").join(name);
        let run = folder.path().join("run");
        let sets = [
            format!("init.from={:?}", from.display().to_string()),
            "init.checkpoint=latest".into(),
            "train.steps=1".into(),
            "optimizer.lr=1e-12".into(),
        ];
        let mut words: Vec<String> = vec!["train".into()];
        words.push(from.join("experiment.toml").display().to_string());
        words.extend(["--quiet".into(), "--run".into(), run.display().to_string()]);
        if name == "vision" {
            words.extend(["--set".into(), "optimizer.adamw_lr=1e-12".into()]);
        }
        for set in sets {
            words.extend(["--set".into(), set]);
        }
        output(&words);
        // A residual network's step also changes the running averages of its norms.
        if name != "resnet" {
            let wanted = expected(name)["eval"]["latest"].as_f64().unwrap();
            let found = evaluated(&run, "latest");
            assert!(near(found, wanted), "{name}: {found}, not {wanted}");
        }
    }
}

/// Writes the version into the header of a weight file.
fn with_version(file: &Path, version: &str) {
    let mut bytes = fs::read(file).unwrap();
    let key = br#""version":""#;
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap();
    bytes[at + key.len()..][..version.len()].copy_from_slice(version.as_bytes());
    fs::write(file, bytes).unwrap();
}

#[test]
fn files_name_their_format_and_its_version() {
    let (_temp, dir) = folder();
    let saved = Run::new(4).steps(1).save(&dir, 1);
    for name in ["model.safetensors", "ema.safetensors"] {
        let bytes = fs::read(saved.join(name)).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let metadata = header.metadata().clone().unwrap();
        assert_eq!(metadata["format"], "formwork");
        assert_eq!(metadata["version"], VERSION.to_string());
    }
    // A newer version is refused, in the checkpoint and in the file.
    let file = saved.join("model.safetensors");
    with_version(&file, "3");
    reseal(&saved);
    let net = small_run::net(4, 1);
    for error in [
        Checkpoint::open(&saved).err().unwrap(),
        load_weights(net.clone(), &file).err().unwrap(),
    ] {
        let said = error.to_string();
        assert!(said.contains("model.safetensors has version 3"), "{said}");
        assert!(said.contains("newer formwork"), "{said}");
    }
    let (status, said) = {
        let (_folder, run) = copy("gated");
        resume(&run, 7);
        let newest = run.join("steps/00000007");
        with_version(&newest.join("model.safetensors"), "3");
        reseal(&newest);
        failure(&["eval", run.to_str().unwrap(), "--checkpoint", "latest"])
    };
    assert!(said.contains("version 3"), "{status}: {said}");
    with_version(&file, "x");
    let said = load_weights(net, &file).err().unwrap().to_string();
    assert!(said.contains("\"x\""), "{said}");
}
