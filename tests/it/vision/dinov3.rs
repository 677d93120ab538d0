//! DINOv3 against transformers' (`tests/goldens/make_dinov3.py`): hidden states, logits from the class token and the mean over
//! patches, the loss, and the gradients of all parameters, including residual scales and registers, and of the image; and
//! random positions in training.

use super::{classifier, held_against, tensor};
use crate::oracle::values;
use burn::tensor::Device;
use formwork::interop::weights::Array;
use formwork::model::ModelConfig;
use formwork::nn::pass::{Draws, Pass};
use formwork::task::ImageClassificationConfig;
use serde_json::{Value, json};

fn config(changes: Value) -> Value {
    let mut config = json!({
        "kind": "vision", "n_layers": 2, "d_model": 16, "stem": { "kind": "patches", "size": 4 }, "pooling": "class_and_mean",
        "norm": { "kind": "layer", "eps": 1e-5 }, "residual_scale": { "kind": "layer_scale" },
        "position": { "kind": "rotary_centred" },
        "attention": { "kind": "multi_head", "n_heads": 2, "key_bias": false },
        "feed_forward": { "kind": "dense", "activation": "gelu", "d_ff": 24 },
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

#[test]
fn rotations_by_centres_of_patches_behind_registers_are_hf_s() {
    let changes = json!({ "n_registers": 2 });
    held_against("dinov3", "plain", [3, 12, 12], config(changes));
}

#[test]
fn gated_layers_without_biases_over_an_oblong_are_hf_s() {
    let changes = json!({
        "position": { "kind": "rotary_centred", "theta": 30.0 },
        "attention": { "kind": "multi_head", "n_heads": 2, "bias": true, "out_bias": false },
        "feed_forward": { "kind": "gated", "activation": "silu", "d_ff": 24, "bias": false },
    });
    held_against("dinov3", "gated", [3, 8, 12], config(changes));
}

/// The parameters are those of a network for images of 12 by 12.
#[test]
fn images_of_another_size_are_read_as_hf_reads_them() {
    let changes = json!({
        "n_registers": 1,
        "attention": { "kind": "multi_head", "n_heads": 2, "bias": false, "out_bias": true },
    });
    held_against("dinov3", "larger", [1, 20, 12], config(changes));
}

/// Positions are drawn once per step, the same for all rows and micro-batches; an evaluation uses the unchanged square.
#[test]
fn training_draws_positions_once_a_step() {
    let pixels = Array {
        shape: vec![2, 1, 8, 12],
        values: (0..192).map(|i| (i % 13) as f32 / 6.0 - 1.0).collect(),
    };
    let pixels = tensor::<4>(&pixels, &Device::flex().autodiff());
    let hidden = |position: Value, pass: &Pass| {
        let model: ModelConfig =
            serde_json::from_value(config(json!({ "n_registers": 1, "position": position })))
                .unwrap();
        let task = classifier(&model, &ImageClassificationConfig::default(), [1, 8, 12], 3);
        values(task.model.sequence(pixels.clone(), pass))
    };
    let training = |step: u64, first_row: u64| {
        Pass::training(Draws {
            seed: 3,
            step,
            first_row,
        })
    };
    let plain = json!({ "kind": "rotary_centred" });
    for key in ["shift", "jitter", "rescale"] {
        let mut drawn = plain.clone();
        drawn[key] = json!(1.5);
        let evaluated = hidden(drawn.clone(), &Pass::evaluation());
        assert_eq!(
            evaluated,
            hidden(plain.clone(), &Pass::evaluation()),
            "{key}"
        );
        assert_eq!(evaluated, hidden(plain.clone(), &training(4, 0)), "{key}");
        let first = hidden(drawn.clone(), &training(4, 0));
        assert_ne!(first, evaluated, "{key}");
        assert_eq!(first, hidden(drawn.clone(), &training(4, 2)), "{key}");
        assert_ne!(first, hidden(drawn, &training(5, 0)), "{key}");
    }
}
