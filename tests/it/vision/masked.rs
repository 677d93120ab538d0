//! Masked autoencoders against HF's `ViTMAEForPreTraining` (`tests/goldens/make_vit_mae.py`): predictions for all patches, the
//! loss and all gradients, with and without normalised pixels; its folder; and the task's own contracts.

use super::images;
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, hf_folder, values};
use crate::transfer::{gradients_of, put, values_of};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::Shape;
use formwork::data::batch::{Batch, Content, ImageBatch};
use formwork::interop::read_hf;
use formwork::interop::rename::Table;
use formwork::interop::weights::Array;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::{MaskedImage, MaskedImageConfig, Objective, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};
use std::collections::BTreeMap;

type Arrays = BTreeMap<String, Array>;

fn task(model: &ModelConfig, config: &MaskedImageConfig, image: [usize; 3]) -> MaskedImage {
    let shape = Shape {
        image: Some(image),
        ..Shape::default()
    };
    let inputs = BuildContext {
        shape: &shape,
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let ModelConfig::Vision(model) = model else {
        unreachable!("a vision transformer is wanted")
    };
    let task = MaskedImage::new(model, config, &inputs).unwrap();
    materialize(name_parameters(task))
}

/// Returns an oracle's arrays under a prefix, by Formwork's paths and in the shapes of `like`.
fn ours(oracle: &Oracle, prefix: &str, table: &Table, like: &Arrays) -> Arrays {
    let theirs = oracle.arrays(|name| name.strip_prefix(prefix));
    let named = theirs.into_iter().map(|(name, array)| {
        let mut rules = table.rules.iter();
        let rule = rules.find(|rule| rule.theirs == [name.as_str()]);
        let rule = rule.unwrap_or_else(|| panic!("the table does not know {name}"));
        let path = rule.ours[0].clone();
        let shape = like[&path].shape.clone();
        let Array { values, .. } = array;
        (path, Array { shape, values })
    });
    named.collect()
}

#[test]
fn a_masked_autoencoder_is_hf_s() {
    let oracle = Oracle::open("vit_mae");
    let mut tensors = oracle.arrays(|name| name.strip_prefix("weight."));
    for (theirs, name) in [
        ("position_embeddings", "vit.embeddings.position_embeddings"),
        ("decoder_pos_embed", "decoder.decoder_pos_embed"),
    ] {
        tensors.insert(name.into(), oracle.array(theirs));
    }
    let folder = hf_folder(&oracle.config(), &tensors);
    let hf = read_hf(folder.path(), &[]).unwrap();
    let (model, table) = (&hf.shape.model, hf.table());
    let TaskConfig::MaskedImage(config) = &hf.shape.task else {
        panic!("the folder is of another task")
    };
    let pixels = oracle.array("pixel_values");
    let images = ImageBatch {
        pixels: pixels.values,
        shape: [3, 12, 12],
        labels: vec![0; 3],
        mixed: None,
        views: None,
    };
    let noise = oracle.array("noise").values;
    let pass = Pass::evaluation();
    for normalised in [false, true] {
        let config = MaskedImageConfig {
            norm_pixels: normalised,
            ..config.clone()
        };
        let fresh = task(model, &config, images.shape);
        let like = values_of(&fresh);
        let weights = ours(&oracle, "weight.", &table, &like);
        let loaded = hf.load(fresh.clone(), hf.table()).unwrap();
        let task = put(fresh, &weights);
        assert!(
            values_of(&loaded) == values_of(&task),
            "the folder's weights"
        );
        let masks = task.masks_of(&noise);
        let told = values(task.predicted_pixels(&images, &masks, &pass));
        let off = difference(&told, &oracle.array("logits").values);
        assert!(off < TOLERANCE, "pixels are off by {off:e}");
        let loss = task.loss(&images, &masks, &pass) / 3.0;
        let off = difference(
            &values(loss.clone()),
            &oracle.array(&format!("{normalised}.loss")).values,
        );
        assert!(off < 1e-5, "{normalised}: the loss is off by {off:e}");
        let gradients = GradientsParams::from_grads(loss.backward(), &task);
        let found = gradients_of(&task, &gradients);
        let wanted = ours(&oracle, &format!("{normalised}.grad."), &table, &like);
        assert!(found.keys().eq(wanted.keys()), "other gradients");
        for (path, theirs) in &wanted {
            let off = difference(&found[path].values, &theirs.values);
            assert!(off < 1e-4, "{normalised}: {path} is off by {off:e}");
        }
    }
}

const IMAGE: [usize; 3] = [2, 8, 6];

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

fn small() -> MaskedImageConfig {
    MaskedImageConfig {
        decoder_layers: 1,
        decoder_d_model: 8,
        decoder_n_heads: 2,
        decoder_d_ff: 12,
        norm_pixels: true,
        ..MaskedImageConfig::default()
    }
}

fn sample(rows: usize) -> Batch {
    let size: usize = IMAGE.iter().product();
    let pixel = |i: usize| ((i * 37 + i * i % 91) % 64) as f32 / 16.0 - 2.0;
    let pixels: Vec<f32> = (0..rows * size).map(pixel).collect();
    images(&pixels, IMAGE, &vec![0; rows])
}

/// Returns some rows of a batch.
fn part(batch: &Batch, rows: std::ops::Range<usize>) -> Batch {
    let Content::Images(content) = &batch.content else {
        unreachable!()
    };
    let size: usize = IMAGE.iter().product();
    let pixels = &content.pixels[rows.start * size..rows.end * size];
    Batch {
        first_row: rows.start,
        step_scored: batch.rows,
        step_rows: batch.rows,
        step_tokens: batch.rows,
        ..images(pixels, IMAGE, &content.labels[rows])
    }
}

fn kinds() -> Vec<Value> {
    let positions = [
        "sinusoidal_2d",
        "learned",
        "learned_2d",
        "sinusoidal",
        "none",
    ];
    let positions = positions.map(|kind| json!({ "position": { "kind": kind } }));
    let others = [
        json!({ "pooling": "mean" }),
        json!({ "norm_placement": "post" }),
        json!({ "embedding_norm": true, "dropout": 0.2, "drop_path": 0.2 }),
    ];
    positions.into_iter().chain(others).collect()
}

#[test]
fn every_parameter_learns_and_micro_batches_make_one_batch() {
    for changes in kinds() {
        let task = Objective(task(&vision(&changes), &small(), IMAGE));
        let whole = sample(3);
        let parts = vec![part(&whole, 0..1), part(&whole, 1..3)];
        let one = accumulate(&task, vec![whole.clone()]);
        let two = accumulate(&task, parts);
        let same = (one.norm / two.norm - 1.0).abs() < 1e-4;
        assert!(same, "{changes}: {} and {}", one.norm, two.norm);
        // Each parameter must have a gradient.
        crate::transfer::gradients_of(&task, &one.gradients);
        let loss = |step: u64| {
            let batch = Batch { step, ..sample(3) };
            TrainStep::step(&task, batch.into()).item.loss.sum
        };
        assert_eq!(loss(1), loss(1), "{changes}");
        assert_ne!(loss(1), loss(2), "{changes}: other patches are hidden");
        let valid = task.valid();
        let output = InferenceStep::step(&valid, whole.clone().into());
        assert!(!output.is_token_loss() && output.loss.weight == 3.0);
        let again = InferenceStep::step(&valid, whole.into());
        assert_eq!(output.loss, again.loss, "{changes}: masks of evaluations");
    }
}

#[test]
fn networks_that_go_by_places_are_refused() {
    let refused = |changes: Value, config: &MaskedImageConfig| {
        let shape = Shape {
            image: Some(IMAGE),
            ..Shape::default()
        };
        let inputs = BuildContext {
            shape: &shape,
            seed: 5,
            device: &Device::flex().autodiff(),
        };
        let task = TaskConfig::MaskedImage(config.clone());
        let built = task.init(&vision(&changes), &inputs, false);
        built
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let config = small();
    for (changes, says) in [
        (json!({ "position": { "kind": "rotary_2d" } }), "rotary_2d"),
        (
            json!({ "position": { "kind": "relative_bias_2d" } }),
            "relative_bias_2d",
        ),
        (
            json!({ "position": { "kind": "learned_per_layer" } }),
            "learned_per_layer",
        ),
        (
            json!({ "attention": { "kind": "linear", "n_heads": 4 } }),
            "multi_head",
        ),
        (json!({ "pooling": "attention" }), "pooling"),
        (json!({ "distillation_token": true }), "distillation_token"),
        (
            json!({ "stem": { "kind": "resnet", "stages": [1, 1], "width": 8 } }),
            "patches",
        ),
    ] {
        let found = refused(changes, &config);
        assert!(found.contains(says), "{found:?}");
    }
    let all = MaskedImageConfig {
        mask_ratio: 0.95,
        ..config
    };
    let found = refused(json!({}), &all);
    assert!(
        found.contains("mask_ratio = 0.95 leaves no visible patch of 12 patches"),
        "{found}"
    );
}
