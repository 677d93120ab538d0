//! Sliding-window attention as a layer: it equals multi-head attention if the window holds every key, keys outside the window
//! have no effect, decoding keeps only the window's keys, and faults of its keys are reported.

use crate::binary;
use crate::contracts::{ids, near};
use burn::tensor::{Device, Tensor};
use formwork::data::Shape;
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig};
use formwork::nn::attention::{AttentionConfig, LayerCache};
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::stack::StackConfig;
use serde_json::json;

const VOCAB: usize = 17;

fn model(attention: serde_json::Value) -> Decoder {
    let attention: AttentionConfig = serde_json::from_value(attention).unwrap();
    let config = DecoderConfig {
        n_layers: Some(1),
        stack: StackConfig {
            d_model: 16,
            attention,
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    config.init(&BuildContext {
        shape: &Shape::of_text(300, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

fn hidden(model: &Decoder, tokens: &[i32]) -> Vec<f32> {
    let input = DecoderInput::new(ids(tokens, 1));
    let hidden: Tensor<3> = model.forward(input, None, &Pass::evaluation());
    hidden.into_data().iter::<f32>().collect()
}

fn tokens(n: usize) -> Vec<i32> {
    (0..n as i32)
        .map(|i| (i * 7 + i / 3) % VOCAB as i32)
        .collect()
}

#[test]
fn a_window_of_everything_is_multi_head_attention() {
    let tokens = tokens(200);
    let all = model(json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 }));
    let heads = json!({ "kind": "sliding_window", "n_heads": 4, "n_kv_heads": 2, "window": 200 });
    near(
        &hidden(&model(heads), &tokens),
        &hidden(&all, &tokens),
        "window of 200",
    );
}

#[test]
fn tokens_outside_of_the_window_change_nothing() {
    let model = model(json!({
        "kind": "sliding_window", "n_heads": 4, "window": 20, "dilation": [1, 1, 2, 3]
    }));
    let mut tokens = tokens(200);
    let before = hidden(&model, &tokens);
    tokens[100] += 1;
    let after = hidden(&model, &tokens);
    let of = |all: &[f32], at: usize| all[at * 16..(at + 1) * 16].to_vec();
    // The head with the widest window sees 19 keys before its own, at a dilation of 3.
    for at in (0..100).chain(100 + 19 * 3 + 1..200) {
        assert_eq!(of(&before, at), of(&after, at), "position {at}");
    }
    assert_ne!(of(&before, 157), of(&after, 157));
    assert_eq!(
        of(&before, 156),
        of(&after, 156),
        "between two keys of the widest head"
    );
}

#[test]
fn decoding_keeps_the_keys_of_the_window_alone() {
    let model = model(json!({ "kind": "sliding_window", "n_heads": 4, "window": 9 }));
    let tokens = tokens(250);
    let whole = hidden(&model, &tokens);
    let mut state = model.empty_state(StateUse::Decoding);
    let mut read = |range: std::ops::Range<usize>| {
        let input = DecoderInput::new(ids(&tokens[range.clone()], 1));
        let hidden = model.forward(input, Some(&mut state), &Pass::evaluation());
        let hidden: Vec<f32> = hidden.into_data().iter::<f32>().collect();
        near(&hidden, &whole[range.start * 16..range.end * 16], "cached");
        let Some(cache) = state.layers[0].own.decoding_state::<LayerCache>() else {
            panic!("decoding keeps keys and values")
        };
        cache.capacity()
    };
    read(0..100);
    for at in 100..250 {
        let room = read(at..at + 1);
        assert!(room <= 2 * 8 + 16, "room for {room} tokens");
    }
}

#[test]
fn faults_of_its_keys() {
    for (keys, said) in [
        ("window = 0", "window = 0 is not between 1 and"),
        (
            "dilation = [1, 2]",
            "dilation has 2 numbers; it needs one for each of n_heads = 4",
        ),
        (
            "dilation = [1, 2, 0, 1]",
            "dilation = 0 of a head is not between 1 and",
        ),
        (
            "dilation = [1, 1, 1, 1]",
            "dilation has no effect: 1 is the default of all heads",
        ),
        (
            "window = 1, dilation = [1, 2, 1, 1]",
            "window = 1 contains only the position itself",
        ),
        ("windows = 3", "`windows`"),
    ] {
        let set = format!("model.attention={{ kind = \"sliding_window\", n_heads = 4, {keys} }}");
        let (status, text) =
            binary::failure(&["check", "experiments/quickstart.toml", "--set", &set]);
        assert!(status == 2 && text.contains(said), "{keys}: {text}");
    }
}
