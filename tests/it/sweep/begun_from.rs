//! Runs that begin from the runs of an arm, each from the one with its own seed.

use super::Place;
use crate::binary::{failure, output};
use std::fs;

const STEPS: &str =
    "seeds = 2\nmetric = \"loss\"\n[ablation.axes]\n\"train.batch_size\" = [4, 8]\n";

#[test]
fn a_run_begins_from_the_run_of_its_seed() {
    let place = Place::new();
    let file = place.file("sizes", STEPS);
    let (fine, said, told) = place.swept(&file, "sizes", &[]);
    assert!(fine, "{said}{told}");
    let cells = place.path("sizes/cells");
    let arm = fs::read_dir(&cells)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let base = place.path("base.toml").display().to_string();
    let train = |from: String, seed: u64, run: &str| {
        let run = place.path(run).display().to_string();
        let sets = [
            format!("init.from={from}"),
            format!("seed={seed}"),
            "train.steps=6".to_string(),
        ];
        let mut arguments = vec!["train".to_string(), base.clone(), "--quiet".into()];
        arguments.extend(["--run".into(), run]);
        arguments.extend(sets.into_iter().flat_map(|set| ["--set".to_string(), set]));
        arguments
    };
    let weights = |run: &str| fs::read(place.path(run).join("latest/model.safetensors")).unwrap();
    for seed in [3, 4] {
        let (of_arm, of_run) = (format!("arm-{seed}"), format!("run-{seed}"));
        output(&train(arm.display().to_string(), seed, &of_arm));
        let own = arm.join(format!("seed-{seed}"));
        output(&train(own.display().to_string(), seed, &of_run));
        assert_eq!(weights(&of_arm), weights(&of_run), "{seed}");
        let other = arm.join(format!("seed-{}", 7 - seed));
        let of_other = format!("other-{seed}");
        output(&train(other.display().to_string(), seed, &of_other));
        assert_ne!(weights(&of_arm), weights(&of_other), "{seed}");
    }
    // The experiment's relative path is stored relative to the run's folder, as in its resolved.toml.
    output(&train("run-3".into(), 3, "after"));
    for (file, wanted) in [
        ("init.json", r#""run": "../run-3""#),
        ("resolved.toml", r#"from = "../run-3""#),
    ] {
        let text = fs::read_to_string(place.path("after").join(file)).unwrap();
        assert!(text.contains(wanted), "{text}");
    }
    // A seed with which the arm was not trained.
    let (status, said) = failure(&train(arm.display().to_string(), 5, "none"));
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("from") && said.contains("seed-5"), "{said}");
}
