//! The state that a layer keeps while a text is read token by token: its size by the length of the text.

use super::every_kind;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::attention::fixed::Summaries;
use formwork::nn::attention::latent::LatentCache;
use formwork::nn::attention::lsh::HashedKeys;
use formwork::nn::attention::memory_compressed::CompressedState;
use formwork::nn::attention::{AttentionConfig, LayerCache, ReadingDirection};
use formwork::nn::pass::Pass;
use formwork::nn::state::{LayerState, StateUse};
use serde_json::{Value, json};

const VOCAB: usize = 17;

fn decoder(keys: &Value) -> Decoder {
    let config: DecoderConfig = serde_json::from_value(json!({
        "n_layers": 1, "d_model": 16, "position": { "kind": "none" }, "attention": keys,
    }))
    .unwrap();
    config.init(&BuildContext {
        shape: &Shape::of_text(400, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

/// Returns the number of positions a cache has room for, of compressed keys, or of values in a state without either.
fn kept(state: &LayerState) -> usize {
    let numbers = match state {
        LayerState::Recurrent(vectors) => Some(vectors.iter().map(|x| x.dims()[1]).sum()),
        _ => None,
    };
    let room = state.decoding_state().map(LayerCache::capacity);
    let compressed = state.decoding_state().map(CompressedState::keys);
    let hashed = state.decoding_state().map(HashedKeys::len);
    let summaries = state.decoding_state().map(Summaries::keys);
    let latents = state
        .decoding_state()
        .map(|latents: &LatentCache| latents.len() * latents.width());
    let found = [numbers, room, compressed, hashed, summaries, latents];
    let mut found = found.into_iter().flatten();
    found.next().expect("decoding keeps something")
}

/// Returns the sizes of the state after these numbers of tokens.
fn after(model: &Decoder, lengths: [usize; 2]) -> [usize; 2] {
    let mut state = model.empty_state(StateUse::Decoding);
    let mut read = 0;
    lengths.map(|length| {
        for at in read..length {
            let token = TensorData::new(vec![(at * 7 % VOCAB) as i32], [1, 1]);
            let token = Tensor::<2, Int>::from_data(token, &Device::flex());
            let input = DecoderInput::new(token);
            model.forward(input, Some(&mut state), &Pass::evaluation());
        }
        read = length;
        kept(&state.layers[0].own)
    })
}

/// Windows, blocks, spans and sums take constant room, however long the text is. The other kinds keep what a later query may
/// see: a key for each position, or for each block of positions.
#[test]
fn a_state_is_as_large_as_what_later_queries_see() {
    for keys in every_kind() {
        let config: AttentionConfig = serde_json::from_value(keys.clone()).unwrap();
        if config.facts().abilities().reads == ReadingDirection::Bidirectional {
            continue;
        }
        let [short, long] = after(&decoder(&keys), [100, 300]);
        let bounded = |most: usize| {
            assert!(short == long && long <= most, "{keys}: {short} and {long}");
        };
        let number = |key: &str| keys[key].as_u64().map(|n| n as usize);
        match keys["kind"].as_str().unwrap() {
            "sliding_window" => bounded(2 * (number("window").unwrap() - 1) + 16),
            "adaptive_span" => bounded(2 * number("max_span").unwrap() + 16),
            "local" => {
                let blocks = number("look_back").unwrap() + 1;
                bounded(2 * (blocks * number("block").unwrap() - 1) + 16);
            }
            // A sum of values for each feature, and a sum of the features.
            "linear" => bounded(4 * (4 * 4 + 4)),
            "performer" => bounded(4 * (9 * 4 + 9 + 2)),
            "memory_compressed" => {
                let null = usize::from(keys["null_key"] == true);
                let whole = |tokens: usize| tokens / number("factor").unwrap() + null;
                assert_eq!([short, long], [100, 300].map(whole), "{keys}");
            }
            "fixed" => {
                let [stride, summary] = ["stride", "summary"].map(|key| number(key).unwrap());
                let seen = |tokens: usize| tokens / stride * summary + tokens % stride;
                assert_eq!([short, long], [100, 300].map(seen), "{keys}");
            }
            // The latent of each position and its shared key, however many heads there are.
            "latent" => {
                let width = number("kv_rank").unwrap() + number("d_rope").unwrap();
                assert_eq!([short, long], [100 * width, 300 * width], "{keys}");
            }
            // A later query sees all keys, or every stride-th key counted from itself, so each key can become visible again.
            "strided" | "lsh" | "differential" => assert!(short >= 100 && long >= 300, "{keys}"),
            other => panic!("{other} is in no case"),
        }
    }
}
