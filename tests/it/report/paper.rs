//! Output for papers: tables by their text, figures by their content, reproducible files.

use super::page;
use super::sweeps::{End, Planned, compared, study, write};
use crate::binary::{failure, output};
use formwork::report::render::figure::{FigureOptions, figures};
use formwork::report::render::paper::{Document, documents};
use std::fs;
use std::path::Path;

fn report(folder: &Path) -> Vec<Document> {
    documents(
        &compared(folder),
        FigureOptions::default(),
        &folder.join("report"),
    )
    .unwrap()
}

fn text(documents: &[Document], name: &str) -> String {
    let document = documents.iter().find(|d| d.name == name).unwrap();
    String::from_utf8(document.bytes.clone()).unwrap()
}

#[test]
fn tables_are_what_a_paper_prints() {
    let root = tempfile::tempdir().unwrap();
    let found = report(&study(root.path()));
    assert_eq!(
        text(&found, "table.md"),
        "| arm | norm | n | final valid loss | Δ final [95 %] | p | effect | verdict | accuracy at final | state |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | --- |\n\
         | pre | pre | 3 | 1.513 ± 0.016 | – | – | – | – | 0.5000 ± 0.0000 | done |\n\
         | post | post | 3 | 1.4830 ± 0.0062 | -0.030 [-0.060, -0.001] | 0.048 | -1.43 | better | 0.5000 ± 0.0000 | done |\n\
         | pre again | pre | 3 | 1.513 ± 0.016 | 0 | – | – | not tested | 0.5000 ± 0.0000 | done |\n\
         | deep_norm & co | deep | 0 | – | – | – | – | – | – | 1 diverged, 1 failed, 1 not begun |\n"
            .replace("& co", "&amp; co")
            + "\nFinal valid loss, mean ± standard deviation over seeds. Δ is the difference from pre with its 95 % t interval, \
               paired by seed where two seeds pair; p is two-sided and corrected for all tested arms (Holm 1979), the interval is not; the effect is Hedges' g_z, in standard deviations of the differences of pairs.\n\n\
               * D (cells/deep_norm &amp; co/seed-1): diverged at step 200; excluded from means\n\
               * D (deep_norm &amp; co, seed 2): failed: out of memory\n\
               * D (deep_norm &amp; co, seed 3): not begun\n\
               * D: 1 of 1 runs diverged, 95 % interval 21 to 100 %; p 0.250 against A\n"
    );
    let tex = text(&found, "table.tex");
    assert!(tex.starts_with(
        "% \\usepackage{booktabs}\n% \\usepackage{graphicx}\n\\begin{table}\n\\centering\n\
         \\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n\
         \\begin{tabular}{llrrrrrl}\n\\toprule\narm & norm & n"
    ));
    assert!(tex.contains("\npost & post & $3$ & {\\boldmath $1.4830 \\pm 0.0062$} & $-0.030 \\;[-0.060, -0.001]$ & $0.048$ & $-1.43$ & better \\\\\n"));
    assert!(tex.contains("\ndeep\\_norm \\& co & deep & $0$ & --"));
    assert!(tex.contains("the effect is Hedges' g\\_z, in standard deviations of the differences of pairs.}\n\\label{tab:study}\n\\end{table}\n\\begin{table}"));
    // Columns that do not fit a page become further tables of the same arms.
    assert!(tex.contains(
        "\\begin{tabular}{lrp{0.3\\linewidth}}\n\\toprule\narm & accuracy at final & state \\\\"
    ));
    assert!(tex.ends_with(
        "\\caption{Further columns of Table~\\ref{tab:study}.}\n\\label{tab:study-2}\n\\end{table}\n"
    ));
}

#[test]
fn lines_have_every_digit_and_every_cell() {
    let root = tempfile::tempdir().unwrap();
    let found = report(&study(root.path()));
    let rows = |name: &str| -> Vec<Vec<String>> {
        let text = text(&found, name);
        let mut reader = csv_rows(&text);
        let width = reader[0].len();
        reader
            .iter_mut()
            .for_each(|row| assert_eq!(row.len(), width));
        reader
    };
    let arms = rows("table.csv");
    let column = |rows: &[Vec<String>], name: &str| rows[0].iter().position(|c| c == name).unwrap();
    assert_eq!(arms.len(), 5);
    assert_eq!(arms[2][column(&arms, "final_mean")], "1.483");
    assert_eq!(arms[2][column(&arms, "final_difference_pairs")], "3");
    let p: f64 = arms[2][column(&arms, "final_difference_p")]
        .parse()
        .unwrap();
    assert!((p - 0.04789002212891145).abs() < 1e-12);
    assert_eq!(arms[4][column(&arms, "diverged")], "1");
    assert_eq!(arms[4][column(&arms, "not_begun")], "1");
    assert_eq!(arms[4][column(&arms, "stopped")], "0");
    // A metric column has the metric's name and the evaluation it belongs to.
    for metric in ["final_accuracy_mean", "best_accuracy_mean"] {
        assert_eq!(arms[1][column(&arms, metric)], "0.5");
    }
    assert!(!arms[0].contains(&"accuracy_mean".to_string()));
    assert_eq!(arms[4][column(&arms, "final_mean")], "");
    let runs = rows("runs.csv");
    assert_eq!(runs.len(), 13, "a line for each cell");
    assert_eq!(runs[1][..4], ["pre", "1", "cells/pre/seed-1", "done"]);
    assert_eq!(runs[1][column(&runs, "final")], "1.512");
    assert_eq!(runs[1][column(&runs, "final_accuracy")], "0.5");
    assert_eq!(runs[1][column(&runs, "best_accuracy")], "0.5");
    assert_eq!(runs[1][column(&runs, "flops")], "200000000");
    assert_eq!(runs[12][..4], ["deep_norm & co", "3", "", "not begun"]);
}

/// Splits CSV rows; the fixtures' fields need no quotes.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let fields = |line: &str| line.split(',').map(str::to_string).collect();
    text.lines().map(fields).collect()
}

#[test]
fn every_file_is_the_same_again() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = report(&study(here.path()));
    let second = report(&study(there.path()));
    let names: Vec<&str> = first.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "index.html",
            "table.md",
            "table.tex",
            "table.csv",
            "runs.csv",
            "summary.json",
            "curves.svg",
            "curves.png",
            "results.svg",
            "results.png",
            "differences.svg",
            "differences.png",
            "compute.svg",
            "compute.png"
        ]
    );
    for (a, b) in first.iter().zip(&second) {
        assert!(
            a.bytes == b.bytes,
            "{} is not the same in another folder",
            a.name
        );
    }
    let page = text(&first, "index.html");
    assert!(page.contains("<a href=\"../cells/pre%20again/seed-1\">"));
    assert!(page.contains("<td data-value=\"failed: out of memory\">"));
}

#[test]
fn figures_hold_the_data() {
    let root = tempfile::tempdir().unwrap();
    let found = report(&study(root.path()));
    let curves = text(&found, "curves.svg");
    assert!(curves.starts_with("<svg width=\"720\" height=\"380\" role=\"img\""));
    assert!(curves.contains("<title>valid loss by optimizer steps</title>"));
    // A line and a band for each arm with a spread, one line for the diverged run; the names in the legend.
    assert_eq!(curves.matches("<polygon").count(), 3, "bands");
    for name in [
        "optimizer steps",
        "valid loss",
        "pre again",
        "deep_norm &amp; co",
    ] {
        assert!(curves.contains(&format!("\n{name}\n")), "{name}: {curves}");
    }
    let results = text(&found, "results.svg");
    assert_eq!(
        results.matches("<circle").count(),
        9 + 3,
        "a dot for each run and each mean"
    );
    let differences = text(&found, "differences.svg");
    for (meaning, shown) in [
        ("better", true),
        ("not tested", true),
        ("not settled", false),
    ] {
        let entry = format!("\n{meaning}\n");
        assert_eq!(differences.contains(&entry), shown, "{meaning}");
    }
    let compute = text(&found, "compute.svg");
    assert_eq!(compute.matches("<circle").count(), 9 + 3, "runs, legend");
    let png = found.iter().find(|d| d.name == "curves.png").unwrap();
    assert_eq!(png.bytes[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(
        png.bytes[16..24],
        [0, 0, 5, 160, 0, 0, 2, 248],
        "1440 × 760 pixels"
    );
}

#[test]
fn two_axes_make_a_heat_map() {
    let root = tempfile::tempdir().unwrap();
    let mut arms = Vec::new();
    let names: Vec<String> = [64, 128, 256]
        .iter()
        .flat_map(|d| ["1e-3", "3e-4"].map(|lr| format!("{d} {lr}")))
        .collect();
    let settings: Vec<[(&str, &str); 2]> = names
        .iter()
        .map(|name| name.split_once(' ').unwrap())
        .map(|(d, lr)| [("width", d), ("lr", lr)])
        .collect();
    for (i, (name, settings)) in names.iter().zip(&settings).enumerate() {
        let last = 2.0 - 0.1 * i as f64;
        arms.push(Planned {
            name,
            settings,
            flops_per_item: 1e6 * (i + 1) as f64,
            cells: [0.0, 0.01]
                .map(|d| End::Done(vec![(100, 3.0), (200, last + d)]))
                .into(),
        });
    }
    let folder = write(root.path(), &names[0], &["width", "lr"], &arms);
    let found = report(&folder);
    let grid = text(&found, "grid.svg");
    for value in [
        "64", "128", "256", "1e-3", "3e-4", "2.005", "1.505", "width", "lr",
    ] {
        assert!(grid.contains(&format!("\n{value}\n")), "{value}");
    }
    assert!(
        page(&compared(&folder))
            .contains("mean final valid loss by width and lr; lower is better.")
    );
    let one_axis = tempfile::tempdir().unwrap();
    let figures = figures(&compared(&study(one_axis.path())), FigureOptions::default()).unwrap();
    assert!(figures.iter().all(|figure| figure.name != "grid"));
}

#[test]
fn the_command_writes_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = study(root.path());
    let shown = folder.display().to_string();
    let stale = folder.join("report/grid.png");
    fs::create_dir_all(stale.parent().unwrap()).unwrap();
    fs::write(&stale, "of an earlier plan").unwrap();
    let told = output(&["report", &shown]);
    assert!(told.starts_with("study: 12 cells in 4 arms"), "{told}");
    assert!(told.contains(&format!("{shown}/report/table.tex\n")));
    assert!(folder.join("report/curves.png").is_file() && !stale.exists());
    let told = output(&["compare", &shown, "--reach", "1.6", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(object["target"], 1.6);
    let run = |seed: u64| format!("{shown}/cells/pre/seed-{seed}");
    assert_eq!(
        failure(&["report", &run(1), &run(2)]),
        (
            2,
            "error: give the folder for the report of several runs with --out\n".into()
        )
    );
    let file = format!("{shown}/sweep.json");
    let (status, told) = failure(&["report", &shown, "--out", &file]);
    assert_eq!(
        (status, told),
        (2, format!("error: --out: {file} is a file, not a folder\n"))
    );
    let (status, told) = failure(&["compare", &shown, "--reach", "nan"]);
    assert_eq!(
        (status, told.as_str()),
        (2, "error: --reach: NaN must be a finite number\n")
    );
}
