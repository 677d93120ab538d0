//! Runs made from other data, initial weights or teachers are noted and not tested.

use super::sweeps::{compared as swept, study};
use super::{Fixture, compared, page};
use formwork::cli::compare::view;
use formwork::report::analyse::statistics::contrast::{Contrast, Reason, Verdict};
use formwork::report::render::{sheet, terminal};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A checksum of 64 equal digits.
fn sum(digit: &str) -> String {
    digit.repeat(64)
}

/// Checks that an arm's difference is neither reported nor tested because of what its runs were made from.
fn is_left_untested(gap: Option<&Contrast>) {
    let gap = gap.unwrap();
    assert_eq!(gap.difference, None);
    assert_eq!(gap.verdict, Verdict::NotTested(Reason::OtherContents));
}

/// The same for an arm whose values are over other examples.
fn is_of_another_measure(gap: Option<&Contrast>) {
    let gap = gap.unwrap();
    assert_eq!(gap.difference, None);
    assert_eq!(gap.verdict, Verdict::NotTested(Reason::OtherMeasure));
}

/// Records that `[data] path` had content with this checksum.
fn of_data(run: &Path, path: &str, digit: &str) {
    let files = json!([{"key": "path", "path": path, "sha256": sum(digit)}]);
    fs::write(run.join("files.json"), files.to_string()).unwrap();
}

/// Records that the run began from weights with this checksum.
fn of_weights(run: &Path, of_seed: bool, digit: &str) {
    let begun = json!([{"key": "init.from", "run": "/runs/source", "of_seed": of_seed, "checkpoint": "best", "step": 40,
                        "sha256": sum(digit)}]);
    fs::write(run.join("init.json"), begun.to_string()).unwrap();
}

#[test]
fn arms_of_changed_data_are_noted_and_not_tested() {
    let root = tempfile::tempdir().unwrap();
    let folder = study(root.path());
    for arm in ["pre", "post", "pre again"] {
        for seed in 1..=3 {
            let digit = if (arm, seed) == ("post", 2) { "b" } else { "a" };
            let run = folder.join(format!("cells/{arm}/seed-{seed}"));
            of_data(&run, "/data/words.txt", digit);
        }
    }
    let c = swept(&folder);
    is_left_untested(c.results[1].best_gap.as_ref());
    is_left_untested(c.results[1].last_gap.as_ref());
    assert!(c.results[2].last_gap.as_ref().unwrap().difference.is_some());
    let note = "the content of data.path is not the same in all runs (A: aaaaaaaa, B: aaaaaaaa and bbbbbbbb): the difference \
                of B from A is not tested";
    assert!(c.notes.iter().any(|n| n == note), "{:#?}", c.notes);
    assert!(view(&c, true, None).contains("is not tested"));
    let shown = terminal::markdown(&sheet::sheet(&c).text(false));
    assert!(
        shown.contains("not tested: data or weights differ"),
        "{shown}"
    );
    assert!(page(&c).contains("is not tested"));
}

/// `resume --other-data` leaves a record in `files.json`.
#[test]
fn data_that_changed_on_the_way_is_noted_and_not_tested() {
    let root = tempfile::tempdir().unwrap();
    let [whole, changed] = ["whole", "changed"].map(|name| {
        let settings = "[data]\nkind = \"text\"\npath = \"words.txt\"";
        Fixture::new(name, 1, settings, &[(100, 2.0), (200, 1.0)]).write(root.path())
    });
    of_data(&whole, "/data/words.txt", "b");
    let files = json!([{"key": "path", "path": "/data/words.txt", "sha256": sum("b"), "earlier": [
        {"until": 50, "path": "/old/words.txt.gz", "sha256": sum("a")}]}]);
    fs::write(changed.join("files.json"), files.to_string()).unwrap();
    let c = compared(&[whole, changed]);
    is_left_untested(c.results[1].last_gap.as_ref());
    let values = c.differing.iter().find(|d| d.key == "data.path").unwrap();
    let told = "words.txt (aaaaaaaa) → words.txt (bbbbbbbb) at 50, no checkpoint since";
    assert_eq!(values.values[1].as_deref(), Some(told));
    assert!(c.notes.iter().any(|n| n.ends_with(told)), "{:#?}", c.notes);
    let note = "the content of data.path is not the same in all runs (A: bbbbbbbb, B: aaaaaaaa bbbbbbbb): the difference of B \
                from A is not tested";
    assert!(c.notes.iter().any(|n| n == note), "{:#?}", c.notes);
}

/// Writes a run with this name and seed, its `[init] from`, and the record of it.
fn begun(root: &Path, name: &str, seed: u64, of_seed: bool, digit: &str) -> PathBuf {
    let settings = "[init]\nfrom = \"../source\"";
    let valid = [(100, 2.0), (200, 1.0 + 0.1 * seed as f64)];
    let run = Fixture::new(name, seed, settings, &valid).write(root);
    of_weights(&run, of_seed, digit);
    run
}

#[test]
fn runs_of_other_initial_weights_are_other_arms() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path();
    let runs = [
        begun(at, "a-1", 1, false, "a"),
        begun(at, "a-2", 2, false, "a"),
        begun(at, "b-1", 1, false, "b"),
        begun(at, "b-2", 2, false, "b"),
    ];
    let c = compared(&runs);
    assert_eq!(c.arms.len(), 2);
    assert_eq!(c.differing[0].key, "init.from");
    assert_eq!(
        c.differing[0].values[1].as_deref(),
        Some("source step 40 (bbbbbbbb)")
    );
    is_left_untested(c.results[1].last_gap.as_ref());
    let note = "the content of init.from is not the same in all runs (A: aaaaaaaa, B: bbbbbbbb): the difference of B from A is \
                not tested";
    assert!(c.notes.iter().any(|n| n == note), "{:#?}", c.notes);
    // Each seed began from a run with the same seed.
    let runs = [
        begun(at, "c-1", 1, true, "a"),
        begun(at, "c-2", 2, true, "b"),
    ];
    let c = compared(&runs);
    assert_eq!(c.arms.len(), 1);
    assert!(!c.notes.iter().any(|n| n.contains("init.from")));
}

#[test]
fn runs_of_other_teachers_are_other_arms() {
    let root = tempfile::tempdir().unwrap();
    let runs = [("a", 1), ("b", 1)].map(|(name, seed)| {
        let settings = "[task]\nkind = \"distillation\"\nteacher = \"../big\"";
        let run = Fixture::new(name, seed, settings, &[(200, 1.0)]).write(root.path());
        let print = json!({"step": 7, "sha256": sum(name)});
        fs::write(run.join("teacher.json"), print.to_string()).unwrap();
        run
    });
    let c = compared(&runs);
    let values: Vec<Option<&str>> = c.differing[0].values.iter().map(Option::as_deref).collect();
    assert_eq!(c.differing[0].key, "task.teacher");
    assert_eq!(
        values,
        [Some("big step 7 (aaaaaaaa)"), Some("big step 7 (bbbbbbbb)")]
    );
    assert!(c.notes.iter().any(|n| n.contains("task.teacher")));
}

#[test]
fn other_validation_examples_are_noted() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, data: &str| {
        let settings = format!("[data]\nkind = \"text\"\n{data}");
        Fixture::new(name, 1, &settings, &[(200, 1.0)]).write(root.path())
    };
    let noted = |runs: &[PathBuf]| {
        let notes = compared(runs).notes.into_iter();
        notes
            .filter(|n| n.contains("valid examples"))
            .collect::<Vec<_>>()
    };
    let shares = [0.1, 0.2].map(|n| run(&format!("share-{n}"), &format!("valid_fraction = {n}")));
    assert_eq!(
        noted(&shares),
        [
            "runs differ in their valid examples (data.valid_fraction: 0.1 | 0.2): loss is measured on different examples, so \
             their differences are not tested"
        ]
    );
    is_of_another_measure(compared(&shares).results[1].last_gap.as_ref());
    // A fraction of another text is held out, so validation values are over other examples.
    let texts = ["c", "d"].map(|digit| {
        let run = run(digit, "path = \"words.txt\"\nvalid_fraction = 0.1");
        of_data(&run, &format!("/data/{digit}/words.txt"), digit);
        run
    });
    assert_eq!(
        noted(&texts),
        [
            "runs differ in their valid examples (data.path: words.txt (cccccccc) | words.txt (dddddddd)): loss is measured on \
             different examples, so their differences are not tested"
        ]
    );
    is_left_untested(compared(&texts).results[1].last_gap.as_ref());
    // Other training texts with the same validation texts: a comparison of data.
    let same = ["e", "f"].map(|digit| {
        let run = run(digit, "path = \"words.txt\"\nvalid_path = \"held.txt\"");
        let path = format!("/data/{digit}/words.txt");
        let files = json!([{"key": "path", "path": path, "sha256": sum(digit)},
                           {"key": "valid_path", "path": "/data/held.txt", "sha256": sum("0")}]);
        fs::write(run.join("files.json"), files.to_string()).unwrap();
        run
    });
    assert!(noted(&same).is_empty());
    let c = compared(&same);
    let gap = c.results[1].last_gap.as_ref().unwrap();
    assert!(gap.difference.is_some());
    assert!(!c.notes.iter().any(|n| n.contains("the content of")));
}
