//! Contracts of the task, over kinds of towers: every parameter learns, the same seed gives the same bits, micro-batches of
//! whole groups make one batch, padding changes nothing, dropout draws by step and is off in evaluation, one batch is learned
//! by heart, and the scale of the softmax stays within its bound.

use crate::batches::{self, cut, in_one_step};
use crate::case_batches::{COLS, VOCAB, texts};
use crate::oracle::difference;
use crate::task_contracts;
use crate::transfer::{gradients_of, put, values_of};
use burn::module::Module;
use burn::tensor::Device;
use burn::train::InferenceStep;
use formwork::data::Shape;
use formwork::data::batch::{Batch, CaptionedBatch, Content, ImageBatch, TextBatch};
use formwork::evaluate::metric;
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{METRICS, Objective, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

const IMAGE: [usize; 3] = [3, 8, 8];

struct Case {
    name: &'static str,
    model: Value,
    task: Value,
}

fn cases() -> [Case; 6] {
    let vision = json!({ "kind": "vision", "n_layers": 2, "d_model": 16, "stem": { "kind": "patches", "size": 4 },
        "embedding_norm": true, "attention": { "kind": "multi_head", "n_heads": 2 } });
    let mut clip = vision.clone();
    clip["stem"]["bias"] = json!(false);
    clip["feed_forward"] = json!({ "kind": "dense", "activation": "quick_gelu" });
    let decoder = json!({ "kind": "decoder", "n_layers": 2, "d_model": 16, "position": { "kind": "learned" },
        "attention": { "kind": "multi_head", "n_heads": 2 } });
    let encoder = json!({ "kind": "encoder", "n_layers": 2, "d_model": 24, "pooler": true, "segments": 0,
        "attention": { "kind": "multi_head", "n_heads": 2 } });
    let resnet = json!({ "kind": "resnet", "stages": [1, 1], "width": 4, "norm": { "kind": "group", "groups": 2 } });
    let swin = json!({ "kind": "swin", "patch_size": 2, "window": 2, "stages": [2, 1], "d_model": 4, "n_heads": [1, 2] });
    let recurrent =
        json!({ "kind": "recurrent", "d_model": 12, "n_layers": 1, "cell": { "kind": "gru" } });
    let mut siglip = clip.clone();
    siglip["stem"]["bias"] = json!(true);
    siglip["embedding_norm"] = json!(false);
    siglip["pooling"] = json!("attention");
    let mut both_ways = encoder.clone();
    both_ways["pooler"] = json!(false);
    let of = |name, image: &Value, text: &Value, task: Value| Case {
        name,
        model: json!({ "kind": "two_towers", "image": image, "text": text, "d_joint": 12 }),
        task,
    };
    [
        of("clip", &clip, &decoder, json!({})),
        of(
            "decoder's mean",
            &vision,
            &decoder,
            json!({ "pooling": "mean", "group": 2 }),
        ),
        of(
            "encoder with a pooler",
            &vision,
            &encoder,
            json!({ "pooling": "first" }),
        ),
        of(
            "resnet and recurrent",
            &resnet,
            &recurrent,
            json!({ "group": 2 }),
        ),
        of("swin and decoder", &swin, &decoder, json!({})),
        Case {
            name: "siglip",
            model: json!({ "kind": "two_towers", "image": siglip, "text": both_ways, "d_joint": 16,
                "image_projection": false, "projection_bias": true }),
            task: json!({ "loss": "sigmoid", "pooling": "last", "fill": 1, "group": 2 }),
        },
    ]
}

impl Case {
    fn model(&self, dropout: f64) -> ModelConfig {
        let mut model = self.model.clone();
        for tower in ["image", "text"] {
            if model[tower]["kind"] != "resnet" {
                model[tower]["dropout"] = json!(dropout);
            }
        }
        serde_json::from_value(model).unwrap()
    }

    fn with_seed(&self, seed: u64, dropout: f64) -> Objective {
        let mut task = self.task.clone();
        task["kind"] = json!("image_text");
        let task: TaskConfig = serde_json::from_value(task).unwrap();
        let shape = Shape {
            image: Some(IMAGE),
            ..Shape::of_text(COLS, VOCAB as usize)
        };
        let inputs = BuildContext {
            shape: &shape,
            seed,
            device: &Device::flex().autodiff(),
        };
        materialize(name_parameters(
            task.init(&self.model(dropout), &inputs, false).unwrap(),
        ))
    }
}

/// Four images with texts of different lengths.
fn batch() -> Batch {
    let each: usize = IMAGE.iter().product();
    let captions = TextBatch {
        targets: Vec::new(),
        segments: None,
        labels: None,
        segment_lengths: [0; 2],
        ..texts(&[0; 4])
    };
    let images = ImageBatch {
        pixels: (0..4 * each)
            .map(|n| (0.37 * n as f32).sin() + 0.2 * (n / each) as f32)
            .collect(),
        shape: IMAGE,
        labels: vec![0; 4],
        mixed: None,
        views: None,
    };
    let texts = (0..4).collect();
    let captioned = CaptionedBatch {
        images,
        captions,
        texts,
    };
    batches::of(Content::Captioned(captioned), 4)
}

#[test]
fn every_parameter_learns_and_alike_each_time() {
    for case in cases() {
        task_contracts::every_parameter_learns(case.name, &batch(), || case.with_seed(5, 0.0));
    }
}

#[test]
fn seeds_draw_the_weights_and_towers_do_not_begin_alike() {
    for case in cases() {
        let values = |seed| values_of(&case.with_seed(seed, 0.0));
        let (one, two) = (values(1), values(2));
        assert!(one == values(1), "{}", case.name);
        let drawn = one.iter().filter(|(_, array)| {
            array.values.len() > 1 && array.values.iter().any(|x| *x != array.values[0])
        });
        let mut starts = Vec::new();
        for (path, array) in drawn {
            assert!(*array != two[path], "{}: {path}", case.name);
            starts.push(format!("{:.4}", array.values[0] / array.values[1]));
        }
        let count = starts.len();
        starts.sort();
        starts.dedup();
        assert_eq!(starts.len(), count, "{}", case.name);
        let (scale, begins) = match case.name {
            "siglip" => ("model.sigmoid.logit_scale", (1.0f32 / 0.07).ln()),
            _ => ("model.logit_scale", (1.0f32 / 0.07).ln()),
        };
        let found = one[scale].values[0];
        assert!((found - begins).abs() < 1e-6, "{}: {found}", case.name);
    }
}

#[test]
fn micro_batches_of_whole_groups_equal_one_batch() {
    for case in cases().into_iter().filter(|case| case.task["group"] == 2) {
        let task = case.with_seed(5, 0.2);
        let parts = |first: usize| {
            vec![
                cut(&batch(), 0..first, false),
                cut(&batch(), first..4, false),
            ]
        };
        let one = accumulate(&task, in_one_step(vec![batch()], 3));
        let two = accumulate(&task, in_one_step(parts(2), 3));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-5 * b.abs().max(1.0);
        assert!(
            near(one.output.loss.sum, two.output.loss.sum),
            "{}",
            case.name
        );
        assert_eq!(
            one.output.metrics["accuracy"],
            two.output.metrics["accuracy"]
        );
        let theirs = gradients_of(&task, &two.gradients);
        for (path, ours) in gradients_of(&task, &one.gradients) {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-4, "{}: {path} is off by {off:e}", case.name);
        }
        let other = accumulate(&task, in_one_step(parts(1), 3));
        assert!(
            !near(one.output.loss.sum, other.output.loss.sum),
            "{}",
            case.name
        );
    }
}

/// Recomputed blocks in both towers; those of images are in stages.
#[test]
fn gradients_of_blocks_computed_anew_are_the_same_to_the_last_bit() {
    let [.., case, _] = cases();
    task_contracts::blocks_computed_anew(case.name, &batch(), &case.with_seed(5, 0.2), 0.0);
}

/// Padding behind a text's last token is not read.
#[test]
fn filling_changes_nothing() {
    for case in cases() {
        let mut filled = batch();
        if let Content::Captioned(content) = &mut filled.content {
            let captions = &mut content.captions;
            let lengths = captions.lengths.clone().unwrap();
            for (row, length) in lengths.iter().enumerate() {
                captions.inputs[row * COLS + length..(row + 1) * COLS].fill(7);
            }
        }
        let both = [batch(), filled];
        let task = case.with_seed(5, 0.0);
        task_contracts::filling_changes_nothing(case.name, both, &task);
    }
}

#[test]
fn dropout_draws_by_step_and_rests_in_evaluation() {
    for case in cases() {
        let both = [0.5, 0.0].map(|dropout| case.with_seed(5, dropout));
        task_contracts::dropout_draws_by_step(case.name, &batch(), both);
    }
}

#[test]
fn one_batch_is_learnt_by_heart_and_its_metrics_are_defined() {
    for case in cases() {
        let task = task_contracts::trained(case.with_seed(5, 0.0), &batch(), 2e-3, 300);
        let found = InferenceStep::step(&task.valid(), batch().into());
        let loss = found.loss.mean();
        println!("{}: {loss:.4}", case.name);
        // The loss at chance is ln 4, and 2 ln 2 in groups. A pooler, and a residual network with few channels, learn more
        // slowly.
        let most = match case.name {
            "clip" | "decoder's mean" => 0.1,
            _ => 0.6,
        };
        assert!(loss < most, "{}: the loss is still {loss}", case.name);
        let tables = METRICS.iter().copied().chain([metric::METRICS]).flatten();
        let defined: Vec<&str> = tables.map(|metric| metric.name).collect();
        for name in found.metrics.keys() {
            assert!(defined.contains(name), "{name}");
        }
        for (metric, value) in found.predictions.unwrap().metrics() {
            assert!(defined.contains(&metric.name), "{}", metric.name);
            // Rows of other groups are not distinguished in training.
            let least = if case.task["group"].is_null() {
                0.75
            } else {
                0.25
            };
            assert!(value >= least, "{}: {} {value}", case.name, metric.name);
        }
    }
}

/// The scale of scores grows to a hundred and no further (Radford et al. 2021, section 2.5); the scale of the sigmoid loss has
/// no bound (Zhai et al. 2023, algorithm 1).
#[test]
fn an_update_leaves_the_scale_within_its_bound() {
    let [softmax, .., sigmoid] = cases();
    let (scale, ln_100) = ("model.logit_scale", 100.0f32.ln());
    for (case, path, begins, ends) in [
        (&softmax, scale, 6.0, ln_100),
        (&softmax, scale, ln_100 + 0.01, ln_100),
        (&softmax, scale, 2.0, 2.0),
        (&sigmoid, "model.sigmoid.logit_scale", 6.0, 6.0),
    ] {
        let task = case.with_seed(5, 0.0);
        let mut values = values_of(&task);
        values.get_mut(path).unwrap().values = vec![begins];
        let task = put(task, &values);
        let task = task_contracts::trained(task, &batch(), 1e-6, 1);
        let found = values_of(&task)[path].values[0];
        assert!((found - ends).abs() < 1e-4, "{begins} became {found}");
    }
}
