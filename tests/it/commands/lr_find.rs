//! `lr-find`: learning rates rise, the loss falls and then diverges, and the suggested rate lies in between.

use std::fs;

use super::json;
use crate::binary::{failure, output};

const TINY: &str = "experiments/smoke/tiny.toml";

#[test]
fn a_range_test_finds_rates_and_draws_them() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("figures").display().to_string();
    let arguments = [
        "lr-find", TINY, "--from", "1e-5", "--to", "30", "--steps", "80", "--out", &out, "--json",
    ];
    let found = json(&output(&arguments));
    let steps = found["steps"].as_array().unwrap();
    let lr = |step: usize| steps[step]["lr"].as_f64().unwrap();
    assert!((lr(0) - 1e-5).abs() < 1e-12);
    let factor = lr(1) / lr(0);
    assert!((1..steps.len()).all(|i| (lr(i) / lr(i - 1) / factor - 1.0).abs() < 1e-9));
    let (steepest, least) = (
        found["steepest"].as_f64().unwrap(),
        found["least"].as_f64().unwrap(),
    );
    // The file trains at 3e-3; a rate of 30 ruins the model.
    assert!(
        1e-4 < steepest && steepest <= least && least < 1.0,
        "{steepest} {least}"
    );
    let csv = fs::read_to_string(format!("{out}/lr_find.csv")).unwrap();
    assert_eq!(csv.lines().count(), steps.len() + 1);
    assert!(
        fs::read_to_string(format!("{out}/lr_find.svg"))
            .unwrap()
            .contains("learning rate")
    );
    assert!(
        fs::read(format!("{out}/lr_find.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    // A second search finds the same: data and weights are functions of the seed.
    assert_eq!(json(&output(&arguments)), found);
    let told = output(&["lr-find", TINY, "--steps", "20"]);
    assert!(
        told.contains("--set optimizer.lr=") || told.contains("did not fall at any rate"),
        "{told}"
    );
}

/// If the schedule takes `lr` as a factor, the suggested key is the factor with which the schedule's peak is the rate that was
/// found.
#[test]
fn the_key_for_a_factor_is_not_the_rate() {
    let arguments = [
        "lr-find", TINY, "--from", "1e-5", "--to", "30", "--steps", "80", "--json",
    ];
    let key = |found: &serde_json::Value| found["optimizer.lr"].as_f64().unwrap();
    let found = json(&output(&arguments));
    let rate = found["steepest"].as_f64().unwrap();
    assert!((key(&found) / rate - 1.0).abs() < 1e-9, "{found}");
    let noam = ["--set", "schedule.kind=noam"];
    let found = json(&output(&[&arguments[..], &noam].concat()));
    assert_eq!(found["steepest"].as_f64(), Some(rate));
    // After 4,000 steps of warmup, the default, and for a width of 32, the rate is lr · 32^-0.5 · 4000^-0.5.
    let factor = (32.0_f64 * 4000.0).sqrt();
    assert!(
        (key(&found) / (rate * factor) - 1.0).abs() < 1e-9,
        "{found}"
    );
}

/// A figure that cannot be written leaves the older file in place: only a complete file replaces it.
#[cfg(unix)]
#[test]
fn figures_are_written_whole_or_not_at_all() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let (out, csv) = (folder.path(), folder.path().join("lr_find.csv"));
    fs::write(&csv, "an older one").unwrap();
    let older = fs::metadata(&csv).unwrap().ino();
    // A hard link keeps the older content after the file was replaced.
    let kept = folder.path().join("kept.csv");
    fs::hard_link(&csv, &kept).unwrap();
    let out = out.display().to_string();
    output(&["lr-find", TINY, "--steps", "10", "--out", &out]);
    assert_ne!(fs::metadata(&csv).unwrap().ino(), older);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "an older one");
}

#[test]
fn wrong_ranges_are_refused() {
    for wrong in [
        &["--from", "1", "--to", "0.1"][..],
        &["--from", "0"],
        &["--from", "1e-320"],
        &["--to", "1e4"],
        &["--to", "nan"],
        &["--steps", "1"],
    ] {
        let (status, _) = failure(&[&["lr-find", TINY], wrong].concat());
        assert_eq!(status, 2, "{wrong:?}");
    }
    let (_, said) = failure(&["lr-find", TINY, "--from", "1e-300"]);
    assert!(said.contains("not between 1e-12 and 1e3"), "{said}");
    assert_eq!(failure(&["lr-find", "none.toml"]).0, 2);
}
