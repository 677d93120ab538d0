//! Table contents and omissions: settings that axes set as tables, runs of one seed, parts of a split, complete intervals,
//! names that LaTeX cannot write as they are.

use super::Fixture;
use super::sweeps::{End, Planned, compared, study, write};
use formwork::cli::compare::headline;
use formwork::report::analyse::comparison::{Comparison, Options, compare};
use formwork::report::read::run;
use formwork::report::render::figure::FigureOptions;
use formwork::report::render::paper::documents;
use formwork::report::render::{sheet, terminal};
use std::fs;
use std::path::{Path, PathBuf};

fn document(c: &Comparison, name: &str) -> String {
    let all = documents(c, FigureOptions::default(), Path::new("report")).unwrap();
    let found = all.into_iter().find(|d| d.name == name).unwrap();
    String::from_utf8(found.bytes).unwrap()
}

fn of_runs(paths: &[PathBuf]) -> Comparison {
    compare(run::read_all(paths).unwrap(), &Options::default()).unwrap()
}

fn titles(c: &Comparison) -> Vec<String> {
    let columns = sheet::sheet(c).columns.into_iter();
    columns.map(|(title, _)| title).collect()
}

/// Writes two arms with three seeds each, whose final losses are close to 1.5, and compares them.
fn two_arms(root: &Path, names: [&str; 2], settings: [&[(&str, &str)]; 2]) -> Comparison {
    let cells = |off: f64| {
        let last = |seed: f64| End::Done(vec![(100, 2.0), (200, 1.5 + off + 0.01 * seed)]);
        [0.0, 1.0, 3.0].map(last).into()
    };
    let arm = |i: usize| Planned {
        name: names[i],
        settings: settings[i],
        flops_per_item: 1e6,
        cells: cells(0.1 * i as f64),
    };
    compared(&write(root, names[0], &["optimizer"], &[arm(0), arm(1)]))
}

#[test]
fn the_keys_of_a_table_that_an_axis_sets_have_columns() {
    let root = tempfile::tempdir().unwrap();
    let settings: [&[(&str, &str)]; 2] = [
        &[("optimizer", "{ kind = \"adamw\", group = { lr = 0.001 } }")],
        &[("optimizer", "{ kind = \"sgd\", group = { lr = 0.1 } }")],
    ];
    let c = two_arms(root.path(), ["first", "second"], settings);
    let found = titles(&c);
    for title in ["optimizer.kind", "lr"] {
        assert!(found.iter().any(|t| t == title), "{title}: {found:?}");
    }
    let said = headline(&c);
    assert!(said.ends_with("; 2 settings differ"), "{said}");
}

#[test]
fn settings_without_a_column_are_named() {
    let root = tempfile::tempdir().unwrap();
    let settings: [&[(&str, &str)]; 2] = [
        &[("width", "64"), ("optimizer", "{ lr = 0.001 }")],
        &[("width", "128"), ("optimizer", "{ lr = 0.1 }")],
    ];
    let c = two_arms(root.path(), ["first", "second"], settings);
    assert!(!titles(&c).contains(&"width".into()), "{:?}", titles(&c));
    let said = headline(&c);
    let expected = "2 settings differ, 1 of them not shown: width (--html and --json show all)";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn latex_writes_quotes_and_greek_letters() {
    let root = tempfile::tempdir().unwrap();
    let settings: [&[(&str, &str)]; 2] = [
        &[("optimizer", "{ note = \"β\", lr = 1e-3 }")],
        &[("optimizer", "{ note = \"γ\", lr = 1e30 }")],
    ];
    let names = ["optimizer of β", "optimizer of { note = \"γ\", lr = 1e30 }"];
    let c = two_arms(root.path(), names, settings);
    let tex = document(&c, "table.tex");
    assert!(
        !tex.contains("quotedbl") && !tex.contains(['β', 'γ', 'Δ', '"']),
        "{tex}"
    );
    assert!(
        tex.contains("\\texttt{\\char34}$\\gamma$\\texttt{\\char34}"),
        "{tex}"
    );
    // A number of thirty digits is written as a power of ten.
    assert!(tex.contains("& $1\\mathrm{e}30$ &"), "{tex}");
    // Long names break into lines.
    assert!(tex.contains("\\begin{tabular}{p{0.3\\linewidth}"), "{tex}");
    assert!(
        tex.contains("\\raggedright\\let\\\\\\tabularnewline optimizer"),
        "{tex}"
    );
}

#[test]
fn a_seed_counts_once() {
    let root = tempfile::tempdir().unwrap();
    let runs = [
        ("pre-1", 1, 1.5),
        ("pre-1-again", 1, 1.6),
        ("pre-2", 2, 1.8),
    ];
    let paths = runs.map(|(name, seed, loss)| {
        Fixture::new(name, seed, "", &[(100, 2.0), (200, loss)]).write(root.path())
    });
    let c = of_runs(&paths);
    assert_eq!(
        (&c.arms[0].counted[..], &c.arms[0].repeated[..]),
        (&[1, 2][..], &[0][..])
    );
    let last = c.results[0].last.unwrap();
    assert_eq!(last.n, 2);
    assert!((last.mean - 1.7).abs() < 1e-12);
    assert_eq!(c.results[0].diverged.n, 2);
    let note = format!(
        "A: a seed counts once, in the run that is named last: {} excluded from means and curves",
        paths[0].display()
    );
    assert!(c.notes.contains(&note), "{:?}", c.notes);
}

/// `train.eval_batches` may exceed the number of batches, and a run that was never evaluated read no part of anything.
#[test]
fn a_part_is_what_the_journal_says_was_read() {
    let root = tempfile::tempdir().unwrap();
    let evaluated = Fixture::new("whole", 1, "", &[(200, 1.5)]).write(root.path());
    let never = Fixture::new("never", 2, "", &[]).write(root.path());
    for folder in [&evaluated, &never] {
        let file = folder.join("resolved.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text + "eval_batches = 1000\n").unwrap();
    }
    let c = of_runs(&[evaluated, never]);
    let part = |note: &String| note.contains("part of the split");
    assert!(!c.notes.iter().any(part), "{:?}", c.notes);
}

#[test]
fn intervals_are_shown_whole() {
    let root = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (arm, off) in [("a", [0.0; 3]), ("b", [1e-4, -1e-4, 1e-5])] {
        for (seed, off) in (1..).zip(off) {
            let settings = format!("[model]\nkind = \"{arm}\"");
            let valid = [(200, 1.5 + 0.01 * seed as f64 + off)];
            let name = format!("{arm}-s{seed}");
            paths.push(Fixture::new(&name, seed, &settings, &valid).write(root.path()));
        }
    }
    let text = terminal::table(&sheet::sheet(&of_runs(&paths)).text(true), None);
    assert!(text.contains("+0.00000 [-0.00025, +0.00025]"), "{text}");
}

#[test]
fn a_caption_tells_of_the_intervals_that_are_there() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, loss: f64| {
        let settings = format!("[model]\nkind = \"{name}\"");
        Fixture::new(name, 1, &settings, &[(200, loss)]).write(root.path())
    };
    let text = document(&of_runs(&[run("a", 1.5), run("b", 1.4)]), "table.md");
    assert!(
        text.contains("\nFinal valid loss. Δ is the difference from a.\n"),
        "{text}"
    );
}

#[test]
fn a_caption_says_what_open_is() {
    let root = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (arm, losses) in [("a", [1.50, 1.52, 1.53]), ("b", [1.49, 1.55, 1.56])] {
        for (seed, loss) in (1..).zip(losses) {
            let settings = format!("[model]\nkind = \"{arm}\"");
            let name = format!("{arm}-s{seed}");
            paths.push(Fixture::new(&name, seed, &settings, &[(200, loss)]).write(root.path()));
        }
    }
    let text = document(&of_runs(&paths), "table.md");
    let open = "Open: number of seeds with which a test at 0.05 detects an effect of the observed size with probability 0.8.";
    assert!(text.contains("open: ~") && text.contains(open), "{text}");
}

/// No tests for arms that a search dropped, nor of their divergence.
#[test]
fn a_halving_has_no_p() {
    let root = tempfile::tempdir().unwrap();
    let folder = study(root.path());
    let file = folder.join("sweep.json");
    let mut plan: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    plan["halving"] = serde_json::json!({"eta": 3, "rungs": [{"step": 100, "keep": 1}]});
    fs::write(&file, plan.to_string()).unwrap();
    let c = compared(&folder);
    let note = c
        .notes
        .iter()
        .find(|n| n.contains("runs diverged"))
        .unwrap();
    assert!(note.ends_with("95 % interval 21 to 100 %"), "{note}");
    let table = document(&c, "table.csv");
    let columns = ",stopped_at_rung,stopped_at_step,stopped_at_value,";
    assert!(table.lines().next().unwrap().contains(columns), "{table}");
}

/// Three runs of one arm, two of which were evaluated on the test split.
#[test]
fn means_of_fewer_runs_say_so() {
    let root = tempfile::tempdir().unwrap();
    let paths = [1, 2, 5].map(|seed| {
        let valid = [(100, 2.0), (200, 1.5 + 0.1 * seed as f64)];
        Fixture::new(&format!("a-s{seed}"), seed, "", &valid).write(root.path())
    });
    for path in &paths[..2] {
        let scores = r#"{"test": {"step": 200, "loss": 1.6}}"#;
        fs::write(path.join("scores.json"), scores).unwrap();
    }
    let note = "A: test loss: mean over 2 of 3 runs (seed 5 has none)".to_string();
    let of_valid = of_runs(&paths);
    assert!(of_valid.notes.contains(&note), "{:?}", of_valid.notes);
    assert!(document(&of_valid, "table.md").contains("| 3 |"));
    let options = Options {
        metric: Some("test_loss".into()),
        ..Options::default()
    };
    let of_test = compare(run::read_all(&paths).unwrap(), &options).unwrap();
    assert!(of_test.notes.contains(&note), "{:?}", of_test.notes);
    let table = document(&of_test, "table.md");
    assert!(table.contains("| 2 | 1.600 ± 0.000 |"), "{table}");
}

/// The number of steps to a value is shown if a value was given.
#[test]
fn the_steps_to_a_value_have_columns() {
    let root = tempfile::tempdir().unwrap();
    let path = Fixture::new("a", 1, "", &[(100, 2.0), (200, 1.5)]).write(root.path());
    let columns = |reach: Option<f64>| {
        let options = Options {
            reach,
            ..Options::default()
        };
        let runs = run::read_all(std::slice::from_ref(&path)).unwrap();
        let c = compare(runs, &options).unwrap();
        [sheet::sheet(&c), sheet::paper_sheet(&c)]
            .map(|table| terminal::markdown(&table.text(false)))
    };
    for table in columns(Some(1.75)) {
        assert!(table.contains("| steps to 1.750 | reached |"), "{table}");
        assert!(table.contains("| 150.0 | 1 of 1 |"), "{table}");
    }
    for table in columns(None) {
        assert!(!table.contains("reached"), "{table}");
    }
}
