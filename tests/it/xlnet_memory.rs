//! XLNet's memory: consecutive segments against transformers' class with its `mems` (`tests/goldens/make_xlnet.py`), and runs
//! whose rows continue from step to step.

use crate::binary::{output, shipped};
use crate::diagnostics::{judged, says};
use crate::oracle::{Oracle, values};
use crate::transfer::{Against, gradients_of, lengths, opened};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use formwork::data::batch::TextBatch;
use formwork::interop::read_hf;
use formwork::model::ModelConfig;
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::pass::Pass;
use formwork::nn::state::LayerState;
use formwork::task::permuted_lm::order::FactorizationOrder;
use formwork::task::{Task, TaskConfig};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Largest difference, relative to the largest value of the oracle's tensor.
const TOLERANCE: f64 = 1e-5;

/// Reads a segment of the oracle, and the order of its tokens.
fn segment(oracle: &Oracle, number: usize) -> (TextBatch, FactorizationOrder) {
    let read = |name: &str| oracle.integers(&format!("{number}.{name}"));
    let (shape, inputs) = read("input_ids");
    let texts = TextBatch {
        inputs,
        targets: read("labels").1,
        segments: Some(read("token_type_ids").1),
        lengths: Some(lengths(oracle, &format!("{number}.attention_mask"))),
        cols: shape[1],
        ..TextBatch::default()
    };
    let ranks = read("ranks").1.into_iter().map(|rank| rank as u32);
    (texts, FactorizationOrder::new(ranks.collect(), shape[1]))
}

/// Losses, memories and gradients over three segments; the last one drops the oldest positions of its memory.
#[test]
fn segments_have_the_losses_memories_and_gradients_of_transformers() {
    let oracle = Oracle::open("xlnet_mems");
    let mut hf = read_hf(&shipped("tests/fixtures/hf/xlnet_1"), &[]).unwrap();
    let ModelConfig::Encoder(config) = &mut hf.shape.model else {
        panic!("an encoder")
    };
    config.stack.attention = AttentionConfig::MultiHead(MultiHeadConfig {
        memory: 15,
        ..config.stack.attention.heads()
    });
    let TaskConfig::PermutedLm(config) = &mut hf.shape.task else {
        panic!("tokens in an order")
    };
    config.reuse_len = Some(10);
    let task = opened(&hf);
    let network = task.networks().permuted_lm.unwrap();
    let mut against = Against::new("xlnet_mems", &oracle, TOLERANCE);
    let mut state = network.empty_state().unwrap();
    let mut all: Option<Tensor<1>> = None;
    for number in 0..3 {
        let (texts, order) = segment(&oracle, number);
        let scored = texts.targets.iter().filter(|target| **target >= 0).count();
        let loss = network.loss(&texts, &order, &Pass::evaluation(), Some(&mut state));
        let loss = loss.sum / scored as f64;
        against.check(&format!("{number}.loss"), &values(loss.clone()));
        for (layer, kept) in state.layers.iter().enumerate() {
            let LayerState::Segment(earlier) = &kept.own else {
                panic!("segments are remembered")
            };
            let states = earlier.states.clone().unwrap();
            against.check(&format!("mems.{number}.{layer}"), &values(states));
        }
        all = Some(match all {
            Some(before) => before + loss,
            None => loss,
        });
    }
    let loss = all.unwrap();
    against.check("loss", &values(loss.clone()));
    let gradients = GradientsParams::from_grads(loss.backward(), &task);
    against.check_gradients(&gradients_of(&task, &gradients), &hf.table());
}

const EXPERIMENT: &str = r#"
name = "xlnet"
seed = 3
[model]
kind = "encoder"
n_layers = 2
d_model = 16
norm_placement = "post"
segments = 0
head_transform = false
position = { kind = "transformer_xl", untie_r = true, segments = 3 }
attention = { kind = "multi_head", n_heads = 2, bias = false, memory = 20 }
feed_forward = { kind = "dense", activation = "gelu", d_ff = 32 }
dropout = 0.1
[tokenizer]
kind = "byte"
[data]
kind = "text"
path = "text.txt"
valid_fraction = 0.2
context = 16
[task]
kind = "permuted_lm"
[optimizer]
kind = "adamw"
lr = 1e-2
[schedule]
kind = "constant"
[train]
steps = 6
batch_size = 4
micro_batch_size = 2
carry_state = true
eval_every = 3
checkpoint_every = 3
keep_last = 4
"#;

fn train(folder: &Path, run: &str, sets: &[&str]) -> String {
    let file = folder.join("xlnet.toml");
    fs::write(&file, EXPERIMENT).unwrap();
    let text = "the cat sat on the mat and saw the dog\n".repeat(60);
    fs::write(folder.join("text.txt"), text).unwrap();
    let [file, run] = [file, folder.join(run)].map(|path| path.display().to_string());
    let mut arguments = vec!["train", &file, "--quiet", "--run", &run];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
    run
}

/// Reads the bytes of the last step's weights.
fn weights(run: &str) -> Vec<u8> {
    fs::read(Path::new(run).join("steps/00000006/model.safetensors")).unwrap()
}

fn loss(arguments: &[&str]) -> f64 {
    let scores: Value = serde_json::from_str(output(arguments).trim()).unwrap();
    scores["loss"].as_f64().unwrap()
}

#[test]
fn rows_continue_over_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let whole = train(at, "whole", &[]);
    let part = train(at, "part", &["train.steps=3"]);
    output(&["resume", &part, "--quiet", "--set", "train.steps=6"]);
    assert!(weights(&part) == weights(&whole));
    // The memory has an effect.
    let carried = loss(&["eval", &whole, "--json"]);
    let shorter = loss(&["eval", &whole, "--memory", "1", "--json"]);
    assert!((carried - shorter).abs() > 1e-6, "{carried} {shorter}");
    // A recomputed pass, and larger micro-batches, give the same loss.
    let recomputed = train(at, "recomputed", &["train.recompute=true"]);
    let recomputed = loss(&["eval", &recomputed, "--json"]);
    assert!(
        (recomputed / carried - 1.0).abs() < 1e-3,
        "{recomputed} {carried}"
    );
    let together = train(at, "together", &["train.micro_batch_size=4"]);
    let together = loss(&["eval", &together, "--json"]);
    assert!(
        (together / carried - 1.0).abs() < 1e-3,
        "{together} {carried}"
    );
    // The carried state is not part of an exported folder.
    let out = at.join("out").display().to_string();
    output(&["export", &whole, &out]);
    let config = fs::read(Path::new(&out).join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["model_type"], "xlnet");
    assert_eq!(config["mem_len"], 20);
    let again = at.join("again").display().to_string();
    output(&["import", &out, &again]);
}

#[test]
fn a_memory_stands_where_rows_continue() {
    let text = |attention: &str, task: &str, train: &str| {
        format!(
            "name = \"x\"\n[model]\nkind = \"encoder\"\nd_model = 16\nposition = \"transformer_xl\"\nattention = {{ kind = \
             \"multi_head\", n_heads = 2, {attention} }}\n[task]\n{task}\n[data]\nkind = \"text\"\npath = \"Cargo.toml\"\n\
             context = 16\n[tokenizer]\nkind = \"byte\"\n[optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\n\
             batch_size = 1\n{train}"
        )
    };
    let (order, carried) = ("kind = \"permuted_lm\"", "carry_state = true\n");
    judged(&text("memory = 4", order, carried), &[]).unwrap();
    let reused = "kind = \"permuted_lm\"\nreuse_len = 8";
    judged(&text("memory = 4", reused, carried), &[]).unwrap();
    for (attention, task, train, rule) in [
        (
            "memory = 4",
            order,
            "",
            "memory has no effect: the rows of a step do not continue",
        ),
        (
            "memory = 4",
            "kind = \"masked_lm\"",
            carried,
            "memory has no effect: the stack reads both ways",
        ),
        (
            "memory = 4",
            "kind = \"permuted_lm\"\npairs = \"next_sentence\"",
            carried,
            "memory has no effect with pairs",
        ),
        (
            "memory = 4, same_length = true",
            order,
            carried,
            "same_length counts the keys before a query, but this stack reads both ways",
        ),
        (
            "memory = 0",
            reused,
            "",
            "reuse_len has no effect without a memory",
        ),
        (
            "memory = 4",
            "kind = \"permuted_lm\"\nreuse_len = 17",
            carried,
            "reuse_len = 17 is longer than the rows of data.context = 16",
        ),
    ] {
        says(&text(attention, task, train), rule);
    }
}
