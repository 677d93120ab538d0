//! Two-dimensional positions against timm and HF, and the published hybrid against timm (`tests/goldens/make_axial.py`).

use super::{collect, tensor};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values, write_weights};
use burn::tensor::{Device, Tensor};
use formwork::data::Shape;
use formwork::kernel;
use formwork::model::{BuildContext, VisionConfig};
use formwork::nn::convolution::Padding;
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::relative_bias_2d::RelativeBias2d;
use formwork::nn::position::rotary_2d::{Rotary2d, Rotary2dConfig};
use formwork::nn::position::{Grid, PositionScheme, PositionShape, ScoreBias, Span};
use formwork::train::checkpoint::load_weights;
use formwork::train::parameters::name_parameters;
use serde_json::json;

fn shape(class_token: bool) -> PositionShape {
    PositionShape {
        d_model: 24,
        n_heads: 3,
        d_head: 8,
        n_layers: 1,
        context: 12,
        causal: false,
        grid: Some(Grid {
            rows: 3,
            cols: 4,
            class_token,
        }),
        layers_without_attention: Vec::new(),
        layers_sharing_parameters: Vec::new(),
        dropout: 0.0,
    }
}

fn whole(positions: usize) -> Span {
    Span {
        queries: positions,
        keys: positions,
        offset: 0,
    }
}

#[test]
fn axial_rotation_is_timm_s() {
    let (oracle, device) = (Oracle::open("axial"), Device::flex());
    let scheme = Rotary2d::new(&Rotary2dConfig::default(), &shape(true));
    let rotation = scheme.prepare(whole(13), &device).rotation.unwrap();
    let query: Tensor<4> = tensor(&oracle.array("query"), &device);
    let ours = kernel::rotary(query, rotation.cos, rotation.sin, rotation.interleaved);
    let off = difference(&values(ours), &oracle.array("rotated").values);
    assert!(off < 1e-6, "off by {off:e}");
}

#[test]
fn biases_of_a_grid_are_beit_s_and_swin_s() {
    let (oracle, device) = (Oracle::open("axial"), Device::flex());
    for (name, class_token) in [("beit", true), ("swin", false)] {
        let init = Init::new(&device, 1, InitConfig::default(), 2, 1.0);
        let scheme = name_parameters(RelativeBias2d::new(&shape(class_token), &init));
        let file = tempfile::NamedTempFile::new().unwrap();
        let table = oracle.array(&format!("{name}.table"));
        write_weights(file.path(), &[("table".to_string(), table)].into());
        let scheme = load_weights(scheme, file.path()).unwrap();
        let span = whole(12 + usize::from(class_token));
        let ScoreBias::Dense(bias) = scheme.prepare(span, &device).score_bias else {
            panic!("a bias for each pair");
        };
        let theirs = oracle.array(&format!("{name}.bias")).values;
        assert!(values(bias) == theirs, "{name}");
    }
}

/// TensorFlow's formula, computed by hand.
#[test]
fn same_pads_behind() {
    assert_eq!(Padding::Same.pair(224, 7, 2), (2, 3));
    assert_eq!(Padding::Same.pair(225, 7, 2), (3, 3));
    assert_eq!(Padding::Same.pair(112, 3, 2), (0, 1));
    assert_eq!(Padding::Same.pair(56, 3, 1), (1, 1));
    assert_eq!(Padding::Same.pair(56, 1, 2), (0, 0));
    assert_eq!(Padding::Symmetric.pair(112, 3, 2), (1, 1));
}

/// Weight standardisation, group norm, SAME padding at even and odd sizes, and the transformer on top: hidden states, and
/// gradients of every parameter.
#[test]
fn the_hybrid_is_timm_s() {
    let (oracle, device) = (Oracle::open("hybrid"), Device::flex().autodiff());
    let config: VisionConfig = serde_json::from_value(json!({
        "n_layers": 1,
        "d_model": 24,
        "norm": { "kind": "layer", "eps": 1e-6 },
        "attention": { "kind": "multi_head", "n_heads": 4 },
        "feed_forward": { "kind": "dense", "activation": "gelu", "d_ff": 48 },
        "stem": {
            "kind": "resnet", "blocks": "bottleneck", "stages": [1, 2], "width": 8, "stem": "large",
            "padding": "same", "norm": { "kind": "group", "groups": 4 }, "standardized": true,
        },
    }))
    .unwrap();
    let inputs = BuildContext {
        shape: &Shape::default(),
        seed: 1,
        device: &device,
    };
    let model = name_parameters(config.init([3, 30, 37], &inputs));
    let file = tempfile::NamedTempFile::new().unwrap();
    write_weights(
        file.path(),
        &oracle.arrays(|name| name.strip_prefix("weight.")),
    );
    let model = load_weights(model, file.path()).unwrap();
    let hidden = model.forward(
        tensor(&oracle.array("pixels"), &device),
        &Pass::evaluation(),
    );
    let off = difference(&values(hidden.clone()), &oracle.array("hidden").values);
    assert!(off < TOLERANCE, "hidden states are off by {off:e}");
    let cotangent: Tensor<3> = tensor(&oracle.array("cotangent"), &device);
    let loss = (hidden * cotangent).sum();
    let gradients = loss.backward();
    let found = collect(&model, Some(&gradients));
    let theirs = oracle.arrays(|name| name.strip_prefix("grad."));
    assert!(found.keys().eq(theirs.keys()), "other gradients");
    for (name, gradient) in &theirs {
        let off = difference(&found[name].values, &gradient.values);
        assert!(
            off < 10.0 * TOLERANCE,
            "gradient of {name} is off by {off:e}"
        );
    }
}
