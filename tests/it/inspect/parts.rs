//! `inspect RUN positions` and `gradients`, against the parameters themselves and against the gradients of `infer`.

use super::looked::{images, inferred, json, numbers, parameter, run, trained};
use crate::binary::{failure, output};
use formwork::nn::position::alibi::slopes;
use formwork::nn::position::relative_bias::bucket;
use serde_json::Value;
use std::path::Path;

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn positions_of_an_image_are_those_of_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "vision", trained::VISION);
    let found = json(&output(&["inspect", &run, "positions", "--json"]));
    let table = &found["similarity"][0];
    let (shape, values) = parameter(&run, "model.position.table");
    let rows: Vec<&[f64]> = values.chunks(shape[1]).collect();
    let cosines = table["cosines"].as_array().unwrap();
    assert_eq!((cosines.len(), shape[0]), (17, 17));
    for (a, row) in cosines.iter().enumerate() {
        for (b, ours) in numbers(row).into_iter().enumerate() {
            assert!(
                (ours - cosine(rows[a], rows[b])).abs() < 1e-6,
                "{a} {b}: {ours}"
            );
        }
    }
    assert!(Path::new(&run).join("inspect/positions.png").exists());
    assert_eq!(found["biases"], Value::Array(Vec::new()));
}

#[test]
fn biases_are_those_of_the_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let alibi = run(folder.path(), "alibi", trained::ALIBI);
    let found = json(&output(&["inspect", &alibi, "positions", "--json"]));
    let heads = found["biases"].as_array().unwrap();
    assert_eq!(
        heads.len(),
        2,
        "one for each head: all layers have the same"
    );
    for (head, slope) in heads.iter().zip(slopes(2, 8.0)) {
        let first = head["first_distance"].as_i64().unwrap();
        let biases = numbers(&head["biases"]);
        assert_eq!(biases.len() as i64, 1 - 2 * first);
        for (bias, distance) in biases.into_iter().zip(first..=0) {
            let wanted = slope * distance as f64;
            assert!((bias - wanted).abs() < 1e-6, "{distance}: {bias} {wanted}");
        }
    }
    let pairs = run(folder.path(), "pairs", trained::PAIRS);
    let found = json(&output(&["inspect", &pairs, "positions", "--json"]));
    let heads = found["biases"].as_array().unwrap();
    for (network, causal) in [("encoder", false), ("decoder", true)] {
        let (shape, table) = parameter(&pairs, &format!("model.{network}.position.table"));
        let of_network = heads.iter().filter(|head| head["network"] == network);
        let mut count = 0;
        for head in of_network {
            let number = head["head"].as_u64().unwrap() as usize;
            let first = head["first_distance"].as_i64().unwrap();
            for (bias, distance) in numbers(&head["biases"]).into_iter().zip(first..) {
                let row = bucket(distance, 32, 128, causal);
                assert!((bias - table[row * shape[1] + number]).abs() < 1e-6);
            }
            count += 1;
        }
        assert_eq!(count, 2, "{network}");
    }
    let rotary = run(folder.path(), "rotary", trained::ROTARY);
    let (status, said) = failure(&["inspect", &rotary, "positions"]);
    assert!(status == 2 && said.contains("rotary"), "{said}");
}

/// The norms are those of the gradients that `infer` writes for the same images, which are tested against transformers.
#[test]
fn gradients_are_those_of_the_mean_loss() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "vision", trained::VISION);
    let arguments = ["inspect", &run, "gradients", "--examples", "5", "--json"];
    let found = json(&output(&arguments));
    assert_eq!(found["examples"], 5);
    let inferred = inferred(&run, &images(&run, 5), "--gradients");
    let loss = f64::from(inferred["loss"].values[0]);
    assert!(
        (found["loss"].as_f64().unwrap() - loss).abs() < 1e-5,
        "{loss}"
    );
    let length = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let parameters = found["parameters"].as_array().unwrap();
    let gradients = inferred.keys().filter(|name| name.starts_with("grad."));
    assert_eq!(parameters.len(), gradients.count());
    for one in parameters {
        let path = one["parameter"].as_str().unwrap();
        let gradient = &inferred[&format!("grad.{path}")].values;
        let gradient: Vec<f64> = gradient.iter().map(|x| f64::from(*x)).collect();
        let close = |key: &str, wanted: f64| {
            let ours = one[key].as_f64().unwrap();
            assert!(
                (ours - wanted).abs() < 1e-5 * (1.0 + wanted),
                "{path} {key}: {ours} {wanted}"
            );
        };
        close("gradient_norm", length(&gradient));
        close("weight_norm", length(&parameter(&run, path).1));
    }
    // A part's norm is taken over all of its parameters together.
    for part in found["parts"].as_array().unwrap() {
        let own = parameters.iter().filter(|one| one["part"] == part["part"]);
        let norms: Vec<f64> = own
            .map(|one| one["gradient_norm"].as_f64().unwrap())
            .collect();
        assert!((part["gradient_norm"].as_f64().unwrap() - length(&norms)).abs() < 1e-6);
    }
    assert!(Path::new(&run).join("inspect/gradients.svg").exists());
}

/// Over the whole split, the loss is that of an evaluation, though batches differ.
#[test]
fn the_loss_of_gradients_is_that_of_an_evaluation() {
    let folder = tempfile::tempdir().unwrap();
    for (name, experiment) in [("masked", trained::MASKED), ("pairs", trained::PAIRS)] {
        let run = run(folder.path(), name, experiment);
        let found = json(&output(&[
            "inspect",
            &run,
            "gradients",
            "--examples",
            "1000",
            "--json",
        ]));
        let evaluated = json(&output(&["eval", &run, "--json"]));
        let (ours, theirs) = (
            found["loss"].as_f64().unwrap(),
            evaluated["loss"].as_f64().unwrap(),
        );
        assert!((ours - theirs).abs() < 1e-5, "{name}: {ours} {theirs}");
    }
}
