//! Folders as DeBERTa was released: no class in config.json, the head under the name of its decoder, the decoder's positions
//! among the embeddings. transformers leaves the decoder out, so the oracle follows its definition (`make_deberta_emd.py`).

use super::files::{self, Numbers};
use super::shown;
use crate::binary::{formwork, output};
use crate::oracle::Oracle;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::path::Path;

/// Writes a golden as a released folder with a replaced-token head, and its inputs and outputs into a file.
fn released(golden: &str, folder: &Path, given: &Path) {
    let oracle = Oracle::open(golden);
    let mut config: Value = serde_json::from_str(&oracle.config()).unwrap();
    let keys = config.as_object_mut().unwrap();
    keys.retain(|key, _| key != "architectures" && key != "legacy");
    keys["pos_att_type"] = json!("c2p|p2c");
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let name = |name: &str| {
        let name = name.replace("cls.predictions.transform.", "lm_predictions.lm_head.");
        name.replace("cls.predictions.bias", "lm_predictions.lm_head.bias")
    };
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let weights = weights.into_iter();
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = weights
        .map(|(key, x)| (name(&key), x.shape, bytes(&x.values)))
        .collect();
    let of_rtd = ("mask_predictions.classifier.bias", vec![1], bytes(&[0.5]));
    tensors.push((of_rtd.0.into(), of_rtd.1, of_rtd.2));
    write(&folder.join("model.safetensors"), &tensors, Dtype::F32);
    let inputs = ["input_ids", "attention_mask"].map(|name| {
        let (shape, values) = oracle.integers(name);
        let wide = values.iter().flat_map(|x| i64::from(*x).to_le_bytes());
        (name.to_string(), shape, wide.collect())
    });
    write(given, &inputs, Dtype::I64);
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn write(path: &Path, tensors: &[(String, Vec<usize>, Vec<u8>)], dtype: Dtype) {
    let views = tensors.iter().map(|(name, shape, data)| {
        let view = TensorView::new(dtype, shape.clone(), data).unwrap();
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

fn logits(run: &str, given: &Path, work: &Path) -> Numbers {
    let outputs = work.join("out.safetensors");
    let arguments = [
        "infer",
        run,
        "--inputs",
        &shown(given),
        "--outputs",
        &shown(&outputs),
    ];
    output(&arguments);
    files::read(&outputs).remove("logits").unwrap()
}

#[test]
fn released_debertas_guess_with_their_mask_decoder() {
    for (golden, family) in [("deberta_emd", "deberta"), ("deberta_v2_emd", "deberta-v2")] {
        let work = tempfile::tempdir().unwrap();
        let at = |part: &str| work.path().join(part);
        let (folder, given) = (at("folder"), at("in.safetensors"));
        released(golden, &folder, &given);
        let told = |words: &[&str]| {
            let done = formwork(words).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{said}");
            said
        };
        let said = told(&["import", &shown(&folder), &shown(&at("run"))]);
        assert!(said.contains("no enhanced mask decoder"), "{said}");
        assert!(said.contains("mask_predictions.classifier.bias"), "{said}");

        let found = logits(&shown(&at("run")), &given, work.path());
        let oracle = Oracle::open(golden);
        let (wanted, (_, mask)) = (oracle.array("logits"), oracle.integers("attention_mask"));
        assert_eq!(found.shape, wanted.shape);
        let vocab = wanted.shape[2];
        let pairs = found.values.iter().zip(&wanted.values).enumerate();
        let off = pairs
            .filter(|(place, _)| mask[place / vocab] == 1)
            .map(|(_, (a, b))| (a - b).abs());
        let off = off.fold(0.0, f32::max);
        assert!(off < 1e-4, "{golden}: {off:e}");

        // Exported with the decoder, and imported again as the same model.
        let said = told(&["export", &shown(&at("run")), &shown(&at("out"))]);
        assert!(said.contains("no enhanced mask decoder"), "{said}");
        let config = std::fs::read(at("out").join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(
            (&config["model_type"], &config["mask_decoder_steps"]),
            (&json!(family), &json!(2))
        );
        let tensors = files::read_folder(&at("out"));
        assert!(tensors.contains_key("deberta.embeddings.position_embeddings.weight"));
        output(&["import", &shown(&at("out")), &shown(&at("again"))]);
        assert!(logits(&shown(&at("again")), &given, work.path()) == found);
    }
}
