//! Reversible stacks and chunked feed-forward layers: against Hugging Face's Reformer, and against the same formulas with all
//! activations stored.

mod reformer;

use crate::binary::failure;
use crate::oracle::difference;
use crate::recompute::{killed_and_resumed, last_weights, peak};
use crate::sharing;
use crate::transfer::{gradients_of, values_of};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::attention::Visibility;
use formwork::nn::layer::LayerContext;
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::position::{Span, TokenPositions};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

const SEQ: usize = 10;
const VOCAB: usize = 13;

/// Keys of decoders of width 16, for the contract tests.
pub fn configs() -> Vec<(String, Value)> {
    let window = json!({ "kind": "sliding_window", "n_heads": 4, "window": 3 });
    let chunked = json!({ "kind": "gated", "chunk": 4 });
    // Beside a sandwich's normalised outputs, embeddings of 0.02 would lose their last digits in the reconstruction.
    let sandwich = json!({
        "reversible": { "join": "sum" }, "n_layers": 3, "norm_placement": "sandwich", "embedding_norm": true,
        "attention": window,
    });
    let all = [
        json!({ "reversible": {}, "position": { "kind": "relative_bias" } }),
        sandwich,
        json!({ "reversible": { "join": "concatenation" }, "tie_embeddings": false, "position": { "kind": "shaw" } }),
        json!({ "reversible": {}, "n_layers": 4, "share_layers": { "kind": "all" }, "feed_forward": chunked }),
        json!({ "feed_forward": { "kind": "dense", "chunk": 3 } }),
    ];
    let named = |keys: Value| (keys.to_string(), keys);
    all.into_iter().map(named).collect()
}

fn base(keys: &Value) -> DecoderConfig {
    let base = json!({
        "n_layers": 3, "d_model": 16, "attention": { "kind": "multi_head", "n_heads": 2, "bias": false },
        "feed_forward": { "kind": "dense", "d_ff": 32, "activation": "relu" },
        "norm": { "kind": "layer", "eps": 1e-12 }, "tie_embeddings": false, "reversible": { "join": "concatenation" },
    });
    sharing::with(&serde_json::from_value(base).unwrap(), keys)
}

fn inputs<'a>(shape: &'a Shape, device: &'a Device) -> BuildContext<'a> {
    BuildContext {
        shape,
        seed: 5,
        device,
    }
}

fn ids(values: &[i32], rows: usize, device: &Device) -> Tensor<2, Int> {
    let shape = [rows, values.len() / rows];
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

/// Computes the streams by definition, with all activations stored; returns hidden states after the last norm.
fn stored(model: &Decoder, ids: Tensor<2, Int>, pass: &Pass) -> Tensor<3> {
    let [_, seq] = ids.dims();
    let device = Device::flex().autodiff();
    let (position, span) = (model.position.scheme(), Span::full(seq));
    let places = TokenPositions {
        offset: 0,
        ids: None,
        segments: None,
    };
    let x = position.embed(model.embedding.forward(ids), &places);
    let x = pass.dropout(x, "embedding", 0.2);
    let mut prepared = position.prepare(span, &device);
    prepared.vectors = position.vectors(span, &device, pass);
    let visible = Visibility::causal();
    let (mut first, mut second) = (x.clone(), x);
    let shared = model
        .stack
        .blocks
        .iter()
        .any(|block| block.attention.is_none());
    for layer in 0..model.stack.blocks.len() {
        let owner = if shared { 0 } else { layer };
        let block = &model.stack.blocks[owner];
        let cx = || LayerContext {
            layer,
            owner,
            span,
            visible: &visible,
            position,
            prepared: &prepared,
            ..LayerContext::standalone(seq, pass)
        };
        let attention = block.attention.as_ref().unwrap().layer();
        let around = block.attention_residual.as_ref().unwrap();
        let feed_forward = block.feed_forward.as_ref().unwrap().layer();
        let fed = block.feed_forward_residual.as_ref().unwrap();
        let path = 0.3 * layer as f64 / (model.stack.blocks.len() - 1) as f64;
        pass.in_network(format!("blocks.{layer}"), || {
            let added = around.branch_output(second.clone(), "attention", path, pass, |x| {
                attention.forward(x, &mut cx())
            });
            first = first.clone() + added;
            let added = fed.branch_output(first.clone(), "feed_forward", path, pass, |x| {
                feed_forward.forward(x, &mut cx())
            });
            second = second.clone() + added;
        });
    }
    let both = Tensor::cat(vec![first, second], 2);
    model.stack.final_norm.as_ref().unwrap().forward(both)
}

/// With dropout, drop path, auxiliary losses and parameters shared by layers, gradients are those of the definition with all
/// activations stored.
#[test]
fn gradients_are_those_of_the_stored_stack() {
    let device = Device::flex().autodiff();
    let shape = Shape::of_text(SEQ, VOCAB);
    let experts =
        json!({ "kind": "moe", "n_experts": 3, "top_k": 2, "balance_loss": 0.1, "z_loss": 0.1 });
    for keys in [
        json!({ "position": { "kind": "learned" } }),
        json!({ "position": { "kind": "rotary" }, "norm_placement": "sandwich" }),
        json!({ "position": { "kind": "relative_bias" } }),
        json!({ "position": { "kind": "shaw" } }),
        json!({ "position": { "kind": "transformer_xl" } }),
        json!({ "position": { "kind": "disentangled", "max_distance": 3 } }),
        json!({ "share_layers": { "kind": "all" } }),
        json!({ "feed_forward": experts }),
        json!({ "n_layers": 12 }),
    ] {
        let mut config = base(&keys);
        config.stack.dropout = 0.2;
        config.stack.dropout_feed_forward = Some(0.1);
        config.stack.drop_path = 0.3;
        let model = config.init(&inputs(&shape, &device));
        let model = materialize(name_parameters(model));
        let tokens: Vec<i32> = (0..3 * SEQ)
            .map(|i| ((i * 7 + i * i) % VOCAB) as i32)
            .collect();
        let gradients = |reversible: bool| {
            let pass = Pass::training(Draws {
                seed: 3,
                step: 7,
                first_row: 1,
            });
            let tokens = ids(&tokens, 3, &device);
            let hidden = match reversible {
                true => model.forward(DecoderInput::new(tokens), None, &pass),
                false => stored(&model, tokens, &pass),
            };
            let logits = model.logits(hidden);
            let size = logits.dims().iter().product::<usize>() as f32;
            let weights = Tensor::<1, Int>::arange(0..size as i64, &device).float();
            let loss = (logits.clone() * (weights.reshape(logits.dims()) * 0.37).sin()).sum();
            let added = pass.losses().into_iter();
            let loss = added.fold(loss, |loss, added| {
                loss + added.mean * added.coefficient * 50.0
            });
            let value = loss.clone().inner().into_scalar::<f32>();
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            (value, gradients_of(&model, &gradients))
        };
        let ((a, ours), (b, theirs)) = (gradients(true), gradients(false));
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{keys}: {a} against {b}"
        );
        assert!(ours.keys().eq(theirs.keys()) && ours.keys().eq(values_of(&model).keys()));
        for (path, ours) in ours {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-4, "{keys}: {path} is off by {off:e}");
        }
    }
}

#[test]
fn a_run_that_was_killed_ends_as_one_that_was_not() {
    let file = "experiments/smoke/reversible.toml";
    let folder = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| folder.path().join(name));
    crate::binary::output(&[
        "train",
        file,
        "--quiet",
        "--run",
        &whole.display().to_string(),
    ]);
    killed_and_resumed(&killed, file, &[]);
    assert!(last_weights(&whole) == last_weights(&killed));
}

/// Activation memory does not grow with depth: 18 more layers add only their parameters.
#[test]
fn memory_is_flat_in_depth() {
    let sets = &["model.reversible={}"];
    let (few, many) = (peak(6, sets), peak(24, sets));
    println!("6 layers {few:.0} MB, 24 layers {many:.0} MB");
    assert!(many < few + 20.0, "6 layers {few} MB, 24 layers {many} MB");
}

#[test]
fn what_a_reversible_stack_cannot_be_is_refused() {
    for (sets, words) in [
        (
            &["model.norm_placement=\"post\""][..],
            "norm_placement = \"post\" normalises the sums; set it to \"pre\" or \"sandwich\"",
        ),
        (
            &["model.norm_placement=\"parallel\""],
            "norm_placement = \"parallel\" feeds one stream to both layers",
        ),
        (
            &["model.position={ kind = \"learned_per_layer\" }"],
            "position = \"learned_per_layer\" changes one stream before every layer",
        ),
        (
            &["model.reversible.join=\"concatenation\""],
            "join = \"concatenation\" produces hidden states of 64 elements, but the embeddings that score tokens have 32: set \
             tie_embeddings = false, or join = \"mean\"",
        ),
        (
            &["task.intermediate_layers=true"],
            "reversible does not keep the streams between layers",
        ),
        (
            &["model.attention={ kind = \"multi_head\", n_heads = 4, memory = 4 }"],
            "reversible keeps two streams, but memory is for one",
        ),
    ] {
        let mut arguments = vec!["check", "experiments/smoke/tiny.toml", "--set"];
        arguments.push("model.reversible.join=\"mean\"");
        for set in sets {
            arguments.extend(["--set", set]);
        }
        let (status, said) = failure(&arguments);
        assert!(status == 2 && said.contains(words), "{sets:?}: {said}");
    }
    let spans = [
        "check",
        "experiments/smoke/spans.toml",
        "--set",
        "model.reversible={}",
    ];
    let (status, said) = failure(&spans);
    assert!(
        status == 2 && said.contains("also has cross-attention"),
        "{said}"
    );
}
