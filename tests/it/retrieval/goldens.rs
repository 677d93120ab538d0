//! Outputs, loss and gradients of tiny random models against `retro-pytorch`, and against algorithm 1 of the paper computed
//! position by position (`tests/goldens/make_retro.py`).

use super::{built, cached, input, logits};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{gradients_of, put};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use formwork::model::decoder::{Decoder, DecoderConfig};
use formwork::nn::neighbours::Neighbours;
use serde_json::{Value, json};

fn decoder(oracle: &Oracle, context: usize, device: &Device) -> Decoder {
    let keys: Value = serde_json::from_str(&oracle.config()).unwrap();
    let position = &keys["position"];
    let of_encoder = match position.as_str() {
        Some("learned") => "none",
        _ => "rotary",
    };
    let config: DecoderConfig = serde_json::from_value(json!({
        "n_layers": keys["n_layers"],
        "d_model": keys["d_model"],
        "norm": { "kind": "rms", "eps": 1e-12 },
        "position": { "kind": position },
        "attention": {
            "kind": "multi_head",
            "n_heads": keys["n_heads"],
            "d_head": keys["d_head"],
            "bias": false,
            "out_bias": true,
        },
        "feed_forward": { "kind": "dense", "d_ff": keys["d_ff"] },
        "tie_embeddings": false,
        "head_bias": true,
        "retrieval": {
            "chunk": keys["chunk"],
            "neighbours": keys["neighbours"],
            "layers": keys["layers"],
            "encoder": {
                "d_model": keys["d_encoder"],
                "feed_forward": { "kind": "dense", "d_ff": keys["d_ff_encoder"] },
                "position": { "kind": of_encoder },
            },
        },
    }))
    .unwrap();
    let vocab = keys["vocab"].as_u64().unwrap() as usize;
    let network = built(&config, [context, vocab], device);
    put(network, &oracle.arrays(|name| name.strip_prefix("weight.")))
}

/// The neighbours in the file, padded with zeros.
fn neighbours(oracle: &Oracle) -> Neighbours {
    let keys: Value = serde_json::from_str(&oracle.config()).unwrap();
    let (shape, ids) = oracle.integers("neighbours");
    let chunk = keys["chunk"].as_u64().unwrap() as usize;
    let mut all = Neighbours::empty(chunk, shape[2]);
    for neighbour in ids.chunks(shape[3]) {
        let length = neighbour.iter().take_while(|id| **id != 0).count();
        all.push(&neighbour[..length]);
    }
    all
}

fn agrees(name: &str) {
    let oracle = Oracle::open(name);
    let device = Device::flex().autodiff();
    let (shape, ids) = oracle.integers("ids");
    let [rows, seq] = [shape[0], shape[1] - 1];
    let texts = ids.chunks(seq + 1);
    let read: Vec<i32> = texts.clone().flat_map(|row| row[..seq].to_vec()).collect();
    let targets: Vec<i32> = texts.flat_map(|row| row[1..].to_vec()).collect();
    let found = neighbours(&oracle);
    let model = decoder(&oracle, seq, &device);
    let ours = logits(&model, input(&read, rows, Some(found.clone()), &device));
    let theirs = oracle.array("logits").values;
    let off = difference(&values(ours.clone().inner()), &theirs);
    assert!(off < TOLERANCE, "{name}: logits are off by {off:e}");
    let [_, _, vocab] = ours.dims();
    let targets = Tensor::from_data(TensorData::new(targets, [rows * seq]), &device);
    let scores = ours.reshape([rows * seq, vocab]);
    let loss = formwork::kernel::cross_entropy_sum(scores, targets, 0.0) / (rows * seq) as f64;
    let off = difference(&values(loss.clone().inner()), &oracle.array("loss").values);
    assert!(off < 1e-5, "{name}: the loss is off by {off:e}");
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    let ours = gradients_of(&model, &gradients);
    let theirs = oracle.arrays(|name| name.strip_prefix("grad."));
    assert!(ours.keys().eq(theirs.keys()), "{name}: other parameters");
    let mut worst = 0.0_f64;
    for (path, theirs) in &theirs {
        assert_eq!(ours[path].shape, theirs.shape, "{name}: {path}");
        let off = difference(&ours[path].values, &theirs.values);
        assert!(
            off < TOLERANCE,
            "{name}: gradient of {path} is off by {off:e}"
        );
        worst = worst.max(off);
    }
    println!("{name}: gradients are off by {worst:.1e}");
    let model = model.valid();
    let whole = values(logits(
        &model,
        input(&read, rows, Some(found.clone()), &Device::flex()),
    ));
    for step in [1, 3, 5, seq] {
        let read = values(cached(&model, &read, rows, &found, step));
        let off = difference(&read, &whole);
        assert!(
            off < 1e-5,
            "{name}: decoding {step} at a time is off by {off:e}"
        );
    }
}

#[test]
fn the_whole_network_agrees_with_retro_pytorch() {
    agrees("retro_plain");
}

#[test]
fn rotations_lacking_neighbours_and_a_narrow_encoder_agree_with_the_algorithm() {
    agrees("retro_rotary");
}
