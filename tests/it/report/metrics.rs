//! The metrics of tables: those that the parts of the program define.

use super::{Fixture, compared};
use formwork::cli::compare::view;
use formwork::evaluate::metric::METRICS;
use formwork::report::analyse::comparison::Comparison;
use formwork::report::analyse::metrics::rank;
use std::fs;

/// Compares two runs whose evaluations have these metrics in place of the fixture's accuracy.
fn with(metrics: &[&str], train: &str) -> Comparison {
    let root = tempfile::tempdir().unwrap();
    let values: Vec<String> = (1..)
        .zip(metrics)
        .map(|(n, metric)| format!("\"{metric}\":0.{n}"))
        .collect();
    let runs = ["one", "two"].map(|name| {
        let settings = format!("note = \"{name}\"\n[train]\n{train}");
        // The fixture appends its own `[train]` table, so the file is rewritten.
        let run =
            Fixture::new(name, 1, &format!("note = \"{name}\""), &[(200, 1.0)]).write(root.path());
        let resolved = format!("name = \"{name}\"\nseed = 1\n{settings}\nsteps = 200\n");
        fs::write(run.join("resolved.toml"), resolved).unwrap();
        let journal = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let journal = journal.replace("\"accuracy\":0.5", &values.join(","));
        fs::write(run.join("metrics.jsonl"), journal).unwrap();
        run
    });
    compared(&runs)
}

#[test]
fn the_metrics_of_every_task_have_columns() {
    let tables = formwork::task::METRICS.iter().copied().flatten();
    for metric in METRICS.iter().chain(tables) {
        assert!(rank(metric.name).is_some(), "{}", metric.name);
    }
    for metrics in [
        ["reward_accuracy", "reward_margin"],
        ["micro_f1", "roc_auc"],
        ["mrr", "recall_10"],
        ["rtd_accuracy", "mlm_accuracy"],
        ["image_to_text_recall_1", "text_to_image_recall_1"],
        ["retrieval_gain", "loss_without_retrieval"],
    ] {
        let shown = view(&with(&metrics, ""), true, None);
        for metric in metrics {
            assert!(shown.contains(&format!("{metric} at best")), "{shown}");
        }
        assert!(!shown.contains("--json also show"), "{shown}");
    }
    assert!(!view(&with(&["own_number"], ""), true, None).contains("own_number"));
    let decides = with(&["own_number"], "best_by = \"own_number\"");
    assert!(view(&decides, true, None).contains("own_number at best"));
}

#[test]
fn metrics_without_room_are_named_and_the_deciding_one_has_a_column() {
    let many: Vec<&str> = METRICS.iter().map(|metric| metric.name).take(12).collect();
    let last = many[11];
    let shown = view(&with(&many, ""), true, None);
    let note = format!(
        "note: --html and --json also show valid {}, {last}",
        many[10]
    );
    assert!(shown.contains(&note), "{shown}");
    let shown = view(&with(&many, &format!("best_by = \"{last}\"")), true, None);
    let note = format!(
        "note: --html and --json also show valid {}, {}",
        many[9], many[10]
    );
    assert!(
        shown.contains(&format!("{last} at best")) && shown.contains(&note),
        "{shown}"
    );
}
