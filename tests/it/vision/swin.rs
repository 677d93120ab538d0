//! Swin Transformers against transformers' (`tests/goldens/make_swin.py`): the last map, logits, the loss, and the gradients of
//! all parameters and of the image; maps that windows divide, that are smaller than a window, and that are padded with zeros.

use super::held_against;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::model::{BuildContext, ModelConfig, SwinConfig};
use formwork::plan::{ModelCost, PlanRequest, plan};
use formwork::task::{ImageClassificationConfig, TaskConfig};
use formwork::train::optim::{MuonConfig, OptimizerConfig};
use formwork::train::parameters;
use serde_json::json;

#[test]
fn shifted_windows_are_hf_s() {
    let config = json!({
        "kind": "swin", "patch_size": 2, "window": 4, "stages": [2, 1], "d_model": 8, "n_heads": [2, 4],
    });
    held_against("swin", "shifted", [3, 16, 16], config);
}

#[test]
fn a_map_smaller_than_a_window_is_the_window() {
    let config = json!({
        "kind": "swin", "patch_size": 1, "window": 4, "stages": [2, 2, 1], "d_model": 4, "n_heads": [1, 2, 2],
        "ff_ratio": 2.0,
    });
    held_against("swin", "smaller", [3, 8, 16], config);
}

#[test]
fn zeros_fill_windows_up_as_hf_s_do() {
    let config = json!({
        "kind": "swin", "patch_size": 2, "window": 3, "stages": [2, 2], "d_model": 4, "n_heads": [2, 2],
        "qkv_bias": false,
    });
    held_against("swin", "filled", [1, 10, 14], config);
}

/// Swin-T: eight windows per side become four, two and one, the last map is one window, and drop path rises over all twelve
/// blocks.
#[test]
fn the_stages_of_swin_t() {
    let config = SwinConfig {
        drop_path: 0.2,
        ..SwinConfig::default()
    };
    let shapes = config.shapes(224, 224);
    let found = shapes.iter().map(|stage| {
        let [rows, _] = stage.map;
        (rows, stage.width, stage.windows(), stage.shift(1))
    });
    let wanted = [
        (56, 96, 64, 3),
        (28, 192, 16, 3),
        (14, 384, 4, 3),
        (7, 768, 1, 0),
    ];
    assert!(found.eq(wanted), "{shapes:?}");
    assert_eq!(config.last_map(224, 224), [7, 7]);
    assert_eq!([0, 11].map(|block| config.path_at(block)), [0.0, 0.2]);
}

/// Muon orthogonalises the matrices of blocks, but no relative position table. `plan` counts by the same rule.
#[test]
fn muon_leaves_tables_to_adamw() {
    let config = json!({
        "kind": "swin", "patch_size": 2, "window": 4, "stages": [2, 1], "d_model": 8, "n_heads": [2, 4],
    });
    let model: ModelConfig = serde_json::from_value(config).unwrap();
    let task = TaskConfig::ImageClassification(ImageClassificationConfig::default());
    let shape = Shape {
        image: Some([3, 16, 16]),
        classes: vec!["cat".into(), "dog".into()],
        ..Shape::default()
    };
    let device = Device::default();
    let inputs = BuildContext {
        shape: &shape,
        seed: 0,
        device: &device,
    };
    let listed = parameters::list(&task.init(&model, &inputs, false).unwrap());
    let muon = OptimizerConfig::Muon(MuonConfig::default());
    let clusters = muon.clusters(&listed).unwrap();
    let matrices = clusters.iter().filter(|cluster| cluster.settings.matrix);
    let paths: Vec<&str> = matrices
        .flat_map(|cluster| cluster.paths.iter().map(String::as_str))
        .collect();
    // Four of attention and two of the feed-forward layer in each block.
    assert_eq!(paths.len(), 3 * 6, "{paths:?}");
    assert!(!paths.iter().any(|path| path.ends_with("table")));

    let kept = muon.state_sizes(&listed).unwrap();
    let values: usize = kept.values().map(|kept| kept.values).sum();
    let cost = planned(&model, Some(&task), &shape, &muon);
    assert_eq!(cost.memory_bytes["optimizer"], 4 * values as u64);
}

/// Returns the cost of a model trained with this optimizer.
fn planned(
    model: &ModelConfig,
    task: Option<&TaskConfig>,
    shape: &Shape,
    optimizer: &OptimizerConfig,
) -> ModelCost {
    let question = PlanRequest {
        task,
        moments: optimizer.moments(),
        matrices: optimizer.matrices(),
        ..PlanRequest::of(model, shape)
    };
    plan(&question, &Device::default()).unwrap()
}

/// Two more blocks store as many activations inside a model of images and texts as they do alone.
#[test]
fn plans_of_two_networks_have_the_blocks_of_stages() {
    let image = |blocks: usize| {
        json!({
            "kind": "swin", "patch_size": 2, "window": 4, "stages": [blocks, 1], "d_model": 8, "n_heads": [2, 4],
        })
    };
    let shape = Shape {
        image: Some([3, 16, 16]),
        ..Shape::of_text(7, 23)
    };
    let kept = |model: serde_json::Value| {
        let model: ModelConfig = serde_json::from_value(model).unwrap();
        let cost = planned(&model, None, &shape, &OptimizerConfig::default());
        cost.memory_bytes["activations"]
    };
    let more = |whole: &dyn Fn(serde_json::Value) -> serde_json::Value| {
        kept(whole(image(4))) - kept(whole(image(2)))
    };
    let alone = more(&|image| image);
    assert!(alone > 0);
    let text = json!({ "kind": "decoder", "n_layers": 2, "d_model": 16 });
    for kind in ["vision_language", "two_towers"] {
        let whole =
            |image: serde_json::Value| json!({ "kind": kind, "image": image, "text": text });
        assert_eq!(more(&whole), alone, "{kind}");
    }
}
