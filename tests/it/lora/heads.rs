//! Adapters of heads, for which `peft` also saves the head itself (`base_layer`).

use super::peft::{adapter, base};
use super::{floats, shown, tensors};
use crate::binary::{failure, output};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const HEAD: &str = "base_model.model.lm_head";
const RANK: usize = 4;

/// A folder of `peft` with an adapter of LLaMA's head and the head itself after `change`; the adapter's scale is α/√r.
fn with_head(work: &Path, change: impl Fn(&mut [f32])) -> PathBuf {
    let to = work.join("adapter");
    std::fs::create_dir(&to).unwrap();
    let config = "adapter_config.json";
    std::fs::copy(adapter("llama_1").join(config), to.join(config)).unwrap();
    let mut all: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let (shape, head) =
        tensors(&base("llama_1").join("model.safetensors"))["lm_head.weight"].clone();
    let [rows, width] = shape[..] else {
        panic!("a matrix")
    };
    let mut head = floats(&head);
    change(&mut head);
    let bytes =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let made = |n: usize| -> Vec<f32> { (0..n).map(|i| (i as f32 * 0.7).sin()).collect() };
    all.insert(format!("{HEAD}.base_layer.weight"), (shape, bytes(&head)));
    for (name, shape) in [("lora_A", vec![RANK, width]), ("lora_B", vec![rows, RANK])] {
        let values = made(shape.iter().product());
        all.insert(format!("{HEAD}.{name}.weight"), (shape, bytes(&values)));
    }
    let views = all.iter().map(|(name, (shape, bytes))| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
        (name.clone(), view)
    });
    safetensors::serialize_to_file(views, None, &to.join("adapter_model.safetensors")).unwrap();
    to
}

#[test]
fn a_head_that_is_saved_beside_its_factors_is_that_of_the_model() {
    let work = tempfile::tempdir().unwrap();
    let at = |part: &str| shown(&work.path().join(part));
    // The head rounded to bfloat16.
    let folder = with_head(work.path(), |head| {
        for x in head {
            *x = f32::from_bits((x.to_bits() + 0x8000) & 0xffff_0000);
        }
    });
    let hf = shown(&base("llama_1"));
    output(&["import", &hf, &at("run"), "--adapter", &shown(&folder)]);
    output(&["export", &at("run"), &at("merged")]);
    let of = |path: &Path, name: &str| floats(&tensors(path)[name].1);
    let merged = of(
        &work.path().join("merged/model.safetensors"),
        "lm_head.weight",
    );
    let head = of(&base("llama_1").join("model.safetensors"), "lm_head.weight");
    let factors = folder.join("adapter_model.safetensors");
    let [a, b] = ["lora_A", "lora_B"].map(|name| of(&factors, &format!("{HEAD}.{name}.weight")));
    let width = a.len() / RANK;
    for (place, (merged, head)) in merged.iter().zip(&head).enumerate() {
        let (row, column) = (place / width, place % width);
        let product: f32 = (0..RANK)
            .map(|r| b[row * RANK + r] * a[r * width + column])
            .sum();
        // α/√r = 3/2.
        assert!((head + 1.5 * product - merged).abs() < 1e-5);
    }
}

#[test]
fn another_head_is_refused() {
    let work = tempfile::tempdir().unwrap();
    let folder = with_head(work.path(), |head| head[5] += 0.1);
    let run = shown(&work.path().join("run"));
    let hf = shown(&base("llama_1"));
    let (status, said) = failure(&["import", &hf, &run, "--adapter", &shown(&folder)]);
    assert_eq!(status, 2, "{said}");
    for word in ["lm_head.base_layer.weight", "merge_and_unload()"] {
        assert!(said.contains(word), "`{word}` is not in\n{said}");
    }
    assert!(!Path::new(&run).exists());
}
