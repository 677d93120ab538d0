//! Names of arms by their differences, complete in every output; causes, and figures only where they are informative.

use super::Fixture;
use super::sweeps::{End, Planned, compared, write};
use formwork::cli::compare::{headline, view};
use formwork::report::analyse::comparison::{Comparison, Options, compare};
use formwork::report::read::run;
use formwork::report::render::figure::{Figure, FigureOptions, figures};
use formwork::report::render::{html, json, sheet};
use std::path::{Path, PathBuf};
use unicode_width::UnicodeWidthStr;

const PLACEMENTS: [&str; 2] = ["pre", "sandwich_of_two_norms"];
const POSITIONS: [&str; 4] = [
    "sinusoidal_two_dimensional",
    "relative_bias_of_buckets",
    "rotary",
    "relative_bias_by_distance",
];

/// Writes a sweep over two axes, whose arms cost as many FLOPs as `flops` says.
fn two_axes(root: &Path, flops: fn(usize) -> f64) -> PathBuf {
    let names: Vec<(String, [String; 2])> = PLACEMENTS
        .iter()
        .flat_map(|placement| {
            POSITIONS.map(|position| {
                let quoted = [placement, position].map(|value| format!("\"{value}\""));
                (
                    format!("norm_placement={placement}, position={position}"),
                    quoted,
                )
            })
        })
        .collect();
    let settings: Vec<[(&str, &str); 2]> = names
        .iter()
        .map(|(_, [placement, position])| {
            [
                ("norm_placement", placement.as_str()),
                ("position", position.as_str()),
            ]
        })
        .collect();
    let arms: Vec<Planned> = names
        .iter()
        .zip(&settings)
        .enumerate()
        .map(|(i, ((name, _), settings))| Planned {
            name,
            settings,
            flops_per_item: flops(i),
            cells: [0.0, 0.01, 0.03]
                .map(|d| {
                    End::Done(vec![
                        (100, 3.0),
                        (200, 2.0 - 0.1 * i as f64 + d * (i + 1) as f64),
                    ])
                })
                .into(),
        })
        .collect();
    write(root, &names[0].0, &["norm_placement", "position"], &arms)
}

fn shown(c: &Comparison) -> Vec<Figure> {
    figures(c, FigureOptions::default()).unwrap()
}

/// Returns all text of a drawing in order.
fn words(svg: &str) -> String {
    let lines = svg.lines().filter(|line| !line.starts_with('<'));
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn arms_are_named_by_what_differs_and_never_cut() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&two_axes(root.path(), |i| 1e6 * (i + 1) as f64));
    let names: Vec<String> = PLACEMENTS
        .iter()
        .flat_map(|placement| POSITIONS.map(|position| format!("{placement}, {position}")))
        .collect();
    assert_eq!(
        c.arms
            .iter()
            .map(|arm| arm.name.clone())
            .collect::<Vec<_>>(),
        names
    );
    assert_eq!(json::json(&c)["arms"][2]["name"], "pre, rotary");
    // Names from a plan are unchanged.
    assert_eq!(
        json::json(&c)["arms"][2]["label"],
        "norm_placement=pre, position=rotary"
    );
    let table = view(&c, true, Some(80));
    let block = table.split("\n\n").nth(1).unwrap();
    for name in &names {
        assert!(block.contains(name.as_str()), "{name}: {table}");
    }
    let table: Vec<&str> = table
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with("note"))
        .collect();
    assert!(table.iter().all(|line| line.width() <= 80), "{table:#?}");
    let drawn = shown(&c);
    let drawing = |name: &str| words(&drawn.iter().find(|figure| figure.name == name).unwrap().svg);
    for figure in ["curves", "results", "compute"] {
        for name in &names {
            assert!(
                drawing(figure).contains(name.as_str()),
                "{figure} {name}: {}",
                drawing(figure)
            );
        }
    }
    for name in &names[1..] {
        assert!(drawing("differences").contains(name.as_str()), "{name}");
    }
    for name in PLACEMENTS.iter().chain(&POSITIONS) {
        assert!(
            drawing("grid").contains(name),
            "{name}: {}",
            drawing("grid")
        );
    }
    assert!(drawn.iter().all(|figure| !figure.svg.contains('…')));
    let page = html::page(&c, &drawn, None).unwrap();
    assert!(page.contains(">pre, rotary<") && !page.contains(">norm_placement=pre"));
}

#[test]
fn words_of_a_figure_stand_apart() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&two_axes(root.path(), |_| 1e6));
    let drawn = shown(&c);
    let grid = &drawn
        .iter()
        .find(|figure| figure.name == "grid")
        .unwrap()
        .svg;
    // Column names are at the same height, each in a cell that is wide enough.
    let attribute = |tag: &str, name: &str| -> f64 {
        let from = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        tag[from..].split('"').next().unwrap().parse().unwrap()
    };
    let lines: Vec<&str> = grid.lines().collect();
    let mut places: Vec<(f64, f64)> = lines
        .windows(2)
        .filter(|pair| POSITIONS.contains(&pair[1]))
        .map(|pair| (attribute(pair[0], "x") / 16.0, pair[1].len() as f64 * 6.0))
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(places.len(), 4);
    for pair in places.windows(2) {
        assert!(
            pair[0].0 + pair[0].1 / 2.0 < pair[1].0 - pair[1].1 / 2.0,
            "{places:?}"
        );
    }
    // All runs used the same compute, so a plot over it would say nothing.
    assert!(drawn.iter().all(|figure| figure.name != "compute"));
}

/// A name, its settings, and its values by step.
type Arm<'a> = (&'a str, &'a str, &'a [(u64, f64)]);

fn runs(root: &Path, arms: &[Arm]) -> Comparison {
    let runs = arms.iter().map(|(name, settings, valid)| {
        let folder = root.join(settings.len().to_string());
        run::read(&Fixture::new(name, 1, settings, valid).write(&folder)).unwrap()
    });
    compare(runs.collect::<Vec<_>>(), &Options::default()).unwrap()
}

#[test]
fn what_differs_is_the_cause() {
    let root = tempfile::tempdir().unwrap();
    let rotary = "[model]\nd_model = 8\n[model.position]\nkind = \"rotary\"\ntheta = 1e4\nshare = 1.0\nlayout = \"halves\"";
    let learned = "[model]\nd_model = 8\n[model.position]\nkind = \"learned\"\nmax_len = 64\nfirst = 0\nold = true ";
    let valid = [(100, 2.0), (200, 1.5)];
    let c = runs(
        root.path(),
        &[("same", rotary, &valid), ("same", learned, &valid)],
    );
    assert_eq!(c.differing.len(), 7);
    assert!(
        headline(&c).contains("1 setting differs"),
        "{}",
        headline(&c)
    );
    let page = html::page(&c, &shown(&c), None).unwrap();
    assert!(page.contains("What differs: <code>model.position.kind</code>."));
    // The table of settings has all of them.
    assert!(page.contains("model.position.theta"));
    let titles: Vec<String> = sheet::sheet(&c)
        .columns
        .into_iter()
        .map(|(title, _)| title)
        .collect();
    assert!(
        titles.contains(&"position.kind".into()) && !titles.contains(&"theta".into()),
        "{titles:?}"
    );
    // Runs of the same name are distinguished by that setting.
    let names: Vec<&str> = c.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["rotary", "learned"]);
}

#[test]
fn one_value_makes_no_plot() {
    let root = tempfile::tempdir().unwrap();
    let c = runs(
        root.path(),
        &[
            ("a", "[model]\nd_model = 8", &[(200, 1.5)]),
            ("b", "[model]\nd_model = 16 ", &[(200, 1.5)]),
        ],
    );
    let drawn = shown(&c);
    let names: Vec<&str> = drawn.iter().map(|figure| figure.name.as_ref()).collect();
    assert!(
        !names.contains(&"curves") && !names.contains(&"results"),
        "{names:?}"
    );
}

#[test]
fn intervals_say_that_they_are_not_corrected() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&two_axes(root.path(), |_| 1e6));
    let note = "p values are corrected for 7 arms (Holm 1979); intervals are not corrected: each applies to its own arm";
    assert!(c.notes.iter().any(|n| n == note), "{:?}", c.notes);
    let drawn = shown(&c);
    let differences = drawn
        .iter()
        .find(|figure| figure.name == "differences")
        .unwrap();
    assert!(
        differences
            .caption
            .contains("not corrected for the number of arms")
    );
    let page = html::page(&c, &drawn, None).unwrap();
    let titles = ["final valid loss", "Δ final [95 %]", "p", "verdict"];
    let places: Vec<usize> = titles
        .iter()
        .map(|t| page.find(&format!(">{t}</button>")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}
