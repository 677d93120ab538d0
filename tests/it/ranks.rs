//! Runs on several processes, here simulated by threads: the bits of a single process, for any number of ranks.

pub mod experiments;
mod faults;
mod resumed;
mod sharded;
mod skips;
mod stopped;

use crate::binary::shipped;
use experiments::Files;
use formwork::collective::Ranks;
use formwork::collective::local::run_on_ranks;
use formwork::error::Result;
use formwork::experiment::run::{Options, Start, resume, train};
use formwork::experiment::{check, load};
use formwork::train::checkpoint;
use formwork::train::job::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn options(ranks: &Ranks) -> Options {
    Options {
        ranks: ranks.clone(),
        ..Options::quiet()
    }
}

/// Trains an experiment file on `count` ranks.
fn trained(count: usize, file: &Path, run: &Path, sets: &[&str]) -> Vec<Result<Outcome>> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).into()).collect();
    run_on_ranks(count, |ranks| {
        let loaded = load(file, &sets)?;
        check(&loaded)?;
        train(&loaded, run, Start::New, options(ranks))
    })
}

fn resumed(count: usize, run: &Path) -> Vec<Result<Outcome>> {
    run_on_ranks(count, |ranks| resume(run, &[], options(ranks)))
}

/// Returns the results of a run: the files of its newest checkpoint, its journals without times, and its scores.
fn content(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let newest = checkpoint::newest_complete(run).found.unwrap();
    let names = [
        "model.safetensors",
        "optimizer.bpk",
        "ema.safetensors",
        "state.safetensors",
    ];
    let files = names.iter().filter_map(|name| {
        let bytes = std::fs::read(newest.folder().join(name)).ok()?;
        Some(((*name).to_string(), bytes))
    });
    let journals = [
        "metrics.jsonl",
        "diagnostics.jsonl",
        "samples.jsonl",
        "scores.json",
    ];
    let journals = journals.iter().filter_map(|name| {
        let text = std::fs::read_to_string(run.join(name)).ok()?;
        let lines = text.lines().map(|line| {
            let Ok(Value::Object(mut line)) = serde_json::from_str(line) else {
                return line.to_string();
            };
            for timing in ["items_per_s", "elapsed_s", "memory_mb"] {
                line.remove(timing);
            }
            Value::Object(line).to_string()
        });
        let lines: Vec<String> = lines.collect();
        Some(((*name).to_string(), lines.join("\n").into_bytes()))
    });
    files.chain(journals).collect()
}

/// Panics with the first file that differs.
fn assert_same(found: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert!(found.keys().eq(wanted.keys()), "{what}: other files");
    for (name, bytes) in found {
        if let (Ok(found), Ok(wanted), true) = (
            std::str::from_utf8(bytes),
            std::str::from_utf8(&wanted[name]),
            name.ends_with(".jsonl"),
        ) {
            assert_eq!(found, wanted, "{what}: {name}");
        }
        assert!(*bytes == wanted[name], "{what}: {name} differs");
    }
}

pub fn every_count_gives_the_same_bits(files: &Files, counts: &[usize], sets: &[&str]) {
    let runs: Vec<_> = counts
        .iter()
        .map(|count| {
            let run = files.path(&format!("run-{count}"));
            for (rank, result) in trained(*count, &files.path("x.toml"), &run, sets)
                .iter()
                .enumerate()
            {
                assert!(result.is_ok(), "rank {rank} of {count}: {result:?}");
            }
            content(&run)
        })
        .collect();
    for (count, run) in counts.iter().zip(&runs).skip(1) {
        assert_same(run, &runs[0], &format!("{count} ranks"));
    }
}

#[test]
fn a_language_model_with_dropout_accumulation_and_an_average() {
    every_count_gives_the_same_bits(&Files::language_model(), &[1, 2, 4], &[]);
}

#[test]
fn a_translation_in_batches_of_tokens() {
    every_count_gives_the_same_bits(&Files::translation(), &[1, 2, 4], &[]);
}

#[test]
fn a_vision_transformer_with_mixup() {
    every_count_gives_the_same_bits(&Files::images(), &[1, 2, 4], &[]);
}

/// The centre of the teacher is computed from the rows of all ranks.
#[test]
fn a_student_of_its_own_average() {
    let file = shipped("experiments/smoke/self_distillation.toml");
    let files = Files::with(&std::fs::read_to_string(file).unwrap(), &[]);
    let sets = [
        "train.steps=6",
        "train.micro_batch_size=4",
        "train.eval_every=3",
        "train.checkpoint_every=3",
    ];
    every_count_gives_the_same_bits(&files, &[1, 2, 4], &sets);
}

#[test]
fn a_classifier_whose_classes_have_weights() {
    let weights = "task.class_weights={ kind = \"given\", weights = [1.0, 2.5, 0.3] }";
    every_count_gives_the_same_bits(&Files::images(), &[1, 2, 4], &[weights]);
}

#[test]
fn a_transformer_xl_that_carries_its_memory() {
    every_count_gives_the_same_bits(&Files::segments(), &[1, 2, 4], &[]);
}

/// Evaluation with as many lanes as a step has is divided into groups among ranks; without accumulation, one rank reads all of
/// them.
#[test]
fn a_carried_evaluation_in_more_lanes() {
    for lanes in [3, 4, 8] {
        let lanes = format!("train.eval_batch_size={lanes}");
        every_count_gives_the_same_bits(&Files::segments(), &[1, 2, 4], &[&lanes]);
    }
}

/// The balance loss is computed within a micro-batch, whichever rank has it.
#[test]
fn experts_with_a_balanced_load() {
    let files = Files::language_model();
    let sets = [
        "model.feed_forward={ kind = \"moe\", n_experts = 4, top_k = 2, balance_loss = 0.01 }",
        "train.steps=3",
    ];
    every_count_gives_the_same_bits(&files, &[1, 4], &sets);
}

#[test]
fn steps_that_are_skipped_are_skipped_by_all() {
    let files = Files::language_model();
    let sets = [
        "train.on_divergence=\"skip\"",
        "train.spike_factor=1.0001",
        "train.steps=30",
        "optimizer.lr=0.3",
    ];
    every_count_gives_the_same_bits(&files, &[1, 2], &sets);
    let journal = std::fs::read_to_string(files.path("run-2/metrics.jsonl")).unwrap();
    assert!(journal.contains("\"skipped\":true"), "{journal}");
}
