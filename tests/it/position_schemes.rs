//! Contracts of relative position vectors: no dependence on absolute positions, decoding equals one pass, the future is hidden,
//! every parameter is used, vectors are dropped once per step, and faults of their keys are reported.

use crate::batches;
use crate::binary;
use crate::contracts::{ids, near};
use crate::oracle::{difference, values};
use crate::transfer::gradients_of;
use burn::tensor::Device;
use burn::train::TrainStep;
use formwork::data::Shape;
use formwork::kernel::{Documents, Visibility};
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel, ModelConfig};
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::position::Span;
use formwork::nn::state::StateUse;
use formwork::plan::{PlanRequest, plan};
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use formwork::train::parameters::{self, name_parameters};
use serde_json::{Value, json};

const VOCAB: usize = 17;
const WIDTH: usize = 16;

/// Relative position schemes for texts.
fn relative() -> [Value; 5] {
    [
        json!({ "kind": "shaw", "clip": 5 }),
        json!({ "kind": "shaw", "clip": 3, "content_bias": true, "distance_bias": true, "shared_heads": false }),
        json!({ "kind": "transformer_xl" }),
        json!({ "kind": "transformer_xl", "untie_r": true, "clamp_len": 6 }),
        json!({ "kind": "disentangled", "max_distance": 9, "buckets": 4 }),
    ]
}

fn config(position: &Value, attention: &Value) -> DecoderConfig {
    let config = json!({
        "n_layers": 2, "d_model": WIDTH, "position": position, "attention": attention, "dropout": 0.2,
        "init": { "kind": "gpt2", "std": 0.4 },
    });
    serde_json::from_value(config).unwrap()
}

fn decoder(position: &Value, attention: &Value) -> Decoder {
    config(position, attention).init(&BuildContext {
        shape: &Shape::of_text(64, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

fn heads() -> Value {
    json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 })
}

fn tokens(n: usize) -> Vec<i32> {
    let token = |i: usize| ((i * 7 + i / 3 + i * i % 5) % VOCAB) as i32;
    (0..n).map(token).collect()
}

fn hidden(model: &Decoder, tokens: &[i32], documents: Option<&[i32]>) -> Vec<f32> {
    let input = DecoderInput {
        visible: Visibility {
            documents: documents.map(|d| Documents::new(d, tokens.len())),
            ..Visibility::causal()
        },
        ..DecoderInput::new(ids(tokens, 1))
    };
    values(model.forward(input, None, &Pass::evaluation()))
}

/// A text has the same outputs wherever it stands in a row; with absolute positions it has not.
#[test]
fn relative_schemes_do_not_see_absolute_shifts() {
    let text = tokens(12);
    let shifted = |model: &Decoder, shift: usize| {
        let row: Vec<i32> = tokens(shift).into_iter().chain(text.clone()).collect();
        let documents: Vec<i32> = (0..row.len()).map(|i| i32::from(i >= shift)).collect();
        hidden(model, &row, Some(&documents))[shift * WIDTH..].to_vec()
    };
    for position in relative() {
        let model = decoder(&position, &heads());
        let alone = hidden(&model, &text, None);
        for shift in [1, 4, 13] {
            near(&shifted(&model, shift), &alone, &position.to_string());
        }
    }
    let absolute = decoder(&json!({ "kind": "learned" }), &heads());
    let off = difference(&shifted(&absolute, 4), &hidden(&absolute, &text, None));
    assert!(off > 1e-2, "{off:e}");
}

/// Token by token and in chunks, over all keys and over a window that drops keys.
#[test]
fn decoding_is_one_pass_and_the_future_is_hidden() {
    let windows = json!({ "kind": "sliding_window", "n_heads": 4, "n_kv_heads": 2, "window": 7 });
    let tokens = tokens(40);
    for (position, attention) in relative()
        .iter()
        .flat_map(|p| [(p.clone(), heads()), (p.clone(), windows.clone())])
    {
        let model = decoder(&position, &attention);
        let whole = hidden(&model, &tokens, None);
        let mut state = model.empty_state(StateUse::Decoding);
        let mut at = 0;
        for chunk in [11, 1, 1, 6].into_iter().chain([1; 21]) {
            let input = DecoderInput::new(ids(&tokens[at..at + chunk], 1));
            let part = model.forward(input, Some(&mut state), &Pass::evaluation());
            let wanted = &whole[at * WIDTH..(at + chunk) * WIDTH];
            near(&values(part), wanted, &format!("{position} at {at}"));
            at += chunk;
        }
        assert_eq!(at, 40);
        let mut changed = tokens.clone();
        changed[25] = (changed[25] + 1) % VOCAB as i32;
        let after = hidden(&model, &changed, None);
        near(&after[..25 * WIDTH], &whole[..25 * WIDTH], "the future");
        assert!(after[25 * WIDTH..] != whole[25 * WIDTH..]);
    }
}

/// Distances affect scores: with the vectors set to zero, a model gives other values.
#[test]
fn distances_have_an_effect() {
    let tokens = tokens(20);
    let bare = hidden(
        &decoder(&json!({ "kind": "none" }), &heads()),
        &tokens,
        None,
    );
    for position in relative() {
        let off = difference(&hidden(&decoder(&position, &heads()), &tokens, None), &bare);
        assert!(off > 1e-3, "{position}: {off:e}");
    }
}

/// A layer with a recurrent cell has no relative position vectors: every parameter is used.
#[test]
fn layers_without_attention_have_no_parameters_of_distances() {
    let kinds = ["shaw", "transformer_xl", "disentangled"];
    for (kind, per_layer) in kinds.iter().zip([2, 1, 3]) {
        let config = json!({
            "d_model": WIDTH, "position": { "kind": kind }, "layers": [
                { "mixer": { "kind": "gru" } }, { "attention": { "kind": "multi_head", "n_heads": 2 } },
            ],
        });
        let config: DecoderConfig = serde_json::from_value(config).unwrap();
        let device = Device::flex().autodiff();
        let model = config.init(&BuildContext {
            shape: &Shape::of_text(16, VOCAB),
            seed: 5,
            device: &device,
        });
        let task = CausalLm::new(model, &CausalLmConfig::default(), 11, false);
        let task = parameters::materialize(name_parameters(Objective(task)));
        let inputs = tokens(32);
        let targets: Vec<i32> = inputs.iter().map(|i| (i + 1) % VOCAB as i32).collect();
        let step = TrainStep::step(&task, batches::of_texts(&inputs, &targets, 2).into());
        let gradients = gradients_of(&task, &step.grads);
        let of_position = |path: &&String| path.contains("position.");
        let in_second = |path: &&String| path.contains("position.") && path.contains(".1");
        assert_eq!(
            gradients.keys().filter(in_second).count(),
            per_layer,
            "{kind}"
        );
        for path in gradients.keys().filter(of_position) {
            let norm: f32 = gradients[path].values.iter().map(|x| x * x).sum();
            assert!(norm > 0.0, "{kind}: {path} has no gradient");
        }
    }
}

/// Training and evaluation may clamp distances differently.
#[test]
fn evaluation_clamps_distances_of_its_own() {
    let rows = |keys: Value, pass: &Pass| {
        let mut position = json!({ "kind": "transformer_xl" });
        position
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let model = decoder(&position, &heads());
        let scheme = model.position.scheme();
        let vectors = scheme.vectors(Span::full(20), &Device::flex(), pass);
        vectors.unwrap().dims()[0]
    };
    let of = |keys: Value| {
        [Pass::training(Draws::default()), Pass::evaluation()].map(|p| rows(keys.clone(), &p))
    };
    assert_eq!(of(json!({})), [20, 20]);
    assert_eq!(of(json!({ "clamp_len": 7 })), [8, 8]);
    assert_eq!(of(json!({ "clamp_len_at_evaluation": 7 })), [20, 8]);
    let both = json!({ "clamp_len": 4, "clamp_len_at_evaluation": 9 });
    assert_eq!(of(both), [5, 10]);
}

/// A plan counts the relative position vectors and their projections in each layer, once for all rows of a batch.
#[test]
fn plans_count_what_positions_keep() {
    let activations = |position: Value, rows: usize| {
        let model = ModelConfig::Decoder(config(&position, &heads()));
        let shape = Shape::of_text(64, VOCAB);
        let question = PlanRequest {
            micro_batch_size: rows,
            ..PlanRequest::of(&model, &shape)
        };
        plan(&question, &Device::flex()).unwrap().memory_bytes["activations"]
    };
    let more = |position: Value, rows: usize| {
        activations(position, rows) - activations(json!({ "kind": "none" }), rows)
    };
    let width = WIDTH as u64;
    let (xl, deberta) = (
        json!({ "kind": "transformer_xl" }),
        json!({ "kind": "disentangled", "max_distance": 10 }),
    );
    for rows in [1, 5] {
        assert_eq!(more(xl.clone(), rows), 4 * 64 * (width + 2 * width));
        assert_eq!(
            more(deberta.clone(), rows),
            4 * 10 * (width + 2 * 2 * width)
        );
    }
}

/// Relative position vectors are dropped alike for all rows and micro-batches of a step, and differently in another step.
#[test]
fn vectors_of_distances_are_dropped_once_a_step() {
    let model = decoder(&json!({ "kind": "transformer_xl" }), &heads());
    let vectors = |step: u64, first_row: u64| {
        let pass = Pass::training(Draws {
            seed: 1,
            step,
            first_row,
        });
        let span = Span::full(9);
        let scheme = model.position.scheme();
        values(scheme.vectors(span, &Device::flex(), &pass).unwrap())
    };
    assert_eq!(vectors(3, 0), vectors(3, 5));
    assert_ne!(vectors(3, 0), vectors(4, 0));
    assert!(vectors(3, 0).iter().filter(|x| **x == 0.0).count() > 9 * WIDTH / 10);
}

#[test]
fn faults_of_their_keys() {
    for (keys, said) in [
        ("kind = \"shaw\", clip = 0", "clip = 0 is not between 1 and"),
        (
            "kind = \"transformer_xl\", clamp_len = 0",
            "clamp_len = 0 is not between 1 and",
        ),
        (
            "kind = \"transformer_xl\", clamp_len = 9, clamp_len_at_evaluation = 9",
            "clamp_len_at_evaluation has no effect: it equals clamp_len; remove it",
        ),
        (
            "kind = \"disentangled\", terms = []",
            "terms accepts \"c2p\", \"p2c\" or both, each once; for neither, use kind = \"none\"",
        ),
        (
            "kind = \"disentangled\", terms = [\"c2p\", \"c2p\"]",
            "terms accepts \"c2p\"",
        ),
        (
            "kind = \"disentangled\", terms = [\"p2p\"]",
            "terms: \"p2p\" is not known; did you mean `c2p`?",
        ),
        (
            "kind = \"disentangled\", max_distance = 4, buckets = 8",
            "buckets = 8 must be at least 2, and its half must be less than max_distance − 1 = 3",
        ),
        (
            "kind = \"disentangled\", norm = { kind = \"layer\", eps = 0.0 }",
            "eps = 0.0 must be above 0",
        ),
        (
            "kind = \"axial\", axial_shape = [2, 2]",
            "axial_shape = [2, 2] has 4 positions, fewer than the context of",
        ),
        (
            "kind = \"axial\", axial_widths = [3, 4]",
            "axial_widths = [3, 4] sum to 7, not to d_model =",
        ),
        (
            "kind = \"learned_2d\"",
            "kind = \"learned_2d\" is for images, but a decoder reads sequences of tokens: use \"learned\"",
        ),
    ] {
        let set = format!("model.position={{ {keys} }}");
        let (status, text) =
            binary::failure(&["check", "experiments/quickstart.toml", "--set", &set]);
        assert!(status == 2 && text.contains(said), "{keys}: {text}");
    }
}
