//! `[train] replay`: recorded and replayed steps give the weights, moments and averages of ordinary steps, bit for bit.

use super::{name, tunes_alone};
use crate::binary::{failure, output};
use crate::ranks::experiments::Files;
use std::path::PathBuf;

const DECODER: &str = r#"name = "lm"
seed = 3
[model]
kind = "decoder"
n_layers = 2
d_model = 32
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 4, n_kv_heads = 2 }
feed_forward = { kind = "gated" }
dropout = 0.1
[data]
kind = "random_tokens"
vocab_size = 40
context = 16
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[schedule]
kind = "cosine"
warmup_steps = 5
[train]
steps = 200
batch_size = 8
micro_batch_size = 4
eval_every = 100
log_every = 30
ema = 0.9
[diagnostics]
every = 90
"#;

fn arguments(files: &Files, device: &str, run: &str, sets: &[&str]) -> Vec<String> {
    let shown = |name: &str| files.path(name).display().to_string();
    let mut all: Vec<String> = ["train", &shown("x.toml"), "--quiet", "--device", device]
        .map(String::from)
        .to_vec();
    all.extend(["--run".into(), shown(run)]);
    for set in sets {
        all.extend(["--set".into(), set.to_string()]);
    }
    all
}

/// Path of a run's last checkpoint.
fn last(files: &Files, run: &str) -> PathBuf {
    let steps = std::fs::read_dir(files.path(run).join("steps")).unwrap();
    steps.map(|entry| entry.unwrap().path()).max().unwrap()
}

/// Reads the tensor files of a run's last checkpoint.
fn numbers(files: &Files, run: &str) -> Vec<(String, Vec<u8>)> {
    let last = last(files, run);
    let named = ["model.safetensors", "optimizer.bpk", "ema.safetensors"];
    let there = named.iter().filter(|name| last.join(name).exists());
    let read = |name: &&str| (name.to_string(), std::fs::read(last.join(name)).unwrap());
    there.map(read).collect()
}

fn same(files: &Files, sets: &[&str]) {
    let Some(device) = name() else { return };
    let _alone = tunes_alone();
    let runs = ["true", "false"].map(|replay| {
        let replay = format!("train.replay={replay}");
        let sets = [sets, &[&replay]].concat();
        output(&arguments(files, &device, &replay, &sets));
        numbers(files, &replay)
    });
    assert!(runs[0].len() >= 2, "weights and moments");
    for ((name, ours), (_, theirs)) in runs[0].iter().zip(&runs[1]) {
        assert!(ours == theirs, "{name}");
    }
}

/// With micro-batches, dropout, a schedule, averaged weights, evaluations and diagnosed steps between replays.
#[test]
fn two_hundred_steps_of_a_decoder() {
    same(&Files::with(DECODER, &[]), &[]);
}

/// Learning rates, schedules of moments and special first steps vary from step to step; gradients are clipped. One optimizer is
/// tested unless `FORMWORK_TEST_KINDS=all`, since each run compiles its kernels.
#[test]
fn steps_of_every_optimizer_that_moves_elements_by_themselves() {
    let mut kinds = vec![
        "ademamix\", lr = 1e-3, slow_warmup = 9",
        "adam\", weight_decay = 0.1, lr = 3e-3",
        "sgd\", lr = 0.1, weight_decay = 1e-3",
        "sgd\", lr = 0.1, momentum = 0.9, nesterov = true",
        "lion\", lr = 3e-4, weight_decay = 0.3",
        "radam\", lr = 3e-3",
        "nadam\", lr = 3e-3, weight_decay = 0.1",
        "adopt\", lr = 3e-3",
    ];
    if std::env::var("FORMWORK_TEST_KINDS").as_deref() != Ok("all") {
        kinds.truncate(1);
    }
    for kind in kinds {
        let optimizer = format!("optimizer={{ kind = \"{kind} }}");
        let sets = [
            optimizer.as_str(),
            "train.steps=14",
            "train.log_every=7",
            "train.eval_every=14",
            "train.clip_norm=0.5",
            "diagnostics.every=14",
        ];
        same(&Files::with(DECODER, &[]), &sets);
    }
}

/// Every text has the same number of masked tokens, at other positions in each step.
#[test]
fn steps_of_a_masked_language_model() {
    let encoder = DECODER
        .replace("\"decoder\"", "\"encoder\"\nsegments = 0")
        .replace("causal_lm", "masked_lm");
    let sets = [
        "train.steps=20",
        "train.log_every=20",
        "train.eval_every=20",
        "diagnostics.every=20",
    ];
    same(&Files::with(&encoder, &[]), &sets);
}

/// A decoder of packed texts with the letter `e` between them: documents, positions and the number of scored tokens differ in
/// each batch.
fn packed(attention: &str) -> Files {
    let text =
        b"to be or not to be, that is the question: whether it is nobler in the mind to suffer "
            .repeat(12);
    let packed = DECODER
        .replace(
            "kind = \"random_tokens\"\nvocab_size = 40",
            "kind = \"text\"\npath = \"t.txt\"\nvalid_fraction = 0.2\nwindows = \"documents\"\nacross_documents = false\n\
             document_separator = \"e\"",
        )
        .replace("[task]", "[tokenizer]\nkind = \"byte\"\nend_of_text = \"<|e|>\"\n[task]")
        .replace("kind = \"multi_head\", n_heads = 4, n_kv_heads = 2", attention);
    Files::with(&packed, &[("t.txt", text)])
}

/// All kinds of layers in [`DECODER`], and some with a window in addition to documents.
#[test]
fn steps_of_packed_documents() {
    let sets = [
        "train.steps=20",
        "train.eval_every=20",
        "train.log_every=7",
        "diagnostics.every=20",
    ];
    for attention in [
        "kind = \"multi_head\", n_heads = 4, n_kv_heads = 2",
        "kind = \"sliding_window\", n_heads = 4, window = 5",
    ] {
        same(&packed(attention), &sets);
    }
}

/// Compares steps of a decoder of one layer that uploads its own values, the same at every step; the layer replaces `old`.
fn same_with(old: &str, layer: &str) {
    assert!(DECODER.contains(old), "{old}");
    same_in_few(
        &DECODER
            .replace("n_layers = 2", "n_layers = 1")
            .replace(old, layer),
    );
}

/// The same with a mixer in place of attention.
fn same_mixed(kind: &str) {
    let layers = format!("[[model.layers]]\nmixer = {{ kind = \"{kind}\" }}\n[data]");
    let decoder = DECODER.replace("n_layers = 2\n", "").replace(LAYER, "");
    same_in_few(&decoder.replace("[data]", &layers));
}

fn same_in_few(decoder: &str) {
    let sets = [
        "train.steps=12",
        "train.log_every=12",
        "train.eval_every=12",
        "diagnostics.every=12",
        "diagnostics.attention_entropy=false",
    ];
    same(&Files::with(decoder, &[]), &sets);
}

const POSITION: &str = "position = { kind = \"rotary\" }\n";
const ATTENTION: &str = "attention = { kind = \"multi_head\", n_heads = 4, n_kv_heads = 2 }\n";
const LAYER: &str = "position = { kind = \"rotary\" }
attention = { kind = \"multi_head\", n_heads = 4, n_kv_heads = 2 }
feed_forward = { kind = \"gated\" }
";

#[test]
fn steps_with_vectors_of_distances() {
    same_with(POSITION, "position = { kind = \"shaw\", clip = 4 }\n");
}

#[test]
fn steps_with_signed_distances() {
    same_with(POSITION, "position = { kind = \"transformer_xl\" }\n");
}

#[test]
fn steps_with_strides() {
    same_with(
        ATTENTION,
        "attention = { kind = \"strided\", n_heads = 4, stride = 4 }\n",
    );
}

#[test]
fn steps_with_summaries() {
    same_with(
        ATTENTION,
        "attention = { kind = \"fixed\", n_heads = 4, stride = 4, summary = 2 }\n",
    );
}

#[test]
fn steps_of_linear_attention() {
    same_with(LAYER, "attention = { kind = \"linear\", n_heads = 4 }\n");
}

#[test]
fn steps_of_mamba() {
    same_mixed("mamba");
}

#[test]
fn steps_of_mamba_2() {
    same_mixed("mamba2");
}

#[test]
fn steps_of_rwkv() {
    same_mixed("rwkv");
}

/// Prefix sums are reset where the host says so, which a recording cannot repeat.
#[test]
fn documents_that_the_host_reads_are_refused() {
    let Some(device) = name() else { return };
    let files = packed("kind = \"linear\", n_heads = 4");
    let sets = [
        "train.replay=true",
        "model.position.kind=\"learned\"",
        "diagnostics.attention_entropy=false",
    ];
    let (status, message) = failure(&arguments(&files, &device, "run", &sets));
    assert_eq!(status, 1, "{message}");
    assert!(
        message.contains("reads the documents of a batch on the host"),
        "{message}"
    );
}

/// Mixed images, whose targets differ in each step.
#[test]
fn steps_of_a_vision_transformer() {
    let sets = ["train.steps=20", "train.log_every=20"];
    same(&Files::images(), &sets);
}

/// A step with a loss that is not finite is noticed late, and the run still ends with the state before it.
#[test]
fn a_step_that_is_bad() {
    let Some(device) = name() else { return };
    let _alone = tunes_alone();
    let files = Files::with(DECODER, &[]);
    // Excessive weight decay triples the weights and flips their signs at each step, on any device, until they overflow after
    // some replayed steps.
    let rate = [
        "optimizer.lr=1e-3",
        "optimizer.weight_decay=4000",
        "schedule.kind=\"constant\"",
        "schedule.warmup_steps=0",
    ];
    let length = [
        "train.steps=30",
        "train.clip_norm=0",
        "diagnostics.every=30",
    ];
    let states = ["true", "false"].map(|replay| {
        let replay = format!("train.replay={replay}");
        let sets = [&rate[..], &length, &[&replay]].concat();
        let (status, message) = failure(&arguments(&files, &device, &replay, &sets));
        assert_eq!(status, 1, "{message}");
        assert!(message.contains("diverged"), "{message}");
        let six = files.path(&replay).join("steps/00000006");
        assert!(
            last(&files, &replay) > six,
            "no step was replayed: {message}"
        );
        numbers(&files, &replay)
    });
    assert!(states[0] == states[1]);
}

/// Pairs differ in length, so their steps have no common shape.
#[test]
fn steps_of_many_shapes_are_refused() {
    let Some(device) = name() else { return };
    let files = Files::translation();
    let (status, message) = failure(&arguments(&files, &device, "run", &["train.replay=true"]));
    assert_eq!(status, 2, "{message}");
    assert!(
        message.contains("supports only steps of one shape"),
        "{message}"
    );
}
