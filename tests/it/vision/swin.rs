//! Swin Transformers against transformers' (`tests/goldens/make_swin.py`): the last map, scores, the loss, and the gradients of all
//! parameters and of the image; maps that windows divide, that are smaller than a window, and that zeros fill up.

use super::held_against;
use formwork::model::SwinConfig;
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
