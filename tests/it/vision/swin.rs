//! Swin Transformers against transformers' (`tests/goldens/make_swin.py`): the last map, scores, the loss, and the gradients of all
//! parameters and of the image; maps that windows divide, that are smaller than a window, and that zeros fill up.

use super::{classifier, collect, tensor, with_weights};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values};
use burn::tensor::{Device, Tensor};
use formwork::kernel::cross_entropy_sum;
use formwork::model::{ModelConfig, SwinConfig};
use formwork::nn::pass::Pass;
use formwork::task::ImageClassificationConfig;
use formwork::train::parameters::name_parameters;
use serde_json::{Value, json};

/// The network of a case, for images of this shape.
fn check(case: &str, image: [usize; 3], config: Value) {
    let (oracle, device) = (Oracle::open("swin"), Device::flex().autodiff());
    let model: ModelConfig = serde_json::from_value(config).unwrap();
    let task = classifier(&model, &ImageClassificationConfig::default(), image, 5);
    let arrays = |kind: &str| {
        let prefix = format!("{case}.{kind}.");
        oracle.arrays(|name| name.strip_prefix(&prefix))
    };
    let task = with_weights(name_parameters(task), &arrays("weight"));
    let array = |name: &str| oracle.array(&format!("{case}.{name}"));
    let near = |what: &str, ours: &[f32], theirs: &[f32]| {
        let off = difference(ours, theirs);
        assert!(off < TOLERANCE, "{case}: {what} is off by {off:e}");
    };
    let pixels = tensor::<4>(&array("pixels"), &device).require_grad();
    let pass = Pass::evaluation();
    let hidden = task.model.sequence(pixels.clone(), &pass);
    near("the last map", &values(hidden), &array("hidden").values);
    let features = task.model.pooled(pixels.clone(), &pass);
    let logits = formwork::model::heads::classes(&task.head, features);
    near("logits", &values(logits.clone()), &array("logits").values);
    let (_, labels) = oracle.integers(&format!("{case}.labels"));
    let labels_there = Tensor::from_data(&labels[..], &logits.device());
    let loss = cross_entropy_sum(logits, labels_there, 0.0) / labels.len() as f64;
    near("loss", &values(loss.clone()), &array("loss").values);
    let gradients = loss.backward();
    let found = collect(&task, Some(&gradients));
    let wanted = arrays("grad");
    assert!(found.keys().eq(wanted.keys()), "{case}: other gradients");
    for (path, theirs) in &wanted {
        near(path, &found[path].values, &theirs.values);
    }
    let of_pixels = pixels.grad(&gradients).unwrap();
    let theirs = array("grad_pixels").values;
    near("gradient of the image", &values(of_pixels), &theirs);
}

#[test]
fn shifted_windows_are_hf_s() {
    let config = json!({
        "kind": "swin", "patch_size": 2, "window": 4, "stages": [2, 1], "d_model": 8, "n_heads": [2, 4],
    });
    check("shifted", [3, 16, 16], config);
}

#[test]
fn a_map_smaller_than_a_window_is_the_window() {
    let config = json!({
        "kind": "swin", "patch_size": 1, "window": 4, "stages": [2, 2, 1], "d_model": 4, "n_heads": [1, 2, 2],
        "ff_ratio": 2.0,
    });
    check("smaller", [3, 8, 16], config);
}

#[test]
fn zeros_fill_windows_up_as_hf_s_do() {
    let config = json!({
        "kind": "swin", "patch_size": 2, "window": 3, "stages": [2, 2], "d_model": 4, "n_heads": [2, 2],
        "qkv_bias": false,
    });
    check("filled", [1, 10, 14], config);
}

/// Swin-T: eight windows a side become four, two and one, the last map is one window, and drop path rises over all twelve blocks.
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
