//! Successive halving: the choice of arms that continue does not depend on time, processes or crashes, and stopped arms are
//! always marked as such.

use super::processes::kill_all;
use super::{Place, entries, untimed};
use crate::binary::formwork;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Nine trials up to step 2, three of them up to step 6, one up to step 20.
const SEARCH: &str = "seeds = 1\nhalving = { first = 2, eta = 3 }\n\
     [ablation.random]\nsamples = 9\nseed = 5\n[ablation.random.ranges]\n\
     \"optimizer.lr\" = { kind = \"log\", min = 1e-4, max = 3e-2 }\n\
     \"model.dropout\" = { kind = \"uniform\", min = 0.0, max = 0.3 }\n";
const SETS: [&str; 2] = ["--set", "train.eval_every=2"];

fn swept(place: &Place, file: &Path, folder: &str, more: &[&str]) -> (bool, String, String) {
    place.swept(file, folder, &[&SETS[..], more].concat())
}

/// Reads the journal of a run without its times.
fn journal(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines().map(untimed).collect()
}

/// Returns all results of a search: the decisions byte for byte, and the journal of each run. A killed process may have left a
/// decision under its temporary name, which is ignored.
fn found(folder: &Path) -> Vec<(String, String)> {
    let decisions = entries(&folder.join("ledger")).into_iter();
    let decisions = decisions.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("rung-") && name.ends_with(".json")
    });
    let mut all: Vec<(String, String)> = decisions
        .map(|path| (name(folder, &path), fs::read_to_string(&path).unwrap()))
        .collect();
    for arm in entries(&folder.join("cells")) {
        for run in entries(&arm).into_iter().filter(|path| path.is_dir()) {
            all.push((name(folder, &run), journal(&run).join("\n")));
        }
    }
    all
}

fn name(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap().display().to_string()
}

fn compared(folder: &Path) -> Value {
    let mut command = formwork(&["compare", "--json"]);
    let output = command.arg(folder).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn survivors_and_journals_do_not_depend_on_jobs_or_deaths() {
    let place = Place::new();
    let file = place.file("search", SEARCH);
    let (fine, said, told) = swept(&place, &file, "one", &[]);
    assert!(
        fine && said.starts_with(
            "1 cell done, 0 diverged, 0 failed, 0 with other processes, 8 stopped at rungs"
        ),
        "{said}{told}"
    );
    assert!(
        told.contains("rung 1 at step 2: 3 of 9 arms continue, loss "),
        "{told}"
    );
    assert!(
        told.contains("rung 2 at step 6: 1 of 3 arms continue, loss "),
        "{told}"
    );
    let whole = found(&place.path("one"));
    let (fine, ..) = swept(&place, &file, "two", &["--jobs", "2"]);
    assert!(fine);
    assert_eq!(found(&place.path("two")), whole);
    let start = || {
        let more = [&SETS[..], &["--jobs", "2"]].concat();
        place.sweep(&file, "shared", &more).spawn().unwrap()
    };
    for child in [start(), start()] {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && said.starts_with("1 cell done"),
            "{said}"
        );
    }
    assert_eq!(found(&place.path("shared")), whole);
    // Killed in the first rung, in the second, and after it.
    let folder = place.path("killed");
    for marks in [4, 10, 12] {
        let more = [&SETS[..], &["--jobs", "2"]].concat();
        let mut sweep = place.sweep(&file, "killed", &more);
        let mut sweep = sweep
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let arrived = || {
            let files = folder
                .join("ledger")
                .exists()
                .then(|| entries(&folder.join("ledger")));
            let rung = |path: &&PathBuf| {
                let path = path.display().to_string();
                path.contains(".rung.") && !path.ends_with(".tmp")
            };
            files.iter().flatten().filter(rung).count()
        };
        let began = Instant::now();
        while arrived() < marks && began.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_all(&folder);
        sweep.wait().unwrap();
    }
    let (fine, said, told) = swept(&place, &file, "killed", &["--jobs", "2"]);
    assert!(fine && said.starts_with("1 cell done"), "{said}{told}");
    let after_kills = found(&folder);
    for (ours, alone) in after_kills.iter().zip(&whole) {
        assert_eq!(ours, alone);
    }
    assert_eq!(after_kills.len(), whole.len(), "{after_kills:?}");
}

/// A trial is an ordinary run: the one that went through all rungs has the journal and the scores of an uninterrupted run.
#[test]
fn the_winner_is_the_run_that_was_never_paused() {
    let place = Place::new();
    let file = place.file("search", SEARCH);
    assert!(swept(&place, &file, "search", &["--jobs", "2"]).0);
    let folder = place.path("search");
    let found = compared(&folder);
    let first = &found["arms"][0];
    let run = folder.join(first["runs"][0]["path"].as_str().unwrap());
    assert_eq!(first["rung"]["passed"], true);
    assert_eq!(first["runs"][0]["state"], "done");
    let alone = place.path("alone");
    let mut train = formwork(&["train"]);
    train.arg(run.parent().unwrap().join("arm.toml"));
    let output = train
        .args(["--set", "seed=3", "--run"])
        .arg(&alone)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(journal(&run), journal(&alone));
    let scores = |run: &Path| fs::read_to_string(run.join("scores.json")).unwrap();
    assert_eq!(scores(&run), scores(&alone));
    // A stopped trial has the beginning of its journal.
    let last = found["arms"].as_array().unwrap().last().unwrap();
    let stopped = folder.join(last["runs"][0]["path"].as_str().unwrap());
    assert_eq!(last["rung"]["step"], 2);
    assert!(!stopped.join("scores.json").exists());
    let steps = |line: &String| serde_json::from_str::<Value>(line).unwrap()["step"].as_u64();
    assert_eq!(journal(&stopped).iter().filter_map(steps).max(), Some(2));
}

#[test]
fn stopped_arms_are_in_no_mean_and_nothing_is_tested() {
    let place = Place::new();
    let arms = "seeds = 2\nhalving = { first = 2, eta = 2 }\n\
        [[ablation.arms]]\nname = \"sound\"\n\
        [[ablation.arms]]\nname = \"same\"\n\
        [[ablation.arms]]\nname = \"slow\"\nset = { \"optimizer.lr\" = 1e-6 }\n\
        [[ablation.arms]]\nname = \"wild\"\nset = { \"optimizer.lr\" = 1e30, \"train.clip_norm\" = 0.0 }\n";
    let file = place.file("ranks", arms);
    let (fine, said, told) = swept(&place, &file, "ranks", &[]);
    // Of equal arms, the first one in the file continues.
    assert!(
        fine && said.starts_with("2 cells done, 2 diverged, 0 failed")
            && said.contains("4 stopped at rungs"),
        "{said}{told}"
    );
    let rung = fs::read_to_string(place.path("ranks/ledger/rung-1.json")).unwrap();
    let rung: Value = serde_json::from_str(&rung).unwrap();
    let order: Vec<&str> = rung["arms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["arm"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["sound", "same", "slow", "wild"]);
    assert!(rung["arms"][3]["value"].is_null());
    let found = compared(&place.path("ranks"));
    let cells = &found["cells"];
    assert_eq!(
        (&cells["done"], &cells["stopped"], &cells["diverged"]),
        (&2.into(), &4.into(), &2.into())
    );
    for arm in found["arms"].as_array().unwrap() {
        assert!(arm["difference"]["final"].is_null(), "{arm}");
        assert_eq!(arm["final"].is_null(), arm["label"] != "sound", "{arm}");
    }
    let text = formwork(&["compare", "--wide"])
        .arg(place.path("ranks"))
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    for part in [
        "stopped at rung",
        "1 (step 2)",
        "2 (step 4)",
        "2 stopped at a rung",
        "no difference is tested",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    for part in ["p (Holm)", "better", "worse", "difference of"] {
        assert!(!text.contains(part), "{part} is in\n{text}");
    }
}

#[test]
fn a_rung_at_which_no_arm_has_a_value_is_an_error() {
    let place = Place::new();
    let arms = "seeds = 1\nhalving = { first = 2, eta = 2 }\n\
        [[ablation.arms]]\nname = \"wild\"\nset = { \"optimizer.lr\" = 1e30, \"train.clip_norm\" = 0.0 }\n\
        [[ablation.arms]]\nname = \"wilder\"\nset = { \"optimizer.lr\" = 1e31, \"train.clip_norm\" = 0.0 }\n";
    let file = place.file("wild", arms);
    let (fine, said, told) = swept(&place, &file, "wild", &[]);
    assert!(
        !fine && said.starts_with("0 cells done, 2 diverged") && !said.contains("formwork report"),
        "{said}{told}"
    );
    for part in [
        "rung 1 at step 2: 0 of 2 arms continue, since none has a value of loss",
        "error: no cell finished: at rung 1 (step 2) no arm has a value of loss, so none continues; 2 cells diverged, the first \
         with: step ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn its_cost_is_listed_and_a_decided_search_keeps_its_arms() {
    let place = Place::new();
    let file = place.file("search", SEARCH);
    let (fine, said, told) = swept(&place, &file, "search", &["--dry-run", "--no-probe"]);
    // 9·2 + 3·4 + 1·14
    assert!(
        fine && said.contains(
            "halving: 9 arms to step 2, 3 to 6, 1 to 20: 44 steps in total, 24 % of the 180 for training all arms to the end"
        ),
        "{said}{told}"
    );
    assert!(swept(&place, &file, "search", &["--jobs", "2"]).0);
    for (set, what) in [
        ("ablation.random.samples=10", "the arms changed"),
        ("ablation.halving.eta=2", "the rungs changed"),
        ("ablation.seeds=2", "the seeds changed"),
        (
            "ablation.metric=exact_match",
            "the metric that ranks the arms changed",
        ),
    ] {
        let (fine, _, told) = swept(&place, &file, "search", &["--set", set]);
        assert!(!fine && told.contains(what), "{set}: {told}");
    }
    // No cell is left to train.
    let (fine, _, told) = swept(&place, &file, "search", &[]);
    assert!(
        fine && !told.contains(": started") && !told.contains(": resumed"),
        "{told}"
    );
}

/// `train --pause-at` followed by `resume` makes the same run as `train`.
#[test]
fn a_paused_run_goes_on_as_if_it_had_not_paused() {
    let place = Place::new();
    let [whole, parts] = ["whole", "parts"].map(|name| place.path(name));
    let train = |run: &Path, more: &[&str]| {
        let mut command = formwork(&["train"]);
        command
            .arg(place.path("base.toml"))
            .arg("--run")
            .arg(run)
            .args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    train(&whole, &[]);
    let said = train(&parts, &["--pause-at", "7"]);
    assert!(said.starts_with("paused after step 7 in "), "{said}");
    assert!(!parts.join("scores.json").exists());
    // If the run is already at that step, nothing is done.
    assert!(train(&parts, &["--resume", "--pause-at", "7"]).starts_with("paused after step 7"));
    assert!(train(&parts, &["--resume", "--pause-at", "20"]).starts_with("paused after step 20"));
    assert!(
        formwork(&["resume"])
            .arg(&parts)
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(journal(&parts), journal(&whole));
}
