//! Segment recurrence (Dai et al. 2019): segments with a memory that covers everything equal one long pass, the receptive field
//! is as long as layers and memory make it, and decoding continues from memory at constant cost.

mod commands;
mod decoding;
mod goldens;
mod steps;

use crate::contracts::{ids, near};
use crate::oracle::values;
use burn::tensor::{Device, Tensor};
use formwork::data::Shape;
use formwork::model::decoder::{Decoder, DecoderConfig, DecoderInput};
use formwork::model::{BuildContext, LanguageModel};
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::position::{self, PositionConfig};
use formwork::nn::state::{LayerState, StateUse};
use formwork::nn::vocabulary::TokenVectors;
use formwork::stack::ModelState;
use formwork::train::parameters::{materialize, name_parameters};

const VOCAB: usize = 11;
const WIDTH: usize = 16;

/// Builds the config of a small decoder in which these TOML keys replace others.
fn config(keys: &str) -> DecoderConfig {
    let mut table: toml::Table = toml::from_str(
        "n_layers = 2\nd_model = 16\nposition = { kind = \"rotary\" }\ninit = { kind = \"xavier\" }\n",
    )
    .unwrap();
    let keys: toml::Table = toml::from_str(keys).unwrap();
    if keys.contains_key("layers") {
        table.remove("n_layers");
    }
    table.extend(keys);
    table.try_into().unwrap()
}

fn built_on(config: &DecoderConfig, device: &Device) -> Decoder {
    materialize(name_parameters(config.init(&BuildContext {
        shape: &Shape::of_text(64, VOCAB),
        seed: 5,
        device,
    })))
}

fn built(config: &DecoderConfig) -> Decoder {
    built_on(config, &Device::flex())
}

fn remembering(keys: &str) -> String {
    format!("attention = {{ kind = \"multi_head\", n_heads = 4, {keys} }}")
}

fn tokens(count: usize) -> Vec<i32> {
    (0..count as i32)
        .map(|i| (i * i + 3 * i + i / 7) % VOCAB as i32)
        .collect()
}

/// Returns the logits of a part of a text; the state's position count is reset, as between training steps.
fn segment(model: &Decoder, part: &[i32], state: &mut ModelState, pass: &Pass) -> Vec<f32> {
    let hidden = model.forward(DecoderInput::new(ids(part, 1)), Some(state), pass);
    state.seen = 0;
    values(model.logits(hidden))
}

/// Returns the logits of a text that is read in segments of these lengths.
fn in_segments(model: &Decoder, tokens: &[i32], lengths: impl Iterator<Item = usize>) -> Vec<f32> {
    let mut state = model.empty_state(StateUse::Segments);
    let (mut all, mut from) = (Vec::new(), 0);
    for length in lengths {
        if from == tokens.len() {
            break;
        }
        let part = &tokens[from..tokens.len().min(from + length)];
        all.extend(segment(model, part, &mut state, &Pass::evaluation()));
        from += part.len();
    }
    all
}

fn of(length: usize) -> impl Iterator<Item = usize> {
    std::iter::repeat(length)
}

fn at_once(model: &Decoder, tokens: &[i32]) -> Vec<f32> {
    let hidden = model.forward(DecoderInput::new(ids(tokens, 1)), None, &Pass::evaluation());
    values(model.logits(hidden))
}

/// Position schemes for texts that distinguish earlier segments from the current one.
fn schemes() -> Vec<&'static str> {
    let relative = |kind: &&'static str| {
        let config = serde_json::json!({ "kind": kind });
        let config: PositionConfig = serde_json::from_value(config).unwrap();
        !config.facts().encodes_absolute_position() && config.facts().text_counterpart().is_none()
    };
    let all = position::KINDS.iter().map(|kind| kind.kind);
    all.filter(relative).collect()
}

#[test]
fn segments_whose_memory_covers_all_are_one_long_pass() {
    let tokens = tokens(22);
    let schemes = schemes();
    assert!(schemes.len() >= 4, "{schemes:?}");
    for kind in schemes {
        for more in [
            "",
            "norm_placement = \"post\"",
            "norm_placement = \"sandwich\"",
            "norm_placement = \"parallel\"",
            "norm_placement = \"deepnorm\"",
        ] {
            let keys = remembering("n_kv_heads = 2, memory = 21");
            let keys = format!("{keys}\nposition = {{ kind = \"{kind}\" }}\n{more}");
            let model = built(&config(&keys));
            let whole = at_once(&model, &tokens);
            for length in [4, 7] {
                let found = in_segments(&model, &tokens, of(length));
                near(&found, &whole, &format!("{kind}, {more}, {length}"));
            }
            let short = keys.replace("memory = 21", "memory = 2");
            let short = in_segments(&built(&config(&short)), &tokens, of(4));
            assert_ne!(short[8 * VOCAB..], whole[8 * VOCAB..], "{kind}");
        }
    }
}

#[test]
fn windows_and_cells_read_on_too() {
    let tokens = tokens(23);
    let window = "kind = \"sliding_window\", n_heads = 4, window = 5";
    for keys in [
        format!("attention = {{ {window}, memory = 4 }}"),
        format!("attention = {{ {window}, dilation = [1, 2, 1, 1], memory = 8 }}"),
        format!(
            "[[layers]]\nattention = {{ {window}, memory = 4 }}\n[[layers]]\nmixer = {{ kind = \"gru\" }}\n[[layers]]\n\
             attention = {{ kind = \"multi_head\", n_heads = 4, memory = 30 }}\nfeed_forward = {{ kind = \"dense\" }}"
        ),
    ] {
        let model = built(&config(&keys));
        let whole = at_once(&model, &tokens);
        for length in [3, 6] {
            near(&in_segments(&model, &tokens, of(length)), &whole, &keys);
        }
    }
}

#[test]
fn a_memory_of_no_positions_is_none() {
    let tokens = tokens(12);
    let plain = built(&config(&remembering("bias = true")));
    let without = built(&config(&remembering(
        "memory = 0, memory_at_evaluation = 6",
    )));
    let pass = || {
        Pass::training(Draws {
            seed: 1,
            step: 0,
            first_row: 0,
        })
    };
    let mut state = without.empty_state(StateUse::Segments);
    let mut seen = plain.empty_state(StateUse::Segments);
    assert!(state.has_state() && !seen.has_state());
    for part in tokens.chunks(4) {
        let found = segment(&without, part, &mut state, &pass());
        assert_eq!(found, segment(&plain, part, &mut seen, &pass()));
    }
    let evaluated = in_segments(&without, &tokens, of(4));
    assert_ne!(evaluated, in_segments(&plain, &tokens, of(4)));
    let long = built(&config(&remembering("memory = 6")));
    assert_eq!(evaluated, in_segments(&long, &tokens, of(4)));
}

/// The first token that the last segment depends on: each layer reaches into the memory of the segment before.
fn first_seen(layers: usize, start: usize, length: usize, memory: usize) -> usize {
    let mut first = start;
    for _ in 0..layers {
        first = first / length * length - memory;
    }
    first
}

#[test]
fn the_receptive_field_is_layers_times_memory() {
    const LENGTH: usize = 4;
    for (layers, memory) in [(2, 8), (3, 8), (2, 4), (2, 3), (3, 5)] {
        let keys = format!(
            "{}\nn_layers = {layers}",
            remembering(&format!("memory = {memory}"))
        );
        let model = built(&config(&keys));
        let tokens = tokens(48);
        let start = tokens.len() - LENGTH;
        let last =
            |tokens: &[i32]| in_segments(&model, tokens, of(LENGTH))[start * VOCAB..].to_vec();
        let first = first_seen(layers, start, LENGTH, memory);
        if memory % LENGTH == 0 {
            assert_eq!(first, start - layers * memory);
        }
        let before = last(&tokens);
        for at in 0..start {
            let mut changed = tokens.clone();
            changed[at] = (changed[at] + 1) % VOCAB as i32;
            let same = last(&changed) == before;
            assert_eq!(
                same,
                at < first,
                "{layers} layers of {memory}, token {at} of {first}"
            );
        }
    }
}

/// Every query sees `memory` keys: a single layer reaches `memory - 1` positions back from any query.
#[test]
fn same_length_lets_every_query_see_as_many_keys() {
    let keys = format!(
        "{}\nn_layers = 1",
        remembering("memory = 5, same_length = true")
    );
    let model = built(&config(&keys));
    let tokens = tokens(24);
    let before = in_segments(&model, &tokens, of(4));
    // The division into segments does not matter, as the keys form a window.
    near(
        &in_segments(&model, &tokens, of(3)),
        &before,
        "segments of 3",
    );
    near(&at_once(&model, &tokens), &before, "one segment");
    let mut changed = tokens.clone();
    changed[9] = (changed[9] + 1) % VOCAB as i32;
    let after = in_segments(&model, &changed, of(4));
    for at in 0..tokens.len() {
        let same = before[at * VOCAB..(at + 1) * VOCAB] == after[at * VOCAB..(at + 1) * VOCAB];
        assert_eq!(same, !(9..9 + 5).contains(&at), "position {at}");
    }
}

/// The first layer keeps the stream that it read, without gradients and at most as long as its memory.
#[test]
fn the_newest_states_are_kept() {
    let model = built_on(
        &config(&remembering("memory = 6")),
        &Device::flex().autodiff(),
    );
    let mut state = model.empty_state(StateUse::Segments);
    let tokens = tokens(12);
    for (part, kept) in tokens.chunks(4).zip([4, 6, 6]) {
        let device = Device::flex().autodiff();
        let part: Tensor<2, burn::tensor::Int> = ids(part, 1).to_device(&device);
        let pass = Pass::evaluation();
        drop(model.forward(DecoderInput::new(part), Some(&mut state), &pass));
        state.seen = 0;
        let LayerState::Segment(earlier) = &state.layers[0].own else {
            panic!("it remembers")
        };
        assert_eq!(
            (earlier.positions(), earlier.current_text_lengths.as_slice()),
            (kept, &[kept][..])
        );
        assert!(!earlier.states.as_ref().unwrap().is_require_grad());
    }
    let LayerState::Segment(earlier) = &state.layers[0].own else {
        unreachable!()
    };
    let TokenVectors::Full(embedding) = &model.embedding else {
        unreachable!("one table")
    };
    let table = values(embedding.weight.val());
    let wanted = tokens[6..].iter().flat_map(|token| {
        let from = *token as usize * WIDTH;
        table[from..from + WIDTH].to_vec()
    });
    let found = values(earlier.states.clone().unwrap());
    assert_eq!(found, wanted.collect::<Vec<f32>>());
}
