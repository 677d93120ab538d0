//! Replaced-token detection (Clark et al. 2020; He et al. 2021): how each form of table sharing affects gradients, and which
//! tokens count as replaced. Its keys are tested in `keys.rs`, Hugging Face's networks in `goldens.rs`, runs in `runs.rs`.

mod goldens;
mod keys;
mod runs;

use crate::batches::{self, cut, in_one_step};
use crate::transfer::{Arrays, gradients_of, put, values_of};
use burn::module::Module;
use burn::tensor::Device;
use burn::train::InferenceStep;
use formwork::data::{Batch, NOT_SCORED, Shape};
use formwork::model::generator::TableSharing;
use formwork::model::{BuildContext, ModelConfig};
use formwork::task::{METRICS, Objective, TaskConfig};
use formwork::train::gradients::accumulate;
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const VOCAB: usize = 11;
const COLS: usize = 6;
const ALL: [TableSharing; 3] = [
    TableSharing::Shared,
    TableSharing::Unshared,
    TableSharing::Disentangled,
];
const E: &str = "generator.network.embedding.weight";
const DELTA: &str = "model.embedding.weight";

fn model(keys: Value) -> ModelConfig {
    let mut config = json!({
        "kind": "encoder", "n_layers": 2, "d_model": 16, "embedding_norm": true,
        "attention": { "kind": "multi_head", "n_heads": 2 },
    });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

fn config(embeddings: TableSharing, keys: Value) -> TaskConfig {
    let mut config = json!({
        "kind": "replaced_token", "generator": { "size": 0.5 }, "embeddings": embeddings,
    });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

fn built(config: &TaskConfig, model: &ModelConfig) -> Objective {
    let inputs = BuildContext {
        shape: &Shape::of_text(COLS, VOCAB),
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let task = config.init(model, &inputs, false).unwrap();
    materialize(name_parameters(task))
}

fn task(embeddings: TableSharing, keys: Value) -> Objective {
    built(&config(embeddings, keys), &model(json!({})))
}

/// Four rows in which every third token is masked (10).
fn batch() -> Batch {
    let own = |i: i32| (i * 7 + i * i) % 9;
    let masked = |i: i32| i % 3 == 1;
    let places = 0..4 * COLS as i32;
    let inputs = places.clone().map(|i| if masked(i) { 10 } else { own(i) });
    let targets = places.map(|i| if masked(i) { own(i) } else { NOT_SCORED });
    let (inputs, targets): (Vec<i32>, Vec<i32>) = (inputs.collect(), targets.collect());
    batches::of_texts(&inputs, &targets, 4)
}

fn gradients(task: &Objective) -> Arrays {
    gradients_of(task, &accumulate(task, vec![batch()]).gradients)
}

/// The generator has its own tables, or none.
#[test]
fn a_shared_table_is_one_parameter() {
    let paths = |embeddings| {
        let values = values_of(&task(embeddings, json!({})));
        values.into_iter().map(|(path, array)| (path, array.shape))
    };
    let own = |embeddings| {
        let all = paths(embeddings).filter(|(path, _)| path.starts_with("generator.network."));
        all.filter(|(path, _)| !path.contains("stack"))
            .collect::<Vec<_>>()
    };
    let path = |name: &str| format!("generator.network.{name}");
    assert_eq!(
        own(TableSharing::Shared),
        [
            (path("projection.bias"), vec![8]),
            (path("projection.weight"), vec![8, 16])
        ]
    );
    let tables = |width: usize| {
        vec![
            (path("embedding.weight"), vec![VOCAB, width]),
            (path("embedding_norm.beta"), vec![width]),
            (path("embedding_norm.gamma"), vec![width]),
            (path("position.table"), vec![COLS, width]),
        ]
    };
    let of_tables = |embeddings| {
        let all = own(embeddings).into_iter();
        let others = |path: &str| path.contains("projection") || path.ends_with("segments");
        all.filter(|(path, _)| !others(path)).collect::<Vec<_>>()
    };
    assert_eq!(of_tables(TableSharing::Unshared), tables(8));
    assert_eq!(of_tables(TableSharing::Disentangled), tables(16));
    // Δ is initialised to zero, so both networks start with the same embeddings.
    let values = values_of(&task(TableSharing::Disentangled, json!({})));
    assert!(values[DELTA].values.iter().all(|x| *x == 0.0));
    assert!(values[E].values.iter().any(|x| *x != 0.0));
}

/// The discriminator's loss, which λ multiplies, gives the generator no gradient through its samples, and none on a
/// disentangled table. The comparison is bit for bit, since equal values are computed.
#[test]
fn no_gradient_goes_through_samples() {
    for embeddings in ALL {
        let [small, large] =
            [0.5, 50.0].map(|weight| gradients(&task(embeddings, json!({ "weight": weight }))));
        let mut moved = BTreeSet::new();
        for (path, array) in &small {
            assert!(array.values.iter().all(|x| x.is_finite()), "{path}");
            if *array != large[path] {
                moved.insert(path.as_str());
            }
        }
        assert!(moved.iter().all(|path| !path.starts_with("generator.")));
        assert!(moved.contains(DELTA), "{embeddings:?}");
        assert!(moved.contains("head.dense.weight"));
        if embeddings == TableSharing::Disentangled {
            let some = |path: &str| small[path].values.iter().any(|x| *x != 0.0);
            assert!(some(E) && some(DELTA));
        }
    }
}

/// A disentangled encoder reads E + Δ, so other summands with the same sum give the same result.
#[test]
fn a_disentangled_encoder_reads_the_sum() {
    let task = task(TableSharing::Disentangled, json!({}));
    let told = |task: &Objective| {
        InferenceStep::step(&task.valid(), batch().into()).metrics["rtd_loss"].sum
    };
    let plain = values_of(&task);
    let mut moved = plain.clone();
    // Multiples of a half, so that no digit is lost.
    let shift = |i: usize| 0.5 * (i % 5) as f32;
    for (i, x) in moved.get_mut(DELTA).unwrap().values.iter_mut().enumerate() {
        *x = shift(i);
    }
    assert_ne!(told(&put(task.clone(), &moved)), told(&task));
    // With another E, the generator would sample other tokens; a large bias makes every sample the same.
    let bias = |values: &mut Arrays| {
        let bias = &mut values.get_mut("generator.head.bias").unwrap().values;
        bias[3] = 1e4;
    };
    let (mut one, mut two) = (plain.clone(), plain);
    for (i, (e, delta)) in (0..).zip(
        one[E]
            .values
            .clone()
            .into_iter()
            .zip(one[DELTA].values.clone()),
    ) {
        two.get_mut(E).unwrap().values[i] = e - shift(i);
        two.get_mut(DELTA).unwrap().values[i] = delta + shift(i);
    }
    bias(&mut one);
    bias(&mut two);
    let [one, two] = [one, two].map(|values| told(&put(task.clone(), &values)));
    assert!((one / two - 1.0).abs() < 1e-5, "{one} {two}");
}

/// A generator that always predicts 4: where the text has 4 too, nothing is replaced.
#[test]
fn a_sample_of_the_text_s_own_token_is_none() {
    let task = task(TableSharing::Shared, json!({}));
    let mut values = values_of(&task);
    values.get_mut("generator.head.bias").unwrap().values[4] = 1e4;
    let task = put(task, &values);
    let mut batch = batch();
    let formwork::data::batch::Content::Text(texts) = &mut batch.content else {
        unreachable!()
    };
    let masked: Vec<usize> = (0..texts.targets.len())
        .filter(|i| texts.targets[*i] != NOT_SCORED)
        .collect();
    for (number, at) in masked.iter().enumerate() {
        texts.targets[*at] = if number < 3 { 4 } else { 5 };
    }
    for output in [
        accumulate(&task, vec![batch.clone()]).output,
        InferenceStep::step(&task.valid(), batch.clone().into()),
    ] {
        let replaced = output.metrics["replaced"];
        let wanted = masked.len() - 3;
        assert_eq!((replaced.sum, replaced.weight), (wanted as f64, 24.0));
        assert_eq!(output.metrics["mlm_accuracy"].sum, 3.0);
    }
}

#[test]
fn the_loss_is_what_is_minimised_and_its_terms_stand_beside_it() {
    let task = task(TableSharing::Shared, json!({ "weight": 20.0 }));
    let parts = vec![cut(&batch(), 0..1, true), cut(&batch(), 1..4, true)];
    for batches in [vec![batch()], parts] {
        let output = accumulate(&task, in_one_step(batches, 7)).output;
        let mean = |name: &str| output.metrics[name].mean();
        let sum = mean("mlm_loss") + 20.0 * mean("rtd_loss");
        assert!((output.loss.mean() / sum - 1.0).abs() < 1e-6);
        assert_eq!(output.loss.weight, 24.0);
        assert!(output.added.contains("mlm_loss") && output.added.contains("rtd_loss"));
    }
    let measured = InferenceStep::step(&task.valid(), batch().into());
    let classes = measured.predictions.unwrap();
    let classes = classes.confusion().unwrap();
    assert_eq!(classes.total(), 24);
    let right = classes.count(0, 0) + classes.count(1, 1);
    assert_eq!(measured.metrics["rtd_accuracy"].sum, right as f64);
    let known = |name: &str| METRICS.iter().copied().flatten().any(|m| m.name == name);
    assert!(measured.metrics.keys().all(|name| known(name)));
    // If nothing is masked, the discriminator reads the original texts.
    let mut own = batch();
    let formwork::data::batch::Content::Text(texts) = &mut own.content else {
        unreachable!()
    };
    texts.targets.fill(NOT_SCORED);
    (own.scored, own.step_scored) = (0, 0);
    let output = accumulate(&task, vec![own]).output;
    assert_eq!(output.metrics["replaced"].sum, 0.0);
    assert!(output.loss.mean().is_finite() && output.loss.mean() > 0.0);
}

/// Each network's initial values are drawn separately, whatever the other one is.
#[test]
fn no_two_matrices_begin_alike() {
    for embeddings in ALL {
        let values = values_of(&task(embeddings, json!({})));
        let drawn = values
            .values()
            .filter(|a| Some(&a.values[0]) != a.values.get(1) && a.values.len() > 1);
        let starts: Vec<String> = drawn
            .map(|a| format!("{:.5}", a.values[0] / a.values[1]))
            .collect();
        let different: BTreeSet<&String> = starts.iter().collect();
        assert_eq!(different.len(), starts.len(), "{embeddings:?}");
    }
    let encoder = |embeddings, size: f64| {
        let generator = json!({ "generator": { "size": size } });
        let mut values = values_of(&task(embeddings, generator));
        values.retain(|path, _| path.starts_with("model.stack") || path.starts_with("head"));
        values
    };
    let one = encoder(TableSharing::Shared, 0.5);
    assert!(one == encoder(TableSharing::Unshared, 1.0));
}
