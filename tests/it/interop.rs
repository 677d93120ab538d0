//! HF folders as users have them: shards, half precision, names without their prefix, and the faults with which a wrong folder
//! is refused.

use crate::oracle::{Oracle, difference, hf_folder, values, write_safetensors};
use crate::oracle::{decoder_of, decoder_table};
use burn::tensor::{Device, Tensor, TensorData, bf16, f16};
use formwork::error::{Error, Result};
use formwork::interop::weights::Array;
use formwork::interop::{HfModel, read_hf, to_hf};
use formwork::model::Decoder;
use formwork::nn::vocabulary::TokenVectors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

type Weights = BTreeMap<String, Array>;

/// Reads the config and the weights of a golden.
fn golden(name: &str) -> (Value, Weights) {
    let oracle = Oracle::open(name);
    let others = ["input_ids", "logits", "loss"];
    let weights = oracle.arrays(|n| {
        let weight = !n.starts_with("grad.") && !others.contains(&n);
        weight.then_some(n)
    });
    (serde_json::from_str(&oracle.config()).unwrap(), weights)
}

fn folder(config: &Value, weights: &Weights) -> tempfile::TempDir {
    hf_folder(&config.to_string(), weights)
}

fn open(dir: &Path) -> Result<(HfModel, Decoder)> {
    let model = read_hf(dir, &[])?;
    let decoder = decoder_of(&model, &Device::flex())?;
    Ok((model, decoder))
}

/// Returns the error message, without the folder's name.
fn message(dir: &Path) -> String {
    match open(dir) {
        Ok(_) => panic!("the folder was accepted"),
        Err(error) => {
            assert!(matches!(error, Error::Invalid(_)), "{error:?}");
            let folder = dir.display().to_string();
            error.to_string().replace(&folder, "DIR")
        }
    }
}

#[test]
fn shards_are_one_model() {
    let (config, weights) = golden("gpt_neox");
    let dir = folder(&config, &weights);
    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let mut map = serde_json::Map::new();
    for shard in 0..3 {
        let file = format!("model-0000{}-of-00003.safetensors", shard + 1);
        let part: Weights = weights
            .clone()
            .into_iter()
            .enumerate()
            .filter_map(|(i, entry)| (i % 3 == shard).then_some(entry))
            .collect();
        map.extend(part.keys().map(|k| (k.clone(), json!(file))));
        write_safetensors(&dir.path().join(file), &part);
    }
    let index = json!({ "metadata": {}, "weight_map": map }).to_string();
    let index_file = dir.path().join("model.safetensors.index.json");
    std::fs::write(&index_file, index).unwrap();
    let (model, decoder) = open(dir.path()).unwrap();
    assert!(to_hf(&decoder, &decoder_table(&model)) == weights);

    std::fs::remove_file(dir.path().join("model-00002-of-00003.safetensors")).unwrap();
    assert_eq!(
        message(dir.path()),
        "DIR/model.safetensors.index.json: names the shard `model-00002-of-00003.safetensors`, \
         which is not in the folder"
    );
}

#[test]
fn half_precision_becomes_single() {
    let (config, weights) = golden("llama_gqa");
    let dir = folder(&config, &weights);
    type Half = (Dtype, fn(f32) -> [u8; 2], f64);
    let kinds: [Half; 2] = [
        (
            Dtype::BF16,
            |x| bf16::from_f32(x).to_le_bytes(),
            1.0 / 256.0,
        ),
        (Dtype::F16, |x| f16::from_f32(x).to_le_bytes(), 1.0 / 2048.0),
    ];
    for (dtype, half, precision) in kinds {
        let bytes: Vec<Vec<u8>> = weights
            .values()
            .map(|a| a.values.iter().flat_map(|&x| half(x)).collect())
            .collect();
        let views = weights.iter().zip(&bytes).map(|((name, array), bytes)| {
            let view = TensorView::new(dtype, array.shape.clone(), bytes).unwrap();
            (name.as_str(), view)
        });
        let file = dir.path().join("model.safetensors");
        safetensors::serialize_to_file(views, None, &file).unwrap();
        let (model, decoder) = open(dir.path()).unwrap();
        let back = to_hf(&decoder, &decoder_table(&model));
        for (name, array) in &weights {
            let off = difference(&back[name].values, &array.values);
            assert!(off < precision, "{name}: {off:e}");
        }
    }
}

/// GPT-2 as in its authors' folder: no prefix, the mask's buffer, a copy of the tied embedding table.
#[test]
fn names_without_prefix_and_buffers() {
    let (config, weights) = golden("gpt2");
    let mut bare: Weights = weights
        .iter()
        .map(|(name, array)| (name.replace("transformer.", ""), array.clone()))
        .collect();
    let mask = Array {
        shape: vec![1, 1, 2, 2],
        values: vec![1.0, 0.0, 1.0, 1.0],
    };
    bare.insert("h.0.attn.bias".into(), mask);
    bare.insert("lm_head.weight".into(), bare["wte.weight"].clone());
    let dir = folder(&config, &bare);
    let (model, decoder) = open(dir.path()).unwrap();
    assert!(to_hf(&decoder, &decoder_table(&model)) == weights);
    let device = Device::flex();
    let table = Tensor::<2>::from_data(
        TensorData::new(weights["transformer.wte.weight"].values.clone(), [61, 24]),
        &device,
    );
    let TokenVectors::Full(embedding) = &decoder.embedding else {
        unreachable!("GPT-2 has one table")
    };
    assert_eq!(values(embedding.weight.val()), values(table));
}

#[test]
fn wrong_tensors_are_listed() {
    let (config, mut weights) = golden("gpt2");
    weights.remove("transformer.h.1.ln_2.bias");
    weights.get_mut("transformer.wpe.weight").unwrap().shape = vec![24, 16];
    let dir = folder(&config, &weights);
    assert_eq!(
        message(dir.path()),
        "DIR: tensor `transformer.wpe.weight` has the shape [24, 16]; config.json requires [16, 24]\n\
         DIR: tensor `transformer.h.1.ln_2.bias` [24] is missing"
    );
    let (config, mut weights) = golden("llama");
    let bias = Array {
        shape: vec![32],
        values: vec![0.0; 32],
    };
    weights.insert("model.layers.1.self_attn.q_proj.bias".into(), bias);
    let dir = folder(&config, &weights);
    assert_eq!(
        message(dir.path()),
        "DIR: tensor `model.layers.1.self_attn.q_proj.bias` has no place in the model"
    );
}

#[test]
fn wrong_configs_are_refused() {
    let refused = |name: &str, changes: Value, expected: &str| {
        let (mut config, weights) = golden(name);
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let dir = folder(&config, &weights);
        assert_eq!(message(dir.path()), expected);
    };
    refused(
        "llama",
        json!({ "model_type": "lama" }),
        "DIR/config.json: `model_type` \"lama\" cannot be imported; did you mean `llama`?",
    );
    refused(
        "gpt2",
        json!({ "scale_attn_by_inverse_layer_idx": true, "activation_function": "gelu_neu", "n_layer": 0 }),
        "DIR/config.json: `activation_function` = \"gelu_neu\" is not supported; did you mean `gelu_new`?\n\
         DIR/config.json: `n_layer` = 0 is not a whole number of at least 1",
    );
    refused(
        "llama",
        json!({ "rope_scaling": { "rope_type": "dynamic", "factor": 2.0 }, "num_key_value_heads": 3 }),
        "DIR/config.json: rope scaling \"dynamic\" is not supported; allowed: `default`, `linear`, `yarn`, `llama3`, `longrope`",
    );
    refused(
        "llama",
        json!({ "num_key_value_heads": 3 }),
        "DIR/config.json: 4 query heads are not a multiple of 3 key-value heads (`num_attention_heads` = 4, `num_key_value_heads` = 3)",
    );
    refused(
        "gpt_neox",
        json!({ "rotary_pct": 1.5, "partial_rotary_factor": 1.5, "num_hidden_layers": 9_000 }),
        "DIR/config.json: rotary positions need an even head size and a rotated fraction of at most 1; \
         the head size is 8 and the fraction is 1.5 \
         (`hidden_size` = 32, `partial_rotary_factor` = 1.5, `rotary_pct` = 1.5, `num_attention_heads` = 4)",
    );
    refused(
        "gpt_neox",
        json!({ "num_hidden_layers": 9_000 }),
        "DIR: contains 28 tensors, too few for the 9000 layers of config.json",
    );
    refused(
        "gpt_neox",
        json!({
            "num_hidden_layers": 10_001,
            "intermediate_size": 1_099_511_627_775_u64,
            "vocab_size": 16_777_217,
            "max_position_embeddings": 1_073_741_825,
        }),
        "DIR/config.json: `max_position_embeddings` = 1073741825 must be at most 1073741824\n\
         DIR/config.json: `num_hidden_layers` = 10001 must be at most 10000\n\
         DIR/config.json: `intermediate_size` = 1099511627775 must be at most 4194304\n\
         DIR/config.json: `vocab_size` = 16777217 must be at most 16777216",
    );
}

#[test]
fn damaged_folders_are_refused() {
    let (config, weights) = golden("gpt2");
    let dir = folder(&config, &weights);
    let file = dir.path().join("model.safetensors");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 4]).unwrap();
    assert!(message(dir.path()).ends_with("the file is truncated or damaged"));
    std::fs::write(&file, &whole[..100]).unwrap();
    assert!(message(dir.path()).contains("is not a safetensors file"));
    std::fs::write(&file, b"abc").unwrap();
    assert!(message(dir.path()).contains("shorter than 8 bytes"));
    std::fs::remove_file(&file).unwrap();
    assert!(message(dir.path()).contains("nor a shard index of either"));
    std::fs::write(dir.path().join("pytorch_model.bin"), b"").unwrap();
    assert!(message(dir.path()).contains("is not a PyTorch weights file"));
    std::fs::write(dir.path().join("config.json"), "{").unwrap();
    assert!(message(dir.path()).contains("config.json: is not JSON"));
}
