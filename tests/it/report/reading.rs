//! Run folders that are torn, short, diverged, stopped early, or no run at all.

use super::{Fixture, compared, page};
use formwork::cli::compare::view;
use formwork::error::Error;
use formwork::report::analyse::comparison::{Options, compare};
use formwork::report::analyse::curves::curve;
use formwork::report::analyse::metrics::more_is_better;
use formwork::report::analyse::statistics::contrast::{Reason, Verdict};
use formwork::report::read::listing::RunListing;
use formwork::report::read::run;
use formwork::report::render::{json, sheet, terminal};
use formwork::train::evaluation::Scores;
use std::fs;

#[test]
fn torn_lines_and_different_lengths_are_no_obstacle() {
    let root = tempfile::tempdir().unwrap();
    let long = Fixture::new("long-1", 1, "", &[(100, 2.0), (200, 1.0)]).write(root.path());
    let short = Fixture::new("long-2", 2, "", &[(100, 4.0)]).write(root.path());
    let journal = short.join("metrics.jsonl");
    let text = fs::read_to_string(&journal).unwrap() + "garbage\n{\"step\":200,\"split\":\"val";
    fs::write(&journal, text).unwrap();
    let c = compared(&[long, short]);
    assert_eq!(c.runs[1].journal.last_step, 100);
    assert_eq!(c.runs[1].state(), "step 100 of 200");
    assert_eq!(
        c.arms[0].counted,
        [0],
        "an unfinished run does not count beside a finished one"
    );
    assert_eq!(c.results[0].best.unwrap().mean, 1.0);
    assert!(
        c.notes
            .iter()
            .any(|n| n.ends_with("step 100 of 200; excluded from means and curves")),
        "{:?}",
        c.notes
    );
    assert!(
        c.notes
            .iter()
            .any(|n| n.ends_with("1 unreadable line(s) of metrics.jsonl were skipped"))
    );
    let both: Vec<&run::Run> = c.runs.iter().collect();
    let points: Vec<(u64, f64, usize)> = curve(&both, "valid", "loss", 100)
        .iter()
        .map(|b| (b.step, b.mean, b.n))
        .collect();
    assert_eq!(points, [(100, 3.0, 2), (200, 1.0, 1)]);
}

#[test]
fn a_diverged_run_has_no_final_value() {
    let root = tempfile::tempdir().unwrap();
    let runs = [
        Fixture::new("a", 1, "[model]\nx = 1", &[(100, 2.0), (200, 1.5)]),
        Fixture::new(
            "b",
            1,
            "[model]\nx = 2",
            &[(100, 2.5), (150, f64::NAN), (200, f64::NAN)],
        ),
    ];
    let c = compared(&runs.map(|r| r.write(root.path())));
    assert_eq!(c.runs[1].state(), "diverged at step 150");
    assert_eq!(c.outcomes[1].best, Some((Some(100), 2.5)));
    assert!(c.outcomes[1].last.is_none());
    let gap = c.results[1].last_gap.as_ref().unwrap();
    assert_eq!(gap.verdict, Verdict::NotTested(Reason::NoValues));
    assert_eq!(
        json::json(&c)["arms"][1]["runs"][0]["final"],
        serde_json::Value::Null
    );
}

/// Of the 70 ways to choose four diverged runs out of eight, two are as uneven as none against all: p is 2/70, and Holm's
/// correction multiplies it by three. No run of D or of A diverged.
#[test]
fn tests_of_divergence_are_corrected_for_all_arms() {
    let root = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for (arm, diverged) in [("a", 0), ("b", 4), ("c", 4), ("d", 0), ("e", 1)] {
        for seed in 1..=4 {
            let last = if seed <= diverged { f64::NAN } else { 1.5 };
            let valid = [(100, 2.0), (200, last)];
            let settings = format!("[model]\nx = \"{arm}\"");
            let run = Fixture::new(&format!("{arm}-{seed}"), seed, &settings, &valid);
            runs.push(run.write(root.path()));
        }
    }
    let c = compared(&runs);
    let told = |text: &str| c.notes.iter().any(|note| note.contains(text));
    for text in [
        "B: 4 of 4 runs diverged, 95 % interval 51 to 100 %; p 0.086 against A, corrected for 3 arms",
        "C: 4 of 4 runs diverged, 95 % interval 51 to 100 %; p 0.086 against A, corrected for 3 arms",
        "E: 1 of 4 runs diverged, 95 % interval 5 to 70 %; p 1.000 against A, corrected for 3 arms",
    ] {
        assert!(told(text), "{text}: {:#?}", c.notes);
    }
}

/// With `on_divergence = "skip"`, a loss that is not finite does not end a run, not even at the last step.
#[test]
fn a_run_that_skipped_its_last_step_is_done() {
    let root = tempfile::tempdir().unwrap();
    let folder = Fixture::new("a", 1, "", &[(100, 2.0), (199, 1.5)]).write(root.path());
    let file = folder.join("metrics.jsonl");
    let journal = |last: &str| {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text + last).unwrap();
        run::read(&folder).unwrap()
    };
    let skipped = r#"{"step":200,"split":"train","loss":null,"skipped":true,"samples":[3]}"#;
    let done = journal(&format!("{skipped}\n"));
    assert_eq!((done.diverged_at(), done.state().as_str()), (None, "done"));
    let c = compared(std::slice::from_ref(&folder));
    assert_eq!(c.outcomes[0].last, Some((Some(199), 1.5)));
    // A run that skipped too many steps ends with a line without that mark.
    let ended = r#"{"step":200,"split":"train","loss":null,"diverged":true,"samples":[3]}"#;
    let lost = journal(&format!("{ended}\n"));
    assert_eq!(lost.state(), "diverged at step 200");
}

#[test]
fn early_stopping_is_an_end_and_scores_stand_in_for_evaluations() {
    let root = tempfile::tempdir().unwrap();
    let folder = Fixture::new("patient", 1, "", &[(100, 2.0)]).write(root.path());
    let resolved = folder.join("resolved.toml");
    let text = fs::read_to_string(&resolved).unwrap();
    fs::write(&resolved, text + "patience = 3\n").unwrap();
    fs::write(
        folder.join("scores.json"),
        r#"{"valid":{"loss":2.0},"test":{"loss":2.25}}"#,
    )
    .unwrap();
    let run = run::read(&folder).unwrap();
    assert_eq!(
        (run.state().as_str(), run.is_done()),
        ("stopped early at step 100", true)
    );
    let table = terminal::table(
        &sheet::sheet(&compared(std::slice::from_ref(&folder))).text(true),
        None,
    );
    assert!(
        table.contains("test loss") && table.contains("2.250"),
        "{table}"
    );

    fs::remove_file(folder.join("metrics.jsonl")).unwrap();
    let c = compared(std::slice::from_ref(&folder));
    assert_eq!(c.outcomes[0].best, Some((None, 2.0)));
    fs::remove_file(folder.join("scores.json")).unwrap();
    assert_eq!(
        run::read(&folder).unwrap().state(),
        "step 0 of 200, never evaluated"
    );
}

/// `eval` also writes scores for a run that was interrupted.
#[test]
fn a_run_that_waits_for_a_better_evaluation_has_not_stopped_early() {
    let root = tempfile::tempdir().unwrap();
    let folder = Fixture::new("waits", 1, "", &[(100, 2.0)]).write(root.path());
    let resolved = folder.join("resolved.toml");
    let text = fs::read_to_string(&resolved).unwrap();
    fs::write(&resolved, text + "patience = 3\n").unwrap();
    fs::write(folder.join("scores.json"), r#"{"valid":{"loss":2.0}}"#).unwrap();
    let saved = folder.join("steps/00000100");
    fs::create_dir_all(&saved).unwrap();
    for (waited, state, listed) in [
        (2, "step 100 of 200", "stopped"),
        (3, "stopped early at step 100", "stopped early"),
    ] {
        let counted = format!("{{\"evaluations_without_improvement\": {waited}}}");
        fs::write(saved.join("state.json"), counted).unwrap();
        let run = run::read(&folder).unwrap();
        assert_eq!((run.state().as_str(), run.is_done()), (state, waited == 3));
        assert_eq!(RunListing::read(folder.clone()).state(), listed);
    }
}

/// The checkpoint that `best_by` keeps is the one that a report calls best, whatever the metric is called.
#[test]
fn a_metric_has_one_direction() {
    let known = ["loss", "perplexity", "bits_per_byte", "ter", "nsp_loss"];
    let other = [
        "accuracy",
        "mlm_accuracy",
        "bleu",
        "mcc",
        "wer",
        "grad_norm",
    ];
    for metric in known.into_iter().chain(other) {
        let scores = Scores {
            loss: 2.0,
            metrics: [(metric.to_string(), 2.0)].into(),
            confusion: None,
        };
        let compared = scores.comparison_value(metric).unwrap();
        assert_eq!(compared == -2.0, more_is_better(metric), "{metric}");
        assert_eq!(compared.abs(), 2.0);
    }
    assert!(more_is_better("bleu") && !more_is_better("wer"));
}

#[test]
fn wrong_folders_and_metrics_are_explained() {
    let root = tempfile::tempdir().unwrap();
    let pre = Fixture::new("pre-1", 1, "", &[(200, 1.0)]).write(root.path());
    fs::create_dir(root.path().join("empty")).unwrap();
    let shown = root.path().display();
    let message = |name: &str| {
        run::read_all(&[root.path().join(name)])
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        message("pre-2"),
        format!("{shown}/pre-2: no such run folder; did you mean {shown}/pre-1?")
    );
    let sweep = root.path().join("norms");
    fs::create_dir(&sweep).unwrap();
    fs::write(sweep.join("sweep.json"), "{}").unwrap();
    assert_eq!(
        message("norm"),
        format!("{shown}/norm: no such run folder; did you mean {shown}/norms?")
    );
    assert_eq!(
        message("empty"),
        format!(
            "{shown}/empty: not a run folder (it has no resolved.toml); there are runs, for example {shown}/pre-1"
        )
    );
    assert_eq!(
        run::read_all(&[root.path().to_path_buf()])
            .unwrap_err()
            .to_string(),
        format!("{shown}: not a run folder, but it contains 1: name them, for example {shown}/*")
    );
    let both = run::read_all(&[root.path().join("x1"), root.path().join("x2")]).unwrap_err();
    assert!(matches!(both, Error::Invalid(faults) if faults.len() == 2));

    let options = Options {
        metric: Some("acuracy".into()),
        ..Options::default()
    };
    let wrong = compare(run::read_all(std::slice::from_ref(&pre)).unwrap(), &options).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "--metric: no run has `acuracy`; did you mean `accuracy`?"
    );
    fs::write(pre.join("resolved.toml"), "a = 1\nb = \n").unwrap();
    let broken = run::read(&pre).unwrap_err().to_string();
    assert!(
        broken.starts_with(&format!("{shown}/pre-1/resolved.toml:2: ")),
        "{broken}"
    );
}

#[test]
fn absurd_numbers_are_shown_and_never_panic() {
    let root = tempfile::tempdir().unwrap();
    let losses = [1e308, -1e308, 0.0, 5e-324, -1.0, 1e300];
    let steps = [0, 1, u64::MAX - 1, u64::MAX];
    let mut paths = Vec::new();
    for (i, a) in losses.into_iter().enumerate() {
        for (seed, b) in (1..).zip(losses) {
            let valid: Vec<(u64, f64)> = steps.into_iter().zip([a, b, a, b]).collect();
            let run = Fixture::new(
                &format!("{i}-{seed}"),
                seed,
                &format!("[model]\nx = {i}"),
                &valid,
            );
            paths.push(run.write(root.path()));
        }
    }
    let journal = paths[0].join("metrics.jsonl");
    let odd = "{\"step\":1e30,\"split\":\"valid\",\"loss\":1e999}\n{\"step\":-1,\"loss\":1}\n{}\n[]\n{\"step\":9,\"loss\":\"x\"}\n\u{feff}\n";
    fs::write(&journal, odd).unwrap();
    for (unicode, width) in [(true, 0), (false, 1), (true, 5000)] {
        for some in [&paths[..1], &paths[..7], &paths[..]] {
            let c = compared(some);
            let text = view(&c, unicode, Some(width));
            assert!(text.contains("0-1") && page(&c).contains("0-1"));
            json::json(&c);
        }
    }
}
