//! `[lora]`: frozen weights stay the same bit for bit, the merged model equals the unmerged one, runs are resumed exactly, and
//! adapters are converted to and from the format of `peft` (`tests/goldens/make_peft.py` makes its folders).

mod experts;
mod heads;
mod hostile;
mod merged;
mod peft;

use crate::binary::{failure, output, shipped};
use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use formwork::nn::init::{Init, InitConfig, MatrixRole};
use formwork::nn::linear::Linear;
use formwork::train::checkpoint::weights::fill;
use formwork::train::lora::{LoraConfig, is_adapter};
use formwork::train::parameters::{list, name_parameters};
use safetensors::tensor::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BASE: &str = "experiments/smoke/tiny.toml";
const LORA: &str = "experiments/smoke/tiny_lora.toml";

/// Reads the tensors of a file as shapes and bytes.
pub fn tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        (name, (view.shape().to_vec(), view.data().to_vec()))
    };
    file.tensors().into_iter().map(tensor).collect()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|b| f32::from_le_bytes(*b)).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Trains the run that adapters begin from.
fn base(work: &Path) -> PathBuf {
    let run = work.join("base");
    output(&["train", BASE, "--quiet", "--run", &shown(&run)]);
    run
}

/// Trains a run of adapters with changed keys.
fn train(base: &Path, run: &Path, sets: &[&str]) {
    let (from, run) = (format!("init.from={}", shown(base)), shown(run));
    let mut arguments = vec!["train", LORA, "--quiet", "--run", &run, "--set", &from];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
}

#[test]
fn frozen_weights_stay_to_the_bit_and_adapters_learn() {
    let work = tempfile::tempdir().unwrap();
    let (base, run) = (base(work.path()), work.path().join("run"));
    train(&base, &run, &["train.keep_last=100"]);
    let frozen = tensors(&base.join("best/ema.safetensors"));
    let steps: Vec<PathBuf> = std::fs::read_dir(run.join("steps"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(steps.len() > 4, "{steps:?}");
    for file in steps
        .iter()
        .flat_map(|step| ["model.safetensors", "ema.safetensors"].map(|file| step.join(file)))
    {
        let found = tensors(&file);
        let (adapters, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            found.into_iter().partition(|(path, _)| is_adapter(path));
        assert!(others == frozen, "{} moved the base", file.display());
        // Queries and values of two blocks, with A and B for each.
        assert_eq!(adapters.len(), 8);
        for (path, (_, bytes)) in &adapters {
            assert!(
                floats(bytes).iter().any(|x| *x != 0.0),
                "{path} of {} did not learn",
                file.display()
            );
        }
    }
    // The optimizer keeps moments only of trained parameters.
    let moments = std::fs::read(run.join("latest/optimizer.bpk")).unwrap();
    let has = |text: &str| moments.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(has("attention.query.weight.lora.a") && has("attention.value.weight.lora.b"));
    assert!(!has("embedding") && !has("feed_forward") && !has("norm"));
    // The loss of the last evaluation, with separate adapters, equals that of `eval`, which merges them.
    let lines = formwork::train::journal::read(run.join("metrics.jsonl")).unwrap();
    let last = lines.iter().rfind(|line| line.split == "valid").unwrap();
    let eval = ["eval", &shown(&run), "--checkpoint", "latest", "--json"];
    let eval: serde_json::Value = serde_json::from_str(&output(&eval)).unwrap();
    let (merged, beside) = (eval["loss"].as_f64().unwrap(), last.loss.unwrap());
    assert!((merged - beside).abs() <= 1e-5, "{merged} and {beside}");
    let plan = output(&["plan", &shown(&run), "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    // With rank 2, in two blocks: 2·(32 + 32) for queries, 2·(32 + 16) for values with 2 of 4 heads.
    assert_eq!(plan["trained_params"], 2 * (2 * 64 + 2 * 48));
    assert_eq!(plan["parts"]["adapters"], 2 * (2 * 64 + 2 * 48));
    let count: usize = frozen.values().map(|(_, bytes)| bytes.len() / 4).sum();
    assert_eq!(plan["params"], count + 448);
    let optimizer = plan["memory_bytes"]["optimizer"].as_u64();
    assert_eq!(optimizer, Some(2 * 4 * 448));
}

#[test]
fn a_run_that_is_resumed_ends_as_one_that_was_not() {
    let work = tempfile::tempdir().unwrap();
    let base = base(work.path());
    let (whole, cut) = (work.path().join("whole"), work.path().join("cut"));
    let constant = "schedule={kind=\"constant\",warmup_steps=2}";
    train(&base, &whole, &[constant, "train.steps=20"]);
    train(&base, &cut, &[constant, "train.steps=10"]);
    output(&["resume", &shown(&cut), "--quiet", "--set", "train.steps=20"]);
    for file in ["model.safetensors", "ema.safetensors", "optimizer.bpk"] {
        let read = |run: &Path| std::fs::read(run.join("steps/00000020").join(file)).unwrap();
        assert!(read(&whole) == read(&cut), "{file} differs");
    }
    let (status, said) = failure(&["resume", &shown(&cut), "--set", "lora.alpha=9.0"]);
    assert_eq!(status, 2);
    assert!(said.contains("lora.alpha"), "{said}");
}

/// A run that begins from a run with adapters begins from its merged weights.
#[test]
fn a_run_of_adapters_is_merged_where_another_begins_from_it() {
    let work = tempfile::tempdir().unwrap();
    let base = base(work.path());
    let (first, second) = (work.path().join("first"), work.path().join("second"));
    train(&base, &first, &[]);
    train(
        &first,
        &second,
        &[
            "lora.rank=1",
            "schedule={kind=\"constant\",warmup_steps=0}",
            "train.steps=2",
            "train.ema=0.5",
        ],
    );
    let (old, new) = (
        tensors(&first.join("best/ema.safetensors")),
        tensors(&second.join("latest/model.safetensors")),
    );
    let path = "model.stack.blocks.1.attention.value.weight";
    let get = |name: &str| floats(&old[name].1);
    let (w, b, a) = (
        get(path),
        get(&format!("{path}.lora.a")),
        get(&format!("{path}.lora.b")),
    );
    let merged = floats(&new[path].1);
    let (d_in, rank) = (32, 2);
    assert_eq!(merged.len(), w.len());
    let mut moved = 0.0_f32;
    for (place, merged) in merged.iter().enumerate() {
        let (row, column) = (place / d_in, place % d_in);
        let product: f32 = (0..rank)
            .map(|r| b[row * rank + r] * a[r * d_in + column])
            .sum();
        // α/r = 4/2.
        assert!((w[place] + 2.0 * product - merged).abs() < 1e-6);
        moved = moved.max(product.abs());
    }
    assert!(moved > 1e-3, "the adapters are {moved}");
    assert!(new.keys().filter(|path| is_adapter(path)).count() == 8);
}

/// The merged weight gives x(W + sBA)ᵀ, which equals the output with a separate adapter, xWᵀ + s(xAᵀ)Bᵀ, formula (3) of the
/// paper.
#[test]
fn merged_equals_unmerged() {
    let device = Device::default();
    let init = Init::new(&device, 7, InitConfig::default(), 1, 1.0);
    let (d_in, d_out, rank) = (24, 40, 3);
    let plain = name_parameters(Linear::new(d_in, d_out, true, MatrixRole::Inner, &init));
    let lora = LoraConfig {
        rank,
        alpha: 12.0,
        targets: vec!["^weight$".into()],
        in_full: Vec::new(),
    };
    let model = lora.attach(plain.clone(), 11).unwrap();
    let paths: Vec<String> = list(&model).into_iter().map(|p| p.path).collect();
    assert_eq!(paths, ["weight", "weight.lora.a", "weight.lora.b", "bias"]);
    let x = Tensor::<3>::random([2, 5, d_in], Distribution::Normal(0.0, 1.0), &device);
    let values = |x: Tensor<3>| x.into_data().iter::<f32>().collect::<Vec<f32>>();
    let untrained = values(model.forward(x.clone()));
    assert_eq!(
        untrained,
        values(plain.forward(x.clone())),
        "B begins at zero"
    );
    let b: Vec<f32> = (0..d_out * rank).map(|n| (n as f32 * 0.7).sin()).collect();
    let b = TensorData::new(b, [d_out, rank]);
    let model = fill(model, BTreeMap::from([("weight.lora.a".into(), b)])).unwrap();
    let beside = values(model.forward(x.clone()));
    let adapter = model.weight.adapter().unwrap();
    let (b, a) = (adapter.a.val(), adapter.b.val());
    let side = x.clone().matmul(a.transpose().unsqueeze());
    let side = side.matmul(b.transpose().unsqueeze()) * 4.0;
    let formula = values(plain.forward(x.clone()) + side);
    let merged = model.materialize();
    assert_eq!(list(&merged).len(), 2);
    let merged = values(merged.forward(x));
    let far = |a: &[f32], b: &[f32]| {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    assert!(
        far(&merged, &untrained) > 0.1,
        "the adapter changes nothing"
    );
    assert!(far(&merged, &beside) <= 1e-5, "{}", far(&merged, &beside));
    assert!(far(&merged, &formula) <= 1e-5, "{}", far(&merged, &formula));
}

#[test]
fn faults_name_the_key_and_the_remedy() {
    let check = |sets: &[&str]| {
        let mut arguments = vec!["check", BASE];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        let (status, said) = failure(&arguments);
        assert_eq!(status, 2, "{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    };
    for (sets, words) in [
        (&["lora.rank=0"][..], &["[lora]", "rank = 0"][..]),
        (&["lora.alpha=-1.0"], &["[lora]", "alpha", "above 0"]),
        (
            &["lora.targets=[]"],
            &["[lora]", "targets", "remove targets"],
        ),
        (
            &["lora.targets=[\"(\"]"],
            &["[lora]", "targets", "regular expression"],
        ),
        (
            &["lora.targets=[\"nothing\"]"],
            &["[lora] targets", "matches no parameter", "weight"],
        ),
        (
            &["lora.targets=[\"embedding\"]"],
            &["[lora] targets", "matches no parameter", "attention"],
        ),
        (
            &["lora.in_full=[\"nothing\"]"],
            &["[lora] in_full", "matches no parameter"],
        ),
        (
            &["lora.in_full=[\"query\"]"],
            &["[lora]", "both targets and in_full"],
        ),
        (&["lora.ranks=2"], &["[lora]", "did you mean", "rank"]),
        (
            &["lora.rank=2", "init.freeze=[\"embedding\"]"],
            &["freeze", "no effect", "remove it"],
        ),
        (
            &[
                "lora.rank=2",
                "optimizer.groups=[{match=\"embedding\",lr_scale=0.5}]",
            ],
            &["[optimizer]", "matches no parameter"],
        ),
    ] {
        let said = check(sets);
        for word in words {
            assert!(said.contains(word), "{sets:?}: `{word}` is not in\n{said}");
        }
    }
    let resnet = shown(&shipped("tests/fixtures/hf/resnet_1"));
    let work = tempfile::tempdir().unwrap();
    let run = shown(&work.path().join("run"));
    output(&["import", &resnet, &run]);
    let (status, said) = failure(&["plan", &run, "--set", "lora.rank=2"]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("[lora]") && said.contains("average"),
        "{said}"
    );
    // A run without adapters has none to export.
    let to = shown(&work.path().join("adapter"));
    for flag in ["--adapter", "--base"] {
        let (status, said) = failure(&["export", &run, &to, flag]);
        assert_eq!(status, 2, "{said}");
        assert!(
            said.contains("no adapters") && said.contains("[lora]"),
            "{said}"
        );
        assert!(!Path::new(&to).exists());
    }
}
