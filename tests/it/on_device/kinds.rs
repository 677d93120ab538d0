//! Every kind of every family under text tasks, with dropout and in micro-batches: the loss and all gradients on the device
//! equal flex's. Each kind is run with one task, chosen by its name alone. With `FORMWORK_TEST_KINDS=all`, all tasks are run;
//! with another value, the cases whose names contain it.

use super::{device, name as device_name};
use crate::batches::{cut, in_one_step};
use crate::cases::{Case, cases};
use crate::oracle::difference;
use crate::transfer::gradients_of;
use burn::tensor::Device;
use formwork::rng::part_coordinate;
use formwork::train::gradients::accumulate;

/// Largest differences of a loss and of a gradient, relative to the largest value.
const LIMITS: [f64; 2] = [1e-5, 2e-4];

/// The same if products are Burn's, which use TF32 on tensor cores: operands of 11 bits.
const TF32: [f64; 2] = [2e-3, 2e-2];

/// Divisor of cosines in the loss of text embeddings, which magnifies their rounding accordingly. Gradients keep a part of
/// that: 2.6e-4 was seen on lavapipe.
const TEMPERATURE: f64 = 0.05;
const OF_VECTORS: [f64; 2] = [LIMITS[0] / TEMPERATURE, 2.0 * LIMITS[1]];

/// Parts of the names of cases with Burn's products: those of composed forms, and of text embeddings.
const BY_BURN: &[&str] = &[
    "text_embedding",
    "performer",
    "\"linear\"",
    "lsh",
    "recurrent",
    "mixer",
    "switch",
    "experts",
    "delta",
];

fn limits(name: &str) -> [f64; 2] {
    let tensor_cores = device_name().is_some_and(|device| device.starts_with("cuda"));
    match tensor_cores && BY_BURN.iter().any(|part| name.contains(part)) {
        true => TF32,
        false if name.starts_with("text_embedding") => OF_VECTORS,
        false => LIMITS,
    }
}

/// Returns the faults of one case: a loss or gradients that differ.
fn faults(case: &Case, device: &Device) -> Vec<String> {
    let whole = case.batch();
    let parts = vec![cut(&whole, 0..1, false), cut(&whole, 1..4, false)];
    let parts = in_one_step(parts, 3);
    let [ours, theirs] = [device, &Device::flex()].map(|device| {
        let task = case.on(5, device);
        let gradient = accumulate(&task, parts.clone());
        let gradients = gradients_of(&task, &gradient.gradients);
        (gradient.output.loss.sum, gradients)
    });
    let name = &case.name;
    let mut faults = Vec::new();
    let [of_loss, of_gradients] = limits(name);
    let off = (ours.0 - theirs.0).abs() / theirs.0.abs().max(1.0);
    if off.is_nan() || off >= of_loss {
        faults.push(format!("{name}: loss {} instead of {}", ours.0, theirs.0));
    }
    for (path, ours) in ours.1 {
        let off = difference(&ours.values, &theirs.1[&path].values);
        if off.is_nan() || off >= of_gradients {
            faults.push(format!("{name}: {path} is off by {off:e}"));
        }
    }
    faults
}

/// Selects one case for each model; its name decides on the task, so that adding a kind changes no other kind's task.
fn one_of_each(cases: Vec<Case>) -> Vec<Case> {
    let mut by_model: Vec<(String, Vec<Case>)> = Vec::new();
    for case in cases {
        let model = match case.name.split_once(" on ") {
            Some((_, model)) => model.to_owned(),
            None => case.name.clone(),
        };
        match by_model.iter_mut().find(|(known, _)| *known == model) {
            Some((_, cases)) => cases.push(case),
            None => by_model.push((model, vec![case])),
        }
    }
    let one = by_model.into_iter().map(|(model, mut cases)| {
        let number = part_coordinate(0, &model) % cases.len() as u64;
        cases.swap_remove(number as usize)
    });
    one.collect()
}

#[test]
fn every_kind_gives_the_gradients_of_flex() {
    let Some(device) = device() else { return };
    let mut cases = cases();
    match std::env::var("FORMWORK_TEST_KINDS") {
        Ok(all) if all == "all" => {}
        Ok(words) => cases.retain(|case| case.name.contains(&words)),
        Err(_) => cases = one_of_each(cases),
    }
    assert!(!cases.is_empty(), "no case has these words in its name");
    let cases = cases.into_iter().map(|case| case.dropping(0.2, 0.3));
    let faults: Vec<String> = cases.flat_map(|case| faults(&case, &device)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
