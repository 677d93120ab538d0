//! Folders of Idefics through the commands: imported, run with `infer`, and exported with the same tensors.

use super::lengths;
use crate::binary::output;
use crate::infer::{Given, read_outputs, write_inputs};
use crate::oracle::{Oracle, difference, hf_folder};
use std::collections::BTreeMap;

#[test]
fn a_folder_of_idefics_goes_in_and_out_again() {
    for name in ["flamingo_resampled", "flamingo_patches"] {
        let oracle = Oracle::open(name);
        let weights = super::weights(&oracle);
        let folder = hf_folder(&oracle.config(), &weights);
        let work = tempfile::tempdir().unwrap();
        let at = |name: &str| work.path().join(name).display().to_string();
        output(&["import", &folder.path().display().to_string(), &at("run")]);
        let (shape, ids) = oracle.integers("input_ids");
        let (_, mask) = oracle.integers("attention_mask");
        let pixels = oracle.array("pixel_values");
        let given = BTreeMap::from([
            ("input_ids".to_string(), Given::i64(&shape, &ids)),
            ("attention_mask".to_string(), Given::i64(&shape, &mask)),
            (
                "pixel_values".to_string(),
                Given::f32(&pixels.shape, &pixels.values),
            ),
        ]);
        write_inputs(&work.path().join("in.safetensors"), &given);
        let (inputs, outputs) = (at("in.safetensors"), at("out.safetensors"));
        let arguments = [
            "infer",
            &at("run"),
            "--inputs",
            &inputs,
            "--outputs",
            &outputs,
        ];
        output(&[&arguments[..], &["--hidden-states"]].concat());
        let found = read_outputs(&work.path().join("out.safetensors"));
        let mut logits = found["logits"].values.clone();
        for (row, length) in lengths(&oracle, "attention_mask").into_iter().enumerate() {
            logits[(row * 7 + length) * 37..(row + 1) * 7 * 37].fill(0.0);
        }
        let off = difference(&logits, &oracle.array("logits").values);
        assert!(off < 1e-4, "{name}: {off:e}");
        output(&["export", &at("run"), &at("out")]);
        let bytes = std::fs::read(work.path().join("out/model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut names: Vec<&str> = file.names();
        names.sort_unstable();
        assert!(names.iter().eq(weights.keys()), "{name}: {names:?}");
        for (path, array) in &weights {
            let view = file.tensor(path).unwrap();
            let values = view.data().as_chunks().0.iter();
            let values: Vec<f32> = values.map(|b| f32::from_le_bytes(*b)).collect();
            assert!(
                view.shape() == array.shape && values == array.values,
                "{path}"
            );
        }
        output(&["import", &at("out"), &at("again")]);
    }
}
