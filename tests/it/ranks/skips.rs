//! Residual scales measured before the first step (Admin): every rank measures the same, once.

use super::experiments::Files;
use super::{content, every_count_gives_the_same_bits, resumed, trained};
use crate::transfer::{Arrays, values_of};
use formwork::experiment::{LoadedExperiment, check, load};
use formwork::experiment::{assemble, training};
use formwork::train::checkpoint;
use std::collections::BTreeSet;
use std::path::Path;

const SETS: [&str; 2] = [
    "model.norm_placement=post",
    "model.residual_scale={kind=\"admin\",examples=5}",
];

fn loaded(file: &Path, sets: &[&str]) -> LoadedExperiment {
    let sets: Vec<String> = sets.iter().map(|set| (*set).into()).collect();
    let loaded = load(file, &sets).unwrap();
    check(&loaded).unwrap();
    loaded
}

/// Returns the weights of a new run before its first step.
fn begun(file: &Path, sets: &[&str]) -> Arrays {
    let loaded = loaded(file, &[&SETS[..], sets].concat());
    let (experiment, places) = (&loaded.experiment, loaded.places());
    let data = assemble::training_data(&loaded).unwrap();
    let device = assemble::device(experiment, true).unwrap();
    let weights = assemble::WeightSource::Initial {
        places: &places,
        tokenizers: &data.tokenizers,
    };
    let mut training = training::training(experiment, &data.shape, &device, &weights).unwrap();
    training
        .attach_teacher(experiment, &places, &data, None)
        .unwrap();
    values_of(&training.model)
}

#[test]
fn ranks_measure_the_same() {
    every_count_gives_the_same_bits(&Files::language_model(), &[1, 2, 4], &SETS);
    every_count_gives_the_same_bits(&Files::translation(), &[1, 2], &SETS);
    every_count_gives_the_same_bits(&Files::images(), &[1, 2], &SETS);
}

/// Each residual connection has its own scale, the same for all channels, independent of micro-batches and dropout.
#[test]
fn scales_go_by_the_first_examples_alone() {
    for files in [Files::language_model(), Files::translation()] {
        let file = files.path("x.toml");
        let plain = begun(&file, &[]);
        let scales: Vec<_> = plain
            .iter()
            .filter(|(path, _)| path.ends_with(".skip.omega"))
            .map(|(_, array)| {
                assert!(
                    array
                        .values
                        .iter()
                        .all(|x| *x == array.values[0] && *x > 0.0)
                );
                array.values[0].to_bits()
            })
            .collect();
        let different: BTreeSet<u32> = scales.iter().copied().collect();
        // The first connection of each stack has scale 1.
        assert!(scales.len() >= 4 && different.len() >= scales.len() - 1);
        for other in ["train.micro_batch_size=1", "model.dropout=0.3"] {
            let other = begun(&file, &[other]);
            for (path, array) in &plain {
                assert_eq!(array.values, other[path].values, "{path}");
            }
        }
    }
}

/// A resumed run takes its scales from the checkpoint.
#[test]
fn a_resumed_run_measures_nothing() {
    let files = Files::language_model();
    let [whole, other] = ["whole", "other"].map(|name| files.path(name));
    for run in [&whole, &other] {
        for result in trained(1, &files.path("x.toml"), run, &SETS) {
            result.unwrap();
        }
    }
    for step in checkpoint::steps(&other)
        .into_iter()
        .filter(|step| *step > 4)
    {
        std::fs::remove_dir_all(other.join(format!("steps/{step:08}"))).unwrap();
    }
    std::fs::remove_file(other.join("scores.json")).unwrap();
    for result in resumed(1, &other) {
        result.unwrap();
    }
    super::assert_same(&content(&other), &content(&whole), "resumed");
}
