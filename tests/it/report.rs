//! Comparisons of runs: reading run folders, grouping runs into arms, statistics, the table, the page.

use formwork::cli::compare::view;
use formwork::report::analyse::comparison::{Comparison, Options, compare};
use formwork::report::analyse::statistics::contrast::Verdict;
use formwork::report::analyse::statistics::paired::paired_t;
use formwork::report::analyse::statistics::summary::summarize;
use formwork::report::read::run;
use formwork::report::render::figure::{FigureOptions, figures};
use formwork::report::render::{html, json, sheet, terminal};

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

mod browser;
mod many;
mod measures;
mod metrics;
mod named;
mod origins;
mod page;
mod paper;
mod reading;
mod sweeps;
mod told;
mod tops;

/// A run folder to be written.
struct Fixture {
    name: String,
    seed: u64,
    steps: u64,
    /// Lines of [model] and of other tables.
    settings: String,
    /// (step, validation loss); NaN is written as null.
    valid: Vec<(u64, f64)>,
}

impl Fixture {
    fn new(name: &str, seed: u64, settings: &str, valid: &[(u64, f64)]) -> Self {
        let (name, settings) = (name.to_string(), settings.to_string());
        Self {
            name,
            seed,
            steps: 200,
            settings,
            valid: valid.to_vec(),
        }
    }

    fn write(&self, root: &Path) -> PathBuf {
        let folder = root.join(&self.name);
        fs::create_dir_all(&folder).unwrap();
        let Self {
            name,
            seed,
            steps,
            settings,
            valid,
        } = self;
        let name = toml::Value::String(name.clone());
        let resolved =
            format!("name = {name}\nseed = {seed}\n{settings}\n[train]\nsteps = {steps}\n");
        fs::write(folder.join("resolved.toml"), resolved).unwrap();
        let mut lines = String::new();
        for (step, loss) in valid {
            let loss = if loss.is_nan() {
                "null".into()
            } else {
                loss.to_string()
            };
            writeln!(lines, r#"{{"step":{step},"split":"train","loss":{loss},"lr":0.001,"items":{step},"items_per_s":100.0,"elapsed_s":{step}}}"#).unwrap();
            writeln!(
                lines,
                r#"{{"step":{step},"split":"valid","loss":{loss},"accuracy":0.5,"unknown":{{"a":[1]}}}}"#
            )
            .unwrap();
        }
        fs::write(folder.join("metrics.jsonl"), lines).unwrap();
        folder
    }
}

fn compared(paths: &[PathBuf]) -> Comparison {
    compare(run::read_all(paths).unwrap(), &Options::default()).unwrap()
}

/// Returns the page of a comparison, without links to its runs.
fn page(c: &Comparison) -> String {
    html::page(c, &figures(c, FigureOptions::default()).unwrap(), None).unwrap()
}

/// Two arms of three seeds, with the final losses to which the scipy values below belong.
fn pre_and_post(root: &Path) -> Vec<PathBuf> {
    let losses = [
        ("pre", [1.512, 1.498, 1.530]),
        ("post", [1.478, 1.481, 1.490]),
    ];
    let mut paths = Vec::new();
    for (arm, losses) in losses {
        for (seed, loss) in (1..).zip(losses) {
            let settings = format!("[model]\nd_model = 64\nnorm_placement = \"{arm}\"");
            let run = Fixture::new(
                &format!("{arm}-s{seed}"),
                seed,
                &settings,
                &[(100, 2.0), (200, loss)],
            );
            paths.push(run.write(root));
        }
    }
    paths
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} is not {b}");
}

/// scipy 1.17: `ttest_1samp(d, 0)`, its `confidence_interval(0.95)`, `np.std(d, ddof=1)`.
#[test]
fn statistics_equal_scipys() {
    let cases: [(&[f64], [f64; 5]); 3] = [
        (
            &[0.021, 0.013, 0.034],
            [
                0.02266666666666667,
                0.010598742063723098,
                -0.0036620681909423983,
                0.048995401524275735,
                0.06577187905980111,
            ],
        ),
        (
            &[-0.4, 0.1, 0.25, -0.05, 0.3],
            [
                0.039999999999999994,
                0.28151376520518495,
                -0.30954550725406565,
                0.3895455072540656,
                0.7665916274724629,
            ],
        ),
        (
            &[0.5, 0.7],
            [
                0.6,
                0.14142135623730948,
                -0.6706204736174691,
                1.870620473617469,
                0.10513691342250683,
            ],
        ),
    ];
    for (sample, [mean, sd, low, high, p]) in cases {
        let summary = summarize(sample.iter().copied(), 0.95).unwrap();
        close(summary.mean, mean);
        close(summary.sd.unwrap(), sd);
        let test = paired_t(sample, 0.95).unwrap();
        close(test.interval.low, low);
        close(test.interval.high, high);
        close(test.p.unwrap(), p);
    }
    assert_eq!(paired_t(&[0.1], 0.95), None);
    assert_eq!(summarize([f64::NAN], 0.95), None);
}

#[test]
fn runs_that_differ_in_their_seed_are_one_arm() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&pre_and_post(root.path()));
    let arms: Vec<(&str, &str, usize)> = c
        .arms
        .iter()
        .map(|a| (a.id.as_str(), a.label.as_str(), a.members.len()))
        .collect();
    assert_eq!(arms, [("A", "pre", 3), ("B", "post", 3)]);
    let keys: Vec<(&str, &str)> = c
        .differing
        .iter()
        .map(|d| (d.key.as_str(), d.short.as_str()))
        .collect();
    assert_eq!(keys, [("model.norm_placement", "norm_placement")]);
    // scipy: ttest_rel([1.478, 1.481, 1.490], [1.512, 1.498, 1.530])
    let gap = c.results[1].last_gap.clone().unwrap();
    let interval = gap.interval().unwrap();
    assert_eq!(gap.pairs, 3);
    close(gap.difference.unwrap(), -0.030333333333333323);
    close(interval.low, -0.05996997424168349);
    close(interval.high, -0.0006966924249831585);
    close(gap.p.unwrap(), 0.04789002212891145);
    assert_eq!(gap.verdict, Verdict::Better);
    close(c.results[0].last.unwrap().sd.unwrap(), 0.0160416125540213);

    let table = terminal::markdown(&sheet::sheet(&c).text(false));
    assert_eq!(
        table,
        "|  | arm | norm_placement | runs | steps | best valid loss | at step | final valid loss | Δ final [95 %] | p | effect | verdict | accuracy at best | items/s | time |\n\
         | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |\n\
         | A | pre | pre | 3 (1, 2, 3) | 200 | 1.513 ± 0.016 | 200 | 1.513 ± 0.016 | – | – | – | – | 0.5000 ± 0.0000 | 100.0 | 3 min 20 s |\n\
         | B | post | post | 3 (1, 2, 3) | 200 | 1.4830 ± 0.0062 | 200 | 1.4830 ± 0.0062 | -0.030 [-0.060, -0.001] | 0.048 | -1.43 | better | 0.5000 ± 0.0000 | 100.0 | 3 min 20 s |\n"
    );
    let object = json::json(&c);
    assert_eq!(
        object["arms"][1]["settings"]["model.norm_placement"],
        "post"
    );
    assert_eq!(object["arms"][1]["seeds"], serde_json::json!([1, 2, 3]));
    assert_eq!(object["arms"][1]["difference"]["final"]["pairs"], 3);

    let each = Options {
        each: true,
        ..Options::default()
    };
    let c = compare(run::read_all(&pre_and_post(root.path())).unwrap(), &each).unwrap();
    assert_eq!(c.arms.len(), 6);
}

#[test]
fn a_key_that_only_one_arm_has_differs() {
    let root = tempfile::tempdir().unwrap();
    let settings = [
        "position = { kind = \"rotary\", theta = 500.0 }",
        "position = { kind = \"alibi\" }",
    ];
    let paths: Vec<PathBuf> = ["a", "b"]
        .iter()
        .zip(settings)
        .map(|(name, s)| {
            Fixture::new(
                name,
                1,
                &format!("[model]\n{s}\n[expect]\nx = \"{name}\""),
                &[(200, 1.0)],
            )
            .write(root.path())
        })
        .collect();
    let c = compared(&paths);
    let found: Vec<(&str, Vec<Option<&str>>)> = c
        .differing
        .iter()
        .map(|d| {
            (
                d.key.as_str(),
                d.values.iter().map(Option::as_deref).collect(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("model.position.kind", vec![Some("rotary"), Some("alibi")]),
            ("model.position.theta", vec![Some("500.0"), None])
        ]
    );
}

#[test]
fn the_view_fits_its_terminal() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&pre_and_post(root.path()));
    let ascii = view(&c, false, Some(72));
    assert!(ascii.is_ascii());
    assert!(ascii.lines().all(|l| l.len() <= 72), "{ascii}");
}

/// Columns that do not fit are named, and a width in which all fit leaves none out.
#[test]
fn columns_without_room_are_named() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&pre_and_post(root.path()));
    let narrow = view(&c, true, Some(72));
    let table = |text: &str| text.lines().nth(2).unwrap().to_owned();
    assert!(table(&narrow).contains("final valid loss"), "{narrow}");
    assert!(!table(&narrow).contains("items/s"), "{narrow}");
    assert!(narrow.contains("did not fit"), "{narrow}");
    assert!(narrow.contains("time; "), "{narrow}");
    for wide in [view(&c, true, Some(400)), view(&c, true, None)] {
        assert!(
            table(&wide).contains("items/s") && !wide.contains("did not fit"),
            "{wide}"
        );
    }
}

/// `eval --context 8` and similar evaluations keep separate scores: the page and JSON include them, the terminal's table does
/// not.
#[test]
fn scores_of_evaluations_of_their_own_make_no_columns() {
    let root = tempfile::tempdir().unwrap();
    let paths = pre_and_post(root.path());
    let scores = r#"{"test": {"step": 200, "loss": 1.6}, "valid@8": {"step": 200, "loss": 1.9}}"#;
    fs::write(paths[0].join("scores.json"), scores).unwrap();
    let c = compared(&paths);
    let shown = view(&c, true, None);
    assert!(shown.contains("test loss"), "{shown}");
    assert!(!shown.contains("valid@8 loss"), "{shown}");
    assert!(shown.contains("also show the scores of valid@8"), "{shown}");
    let page = terminal::markdown(&sheet::without_settings(&c).text(false));
    assert!(page.contains("valid@8 loss"), "{page}");
    assert_eq!(
        json::json(&c)["arms"][0]["runs"][0]["scores"]["valid@8"]["loss"],
        1.9
    );
}
