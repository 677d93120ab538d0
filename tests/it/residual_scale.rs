//! Learned residual scales: their definition and initial values. Gradients of layer scale are compared with transformers'
//! DINOv2 (`vision/dinov2.rs`).

use crate::contracts;
use crate::oracle::difference;
use crate::sharing::with;
use crate::transfer::{put, values_of};
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

const D_MODEL: usize = 16;

fn decoder(keys: &Value) -> Decoder {
    let base = json!({
        "n_layers": 2, "d_model": D_MODEL, "attention": { "kind": "multi_head", "n_heads": 2 },
        "feed_forward": { "kind": "dense", "d_ff": 24 },
    });
    let config: DecoderConfig = with(&serde_json::from_value(base).unwrap(), keys);
    let device = Device::flex().autodiff();
    let inputs = BuildContext {
        shape: &Shape::of_text(6, 11),
        seed: 5,
        device: &device,
    };
    materialize(name_parameters(config.init(&inputs)))
}

fn logits(model: &Decoder) -> Vec<f32> {
    let ids = TensorData::new(vec![1, 5, 2, 7, 8, 2, 3, 3, 0, 10, 4, 1], [2, 6]);
    let ids = Tensor::<2, Int>::from_data(ids, &Device::flex());
    contracts::logits(model, DecoderInput::new(ids))
}

/// A scale on a layer's output equals scaling the rows of its last matrix and its bias.
#[test]
fn a_scaled_result_is_a_layer_with_scaled_outputs() {
    for (kind, placement) in [
        ("layer_scale", "pre"),
        ("layer_scale", "post"),
        ("rezero", "pre"),
        ("rezero", "deepnorm"),
    ] {
        let keys =
            json!({ "norm_placement": placement, "residual_scale": { "kind": kind, "init": 0.5 } });
        let scaled = decoder(&keys);
        let mut theirs = values_of(&scaled);
        for (path, array) in &mut theirs {
            if path.ends_with(".scale.gain") {
                for (place, value) in array.values.iter_mut().enumerate() {
                    *value = 0.3 + 0.1 * place as f32;
                }
            }
        }
        let scaled = put(scaled, &theirs);
        let plain = decoder(&json!({ "norm_placement": placement }));
        let mut ours = values_of(&plain);
        for (path, array) in &mut ours {
            *array = theirs[path].clone();
            let outputs = [
                ("attention.output.", "attention_residual.scale.gain"),
                ("feed_forward.down.", "feed_forward_residual.scale.gain"),
            ];
            for (output, gain) in outputs {
                let Some((block, _)) = path.split_once(output) else {
                    continue;
                };
                let gain = &theirs[&format!("{block}{gain}")].values;
                // Weights are stored output by output.
                let each = array.values.len() / D_MODEL;
                for (place, value) in array.values.iter_mut().enumerate() {
                    *value *= gain[place / each % gain.len()];
                }
            }
        }
        let off = difference(&logits(&put(plain, &ours)), &logits(&scaled));
        assert!(off < 2e-6, "{kind}, {placement}: off by {off:e}");
    }
}

/// At 0, each block leaves the residual stream unchanged, whatever their number.
#[test]
fn rezero_begins_as_the_identity() {
    let keys = |layers: usize| {
        json!({
            "n_layers": layers, "norm": { "kind": "none" }, "residual_scale": { "kind": "rezero" },
        })
    };
    let [one, four] = [1, 4].map(|layers| logits(&decoder(&keys(layers))));
    assert_eq!(one, four);
}
