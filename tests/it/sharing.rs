//! Layers that share parameters: a stack without sharing whose layers have equal weights gives the same outputs, and the
//! gradients of its copies add up to the shared ones.

use crate::batches;
use crate::binary::{failure, output};
use crate::contracts::near;
use crate::transfer::{Arrays, gradients_of, put, values_of};
use burn::tensor::Device;
use formwork::data::batch::{Content, PairBatch};
use formwork::data::{Batch, Shape};
use formwork::interop::weights::Array;
use formwork::model::{BuildContext, DecoderConfig, EncoderDecoderConfig, ModelConfig};
use formwork::plan::{ModelCost, PlanRequest, plan};
use formwork::stack::{ParameterOwners, ShareConfig};
use formwork::task::{AnyTask, Objective, TaskConfig};
use formwork::train::gradients;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const VOCAB: usize = 17;
const SEQ: usize = 8;

/// Keys of decoders of width 16 with shared layers, for the contract tests.
pub fn configs() -> Vec<(String, Value)> {
    let untied = json!({ "kind": "transformer_xl", "untie_r": true });
    let own_norms = json!({
        "share_layers": { "kind": "feed_forward" }, "n_layers": 3, "norm_placement": "parallel",
        "shared_parallel_norm": false,
    });
    let all = [
        json!({ "share_layers": { "kind": "all" }, "n_layers": 3 }),
        json!({ "share_layers": { "kind": "all", "groups": 2, "cycle": 2 }, "n_layers": 8, "norm_placement": "post" }),
        json!({ "share_layers": { "kind": "attention" }, "n_layers": 3, "position": untied }),
        json!({
            "share_layers": { "kind": "attention", "groups": 2 }, "n_layers": 4, "norm_placement": "sandwich",
            "position": { "kind": "disentangled", "max_distance": 3 },
        }),
        own_norms,
        json!({ "share_layers": { "kind": "all" }, "position": { "kind": "learned_per_layer" } }),
    ];
    let named = |keys: Value| (keys.to_string(), keys);
    all.into_iter().map(named).collect()
}

/// Returns the config with these keys.
pub fn with(config: &DecoderConfig, keys: &Value) -> DecoderConfig {
    let mut whole = serde_json::to_value(config).unwrap();
    whole
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn decoder(keys: &Value) -> ModelConfig {
    let base = json!({
        "n_layers": 2, "d_model": 16, "attention": { "kind": "multi_head", "n_heads": 4 }, "dropout": 0.2,
        "dropout_feed_forward": 0.1, "drop_path": 0.3,
    });
    let base: DecoderConfig = serde_json::from_value(base).unwrap();
    ModelConfig::Decoder(with(&base, keys))
}

fn build(model: &ModelConfig, task: &Value) -> Objective<AnyTask> {
    let task: TaskConfig = serde_json::from_value(task.clone()).unwrap();
    let device = Device::flex().autodiff();
    let inputs = BuildContext {
        shape: &Shape::of_text(SEQ, VOCAB),
        seed: 5,
        device: &device,
    };
    materialize(name_parameters(task.init(model, &inputs, false).unwrap()))
}

/// Returns the path of the shared parameter that a parameter of the twin is a copy of.
fn original(path: &str, owners: [ParameterOwners; 2]) -> String {
    let mut parts: Vec<String> = path.split('.').map(String::from).collect();
    let owners = owners[usize::from(parts.iter().any(|part| part == "decoder"))];
    let at = parts.iter().position(|part| part == "blocks");
    if let Some(at) = at {
        let layer = parts[at + 1].parse().unwrap();
        let feeds = ["feed_forward", "feed_forward_residual", "parallel_norm"];
        let owner = match feeds.contains(&parts[at + 2].as_str()) {
            true => owners.feed_forward_owner(layer),
            false => owners.mixer_owner(layer),
        };
        parts[at + 1] = owner.to_string();
    } else if parts.iter().any(|part| part == "position") && !path.contains("tables") {
        // Parameters that position schemes have for each layer's attention.
        for part in &mut parts {
            if let Ok(layer) = part.parse() {
                *part = owners.mixer_owner(layer).to_string();
            }
        }
    }
    parts.join(".")
}

fn unshared(model: &ModelConfig) -> ModelConfig {
    let mut twin = model.clone();
    match &mut twin {
        ModelConfig::Decoder(c) => c.stack.share_layers = ShareConfig::default(),
        ModelConfig::EncoderDecoder(c) => c.stack.share_layers = ShareConfig::default(),
        _ => unreachable!("these two are tested"),
    }
    twin
}

/// Compares training with every dropout on between a model and its twin without sharing.
fn against_a_twin(name: &str, model: &ModelConfig, task: &Value, batch: &Batch) {
    let transformer = model.transformer().unwrap();
    let share = transformer.stack.share_layers;
    let layers: Vec<usize> = transformer.depths().map(|depth| depth.blocks()).collect();
    let owners = [layers[0], layers[layers.len() - 1]].map(|layers| share.owners(layers));
    let shared = build(model, task);
    let values = values_of(&shared);
    let twin = build(&unshared(model), task);
    let copies: Arrays = values_of(&twin)
        .into_keys()
        .map(|path| {
            let of = original(&path, owners);
            (path, values[&of].clone())
        })
        .collect();
    assert!(copies.len() > values.len(), "{name}: nothing is shared");
    let twin = put(twin, &copies);

    let step = |task: &Objective<AnyTask>| gradients::accumulate(task, vec![batch.clone()]);
    let (ours, theirs) = (step(&shared), step(&twin));
    let [a, b] = [&ours, &theirs].map(|step| step.output.loss.mean() as f32);
    near(&[a], &[b], name);
    let mut sums: BTreeMap<String, Array> = BTreeMap::new();
    for (path, array) in gradients_of(&twin, &theirs.gradients) {
        let sum = sums.entry(original(&path, owners));
        sum.and_modify(|sum| {
            for (total, part) in sum.values.iter_mut().zip(&array.values) {
                *total += part;
            }
        })
        .or_insert(array);
    }
    let found = gradients_of(&shared, &ours.gradients);
    assert!(found.keys().eq(sums.keys()), "{name}");
    for (path, array) in found {
        near(
            &array.values,
            &sums[&path].values,
            &format!("{name}: {path}"),
        );
    }
}

fn texts() -> Batch {
    let inputs: Vec<i32> = (0..3 * SEQ)
        .map(|i| ((i * 7 + i * i) % VOCAB) as i32)
        .collect();
    let targets: Vec<i32> = inputs.iter().map(|i| (i + 1) % VOCAB as i32).collect();
    batches::of_texts(&inputs, &targets, 3)
}

#[test]
fn shared_layers_are_copies_whose_gradients_add_up() {
    let task = json!({ "kind": "causal_lm" });
    for (name, keys) in configs() {
        against_a_twin(&name, &decoder(&keys), &task, &texts());
    }
}

#[test]
fn both_stacks_of_an_encoder_decoder_share_by_themselves() {
    let task = json!({ "kind": "translation" });
    let source: Vec<i32> = (0..2 * SEQ).map(|i| (3 + i * 5 % 11) as i32).collect();
    let batch = PairBatch {
        source: source.clone(),
        source_lengths: vec![SEQ, SEQ - 2],
        source_cols: SEQ,
        inputs: source.iter().rev().copied().collect(),
        targets: source,
        target_lengths: vec![SEQ; 2],
        target_cols: SEQ,
    };
    let batch = batches::of(Content::Pairs(batch), 2);
    for kind in ["attention", "feed_forward", "all"] {
        let config = json!({
            "n_encoder_layers": 2, "n_decoder_layers": 4, "d_model": 16, "dropout": 0.1, "drop_path": 0.2,
            "share_layers": { "kind": kind, "cycle": 2 }, "attention": { "kind": "multi_head", "n_heads": 4 },
        });
        let config: EncoderDecoderConfig = serde_json::from_value(config).unwrap();
        against_a_twin(kind, &ModelConfig::EncoderDecoder(config), &task, &batch);
    }
}

fn planned(keys: &Value) -> ModelCost {
    let (model, shape) = (decoder(keys), Shape::of_text(32, VOCAB));
    let question = PlanRequest {
        micro_batch_size: 2,
        ..PlanRequest::of(&model, &shape)
    };
    plan(&question, &Device::default()).unwrap()
}

/// Parameters, their gradients and the optimizer's values are counted once; products and activations in every layer.
#[test]
fn a_plan_counts_parameters_once_and_products_in_every_layer() {
    let with = |kind: &str| json!({ "n_layers": 4, "share_layers": { "kind": kind } });
    let none = planned(&with("none"));
    let (attention, feed_forward) = (4 * (16 * 16 + 16), 2 * 16 * 64 + 64 + 16);
    for (kind, fewer) in [
        ("attention", 3 * (attention + 32)),
        ("feed_forward", 3 * (feed_forward + 32)),
        ("all", 3 * (attention + feed_forward + 64)),
    ] {
        let shared = planned(&with(kind));
        assert_eq!(shared.params, none.params - fewer, "{kind}");
        assert_eq!(shared.flops_per_item, none.flops_per_item, "{kind}");
        let of = |part: &str| (shared.memory_bytes[part], none.memory_bytes[part]);
        assert_eq!(of("activations").0, of("activations").1, "{kind}");
        assert_eq!(of("gradients").1 - of("gradients").0, 4 * fewer as u64);
    }
    let moe = json!({ "kind": "moe", "n_experts": 4, "top_k": 1 });
    let experts = |kind: &str| json!({ "n_layers": 4, "feed_forward": moe, "share_layers": { "kind": kind } });
    let [none, all] = ["none", "all"].map(|kind| planned(&experts(kind)));
    let unused = |cost: &ModelCost| cost.params - cost.active;
    assert_eq!(unused(&none), 4 * unused(&all));
}

#[test]
fn faults_of_sharing_name_the_key_and_the_remedy() {
    let said = |sets: &[&str]| {
        let mut arguments = vec!["check", "experiments/smoke/tiny.toml"];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        let (status, said) = failure(&arguments);
        assert_eq!(status, 2, "{sets:?}: {said}");
        said
    };
    let all = "model.share_layers={ kind = \"all\" }";
    for (sets, words) in [
        (&[all, "model.n_layers=1"][..], "there is only 1 layer"),
        (
            &["model.share_layers={ kind = \"all\", groups = 2 }"],
            "share_layers has no effect: each of 2 layers has its own parameters; use fewer groups, or remove it",
        ),
        (
            &["model.share_layers={ kind = \"all\", cycle = 2 }"],
            "share_layers has no effect: each of 2 layers has its own parameters; use a shorter cycle, or remove it",
        ),
        (
            &[
                "model.share_layers={ kind = \"attention\", groups = 2, cycle = 2 }",
                "model.n_layers=4",
            ],
            "each of 4 layers has its own parameters; use fewer groups or a shorter cycle, or remove it",
        ),
        (
            &[
                "model.share_layers={ kind = \"attention\", groups = 2 }",
                "model.n_layers=5",
            ],
            "n_layers = 5 is not a multiple of",
        ),
        (
            &["model.share_layers={ kind = \"all\", groups = 0 }"],
            "groups = 0",
        ),
        (
            &["model.share_layers={ kind = \"all\", cycle = 0 }"],
            "cycle = 0",
        ),
        (
            &["model.share_layers={ kind = \"none\", groups = 2 }"],
            "groups",
        ),
        (&["model.share_layers={ kind = \"al\" }"], "all"),
        (
            &[
                all,
                "model.n_layers=4",
                "model.layers=[{ attention = { kind = \"multi_head\", n_heads = 4 } }, { attention = { kind = \
                 \"sliding_window\", n_heads = 4, window = 2 } }]",
            ],
            "layers 1 and 2 of [[model.layers]] would share the layer that mixes positions, but it differs; set cycle = 2",
        ),
        (
            &[
                "model.share_layers={ kind = \"feed_forward\" }",
                "model.n_layers=2",
                "model.layers=[{ attention = { kind = \"multi_head\", n_heads = 4 } }]",
            ],
            "no layer has a feed-forward layer",
        ),
    ] {
        let said = said(sets);
        assert!(said.contains(words), "{sets:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// With micro-batches, dropout, drop path and moving average: a run that is interrupted after half of its steps ends with the
/// same bits.
#[test]
fn a_run_with_shared_layers_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let train = |run: &str, steps: &str| {
        output(&[
            "train",
            "experiments/smoke/tiny.toml",
            "--quiet",
            "--set",
            "model.share_layers={ kind = \"all\", groups = 2, cycle = 1 }",
            "--set",
            "model.n_layers=4",
            "--set",
            "model.drop_path=0.2",
            "--set",
            "schedule={ kind = \"constant\" }",
            "--set",
            &format!("train.steps={steps}"),
            "--run",
            run,
        ])
    };
    let (whole, half) = (at("whole"), at("half"));
    train(&whole, "20");
    train(&half, "10");
    output(&["resume", &half, "--set", "train.steps=20", "--quiet"]);
    for name in ["model.safetensors", "ema.safetensors", "optimizer.bpk"] {
        let read = |run: &str| std::fs::read(format!("{run}/steps/00000020/{name}")).unwrap();
        assert!(read(&whole) == read(&half), "{name} differs");
    }
}
