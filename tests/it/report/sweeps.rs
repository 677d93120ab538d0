//! Sweeps: arms from the plan, the baseline first, cells that failed, statistics computed by hand.

use super::Fixture;
use formwork::cli::compare::{headline, view};
use formwork::report::analyse::cells::Cells;
use formwork::report::analyse::comparison::{Comparison, Options, compare};
use formwork::report::analyse::selection::Selection;
use formwork::report::analyse::statistics::contrast::{Reason, Verdict};
use formwork::report::render::{json, sheet, terminal};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

/// How a cell of an artificial sweep ended.
pub enum End {
    Done(Vec<(u64, f64)>),
    Diverged(Vec<(u64, f64)>),
    Failed(&'static str),
    Absent,
}

/// One arm: its name, its settings, FLOPs per item, and a cell for each seed from 1 on.
pub struct Planned<'a> {
    pub name: &'a str,
    pub settings: &'a [(&'a str, &'a str)],
    pub flops_per_item: f64,
    pub cells: Vec<End>,
}

/// Writes a sweep's folder: plan, ledger, runs.
pub fn write(root: &Path, baseline: &str, axes: &[&str], arms: &[Planned]) -> PathBuf {
    let folder = root.join("study");
    fs::create_dir_all(folder.join("ledger")).unwrap();
    let seeds: Vec<usize> = (1..=arms[0].cells.len()).collect();
    let planned = |arm: &Planned| {
        let settings: serde_json::Map<_, _> = arm
            .settings
            .iter()
            .map(|(k, v)| (k.to_string(), json!(v)))
            .collect();
        json!({"name": arm.name, "folder": arm.name, "settings": settings, "steps": 200, "params": 1000,
               "flops_per_item": arm.flops_per_item})
    };
    let plan = json!({"name": "study", "metric": "loss", "baseline": baseline, "axes": axes, "seeds": seeds,
                      "arms": arms.iter().map(planned).collect::<Vec<_>>()});
    fs::write(folder.join("sweep.json"), plan.to_string()).unwrap();
    for arm in arms {
        for (seed, cell) in (1..).zip(&arm.cells) {
            write_cell(&folder, arm, seed, cell);
        }
    }
    folder
}

fn write_cell(folder: &Path, arm: &Planned, seed: u64, cell: &End) {
    let (state, reason, valid) = match cell {
        End::Done(valid) => ("done", "", Some(valid)),
        End::Diverged(valid) => ("diverged", "the loss is not a number", Some(valid)),
        End::Failed(reason) => ("failed", *reason, None),
        End::Absent => return,
    };
    let end = json!({"state": state, "reason": reason, "attempts": 1});
    let file = format!("{}.seed-{seed}.end.json", arm.name);
    fs::write(folder.join("ledger").join(file), end.to_string()).unwrap();
    let Some(valid) = valid else { return };
    let mut settings: Vec<String> = arm
        .settings
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    settings.push("[model]\nd_model = 64".into());
    let run = Fixture::new(&format!("seed-{seed}"), seed, &settings.join("\n"), valid);
    run.write(&folder.join("cells").join(arm.name));
}

/// The sweep of these tests: a baseline that is not the first arm, an A/A arm, and an arm of which some cells failed.
pub fn study(root: &Path) -> PathBuf {
    let done = |last: f64| End::Done(vec![(0, 3.0), (100, 2.0), (200, last)]);
    let losses = |losses: [f64; 3]| losses.map(done).into();
    let arms = [
        Planned {
            name: "post",
            settings: &[("norm", "\"post\"")],
            flops_per_item: 2e6,
            cells: losses([1.478, 1.481, 1.490]),
        },
        Planned {
            name: "pre",
            settings: &[("norm", "\"pre\"")],
            flops_per_item: 1e6,
            cells: losses([1.512, 1.498, 1.530]),
        },
        Planned {
            name: "pre again",
            settings: &[("norm", "\"pre\"")],
            flops_per_item: 1e6,
            cells: losses([1.512, 1.498, 1.530]),
        },
        Planned {
            name: "deep_norm & co",
            settings: &[("norm", "\"deep\"")],
            flops_per_item: 1e6,
            cells: vec![
                End::Diverged(vec![(0, 3.0), (100, 2.0), (200, f64::NAN)]),
                End::Failed("out of memory"),
                End::Absent,
            ],
        },
    ];
    write(root, "pre", &["norm"], &arms)
}

pub fn compared(folder: &Path) -> Comparison {
    compare(
        Selection::read(from_ref(&folder.to_path_buf())).unwrap(),
        &Options::default(),
    )
    .unwrap()
}

#[test]
fn arms_are_those_of_the_plan_with_the_baseline_first() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&study(root.path()));
    let arms: Vec<(&str, &str, usize)> = c
        .arms
        .iter()
        .map(|a| (a.id.as_str(), a.label.as_str(), a.counted.len()))
        .collect();
    // An A/A arm has the baseline's settings and is still a separate arm.
    assert_eq!(
        arms,
        [
            ("A", "pre", 3),
            ("B", "post", 3),
            ("C", "pre again", 3),
            ("D", "deep_norm & co", 0)
        ]
    );
    let norms: Vec<Option<&str>> = c.differing[0].values.iter().map(Option::as_deref).collect();
    assert_eq!(c.differing[0].key, "norm");
    assert_eq!(
        norms,
        [Some("pre"), Some("post"), Some("pre"), Some("deep")]
    );
    let gap = |i: usize| c.results[i].last_gap.as_ref().unwrap();
    assert_eq!(gap(1).pairs, 3);
    assert!((gap(1).difference.unwrap() + 0.030333333333333323).abs() < 1e-12);
    assert_eq!(gap(2).verdict, Verdict::NotTested(Reason::Identical));
    assert_eq!(gap(3).verdict, Verdict::NotTested(Reason::NoValues));
}

#[test]
fn cells_that_did_not_end_well_are_counted_and_named() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&study(root.path()));
    assert_eq!(
        Cells::of(&c.arms, &c.runs),
        Cells {
            planned: 12,
            done: 9,
            diverged: 1,
            failed: 1,
            stopped: 0,
            unfinished: 0,
            not_begun: 1
        }
    );
    assert_eq!(
        headline(&c),
        "study: 12 cells in 4 arms (9 done, 1 diverged, 1 failed, 1 not begun); 1 setting differs"
    );
    for note in [
        "D (cells/deep_norm & co/seed-1): diverged at step 200; excluded from means",
        "D (deep_norm & co, seed 2): failed: out of memory",
        "D (deep_norm & co, seed 3): not begun",
        "D: 1 of 1 runs diverged, 95 % interval 21 to 100 %; p 0.250 against A",
    ] {
        assert!(c.notes.iter().any(|n| n == note), "{note}: {:#?}", c.notes);
    }
    assert!(view(&c, true, Some(100)).contains("1 diverged, 1 failed, 1 not begun"));
    let object = json::json(&c);
    assert_eq!(object["cells"]["not_begun"], 1);
    assert_eq!(
        object["arms"][3]["absent"][0]["state"],
        "failed: out of memory"
    );
    assert_eq!(object["arms"][1]["runs"][0]["path"], "cells/post/seed-1");
}

/// Curves with the values 3, 2, L at steps 0, 100, 200: the mean height is (2.5 + (2 + L)/2)/2; the step at which a curve
/// reaches the target is interpolated linearly.
#[test]
fn learning_is_measured_on_one_yardstick() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&study(root.path()));
    assert_eq!(c.yardstick.range, Some((0.0, 200.0)));
    let target = (1.512 + 1.498 + 1.530) / 3.0;
    assert!((c.yardstick.target.unwrap() - target).abs() < 1e-12);
    let post = c.results[1].learning;
    let height = |last: f64| (2.5 + f64::midpoint(2.0, last)) / 2.0;
    let mean = (height(1.478) + height(1.481) + height(1.490)) / 3.0;
    assert!((post.area.unwrap().mean - mean).abs() < 1e-12);
    assert_eq!((post.reached.events, post.reached.n), (3, 3));
    let steps = |last: f64| 100.0 + 100.0 * (2.0 - target) / (2.0 - last);
    let mean = (steps(1.478) + steps(1.481) + steps(1.490)) / 3.0;
    assert!((post.reach.unwrap().mean - mean).abs() < 1e-9);
    // Two of the baseline's three runs end below its mean.
    assert_eq!(c.results[0].learning.reached.events, 2);
    let options = Options {
        reach: Some(2.5),
        ..Options::default()
    };
    let folder = study(root.path());
    let c = compare(Selection::read(&[folder]).unwrap(), &options).unwrap();
    assert_eq!(c.results[0].learning.reach.unwrap().mean, 50.0);
}

/// A cell that was resumed with more steps than its arm has.
#[test]
fn arms_of_other_steps_are_not_tested() {
    let root = tempfile::tempdir().unwrap();
    let folder = study(root.path());
    let longer = Fixture::new("seed-2", 2, "norm = \"post\"", &[(0, 3.0), (400, 1.4)]);
    longer.write(&folder.join("cells/post"));
    let c = compared(&folder);
    let gap = |i: usize| c.results[i].last_gap.as_ref().unwrap();
    assert_eq!(gap(1).verdict, Verdict::NotTested(Reason::OtherSteps));
    assert_eq!(
        (gap(1).p, gap(1).p_holm, gap(1).interval()),
        (None, None, None)
    );
    assert!(gap(1).difference.is_some());
    assert_eq!(gap(2).verdict, Verdict::NotTested(Reason::Identical));
    let note = "runs were trained for different numbers of steps (A: 200, B: 200 and 400): their differences are not tested";
    assert_eq!(c.notes[0], note);
    for table in [sheet::sheet(&c), sheet::paper_sheet(&c)] {
        let shown = terminal::markdown(&table.text(false));
        assert!(shown.contains("200–400"), "{shown}");
        assert!(shown.contains("not tested: steps differ"), "{shown}");
    }
}

/// scipy 1.17, and all 27 resamples of three differences by hand: the BCa interval lies within the differences.
#[test]
fn differences_have_bootstrap_intervals() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&study(root.path()));
    let bootstrap = c.results[1].last_gap.as_ref().unwrap().bootstrap.unwrap();
    assert_eq!(bootstrap.drawn, None);
    assert!(bootstrap.bca.low >= -0.040 - 1e-9 && bootstrap.bca.high <= -0.017 + 1e-9);
    let full = sheet::without_settings(&c);
    let titles: Vec<&str> = full
        .columns
        .iter()
        .map(|(title, _)| title.as_str())
        .collect();
    for title in [
        "median",
        "bootstrap [95 %]",
        "mean height",
        "steps to 1.513",
        "reached",
        "diverged",
    ] {
        assert!(titles.contains(&title), "{title}: {titles:?}");
    }
    let brief = terminal::markdown(&sheet::sheet(&c).text(false));
    assert!(
        !brief.contains("bootstrap"),
        "the terminal has what fits it"
    );
}

#[test]
fn a_sweep_is_compared_alone_and_its_faults_are_explained() {
    let root = tempfile::tempdir().unwrap();
    let folder = study(root.path());
    let fault = |paths: &[PathBuf], options: &Options| {
        let read = Selection::read(paths).and_then(|selection| compare(selection, options));
        let error = read.unwrap_err();
        assert_eq!(error.exit_status(), 2);
        error.to_string()
    };
    let shown = folder.display();
    let run = folder.join("cells/pre/seed-1");
    assert_eq!(
        fault(&[folder.clone(), run], &Options::default()),
        format!(
            "{shown} is a sweep: compare it alone, or name its runs, for example {shown}/cells/*/seed-*/"
        )
    );
    let each = Options {
        each: true,
        ..Options::default()
    };
    assert_eq!(
        fault(from_ref(&folder), &each),
        format!(
            "--each has no effect on a sweep, whose plan defines the arms; name its runs instead, for example {shown}/cells/*/seed-*/"
        )
    );
    fs::remove_dir_all(folder.join("cells")).unwrap();
    assert_eq!(
        fault(from_ref(&folder), &Options::default()),
        format!("{shown}: no run of the sweep has started yet")
    );
    fs::write(folder.join("sweep.json"), "{\"name\": 3}").unwrap();
    assert!(
        fault(from_ref(&folder), &Options::default())
            .contains("sweep.json:1: not the plan of a sweep")
    );
}
