//! Registers, which nothing reads after the last block.

use super::{classifier, tensor};
use crate::oracle::values;
use burn::tensor::{Device, Tensor};
use formwork::data::Shape;
use formwork::interop::weights::Array;
use formwork::model::image::ImageModel;
use formwork::model::{ModelConfig, VisionConfig};
use formwork::nn::pass::Pass;
use formwork::task::ImageClassificationConfig;
use serde_json::json;

const IMAGE: [usize; 3] = [2, 8, 6];
const PATCHES: usize = 12;
const REGISTERS: usize = 2;

fn config(pooling: &str, n_registers: usize) -> VisionConfig {
    let config = json!({
        "n_layers": 1, "d_model": 16, "stem": { "kind": "patches", "size": 2 }, "pooling": pooling,
        "attention": { "kind": "multi_head", "n_heads": 2 }, "n_registers": n_registers,
    });
    serde_json::from_value(config).unwrap()
}

#[test]
fn no_head_and_no_other_network_reads_registers() {
    let (device, pass) = (Device::flex().autodiff(), Pass::evaluation());
    for pooling in ["class", "class_and_mean", "mean", "attention"] {
        let config = config(pooling, REGISTERS);
        let first = usize::from(config.pooling.has_class_token());
        let task = classifier(
            &ModelConfig::Vision(config),
            &ImageClassificationConfig::default(),
            IMAGE,
            5,
        );
        let ImageModel::Vision(network) = &task.model else {
            unreachable!()
        };
        let pixels = Array {
            shape: vec![3, 2, 8, 6],
            values: (0..288).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect(),
        };
        let pixels = tensor::<4>(&pixels, &device);
        let hidden = network.forward(pixels.clone(), &pass);
        let read = task.model.memory_vectors(pixels, &pass);
        assert_eq!(read.dims(), [3, first + PATCHES, 16], "{pooling}");
        // Other final states of registers change nothing.
        let part = |from: usize, count: usize| hidden.clone().narrow(1, from, count);
        let behind = first + REGISTERS;
        let mut parts: Vec<Tensor<3>> =
            vec![part(first, REGISTERS) * 7.0 + 3.0, part(behind, PATCHES)];
        if first > 0 {
            parts.insert(0, part(0, first));
        }
        let changed = Tensor::cat(parts, 1);
        let pooled = |hidden: Tensor<3>| values(network.pooled(hidden, &pass));
        assert_eq!(pooled(hidden.clone()), pooled(changed.clone()), "{pooling}");
        let kept = values(network.without_registers(changed));
        assert_eq!(kept, values(read), "{pooling}");
    }
}

#[test]
fn products_are_those_of_what_is_read() {
    let products = |pooling: &str, registers| config(pooling, registers).image_products(IMAGE);
    let more = |pooling: &str| products(pooling, REGISTERS) - products(pooling, 0);
    assert!(more("mean") > 0.0);
    assert_eq!(more("attention").to_bits(), more("mean").to_bits());
    let shape = Shape {
        image: Some(IMAGE),
        ..Shape::default()
    };
    let looked_at =
        |pooling: &str| ModelConfig::Vision(config(pooling, REGISTERS)).image_vectors(&shape);
    assert_eq!(
        [looked_at("class"), looked_at("mean")],
        [PATCHES + 1, PATCHES]
    );
}
