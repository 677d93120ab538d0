//! A Longformer that begins from the run of a RoBERTa on shorter texts.

use crate::binary::{failure, output, shipped};
use crate::hf_folders::{Tensors, files};
use std::path::Path;

/// Trains a shipped experiment for one step at this learning rate, and returns its weights.
fn step(folder: &Path, name: &str, rate: &str, sets: &[&str]) -> Tensors {
    let file = shipped(&format!("experiments/systems/{name}.toml"));
    let (file, run) = (
        file.display().to_string(),
        folder.join(name).display().to_string(),
    );
    let mut arguments = vec!["train", &file, "--run", &run, "--quiet"];
    let rate = format!("optimizer.lr={rate}");
    let small = [
        rate.as_str(),
        "train.steps=1",
        "train.batch_size=2",
        "train.eval_every=1",
        "schedule.warmup_steps=0",
        "data.documents=12",
        "data.valid_items=2",
    ];
    for set in small.iter().chain(sets) {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    files::read(&folder.join(name).join("steps/00000001/model.safetensors"))
}

#[test]
fn a_longformer_begins_from_a_shorter_run() {
    let folder = tempfile::tempdir().unwrap();
    // The first step moves biases away from zero; the second changes them by less than rounding.
    let short = step(folder.path(), "roberta", "1e-2", &[]);
    let from = format!("init.from={:?}", folder.path().join("roberta"));
    let long = step(folder.path(), "longformer", "1e-30", &[&from]);
    let of = |all: &Tensors, path: &str| {
        let found = all.iter().find(|(name, _)| name.ends_with(path));
        let (_, found) = found.unwrap_or_else(|| panic!("no {path} in {:?}", all.keys()));
        (found.shape.clone(), found.values.clone())
    };
    let (shape, old) = of(&short, "position.table");
    let (longer, new) = of(&long, "position.table");
    assert_eq!((shape, longer), (vec![66, 128], vec![258, 128]));
    assert_eq!(new[..66 * 128], old);
    for copy in 0..4 {
        let at = (2 + 64 * copy) * 128;
        assert_eq!(new[at..at + 64 * 128], old[2 * 128..], "copy {copy}");
    }
    for (layer, part) in
        (0..2).flat_map(|layer| ["query", "key", "value"].map(|part| (layer, part)))
    {
        for kind in ["weight", "bias"] {
            let at = format!("blocks.{layer}.attention");
            let name = format!("{layer} {part} {kind}");
            let (shape, old) = of(&short, &format!("{at}.{part}.{kind}"));
            let (copy, new) = of(&long, &format!("{at}.global.{part}.{kind}"));
            assert_eq!(shape, copy, "{name}");
            assert!(old.iter().any(|x| *x != 0.0), "{name}");
            // Key biases have no gradient except rounding errors: some may still be zero, and move by less than the learning
            // rate.
            let mut pairs = old.iter().zip(&new);
            assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-20), "{name}");
        }
    }
    let file = shipped("experiments/systems/longformer.toml")
        .display()
        .to_string();
    let run = folder.path().join("refused").display().to_string();
    let refused = |set: &str| {
        let sets = ["--set", &from, "--set", set];
        let (status, said) =
            failure(&[&["train", &file, "--run", &run, "--quiet"][..], &sets].concat());
        assert_eq!(status, 2, "{said}");
        said
    };
    let said = refused("init.repeat=[]");
    assert!(
        said.contains("has the shape [66, 128] in the file and [258, 128] in the model"),
        "{said}"
    );
    let said = refused("init.resample=[\"position\"]");
    assert!(said.contains("matches both resample and repeat"), "{said}");
    let said = refused("model.position.max_len=66");
    assert!(said.contains("shorter than the context"), "{said}");
}
