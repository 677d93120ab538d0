//! Measurements of a forward pass, for every task: the same parts as those of the parameters, correct values, and the same
//! gradients as in a pass without a probe.

use crate::cases::{self, Case};
use crate::transfer::gradients_of;
use crate::vision::contracts::examples;
use formwork::data::batch::Batch;
use formwork::nn::probe::{ProbeRequest, Readings};
use formwork::task::{Objective, TrainableModel};
use formwork::train::diagnostics::{BeforeUpdate, Diagnosis, DiagnosticsConfig};
use formwork::train::gradients::accumulate;
use formwork::train::optim::{self, OptimizerConfig};
use serde_json::json;

const ALL: ProbeRequest = ProbeRequest {
    activations: true,
    attention: true,
};

fn readings(task: &Objective, case: &Case) -> Readings {
    let mut batch = case.batch();
    batch.watch = Some(ALL);
    accumulate(task, vec![batch]).output.readings.unwrap()
}

#[test]
fn gradients_are_the_same_bits() {
    for case in cases::cases() {
        let (name, task) = (&case.name, case.build());
        let plain = accumulate(&task, vec![case.batch()]);
        let mut batch = case.batch();
        batch.watch = Some(ALL);
        let watched = accumulate(&task, vec![batch]);
        assert!(plain.output.readings.is_none() && watched.output.readings.is_some());
        assert_eq!(plain.output.loss, watched.output.loss, "{name}");
        let gradients = [plain, watched].map(|g| gradients_of(&task, &g.gradients));
        assert!(gradients[0] == gradients[1], "{name}: other bits");
    }
}

/// Mean over the first `n` queries of the entropy of uniform attention over the keys up to the query itself.
fn causal(n: usize) -> f64 {
    let logs = (1..=n).map(|keys| (keys as f64).ln());
    logs.sum::<f64>() / n as f64
}

#[test]
fn attention_that_looks_at_all_keys_alike_has_the_entropy_of_their_number() {
    let even = json!({ "attention": { "kind": "multi_head", "n_heads": 2, "scale": 0.0 } });
    let [masked, classes, translation, prefix] = cases::base(8).map(|case| case.with(&even));
    // The longest target is in the first row, 7 tokens after a source of 5; source and target together are longest in the last
    // row, 7 and 6 tokens.
    let blocks = |prefix: &str, entropy: f64| {
        let block = |n| (format!("{prefix}blocks.{n}"), entropy);
        [block(0), block(1)].to_vec()
    };
    let source = (5f64).ln();
    let mut both = blocks("encoder.", source);
    for n in 0..2 {
        both.push((format!("decoder.blocks.{n}"), causal(7)));
        both.push((format!("decoder.blocks.{n}.cross"), source));
    }
    let after = (8..=13).map(|keys| f64::from(keys).ln()).sum::<f64>();
    let joined = (7.0 * (7f64).ln() + after) / 13.0;
    for (case, wanted) in [
        (masked, blocks("", source)),
        (classes, blocks("", source)),
        (translation, both),
        (prefix, blocks("", joined)),
    ] {
        let found = readings(&case.build(), &case).attention_entropy;
        assert_eq!(found.len(), wanted.len(), "{}: {found:?}", case.name);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found.0, wanted.0, "{}", case.name);
            let what = format!(
                "{}: {} is {}, not {}",
                case.name, found.0, found.1, wanted.1
            );
            assert!((found.1 - wanted.1).abs() < 1e-5, "{what}");
        }
    }
}

/// Returns all measurements of a step.
fn diagnosed<M: TrainableModel>(task: M, mut batch: Batch) -> Diagnosis {
    let config = DiagnosticsConfig::default();
    let mut batches = vec![batch.clone()];
    config.request_readings(&mut batches);
    batch = batches.remove(0);
    let mut gradient = accumulate(&task, vec![batch]);
    let before = BeforeUpdate::new(config, &task, &mut gradient);
    let optimizer: OptimizerConfig =
        serde_json::from_value(json!({ "kind": "adamw", "lr": 1e-3 })).unwrap();
    let mut optimizer = optim::build(&optimizer, &task).unwrap();
    before.after(1, &optimizer.step(1e-3, task, gradient.gradients))
}

/// Returns parts and values of a measure.
fn measure<'a>(diagnosis: &'a Diagnosis, name: &str) -> Vec<(&'a str, f64)> {
    let found = diagnosis.measures.iter().find(|(own, _)| *own == name);
    let (_, parts) = found.unwrap();
    parts.iter().map(|(part, x)| (&part[..], *x)).collect()
}

fn consistent(name: &str, diagnosis: &Diagnosis) {
    let parts = |measure: &[(&str, f64)]| -> Vec<String> {
        measure
            .iter()
            .map(|(part, _)| (*part).to_string())
            .collect()
    };
    let gradients = measure(diagnosis, "gradient_norm");
    for other in ["update_norm", "update_ratio"] {
        assert_eq!(
            parts(&gradients),
            parts(&measure(diagnosis, other)),
            "{name}"
        );
    }
    let mut blocks = parts(&measure(diagnosis, "activation_rms"));
    let mut own: Vec<String> = parts(&gradients)
        .into_iter()
        .filter(|p| p.contains("blocks.") || p.contains("layers."))
        .collect();
    if name.contains("on recurrent") {
        // A decoder that attends to its source before each step is not measured step by step.
        own.retain(|part| !part.starts_with("decoder."));
    }
    let twice = ["text_embedding", "reward"].map(|task| name.starts_with(task));
    if name.contains("with towers") || twice.contains(&true) {
        // One network encodes both texts.
        blocks.retain(|part| !part.starts_with("second."));
    }
    if name.contains("two streams") {
        // The same blocks process tokens and queries; the last block does not process tokens.
        for part in &mut blocks {
            *part = part.trim_start_matches("queries.").to_string();
        }
        blocks.sort_unstable();
        blocks.dedup();
    }
    if name.contains("share_layers") {
        // Blocks that share another's parameters are measured, and have no gradient of their own.
        blocks.retain(|part| own.contains(part));
    }
    if name.contains("a mask decoder") {
        // The last block is measured at the decoder's steps, and in its own place only if that pass is used.
        blocks.retain(|part| !part.contains("mask_decoder."));
        own.retain(|part| blocks.contains(part));
        assert!(!own.is_empty(), "{name}");
    }
    // With several networks, parameters and activations come in different orders.
    blocks.sort_unstable();
    own.sort_unstable();
    assert_eq!(blocks, own, "{name}");
    for (name, numbers) in &diagnosis.measures {
        let fine = |(_, x): &(String, f64)| x.is_finite() && *x >= 0.0;
        let zeros = *name == "update_ratio";
        assert!(zeros || numbers.iter().all(fine), "{name}: {numbers:?}");
    }
}

#[test]
fn parts_have_the_same_names_throughout() {
    for case in cases::cases() {
        consistent(&case.name, &diagnosed(case.build(), case.batch()));
    }
    for (name, task, batch) in examples() {
        let diagnosis = diagnosed(task, batch);
        consistent(&name, &diagnosis);
        let entropies = measure(&diagnosis, "attention_entropy");
        let blocks = measure(&diagnosis, "activation_rms").len();
        match &name[..] {
            "vision" => assert_eq!(entropies.len(), blocks),
            "hybrid" => assert_eq!((entropies.len(), blocks), (2, 4)),
            _ => assert!(entropies.is_empty()),
        }
    }
}

#[test]
fn a_stream_that_was_just_normalised_measures_one() {
    for case in cases::base(8) {
        let case = case.with(&json!({ "norm_placement": "post" }));
        for (part, rms) in readings(&case.build(), &case).activation_rms {
            assert!((rms - 1.0).abs() < 1e-3, "{}: {part} has {rms}", case.name);
        }
    }
}
