//! Contracts of recurrent networks with every cell: the future is hidden, documents in a row do not affect each other, a state
//! carried between calls gives the result of one call, and cells work as mixers in layer groups of a decoder.

use crate::contracts::{ids, near};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::generate::TextGenerator;
use formwork::kernel::{Documents, Visibility};
use formwork::model::decoder::DecoderInput;
use formwork::model::{
    BuildContext, DecoderConfig, LanguageModel, ModelConfig, RecurrentModelConfig,
};
use formwork::nn::pass::Pass;
use formwork::nn::recurrent::{self, mixer};
use formwork::nn::state::{LayerState, StateUse};
use formwork::stack::ModelState;
use formwork::train::parameters::{self, materialize, name_parameters};

const VOCAB: usize = 13;
const COLS: usize = 8;

fn inputs<T>(build: impl FnOnce(&BuildContext) -> T) -> T {
    let shape = Shape::of_text(COLS, VOCAB);
    let device = Device::flex().autodiff();
    build(&BuildContext {
        shape: &shape,
        seed: 3,
        device: &device,
    })
}

/// Recurrent language models, and decoders whose layers are cells, or cells and attention in turn.
fn models() -> Vec<(String, Box<dyn LanguageModel>)> {
    let mut all: Vec<(String, Box<dyn LanguageModel>)> = Vec::new();
    for kind in recurrent::KINDS {
        let kind = kind.kind;
        let text = format!(
            "n_layers = 2\nd_model = 10\ntie_embeddings = false\ncell = {{ kind = \"{kind}\" }}"
        );
        let config: RecurrentModelConfig = toml::from_str(&text).unwrap();
        all.push((kind.into(), Box::new(inputs(|i| config.language_model(i)))));
    }
    for kind in mixer::KINDS.iter().filter(|kind| kind.kind != "fourier") {
        let kind = kind.kind;
        let attention = "attention = { kind = \"multi_head\", n_heads = 2 }";
        for (name, second) in [("alone", ""), ("with attention", attention)] {
            let second = match second {
                "" => String::new(),
                second => format!("[[layers]]\n{second}\nfeed_forward = {{ kind = \"dense\" }}"),
            };
            let text = format!(
                "d_model = 8\nposition = {{ kind = \"none\" }}\n[[layers]]\nrepeat = 2\nmixer = {{ kind = \"{kind}\" }}\n{}{second}",
                feed_forward(kind)
            );
            let config: DecoderConfig = toml::from_str(&text).unwrap();
            let name = format!("mixer {kind} {name}");
            all.push((name, Box::new(inputs(|i| config.init(i)))));
        }
    }
    all
}

/// The feed-forward layer that a mixer's paper combines it with, if it has its own.
fn feed_forward(kind: &str) -> &'static str {
    match kind {
        "rwkv" => "feed_forward = { kind = \"rwkv\", d_ff = 12 }\n",
        "rwkv7" => "feed_forward = { kind = \"rwkv7\", d_ff = 12 }\n",
        _ => "",
    }
}

fn tokens() -> Vec<i32> {
    (0..2 * COLS as i32).map(|i| i * i % VOCAB as i32).collect()
}

fn logits(model: &dyn LanguageModel, input: DecoderInput) -> Vec<f32> {
    let hidden = model.forward(input, None, &Pass::evaluation());
    crate::oracle::values(model.vocabulary_head().logits(hidden))
}

fn part(values: &[f32], row: usize, from: usize, to: usize) -> &[f32] {
    &values[(row * COLS + from) * VOCAB..(row * COLS + to) * VOCAB]
}

#[test]
fn the_future_is_hidden_and_rows_are_apart() {
    for (name, model) in models() {
        let model = model.as_ref();
        let before = logits(model, DecoderInput::new(ids(&tokens(), 2)));
        let mut changed = tokens();
        changed[5] = (changed[5] + 1) % VOCAB as i32;
        let after = logits(model, DecoderInput::new(ids(&changed, 2)));
        near(part(&after, 0, 0, 5), part(&before, 0, 0, 5), &name);
        near(part(&after, 1, 0, COLS), part(&before, 1, 0, COLS), &name);
        assert_ne!(
            part(&after, 0, 5, COLS),
            part(&before, 0, 5, COLS),
            "{name}"
        );
    }
}

#[test]
fn a_state_carried_between_calls_gives_what_one_call_gives() {
    for (name, model) in models() {
        let model = model.as_ref();
        let whole = logits(model, DecoderInput::new(ids(&tokens(), 2)));
        for step in [1, 3] {
            let mut state = model.empty_state(StateUse::Decoding);
            for from in (0..COLS).step_by(step) {
                let to = (from + step).min(COLS);
                let row = |row: usize| tokens()[row * COLS + from..row * COLS + to].to_vec();
                let input = DecoderInput::new(ids(&[row(0), row(1)].concat(), 2));
                let hidden = model.forward(input, Some(&mut state), &Pass::evaluation());
                let found = crate::oracle::values(model.vocabulary_head().logits(hidden));
                let len = (to - from) * VOCAB;
                for row in 0..2 {
                    let ours = &found[row * len..(row + 1) * len];
                    near(
                        ours,
                        part(&whole, row, from, to),
                        &format!("{name} by {step}"),
                    );
                }
            }
            assert_eq!(state.seen, COLS, "{name}");
        }
    }
}

/// A text is continued beyond the context from its state alone: the logits are those of one pass over all of it.
#[test]
fn texts_are_read_on_past_the_context() {
    for (name, model) in models() {
        let model = model.as_ref();
        assert_eq!(
            model.has_bounded_state(),
            !name.contains("attention"),
            "{name}"
        );
        if !model.has_bounded_state() {
            continue;
        }
        let text: Vec<u32> = (0..5 * COLS as u32).map(|i| i * i % VOCAB as u32).collect();
        let mut generator = TextGenerator::new(model, COLS, &[&text[..3]]).unwrap();
        text[3..].iter().for_each(|token| generator.push(&[*token]));
        let all: Vec<i32> = text.iter().map(|token| *token as i32).collect();
        let whole = logits(model, DecoderInput::new(ids(&all, 1)));
        let last = &whole[(text.len() - 1) * VOCAB..];
        near(generator.logits(0), last, &name);
    }
}

/// A row whose state was emptied reads like a row that never began, bit for bit; the other row continues.
#[test]
fn an_emptied_row_is_a_new_one() {
    for (name, model) in models() {
        let model = model.as_ref();
        let read = |state: &mut ModelState| {
            let input = DecoderInput::new(ids(&tokens(), 2));
            crate::oracle::values(model.forward(input, Some(state), &Pass::evaluation()))
        };
        let mut state = model.empty_state(StateUse::Segments);
        let fresh = read(&mut state);
        state.reset(&[false, true]);
        state.seen = 0;
        let again = read(&mut state);
        let half = fresh.len() / 2;
        assert_eq!(again[..half], fresh[..half], "{name}");
        let goes_on = again[half..] != fresh[half..];
        assert!(goes_on || name.contains("attention"), "{name}");
    }
}

/// A checkpoint's carried state is checked against the widths of the config.
#[test]
fn states_have_the_widths_that_a_config_says() {
    for kind in mixer::KINDS.iter().filter(|kind| kind.kind != "fourier") {
        let kind = kind.kind;
        let keys = match kind {
            "mamba" => ", d_conv = 3, d_state = 5, expand = 3",
            "mamba2" => ", d_conv = 3, d_state = 5, d_head = 6, n_groups = 2, expand = 3",
            "gated_delta" => ", d_conv = 3, n_heads = 6, n_key_heads = 2, d_key = 5, d_value = 3",
            "retention" => ", n_heads = 2, d_key = 4, d_value = 3",
            "rwkv" => ", width = 6",
            "rwkv7" => ", d_head = 4",
            _ => "",
        };
        let text = format!(
            "d_model = 8\nposition = {{ kind = \"none\" }}\n[[layers]]\nmixer = {{ kind = \"{kind}\"{keys} }}\n{}",
            feed_forward(kind)
        );
        let config: DecoderConfig = toml::from_str(&text).unwrap();
        let model = inputs(|i| config.init(i));
        let mut state = model.empty_state(StateUse::Segments);
        let input = DecoderInput::new(ids(&tokens(), 2));
        model.forward(input, Some(&mut state), &Pass::evaluation());
        let widths = |layer: &LayerState| match layer {
            LayerState::Recurrent(vectors) => vectors.iter().map(|x| x.dims()[1]).collect(),
            _ => Vec::new(),
        };
        let found = state.layers.iter();
        let found = found.map(|block| [widths(&block.own), widths(&block.feed_forward)]);
        let found: Vec<[Vec<usize>; 2]> = found.collect();
        let wanted = ModelConfig::Decoder(config).carried_widths();
        assert_eq!((wanted.d_model, wanted.blocks), (8, found), "{kind}");
    }
}

#[test]
fn documents_of_a_row_are_apart() {
    for (name, model) in models() {
        let model = model.as_ref();
        let numbers: Vec<i32> = (0..2 * COLS).map(|i| i32::from(i % COLS >= 5)).collect();
        let visible = Visibility {
            documents: Some(Documents::new(&numbers, COLS)),
            ..Visibility::causal()
        };
        let input = |tokens: &[i32]| DecoderInput {
            visible: visible.clone(),
            ..DecoderInput::new(ids(tokens, 2))
        };
        let packed = logits(model, input(&tokens()));
        let second: Vec<i32> = [&tokens()[5..COLS], &tokens()[COLS + 5..]].concat();
        let alone = logits(model, DecoderInput::new(ids(&second, 2)));
        let len = (COLS - 5) * VOCAB;
        for row in 0..2 {
            let alone = &alone[row * len..(row + 1) * len];
            near(part(&packed, row, 5, COLS), alone, &name);
        }
    }
}

#[test]
fn every_parameter_gets_a_gradient() {
    for kind in recurrent::KINDS {
        let text = format!(
            "n_layers = 2\nd_model = 10\ntie_embeddings = false\ncell = {{ kind = \"{}\" }}",
            kind.kind
        );
        let config: RecurrentModelConfig = toml::from_str(&text).unwrap();
        let model = materialize(name_parameters(inputs(|i| config.language_model(i))));
        let input = DecoderInput::new(ids(&tokens(), 2));
        let hidden = LanguageModel::forward(&model, input, None, &Pass::evaluation());
        let loss = LanguageModel::vocabulary_head(&model)
            .logits(hidden)
            .powi_scalar(2)
            .sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        assert_eq!(
            gradients.len(),
            parameters::list(&model).len(),
            "{}",
            kind.kind
        );
        assert!(model.num_params() > 0);
    }
}
