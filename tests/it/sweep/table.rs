//! The table of a sweep: no difference where there is none, and a planted one is found.

use super::Place;
use serde_json::Value;

/// Returns the arms of a sweep of a few steps, as shown by `compare --json`.
fn arms(ablation: &str) -> Vec<Value> {
    let place = Place::new();
    let file = place.file("table", ablation);
    let short = [
        "train.steps=4",
        "train.eval_every=4",
        "schedule.warmup_steps=1",
    ];
    let mut flags = vec!["--jobs", "2"];
    flags.extend(short.iter().flat_map(|set| ["--set", set]));
    let (fine, said, told) = place.swept(&file, "table", &flags);
    assert!(fine, "{said}{told}");
    assert!(
        said.contains("best valid loss"),
        "a sweep ends with its table: {said}"
    );
    let folder = place.path("table").display().to_string();
    let compared = crate::binary::output(&["compare", &folder, "--json"]);
    let mut compared: Value = serde_json::from_str(&compared).unwrap();
    serde_json::from_value(compared["arms"].take()).unwrap()
}

/// The same arm twice, with twenty seeds: pairs are equal bit for bit.
#[test]
fn an_arm_does_not_differ_from_itself() {
    let arms = arms(
        "seeds = 20\n[[ablation.arms]]\nname = \"one\"\n[[ablation.arms]]\nname = \"again\"\n",
    );
    assert_eq!(arms[1]["label"], "again");
    let difference = &arms[1]["difference"]["final"];
    assert_eq!(difference["pairs"], 20);
    assert_eq!(difference["mean"], 0.0);
    assert_eq!(difference["p"], Value::Null);
    assert_eq!(difference["p_holm"], Value::Null);
    assert_eq!(difference["verdict"]["not_tested"], "identical");
}

#[test]
fn a_slower_arm_is_found_to_be_worse() {
    let slower = "{ \"optimizer.lr\" = 1e-3 }";
    let text = format!(
        "seeds = 6\n[[ablation.arms]]\nname = \"base\"\n[[ablation.arms]]\nname = \"slow\"\nset = {slower}\n"
    );
    let arms = arms(&text);
    let difference = &arms[1]["difference"]["final"];
    assert_eq!(difference["pairs"], 6);
    assert!(
        difference["p_holm"].as_f64().unwrap() < 0.05,
        "{difference}"
    );
    assert!(
        difference["interval"]["low"].as_f64().unwrap() > 0.0,
        "{difference}"
    );
    let bootstrap = &difference["bootstrap"]["bca"];
    assert!(bootstrap["low"].as_f64().unwrap() > 0.0, "{difference}");
}

/// With `--plain`, lines and tables use only ASCII, even if the locale allows more.
#[test]
fn a_plain_sweep_draws_with_ascii() {
    let place = Place::new();
    let file = place.file(
        "plain",
        "seeds = 2\naxes = { \"model.n_layers\" = [1, 2] }\n",
    );
    let swept = |more: &[&str]| {
        let short = ["--set", "train.steps=2", "--set", "train.eval_every=2"];
        let flags = [&short[..], &["--set", "schedule.warmup_steps=1"], more].concat();
        let mut command = place.sweep(&file, "plain", &flags);
        let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = swept(&["--plain"]);
    assert!(plain.is_ascii() && plain.contains("+-"), "{plain}");
    assert!(swept(&[]).contains('±'));
}

/// Finished arms were not stopped at any rung, so rungs cannot be added to their sweep.
#[test]
fn rungs_do_not_come_to_arms_that_are_done() {
    let place = Place::new();
    let arms = "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n";
    let file = place.file("whole", arms);
    let evaluated = ["--set", "train.eval_every=2"];
    assert!(place.swept(&file, "whole", &evaluated).0);
    let rungs = ["--set", "ablation.halving={ first = 2, eta = 2 }"];
    let (fine, _, told) = place.swept(&file, "whole", &[evaluated, rungs].concat());
    let rule = "cells were already trained to the end without it";
    assert!(
        !fine && told.contains("[ablation.halving]") && told.contains(rule),
        "{told}"
    );
    assert!(place.swept(&file, "whole", &evaluated).0);
}

/// A run that was damaged after its end has no results to show.
#[test]
fn a_sweep_without_its_table_fails() {
    let place = Place::new();
    let arms = "seeds = 1\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n";
    let file = place.file("cut", arms);
    assert!(place.swept(&file, "cut", &[]).0);
    let resolved = "cut/cells/n_layers_2/seed-3/resolved.toml";
    std::fs::write(place.path(resolved), "name\n").unwrap();
    let ended = place.sweep(&file, "cut", &[]).output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(
        told.contains("error: there is no table: ") && told.contains(&format!("{resolved}:1: ")),
        "{told}"
    );
}
