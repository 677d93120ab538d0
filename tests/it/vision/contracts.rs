//! Contracts of every image network.

use super::{classifier, collect, images, is_idle, with_weights};
use crate::oracle::difference;
use burn::module::Module;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::batch::{Batch, Content};
use formwork::model::ModelConfig;
use formwork::nn::channel_norm::is_state;
use formwork::nn::pass::Pass;
use formwork::nn::position;
use formwork::task::{ImageClassification, ImageClassificationConfig, Objective};
use formwork::train::{gradients, optim, parameters};
use serde_json::{Value, json};

const IMAGE: [usize; 3] = [2, 8, 6];
const CLASSES: usize = 7;

fn vision(changes: Value) -> ModelConfig {
    let mut config = json!({
        "kind": "vision",
        "n_layers": 2,
        "d_model": 16,
        "stem": { "kind": "patches", "size": 2 },
        "attention": { "kind": "multi_head", "n_heads": 4 },
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

pub fn resnet(blocks: &str, norm: Value) -> ModelConfig {
    let config = json!({
        "kind": "resnet", "blocks": blocks, "stages": [1, 1], "width": 8, "norm": norm,
    });
    serde_json::from_value(config).unwrap()
}

fn hybrid(norm: &Value) -> ModelConfig {
    vision(json!({ "stem": {
        "kind": "resnet", "stages": [1, 1], "width": 8, "norm": norm, "standardized": true,
    }}))
}

/// Images of 8 by 6 with patches of one pixel: windows of four that are padded and shifted, then a map of 4 by 3.
pub fn swin(changes: Value) -> ModelConfig {
    let mut config = json!({
        "kind": "swin", "patch_size": 1, "window": 4, "stages": [2, 1], "d_model": 8, "n_heads": [2, 4],
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

/// Whether the rows of a batch affect each other in training.
type Mixes = bool;

fn all() -> Vec<(String, ModelConfig, Mixes)> {
    let mut all = Vec::new();
    let (batch, group) = (
        json!({ "kind": "batch" }),
        json!({ "kind": "group", "groups": 4 }),
    );
    for kind in position::KINDS {
        for pooling in ["class", "mean", "attention"] {
            let mut changes = json!({ "position": { "kind": kind.kind }, "pooling": pooling });
            if kind.kind == "fire" {
                // A threshold that fits so few patches.
                changes["position"]["threshold"] = json!(4);
            }
            all.push((format!("{} {pooling}", kind.kind), vision(changes), false));
        }
    }
    for placement in ["post", "sandwich", "res_post", "parallel", "deepnorm"] {
        let changes = json!({ "norm_placement": placement });
        all.push((placement.into(), vision(changes), false));
    }
    for pooling in ["class_and_mean", "mean", "mean_then_norm", "attention"] {
        let changes = json!({ "n_registers": 2, "pooling": pooling });
        all.push((format!("registers {pooling}"), vision(changes), false));
    }
    let drawn = json!({ "kind": "rotary_centred", "shift": 0.1, "jitter": 1.2, "rescale": 2.0 });
    let changes = json!({ "position": drawn, "n_registers": 2 });
    all.push(("drawn positions".into(), vision(changes), false));
    all.push(("swin".into(), swin(json!({})), false));
    let smaller = json!({ "window": 8, "qkv_bias": false });
    all.push(("swin of one window".into(), swin(smaller), false));
    let cosines = json!({ "scores": "cosines", "position_bias": "continuous" });
    let behind = json!({ "norm_placement": "res_post", "key_bias": false });
    for (name, changes) in [("cosines", cosines), ("norms behind", behind)] {
        all.push((format!("swin {name}"), swin(changes), false));
    }
    for (name, norm, mixes) in [("batch", &batch, true), ("group", &group, false)] {
        all.push((format!("hybrid {name}"), hybrid(norm), mixes));
        for blocks in ["basic", "bottleneck"] {
            all.push((
                format!("{blocks} {name}"),
                resnet(blocks, norm.clone()),
                mixes,
            ));
        }
    }
    all
}

pub fn task(config: &ModelConfig) -> Objective<ImageClassification> {
    classifier(
        config,
        &ImageClassificationConfig::default(),
        IMAGE,
        CLASSES,
    )
}

/// One network of each kind, with a batch.
pub fn examples() -> Vec<(String, Objective<ImageClassification>, Batch)> {
    let group = json!({ "kind": "group", "groups": 4 });
    let networks = [
        ("vision", vision(json!({}))),
        ("hybrid", hybrid(&group)),
        ("resnet", resnet("basic", json!({ "kind": "batch" }))),
        ("swin", swin(json!({}))),
    ];
    let example = |(name, config): (&str, ModelConfig)| (name.into(), task(&config), sample(4, 1));
    networks.map(example).into()
}

pub fn sample(rows: usize, salt: usize) -> Batch {
    let size: usize = IMAGE.iter().product();
    let pixel = |i: usize| ((i * 37 + salt * 11 + i * i % 91) % 64) as f32 / 16.0 - 2.0;
    let pixels: Vec<f32> = (0..rows * size).map(pixel).collect();
    let labels: Vec<i32> = (0..rows)
        .map(|r| ((r * 3 + salt) % CLASSES) as i32)
        .collect();
    images(&pixels, IMAGE, &labels)
}

/// Returns some rows of a batch.
pub fn part(batch: &Batch, rows: std::ops::Range<usize>) -> Batch {
    let Content::Images(content) = &batch.content else {
        unreachable!()
    };
    let size: usize = IMAGE.iter().product();
    Batch {
        first_row: rows.start,
        step_scored: batch.rows,
        step_rows: batch.rows,
        step: batch.step,
        ..images(
            &content.pixels[rows.start * size..rows.end * size],
            IMAGE,
            &content.labels[rows],
        )
    }
}

fn logits(task: &Objective<ImageClassification>, batch: &Batch) -> Vec<f32> {
    let Content::Images(content) = &batch.content else {
        unreachable!()
    };
    let logits = task.logits(content, &Pass::evaluation());
    logits.into_data().iter::<f32>().collect()
}

pub fn trained(
    task: Objective<ImageClassification>,
    batches: &[Batch],
) -> Objective<ImageClassification> {
    trained_at(0.1, task, batches)
}

fn trained_at(
    rate: f64,
    task: Objective<ImageClassification>,
    batches: &[Batch],
) -> Objective<ImageClassification> {
    let config = json!({ "kind": "sgd", "lr": 0.1, "momentum": 0.0 });
    let config: optim::OptimizerConfig = serde_json::from_value(config).unwrap();
    let mut optimizer = optim::build(&config, &task).unwrap();
    batches.iter().fold(task, |task, batch| {
        let gradient = gradients::accumulate(&task, vec![batch.clone()]);
        optimizer.step(rate, task, gradient.gradients)
    })
}

#[test]
fn fresh_models_guess_uniformly_and_rows_are_apart() {
    for (name, config, _) in all() {
        let task = task(&config).valid();
        let batch = sample(4, 1);
        let loss = InferenceStep::step(&task, batch.clone().into()).loss.mean();
        let uniform = (CLASSES as f64).ln();
        assert!((loss / uniform - 1.0).abs() < 0.05, "{name}: {loss}");
        let whole = logits(&task, &batch);
        let alone = logits(&task, &part(&batch, 2..3));
        let off = difference(&alone, &whole[2 * CLASSES..3 * CLASSES]);
        assert!(off < 2e-5, "{name}: a row alone is off by {off:e}");
    }
}

#[test]
fn every_parameter_gets_a_gradient_and_moves_alike_each_time() {
    for (name, config, _) in all() {
        let before = task(&config);
        let step = TrainStep::step(&before, sample(3, 4).into());
        drop(step);
        // Parameters behind an untrained attention have small gradients.
        let moved = || trained_at(10.0, task(&config), &[sample(3, 4)]);
        let (old, new) = (collect(&task(&config), None), collect(&moved(), None));
        for (path, value) in &old {
            assert!(is_idle(path) || new[path] != *value, "{name}: {path} stays");
        }
        assert!(new == collect(&moved(), None), "{name}: other bits");
        let listed = parameters::list(&before);
        let state = |path: &str| path.rsplit('.').next().is_some_and(is_state);
        assert!(listed.iter().all(|p| !state(&p.path)), "{name}");
        let counted = old.keys().filter(|path| !state(path)).count();
        assert_eq!(listed.len(), counted, "{name}");
    }
}

#[test]
fn micro_batches_equal_one_batch_with_dropout_on() {
    for (name, mut config, mixes) in all() {
        if let ModelConfig::Vision(c) = &mut config {
            (c.stack.dropout, c.stack.drop_path) = (0.2, 0.3);
        }
        if let ModelConfig::Swin(c) = &mut config {
            (c.dropout, c.drop_path) = (0.2, 0.3);
        }
        let task = task(&config);
        let whole = sample(3, 6);
        let parts = vec![part(&whole, 0..1), part(&whole, 1..3)];
        let one = gradients::accumulate(&task, vec![whole]);
        let two = gradients::accumulate(&task, parts);
        let same = (one.norm / two.norm - 1.0).abs() < 1e-4;
        // A batch norm sees only its micro-batch.
        assert_eq!(same, !mixes, "{name}: {} and {}", one.norm, two.norm);
    }
}

#[test]
fn dropout_and_drop_path_rest_in_evaluation() {
    let still = task(&vision(json!({})));
    let drops = task(&vision(json!({ "dropout": 0.4, "drop_path": 0.5 })));
    assert_eq!(
        logits(&still.valid(), &sample(2, 8)),
        logits(&drops.valid(), &sample(2, 8))
    );
    let loss = |task: &Objective<ImageClassification>, step: u64| {
        let batch = Batch {
            step,
            ..sample(2, 8)
        };
        TrainStep::step(task, batch.into()).item.loss.sum
    };
    assert_eq!(loss(&drops, 1), loss(&drops, 1));
    assert_ne!(loss(&drops, 1), loss(&drops, 2));
    assert_eq!(loss(&still, 1), loss(&still, 2));
}

#[test]
fn saved_and_loaded_networks_go_on_alike() {
    for (name, config, mixes) in all() {
        let (first, second) = (sample(4, 2), sample(4, 3));
        let once = trained(task(&config), std::slice::from_ref(&first));
        let loaded = with_weights(task(&config), &collect(&once, None));
        let test = sample(2, 9);
        assert_eq!(
            logits(&once.valid(), &test),
            logits(&loaded.valid(), &test),
            "{name}"
        );
        let (state, fresh) = (collect(&once, None), collect(&task(&config), None));
        let running = state.keys().filter(|p| p.ends_with("running_mean"));
        assert_eq!(running.clone().count() > 0, mixes, "{name}");
        assert!(running.clone().all(|p| state[p] != fresh[p]), "{name}");
        let twice = trained(once, std::slice::from_ref(&second));
        let resumed = trained(loaded, &[second]);
        assert!(
            collect(&twice, None) == collect(&resumed, None),
            "{name}: other bits"
        );
    }
}

#[test]
fn mixed_images_share_their_loss() {
    for smoothing in [0.0, 0.2] {
        let config = ImageClassificationConfig {
            label_smoothing: smoothing,
            ..ImageClassificationConfig::default()
        };
        let task = classifier(&vision(json!({})), &config, IMAGE, CLASSES);
        let with = |labels: &[i32], mixed: Option<Vec<(i32, f32)>>| {
            let mut batch = sample(3, 5);
            if let Content::Images(content) = &mut batch.content {
                (content.labels, content.mixed) = (labels.to_vec(), mixed);
            }
            TrainStep::step(&task, batch.into()).item.loss.sum
        };
        let (first, other) = ([1, 2, 3], [4, 2, 0]);
        let mixed = other.iter().map(|label| (*label, 0.3)).collect();
        let wanted = 0.3 * with(&first, None) + 0.7 * with(&other, None);
        let found = with(&first, Some(mixed));
        assert!((found / wanted - 1.0).abs() < 1e-5, "{found} {wanted}");
    }
}

#[test]
fn metrics_of_classes() {
    let task = task(&vision(json!({}))).valid();
    let output = InferenceStep::step(&task, sample(6, 1).into());
    assert_eq!((output.items, output.loss.weight), (6, 6.0));
    let (top1, top5) = (output.metrics["accuracy"], output.metrics["top5_accuracy"]);
    assert!(top1.sum <= top5.sum && top5.sum <= 6.0 && top1.weight == 6.0);
    let few = classifier(
        &vision(json!({})),
        &ImageClassificationConfig::default(),
        IMAGE,
        5,
    );
    let mut batch = sample(6, 1);
    if let Content::Images(content) = &mut batch.content {
        content.labels.iter_mut().for_each(|label| *label %= 5);
    }
    let output = InferenceStep::step(&few.valid(), batch.into());
    assert!(!output.metrics.contains_key("top5_accuracy"));
}

#[test]
fn images_that_do_not_divide_into_patches_are_refused() {
    let misfit = |size: usize, height, width| {
        let stem = json!({ "kind": "patches", "size": size });
        let ModelConfig::Vision(config) = vision(json!({ "stem": stem })) else {
            unreachable!()
        };
        config.stem.image_size_fault(height, width)
    };
    assert_eq!(misfit(4, 28, 28), None);
    assert_eq!(
        misfit(5, 28, 28).unwrap(),
        "size = 5 does not divide images of 28 by 28 pixels into patches; use 4 or 7, or other images"
    );
    assert!(misfit(64, 28, 20).unwrap().contains("; use 4"));
}
