//! Adapters of `peft`, imported and exported: the logits of `peft`, and the same tensors.

use super::{floats, shown, tensors};
use crate::binary::{formwork, output, shipped};
use std::path::{Path, PathBuf};

pub const NAMES: [&str; 3] = ["gpt2_1", "llama_1", "bert_1"];

pub fn base(name: &str) -> PathBuf {
    shipped("tests/fixtures/hf").join(name)
}

pub fn adapter(name: &str) -> PathBuf {
    shipped("tests/fixtures/peft").join(name)
}

/// Returns the logits of a run for the inputs of a reference file, and the expected ones.
fn logits(run: &Path, reference: &Path) -> (Vec<f32>, Vec<f32>) {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| shown(&work.path().join(name));
    let bytes = std::fs::read(reference).unwrap();
    let file = safetensors::tensor::SafeTensors::deserialize(&bytes).unwrap();
    let inputs = file.tensors().into_iter();
    let inputs = inputs.filter(|(name, _)| !name.starts_with("expected."));
    safetensors::serialize_to_file(inputs, None, Path::new(&at("in.safetensors"))).unwrap();
    let (inputs, outputs) = (at("in.safetensors"), at("out.safetensors"));
    output(&[
        "infer",
        &shown(run),
        "--inputs",
        &inputs,
        "--outputs",
        &outputs,
    ]);
    let of = |path: &Path, name: &str| floats(&tensors(path)[name].1);
    let ours = of(Path::new(&outputs), "logits");
    (ours, of(reference, "expected.logits"))
}

/// Returns the largest difference, except at padding, whose values mean nothing and which ends the last row of an encoder.
fn far(ours: &[f32], theirs: &[f32], name: &str) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let seen = match name {
        // Two rows of 12 positions, of which the second has 8 tokens.
        "bert_1" => ours.len() * 20 / 24,
        _ => ours.len(),
    };
    let pairs = ours.iter().zip(theirs).take(seen);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn adapters_of_peft_give_its_logits_and_come_back() {
    for name in NAMES {
        let work = tempfile::tempdir().unwrap();
        let at = |part: &str| shown(&work.path().join(part));
        let (hf, peft) = (shown(&base(name)), shown(&adapter(name)));
        let reference = adapter(name).join("reference.safetensors");
        output(&["import", &hf, &at("run"), "--adapter", &peft]);
        let (ours, theirs) = logits(Path::new(&at("run")), &reference);
        let distance = far(&ours, &theirs, name);
        assert!(distance <= 1e-4, "{name}: {distance:e} from peft's");
        // Exported as an adapter again, on the same base.
        output(&["export", &at("run"), &at("adapter"), "--adapter"]);
        output(&["import", &hf, &at("again"), "--adapter", &at("adapter")]);
        let (again, _) = logits(Path::new(&at("again")), &reference);
        let distance = far(&again, &ours, name);
        assert!(
            distance <= 1e-5,
            "{name}: {distance:e} after export --adapter"
        );
        // Merged.
        output(&["export", &at("run"), &at("merged")]);
        output(&["import", &at("merged"), &at("whole")]);
        let (whole, _) = logits(Path::new(&at("whole")), &reference);
        assert_eq!(
            far(&whole, &ours, name),
            0.0,
            "{name}: a merged folder is another model"
        );
        // Without adapters: the weights of the base, bit for bit, except for parameters that were trained in full.
        output(&["export", &at("run"), &at("base"), "--base"]);
        let exported = tensors(&Path::new(&at("base")).join("model.safetensors"));
        let original = tensors(&base(name).join("model.safetensors"));
        let trained =
            |tensor: &str| name == "bert_1" && tensor.contains("predictions.transform.dense");
        for (tensor, (_, bytes)) in exported.iter().filter(|(tensor, _)| !trained(tensor)) {
            assert!(
                original[tensor].1 == *bytes,
                "{name}: {tensor} is not that of the base"
            );
        }
    }
}

/// Like every command that takes the best checkpoint, the export of adapters says if that is not the newest.
#[cfg(unix)]
#[test]
fn an_export_of_adapters_tells_of_a_newer_checkpoint() {
    let work = tempfile::tempdir().unwrap();
    let at = |part: &str| shown(&work.path().join(part));
    let (hf, peft) = (shown(&base("gpt2_1")), shown(&adapter("gpt2_1")));
    output(&["import", &hf, &at("run"), "--adapter", &peft]);
    std::fs::create_dir(Path::new(&at("run")).join("steps/00000020")).unwrap();
    std::os::unix::fs::symlink("steps/00000000", Path::new(&at("run")).join("best")).unwrap();
    let mut export = formwork(&["export", &at("run"), &at("adapter"), "--adapter"]);
    let done = export.output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("the newest is at step 20"), "{said}");
}

/// The tensors of an exported adapter have the names and shapes of `peft`, and its configuration has the keys with which `peft`
/// places them.
#[test]
fn exported_adapters_have_the_names_of_peft() {
    for name in NAMES {
        let work = tempfile::tempdir().unwrap();
        let at = |part: &str| shown(&work.path().join(part));
        let (hf, peft) = (shown(&base(name)), shown(&adapter(name)));
        output(&["import", &hf, &at("run"), "--adapter", &peft]);
        output(&["export", &at("run"), &at("adapter"), "--adapter"]);
        let ours = tensors(&Path::new(&at("adapter")).join("adapter_model.safetensors"));
        let theirs = tensors(&adapter(name).join("adapter_model.safetensors"));
        let names = |of: &std::collections::BTreeMap<String, _>| -> Vec<String> {
            of.keys().cloned().collect()
        };
        assert_eq!(names(&ours), names(&theirs), "{name}");
        let read = |folder: &Path| -> serde_json::Value {
            let text = std::fs::read(folder.join("adapter_config.json")).unwrap();
            serde_json::from_slice(&text).unwrap()
        };
        let (ours, theirs) = (read(Path::new(&at("adapter"))), read(&adapter(name)));
        for key in [
            "peft_type",
            "task_type",
            "fan_in_fan_out",
            "bias",
            "modules_to_save",
        ] {
            assert_eq!(ours[key], theirs[key], "{name}: {key}");
        }
    }
}
