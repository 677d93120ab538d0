//! LSH attention against Hugging Face's Reformer (`tests/goldens/make_lsh.py`): buckets, outputs, gradients; its determinism,
//! and the contracts that it keeps although sorting depends on later tokens.

use crate::oracle::{Oracle, difference, hf_folder, values, write_weights};
use crate::oracle::{decoder_of, decoder_table};
use crate::transfer::gradients_of;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::interop::read_hf;
use formwork::kernel::{self, Visibility};
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::nn::attention::lsh::{HashRotations, Lsh, LshConfig};
use formwork::nn::attention::{Attention, AttentionConfig, AttentionShape};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::{Layer, LayerContext};
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::record::RecordSelection;
use formwork::nn::state::StateUse;
use formwork::rng::{Purpose, Stream};
use formwork::train::checkpoint::load_weights;
use formwork::train::parameters::name_parameters;
use serde_json::Value;
use std::sync::Arc;

/// Largest difference, relative to the largest value.
const TOLERANCE: f64 = 1e-4;

fn shape(config: &Value) -> AttentionShape {
    AttentionShape {
        causal: config["causal"].as_bool().unwrap(),
        ..AttentionShape::standalone(12, 64)
    }
}

fn factors(config: &Value) -> Vec<usize> {
    let factors = config["factors"].as_array().unwrap().iter();
    factors.map(|n| n.as_u64().unwrap() as usize).collect()
}

/// Reads the oracle's rotations as `[heads, rounds, columns, d_head]`.
fn rotations(oracle: &Oracle, case: &str, factors: &[usize]) -> HashRotations {
    let theirs = oracle.array(&format!("{case}.rotations"));
    let [heads, d_head, rounds, columns] = theirs.shape[..] else {
        panic!("four dimensions")
    };
    let data = TensorData::new(theirs.values, [heads, d_head, rounds, columns]);
    let ours = Tensor::<4>::from_data(data, &Device::flex()).permute([0, 2, 3, 1]);
    HashRotations::from_values(values(ours), [heads, rounds], factors)
}

fn tensor<const D: usize>(oracle: &Oracle, name: &str, device: &Device) -> Tensor<D> {
    let array = oracle.array(name);
    Tensor::from_data(TensorData::new(array.values, array.shape), device)
}

#[test]
fn it_is_hf_s_reformer() {
    let (oracle, device) = (Oracle::open("lsh"), Device::flex().autodiff());
    let configs: Value = serde_json::from_str(&oracle.config()).unwrap();
    for (case, config) in configs.as_object().unwrap() {
        let keys: LshConfig = match serde_json::from_value(config["attention"].clone()).unwrap() {
            AttentionConfig::Lsh(config) => config,
            other => panic!("{}", other.kind()),
        };
        let factors = factors(config);
        let init = Init::new(&device, 1, InitConfig::default(), 2, 1.0);
        let layer = name_parameters(keys.init(&shape(config), &init));
        let weights = oracle.arrays(|name| name.strip_prefix(&format!("{case}.weight.")));
        let file = tempfile::NamedTempFile::new().unwrap();
        write_weights(file.path(), &weights);
        let mut layer: Lsh = load_weights(layer, file.path()).unwrap();
        let rotations = rotations(&oracle, case, &factors);
        layer.set_rotations(rotations.clone());
        let x: Tensor<3> = tensor(&oracle, &format!("{case}.x"), &device);
        let x = x.require_grad();
        let [rows, tokens, _] = x.dims();
        assert_eq!(keys.factors(tokens, 64), factors, "{case}: buckets");
        let (_, lengths) = oracle.integers(&format!("{case}.lengths"));
        let lengths: Vec<usize> = lengths.iter().map(|n| *n as usize).collect();
        if tokens > keys.chunk {
            compare_buckets(
                &oracle,
                case,
                &rotations.buckets(heads_of(&layer, &x)),
                &lengths,
            );
        }
        let visible = Visibility {
            causal: config["causal"].as_bool().unwrap(),
            lengths: Some(lengths.clone().into()),
            ..Visibility::default()
        };
        let pass = Pass::evaluation();
        let mut cx = LayerContext::standalone(tokens, &pass);
        cx.visible = &visible;
        let y = layer.forward(x.clone(), &mut cx);
        let cotangent: Tensor<3> = tensor(&oracle, &format!("{case}.cotangent"), &device);
        let theirs = oracle.array(&format!("{case}.y")).values;
        let mut ours = values(y.clone());
        for (row, length) in lengths.iter().enumerate().take(rows) {
            ours[(row * tokens + length) * 12..(row + 1) * tokens * 12].fill(0.0);
        }
        let off = difference(&ours, &theirs);
        println!("{case}: results are off by {off:.1e}");
        assert!(off < TOLERANCE, "{case}: {off:e}");
        let gradients = (y * cotangent).sum().backward();
        let of_x = values(x.grad(&gradients).unwrap());
        let off = difference(&of_x, &oracle.array(&format!("{case}.grad.x")).values);
        assert!(off < TOLERANCE, "{case}: gradient of x, {off:e}");
        let found = gradients_of(&layer, &GradientsParams::from_grads(gradients, &layer));
        for path in ["query_key.weight", "value.weight", "output.weight"] {
            let theirs = oracle.array(&format!("{case}.grad.{path}"));
            let off = difference(&found[path].values, &theirs.values);
            assert!(off < TOLERANCE, "{case}: gradient of {path}, {off:e}");
        }
    }
}

/// Returns the queries by head.
fn heads_of(layer: &Lsh, x: &Tensor<3>) -> Tensor<4> {
    let [rows, tokens, _] = x.dims();
    let q = layer.query_key.forward(x.clone());
    q.reshape([rows, tokens, 2, 6]).swap_dims(1, 2)
}

/// Compares buckets; the oracle has the padding of the last chunk behind the tokens.
fn compare_buckets(oracle: &Oracle, case: &str, ours: &[u32], lengths: &[usize]) {
    let (dims, theirs) = oracle.integers(&format!("{case}.buckets"));
    let [rows, heads, rounds, padded] = dims[..] else {
        panic!("four dimensions")
    };
    let tokens = ours.len() / (rows * heads * rounds);
    for part in 0..rows * heads * rounds {
        let length = lengths[part / (heads * rounds)];
        let ours = ours[part * tokens..][..length].iter().map(|b| *b as i32);
        let theirs = &theirs[part * padded..][..length];
        assert!(ours.eq(theirs.iter().copied()), "{case}: buckets");
    }
}

fn small(keys: &str) -> Lsh {
    let keys: LshConfig = match serde_json::from_str(keys).unwrap() {
        AttentionConfig::Lsh(config) => config,
        other => panic!("{}", other.kind()),
    };
    let device = Device::flex();
    let init = Init::new(&device, 1, InitConfig::default(), 2, 1.0);
    keys.init(&AttentionShape::standalone(16, 64), &init)
}

fn random(dims: [usize; 3], seed: u64) -> Tensor<3> {
    let mut stream = Stream::new(seed, Purpose::Split, (0, 0, 0));
    let numbers: Vec<f32> = (0..dims.iter().product())
        .map(|_| stream.normal())
        .collect();
    Tensor::from_data(TensorData::new(numbers, dims), &Device::flex())
}

fn result(layer: &Lsh, x: &Tensor<3>, visible: &Visibility, pass: &Pass) -> Vec<f32> {
    let mut cx = LayerContext::standalone(x.dims()[1], pass);
    cx.visible = visible;
    values(layer.forward(x.clone(), &mut cx))
}

const KEYS: &str = r#"{"kind":"lsh","n_heads":4,"rounds":2,"chunk":4}"#;

fn training(step: u64, first_row: u64) -> Pass {
    Pass::training(Draws {
        seed: 3,
        step,
        first_row,
    })
}

/// Rotations are drawn by (seed, step, part), the same for every row and micro-batch; evaluation has fixed ones.
#[test]
fn rotations_are_drawn_by_step_and_shared_by_rows() {
    let (layer, x, all) = (small(KEYS), random([3, 24, 16], 1), Visibility::default());
    let y = |pass: &Pass| result(&layer, &x, &all, pass);
    assert_eq!(y(&training(1, 0)), y(&training(1, 0)));
    assert_ne!(y(&training(1, 0)), y(&training(2, 0)));
    assert_eq!(y(&Pass::evaluation()), y(&Pass::evaluation()));
    let last = result(&layer, &x.clone().narrow(0, 1, 2), &all, &training(1, 1));
    assert!(difference(&y(&training(1, 0))[24 * 16..], &last) < 1e-5);
    let still = small(r#"{"kind":"lsh","n_heads":4,"rounds":2,"chunk":4,"redraw":false}"#);
    let y = |pass: &Pass| result(&still, &x, &all, pass);
    assert_eq!(y(&training(1, 0)), y(&training(2, 0)));
    assert_eq!(y(&training(1, 0)), y(&Pass::evaluation()));
}

/// A later token's key or value never reaches an earlier position: if the sorting order is unchanged, earlier outputs are too.
/// Padding does not count as later tokens: it is sorted behind all of them.
#[test]
fn later_values_are_hidden_and_padding_changes_nothing() {
    let layer = small(KEYS);
    let causal = Visibility::causal();
    let (x, pass) = (random([1, 16, 16], 2), Pass::evaluation());
    let before = result(&layer, &x, &causal, &pass);
    // A longer vector of the same direction has the same hash.
    let longer = x.clone().narrow(1, 11, 1) * 3.0;
    let parts = [
        x.clone().narrow(1, 0, 11),
        longer,
        x.clone().narrow(1, 12, 4),
    ];
    let biasless = small(r#"{"kind":"lsh","n_heads":4,"rounds":2,"chunk":4,"bias":false}"#);
    let scaled = Tensor::cat(parts.to_vec(), 1);
    let [one, two] = [&x, &scaled].map(|x| result(&biasless, x, &causal, &pass));
    assert_eq!(one[..11 * 16], two[..11 * 16]);
    assert_ne!(one[11 * 16..], two[11 * 16..]);
    for causal in [true, false] {
        let of = |x: &Tensor<3>, length: usize| {
            let lengths: Arc<[usize]> = vec![length].into();
            let visible = Visibility {
                causal,
                lengths: Some(lengths),
                ..Visibility::default()
            };
            result(&layer, x, &visible, &pass)[..13 * 16].to_vec()
        };
        let filled = Tensor::cat(vec![x.clone().narrow(1, 0, 13), random([1, 3, 16], 9)], 1);
        assert_eq!(of(&x, 13), of(&filled, 13));
        let alone = of(&x.clone().narrow(1, 0, 13), 13);
        assert!(difference(&of(&x, 13), &alone) < 1e-5);
    }
    assert_eq!(before, result(&layer, &x, &causal, &pass));
}

/// While a text is read token by token, the newest token gets the output of a pass over the whole text.
#[test]
fn the_newest_token_is_that_of_a_whole_pass() {
    let layer = small(KEYS);
    let (x, pass) = (random([2, 19, 16], 4), Pass::evaluation());
    let mut state = layer.empty_state(StateUse::Decoding);
    let mut seen = 0;
    for new in [6, 1, 1, 5, 1, 1, 4] {
        let part = x.clone().narrow(1, seen, new);
        seen += new;
        let causal = Visibility::causal();
        let mut cx = LayerContext::standalone(seen, &pass);
        cx.visible = &causal;
        cx.state = Some(&mut state);
        let y = layer.forward(part, &mut cx);
        let whole = x.clone().narrow(1, 0, seen);
        let whole = result(&layer, &whole, &causal, &pass);
        for row in 0..2 {
            let ours = values(y.clone().narrow(0, row, 1));
            let theirs = &whole[(row * seen + seen - new) * 16..(row + 1) * seen * 16];
            assert!(difference(&ours, theirs) < 1e-5, "{seen}");
        }
    }
}

/// A whole Reformer with Hugging Face's rotations: logits, and the gradients of its reversible layers.
#[test]
fn a_whole_reformer_hashes_as_hf_s_does() {
    let oracle = Oracle::open("reformer_hashed");
    let others = ["input_ids", "logits", "loss", "rotations"];
    let is_weight = |name: &str| !name.starts_with("grad.") && !others.contains(&name);
    let weights = oracle.arrays(|name| is_weight(name).then_some(name));
    let folder = hf_folder(&oracle.config(), &weights);
    let model = read_hf(folder.path(), &[]).unwrap();
    let device = Device::flex().autodiff();
    let mut decoder = decoder_of(&model, &device).unwrap();
    let theirs = oracle.array("rotations");
    let [heads, d_head, rounds, columns] = theirs.shape[..] else {
        panic!("four dimensions")
    };
    let data = TensorData::new(theirs.values, [heads, d_head, rounds, columns]);
    let ours = Tensor::<4>::from_data(data, &Device::flex()).permute([0, 2, 3, 1]);
    let rotations = HashRotations::from_values(values(ours), [heads, rounds], &[2 * columns]);
    let mut hashing = 0;
    for block in &mut decoder.stack.blocks {
        if let Some(Attention::Lsh(layer)) = &mut block.attention {
            layer.set_rotations(rotations.clone());
            hashing += 1;
        }
    }
    assert_eq!(hashing, 2);
    let (shape, ids) = oracle.integers("input_ids");
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, shape), &device);
    let [batch, seq] = ids.dims();
    let hidden = decoder.forward(DecoderInput::new(ids.clone()), None, &Pass::evaluation());
    let logits = decoder.logits(hidden);
    let off = difference(&values(logits.clone()), &oracle.array("logits").values);
    println!("logits are off by {off:.1e}");
    assert!(off < TOLERANCE, "logits, {off:e}");
    let [_, _, vocab] = logits.dims();
    let scored = batch * (seq - 1);
    let logits = logits
        .slice([0..batch, 0..seq - 1])
        .reshape([scored, vocab]);
    let targets = ids.slice([0..batch, 1..seq]).reshape([scored]);
    let loss = kernel::cross_entropy_sum(logits, targets, 0.0) / scored as f64;
    let gradients = GradientsParams::from_grads(loss.backward(), &decoder);
    let mut found = decoder_table(&model).export(&gradients_of(&decoder, &gradients));
    found.remove("lm_head.decoder.bias");
    assert!(found.keys().eq(weights.keys()), "other gradients");
    for name in weights.keys() {
        let theirs = oracle.array(&format!("grad.{name}"));
        let off = difference(&found[name].values, &theirs.values);
        assert!(off < TOLERANCE, "gradient of {name}, {off:e}");
    }
}

/// Recomputation from streams that differ by rounding uses the sorting orders of the first pass.
#[test]
fn orders_of_a_pass_are_taken_again() {
    let (layer, x, all) = (small(KEYS), random([2, 24, 16], 6), Visibility::default());
    let pass = Pass::evaluation();
    let (first, orders) = pass.noting_orders(|| result(&layer, &x, &all, &pass));
    assert_eq!(orders.len(), 1);
    let again = Pass::evaluation().with_orders(orders).for_recomputation();
    assert_eq!(result(&layer, &x, &all, &again), first);
    // Negating every other vector moves it to another bucket.
    let signs: Vec<f32> = (0..24)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let signs = Tensor::<3>::from_data(TensorData::new(signs, [1, 24, 1]), &Device::flex());
    let turned = x * signs;
    let [kept, anew] = [&again, &pass].map(|pass| result(&layer, &turned, &all, pass));
    assert_ne!(kept, anew);
}

/// Recorded weights are those with which values are summed, and entropies are computed from them.
#[test]
fn recorded_weights_make_the_result() {
    let layer = small(r#"{"kind":"lsh","n_heads":4,"rounds":2,"chunk":4,"bias":false}"#);
    let x = random([2, 14, 16], 8);
    let visible = Visibility {
        lengths: Some(vec![14, 11].into()),
        ..Visibility::causal()
    };
    let keep = RecordSelection {
        attentions: true,
        hidden_states: false,
        ..RecordSelection::default()
    };
    let pass = Pass::evaluation().with_record(keep);
    let y = result(&layer, &x, &visible, &pass);
    let recorded = pass.take_recorded();
    let (_, weights) = recorded.attentions.into_iter().next().unwrap();
    let weights = Tensor::<4>::from_data(weights, &Device::flex());
    let v = layer.value.forward(x.clone());
    let v = v.reshape([2, 14, 4, 4]).swap_dims(1, 2);
    let sums = weights.matmul(v).swap_dims(1, 2).reshape([2, 14, 16]);
    let theirs = values(layer.output.forward(sums));
    assert!(difference(&y, &theirs) < 1e-5);
}
