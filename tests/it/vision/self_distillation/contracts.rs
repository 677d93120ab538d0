//! Contracts of self-distillation: gradients of all parameters, micro-batches that make one batch, a last layer that is frozen
//! at first, a teacher that is passed in, and networks that are refused.

use super::task;
use crate::batches;
use crate::oracle::{difference, values};
use crate::transfer::{gradients_of, put, values_of};
use burn::module::Module;
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::Shape;
use formwork::data::batch::{Batch, Content, ImageBatch, Views};
use formwork::data::images::ViewsConfig;
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::self_distillation::TeacherWarmupConfig;
use formwork::task::{Objective, SelfDistillation, SelfDistillationConfig, TaskConfig};
use formwork::train::gradients::accumulate;
use serde_json::{Value, json};

const IMAGE: [usize; 3] = [2, 8, 8];
const LOCAL: usize = 3;

fn vision(changes: &Value) -> ModelConfig {
    let mut config = json!({
        "kind": "vision", "n_layers": 2, "d_model": 16, "stem": { "kind": "patches", "size": 2 },
        "attention": { "kind": "multi_head", "n_heads": 4 },
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

fn small() -> SelfDistillationConfig {
    SelfDistillationConfig {
        d_hidden: 12,
        d_bottleneck: 6,
        d_out: 10,
        views: ViewsConfig {
            local: LOCAL,
            local_size: 4,
            ..ViewsConfig::default()
        },
        ..SelfDistillationConfig::default()
    }
}

fn numbers(count: usize, from: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 37 + i * i % 91) % 64) as f32 / 16.0 - 2.0;
    (from..from + count).map(number).collect()
}

/// Returns some rows of a step of three.
fn part(rows: std::ops::Range<usize>) -> Batch {
    let size: usize = IMAGE.iter().product();
    let (global, local) = (2 * size, LOCAL * IMAGE[0] * 16);
    let of = |each: usize, from: usize| numbers(rows.len() * each, from + rows.start * each);
    let content = ImageBatch {
        pixels: of(size, 0),
        shape: IMAGE,
        labels: rows.clone().map(|row| row as i32 % 2).collect(),
        mixed: None,
        views: Some(Views {
            global: of(global, 1000),
            local: of(local, 5000),
            side: 4,
        }),
    };
    Batch {
        first_row: rows.start,
        step_scored: 3,
        step_rows: 3,
        step_tokens: 3,
        ..batches::of(Content::Images(content), rows.len())
    }
}

fn kinds() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "position": { "kind": "none" } }),
        json!({ "pooling": "mean", "n_registers": 2 }),
        json!({ "norm_placement": "post", "embedding_norm": true }),
        json!({ "dropout": 0.2, "drop_path": 0.2 }),
    ]
}

#[test]
fn every_parameter_learns_and_micro_batches_make_one_batch() {
    for changes in kinds() {
        let task = Objective(task(&vision(&changes), &small(), IMAGE));
        let one = accumulate(&task, vec![part(0..3)]);
        let two = accumulate(&task, vec![part(0..1), part(1..3)]);
        let same = (one.norm / two.norm - 1.0).abs() < 1e-4;
        assert!(same, "{changes}: {} and {}", one.norm, two.norm);
        let [one, two] = [one, two].map(|gradient| {
            // Each parameter must have a gradient.
            gradients_of(&task, &gradient.gradients);
            gradient.output.kept.unwrap()
        });
        assert_eq!([one.count, two.count], [6.0; 2]);
        let off = difference(&values(one.sum), &values(two.sum));
        assert!(off < 1e-5, "{changes}: the sum of scores is off by {off:e}");
        let valid = task.valid();
        let output = InferenceStep::step(&valid, part(0..3).into());
        assert!(!output.is_token_loss() && output.loss.weight == 3.0);
        let again = InferenceStep::step(&valid, part(0..3).into());
        assert_eq!(output.loss, again.loss, "{changes}");
        assert!(output.kept.is_none(), "an evaluation moves no centre");
    }
}

#[test]
fn the_last_map_rests_and_the_teacher_warms_up() {
    let config = SelfDistillationConfig {
        freeze_last_steps: 2,
        teacher_temperature: 0.07,
        teacher_warmup: Some(TeacherWarmupConfig {
            from: 0.03,
            steps: 4,
        }),
        ..small()
    };
    let warm: Vec<f64> = (0..6)
        .map(|step| config.teacher_temperature(step))
        .collect();
    for (found, wanted) in warm.iter().zip([0.03, 0.04, 0.05, 0.06, 0.07, 0.07]) {
        assert!((found - wanted).abs() < 1e-12, "{warm:?}");
    }
    let task = Objective(task(&vision(&json!({})), &config, IMAGE));
    let last = task.projection_head.last.id;
    for step in 0..4 {
        let batch = Batch { step, ..part(0..3) };
        let gradients = TrainStep::step(&task, batch.into()).grads;
        assert_eq!(gradients.get::<2>(last).is_some(), step >= 2, "step {step}");
    }
}

#[test]
fn a_teacher_is_handed_in_and_never_saved() {
    let task = task(&vision(&json!({})), &small(), IMAGE);
    let paths: Vec<String> = values_of(&task).into_keys().collect();
    let mut other = values_of(&task);
    for array in other.values_mut() {
        array.values.iter_mut().for_each(|x| *x = 0.3 * *x + 0.01);
    }
    let teacher = put(task.clone(), &other);
    let alone = Objective(task.clone());
    let taught = Objective(task.with_teacher(&teacher));
    assert_eq!(values_of(&taught).into_keys().collect::<Vec<_>>(), paths);
    let loss =
        |task: &Objective<SelfDistillation>| TrainStep::step(task, part(0..3).into()).item.loss.sum;
    assert_ne!(loss(&alone), loss(&taught));
}

#[test]
fn networks_that_know_one_grid_are_refused() {
    let refused = |changes: Value, views: ViewsConfig| {
        let shape = Shape {
            image: Some(IMAGE),
            ..Shape::default()
        };
        let inputs = BuildContext {
            shape: &shape,
            seed: 5,
            device: &Device::flex().autodiff(),
        };
        let task = TaskConfig::SelfDistillation(SelfDistillationConfig { views, ..small() });
        let built = task.init(&vision(&changes), &inputs, false);
        built
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let views = || small().views;
    for (changes, says) in [
        (json!({ "position": { "kind": "rotary_2d" } }), "rotary_2d"),
        (
            json!({ "position": { "kind": "learned", "max_len": 64 } }),
            "max_len",
        ),
        (
            json!({ "attention": { "kind": "linear", "n_heads": 4 } }),
            "multi_head",
        ),
        (json!({ "distillation_token": true }), "distillation_token"),
        (
            json!({ "stem": { "kind": "resnet", "stages": [1, 1], "width": 8 } }),
            "patches",
        ),
    ] {
        let found = refused(changes, views());
        assert!(found.contains(says), "{says}: {found:?}");
    }
    for (local_size, says) in [
        (5, "local_size = 5 is not a multiple of the 2 pixels"),
        (10, "local_size = 10 is more than the 8 pixels"),
    ] {
        let views = ViewsConfig {
            local_size,
            ..views()
        };
        let found = refused(json!({}), views);
        assert!(found.contains(says), "{found:?}");
    }
    let alone = ViewsConfig {
        local: 0,
        ..ViewsConfig::default()
    };
    let found = refused(json!({ "position": { "kind": "rotary_2d" } }), alone);
    assert_eq!(found, "", "without local views there is one grid");
}
