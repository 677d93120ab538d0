//! Linear attention and Performer as layers: against performer-pytorch's layer with its weights, decoding with a state of
//! constant size, sums over a memory, random features redrawn in training, dense attention in the limit, and faults of their
//! keys.

use crate::binary;
use crate::contracts::{ids, near};
use crate::oracle::Oracle;
use burn::module::Param;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::attention::featured::Featured;
use formwork::nn::attention::performer::PerformerConfig;
use formwork::nn::attention::{AttentionConfig, AttentionShape, Visibility};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::{Layer, LayerContext};
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::state::{LayerState, StateUse};
use formwork::stack::StackConfig;
use serde_json::{Value, json};

const VOCAB: usize = 17;
const WIDTH: usize = 16;

/// A decoder whose queries and keys are large enough to make attention far from uniform.
fn model(attention: &Value, position: Value) -> Decoder {
    let attention: AttentionConfig = serde_json::from_value(attention.clone()).unwrap();
    let config = DecoderConfig {
        n_layers: Some(2),
        stack: StackConfig {
            d_model: WIDTH,
            attention,
            position: serde_json::from_value(position).unwrap(),
            init: serde_json::from_value(json!({ "kind": "xavier" })).unwrap(),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    config.init(&BuildContext {
        shape: &Shape::of_text(400, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

fn tokens(n: usize) -> Vec<i32> {
    (0..n as i32)
        .map(|i| (i * 7 + i / 3) % VOCAB as i32)
        .collect()
}

fn numbers<const D: usize>(x: &Tensor<D>) -> Vec<f32> {
    x.to_data().iter::<f32>().collect()
}

fn hidden(model: &Decoder, tokens: &[i32], pass: &Pass) -> Vec<f32> {
    let input = DecoderInput::new(ids(tokens, 1));
    numbers(&model.forward(input, None, pass))
}

/// The pass of training step `step`.
fn training(step: u64) -> Pass {
    Pass::training(Draws {
        seed: 3,
        step,
        first_row: 0,
    })
}

fn tensor<const D: usize>(oracle: &Oracle, name: &str, device: &Device) -> Tensor<D> {
    let array = oracle.array(name);
    let shape: [usize; D] = array.shape.try_into().unwrap();
    Tensor::from_data(TensorData::new(array.values, shape), device)
}

#[test]
fn the_layer_of_performer_pytorch() {
    let oracle = Oracle::open("performer");
    let device = Device::flex().autodiff();
    let config: PerformerConfig = serde_json::from_value(json!({
        "n_heads": 3, "d_head": 8, "bias": false, "out_bias": true, "features": 16
    }))
    .unwrap();
    let init = Init::new(&device, 0, InitConfig::default(), 1, 1.0);
    let layer = config.init(&AttentionShape::standalone(24, 12), &init);
    let mut layer = layer.with_random_vectors(oracle.array("layer.projection").values);
    let weight = |name: &str| {
        let weight = tensor::<2>(&oracle, &format!("layer.{name}.weight"), &device);
        Param::from_tensor(weight.require_grad())
    };
    layer.heads.query.weight = weight("to_q");
    layer.heads.key.weight = weight("to_k");
    layer.heads.value.weight = weight("to_v");
    layer.heads.output.weight = weight("to_out");
    let bias = tensor::<1>(&oracle, "layer.to_out.bias", &device).require_grad();
    layer.heads.output.bias = Some(Param::from_tensor(bias));
    let x = tensor::<3>(&oracle, "layer.input", &device).require_grad();
    let pass = Pass::evaluation();
    let y = layer.forward(x.clone(), &mut LayerContext::standalone(12, &pass));
    let close = |name: &str, found: &[f32]| {
        let wanted = oracle.array(name).values;
        let largest = wanted.iter().fold(0f32, |m, x| m.max(x.abs()));
        for (a, b) in found.iter().zip(&wanted) {
            assert!((a - b).abs() <= 1e-4 * largest, "{name}: {a} against {b}");
        }
    };
    close("layer.out", &numbers(&y));
    let arriving = tensor::<3>(&oracle, "layer.weight", &device);
    let grads = (y * arriving).sum().backward();
    close("layer.grad.input", &numbers(&x.grad(&grads).unwrap()));
    for (name, linear) in [
        ("to_q", &layer.heads.query),
        ("to_k", &layer.heads.key),
        ("to_v", &layer.heads.value),
        ("to_out", &layer.heads.output),
    ] {
        let found = linear.weight.val().grad(&grads).unwrap();
        close(&format!("layer.grad.{name}.weight"), &numbers(&found));
    }
}

fn kinds() -> [Value; 3] {
    [
        json!({ "kind": "linear", "n_heads": 4, "n_kv_heads": 2, "qk_norm": { "kind": "rms" } }),
        json!({ "kind": "performer", "n_heads": 4, "features": 12, "scale": 0.3 }),
        json!({ "kind": "performer", "n_heads": 2, "features": 20, "kernel": "relu" }),
    ]
}

/// Returns the number of values in each layer's state of decoding.
fn kept(states: &[formwork::stack::state::BlockState]) -> Vec<usize> {
    let each = states.iter().map(|block| match &block.own {
        LayerState::Recurrent(vectors) => vectors.iter().map(|x| x.dims()[1]).sum(),
        other => panic!("decoding keeps sums, not {other:?}"),
    });
    each.collect()
}

#[test]
fn decoding_keeps_sums_of_one_size() {
    for kind in kinds() {
        let model = model(&kind, json!({ "kind": "sinusoidal" }));
        let tokens = tokens(260);
        let whole = hidden(&model, &tokens, &Pass::evaluation());
        let mut state = model.empty_state(StateUse::Decoding);
        let mut sizes = Vec::new();
        let mut first = 0;
        for len in [100, 1, 1, 1, 40, 3].into_iter().chain([1; 114]) {
            let input = DecoderInput::new(ids(&tokens[first..first + len], 1));
            let found = model.forward(input, Some(&mut state), &Pass::evaluation());
            let wanted = &whole[first * WIDTH..(first + len) * WIDTH];
            near(&numbers(&found), wanted, &format!("{kind} at {first}"));
            sizes.push(kept(&state.layers));
            first += len;
        }
        assert_eq!(first, tokens.len());
        assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    }
}

/// The state's sums follow their rows through reordering, selection and concatenation.
#[test]
fn sums_follow_their_rows() {
    for kind in kinds() {
        let model = model(&kind, json!({ "kind": "none" }));
        let read = |tokens: &[i32], rows: usize, state: &mut _| {
            let input = DecoderInput::new(ids(tokens, rows));
            numbers(&model.forward(input, Some(state), &Pass::evaluation()))
        };
        let mut state = model.empty_state(StateUse::Decoding);
        read(&tokens(30), 3, &mut state);
        let next = [4, 5, 6];
        let after = read(&next, 3, &mut state.clone());
        let of = |row: usize| &after[row * WIDTH..(row + 1) * WIDTH];
        let mut turned = state.clone();
        let order = Tensor::<1, Int>::from_data([2, 0, 0], &Device::flex());
        turned.select(&order);
        let found = read(&[6, 4, 4], 3, &mut turned);
        near(&found, &[of(2), of(0), of(0)].concat(), "selected");
        let parts = vec![state.rows(1..3), state.rows(0..1)];
        let mut joined = formwork::stack::ModelState::concat(parts).unwrap();
        joined.detach();
        let found = read(&[5, 6, 4], 3, &mut joined);
        near(&found, &[of(1), of(2), of(0)].concat(), "joined");
    }
}

fn layer(kind: &Value, seed: u64) -> Featured {
    let device = Device::flex();
    let init = Init::new(&device, seed, InitConfig::default(), 1, 1.0);
    let shape = AttentionShape::standalone(WIDTH, 64);
    match serde_json::from_value(kind.clone()).unwrap() {
        AttentionConfig::Linear(c) => c.init(&shape, &init),
        AttentionConfig::Performer(c) => c.init(&shape, &init),
        other => panic!("{} has no features", other.kind()),
    }
}

/// Cross-attention keeps the sums over its memory, which are computed once.
#[test]
fn a_memory_is_summed_once() {
    for kind in kinds() {
        let layer = layer(&kind, 1);
        let random = |rows: usize, seed: u64| {
            let mut stream =
                formwork::rng::Stream::new(seed, formwork::rng::Purpose::Split, (0, 0, 0));
            let numbers: Vec<f32> = (0..2 * rows * WIDTH).map(|_| stream.normal()).collect();
            Tensor::<3>::from_data(TensorData::new(numbers, [2, rows, WIDTH]), &Device::flex())
        };
        let (x, memory) = (random(5, 1), random(30, 2));
        let visible = Visibility::from_lengths(&[30, 11]);
        let pass = Pass::evaluation();
        let read = |x: Tensor<3>, memory: &Tensor<3>, state: Option<&mut LayerState>| {
            let mut cx = LayerContext {
                visible: &visible,
                memory: Some(memory),
                state,
                ..LayerContext::standalone(30, &pass)
            };
            cx.span.queries = x.dims()[1];
            layer.forward(x, &mut cx)
        };
        let whole = read(x.clone(), &memory, None);
        let mut state = layer.empty_state(StateUse::Decoding);
        // Values beyond a row's length, and another memory in later calls, change nothing.
        let behind = memory.clone().slice_assign(
            [1..2, 11..30, 0..WIDTH],
            memory.clone().slice([1..2, 11..30, 0..WIDTH]) * 2.0,
        );
        near(
            &numbers(&read(x.clone(), &behind, Some(&mut state))),
            &numbers(&whole),
            "lengths",
        );
        let again = read(x, &(memory * 0.0), Some(&mut state));
        near(&numbers(&again), &numbers(&whole), "kept");
    }
}

#[test]
fn features_are_functions_of_the_step() {
    let kind = |redraw: usize| json!({ "kind": "performer", "n_heads": 4, "features": 6, "redraw": redraw });
    let none = json!({ "kind": "none" });
    let tokens = tokens(40);
    let built = model(&kind(5), none.clone());
    let at = |step: u64| hidden(&built, &tokens, &training(step));
    let first = at(0);
    assert_eq!(first, at(4), "the first five steps have one draw");
    assert_ne!(first, at(5));
    assert_eq!(at(7), at(5), "a resumed run draws as the first one did");
    assert_eq!(first, at(0), "and goes back");
    let other = model(&kind(5), none.clone());
    assert_eq!(at(11), hidden(&other, &tokens, &training(11)));
    let evaluated = hidden(&built, &tokens, &Pass::evaluation());
    assert_eq!(first, evaluated, "evaluation has the first draw");
    let fixed = model(&kind(0), none);
    let of = |step: u64| hidden(&fixed, &tokens, &training(step));
    assert_eq!(of(0), of(1_000_000));
    assert_eq!(of(0), first);
}

/// With many features, Performer approaches dense attention with the same weights, also with rotary positions.
#[test]
fn many_features_are_dense_attention() {
    for position in [json!({ "kind": "none" }), json!({ "kind": "rotary" })] {
        let tokens = tokens(60);
        let hidden = |keys: Value| {
            hidden(
                &model(&keys, position.clone()),
                &tokens,
                &Pass::evaluation(),
            )
        };
        let dense = hidden(json!({ "kind": "multi_head", "n_heads": 4, "scale": 0.05 }));
        let away = |features: usize| {
            let performer = hidden(json!({
                "kind": "performer", "n_heads": 4, "scale": 0.05, "features": features, "eps": 0.0
            }));
            let squares = performer
                .iter()
                .zip(&dense)
                .map(|(a, b)| f64::from(a - b).powi(2));
            let size: f64 = dense.iter().map(|x| f64::from(*x).powi(2)).sum();
            (squares.sum::<f64>() / size).sqrt()
        };
        let [few, many] = [4, 16_384].map(away);
        assert!(
            many < 5e-3 && many < few / 20.0,
            "{position}: {few}, {many}"
        );
    }
}

#[test]
fn faults_of_their_keys() {
    for (keys, said) in [
        (
            "kind = \"linear\", scale = 0.5",
            "scale = 0.5 has no effect on kind = \"linear\"",
        ),
        ("kind = \"linear\", softcap = 5.0", "computes no scores"),
        ("kind = \"performer\", softcap = 5.0", "computes no scores"),
        (
            "kind = \"performer\", features = 0",
            "features = 0 is not between 1 and",
        ),
        (
            "kind = \"performer\", eps = -1.0",
            "eps = -1.0 must be 0 or more",
        ),
        ("kind = \"performer\", kernel = \"cosine\"", "cosine"),
        (
            "kind = \"performer\", memory = 8",
            "cannot attend to earlier segments",
        ),
        ("kind = \"linear\", features = 8", "features"),
    ] {
        let set = format!("model.attention={{ n_heads = 4, {keys} }}");
        let (status, text) =
            binary::failure(&["check", "experiments/quickstart.toml", "--set", &set]);
        assert!(status == 2 && text.contains(said), "{keys}: {text}");
    }
    for (set, said) in [
        (
            "model.dropout_attention=0.1",
            "computes no weights of queries and keys",
        ),
        (
            "model.position={ kind = \"alibi\" }",
            "cannot be used with attention of kind = \"linear\"",
        ),
        (
            "model.position={ kind = \"rotary\" }",
            "cannot be used with attention of kind = \"linear\"",
        ),
    ] {
        let linear = "model.attention={ kind = \"linear\", n_heads = 4 }";
        let arguments = [
            "check",
            "experiments/quickstart.toml",
            "--set",
            linear,
            "--set",
            set,
        ];
        let (status, text) = binary::failure(&arguments);
        assert!(status == 2 && text.contains(said), "{set}: {text}");
    }
}
