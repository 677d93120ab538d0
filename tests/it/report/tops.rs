//! Highlights of a table: the best arm, of which there may be several or none, and notes if a difference is not the one between
//! the means beside it.

use super::{Fixture, compared, page};
use formwork::report::analyse::comparison::Comparison;
use formwork::report::render::figure::FigureOptions;
use formwork::report::render::paper::documents;
use std::path::{Path, PathBuf};

/// Writes a run for each loss, with seeds from `first` on.
fn arm(root: &Path, name: &str, settings: &str, (first, losses): (u64, &[f64])) -> Vec<PathBuf> {
    let run = |(seed, loss): (u64, &f64)| {
        let name = format!("{name}-s{seed}");
        Fixture::new(&name, seed, settings, &[(100, 2.0), (200, *loss)]).write(root)
    };
    (first..).zip(losses).map(run).collect()
}

fn of_width(width: u32) -> String {
    format!("[model]\nd_model = {width}")
}

/// Returns the number of bold cells in the LaTeX table and on the page.
fn bold(c: &Comparison) -> [usize; 2] {
    let all = documents(c, FigureOptions::default(), Path::new("report")).unwrap();
    let tex = all.iter().find(|d| d.name == "table.tex").unwrap();
    let tex = String::from_utf8(tex.bytes.clone()).unwrap();
    [
        tex.matches("\\boldmath").count(),
        page(c).matches("number top\"").count(),
    ]
}

#[test]
fn arms_that_are_equal_are_bold_together() {
    let root = tempfile::tempdir().unwrap();
    let mut runs = arm(root.path(), "a", &of_width(8), (1, &[0.1, 0.2]));
    // The same mean, rounded differently by another order of summation.
    runs.extend(arm(root.path(), "b", &of_width(16), (1, &[0.0, 0.3])));
    runs.extend(arm(root.path(), "c", &of_width(32), (1, &[0.2, 0.3])));
    assert_eq!(bold(&compared(&runs)), [2, 2]);
    assert_eq!(bold(&compared(&runs[2..])), [1, 1]);
}

#[test]
fn arms_of_other_measures_have_no_best() {
    let root = tempfile::tempdir().unwrap();
    let task =
        |share: &str| format!("[task]\nkind = \"masked_lm\"\nmasking = {{ share = {share} }}");
    let mut runs = arm(root.path(), "a", &task("0.15"), (1, &[1.1, 1.2]));
    runs.extend(arm(root.path(), "b", &task("0.4"), (1, &[1.3, 1.3])));
    let c = compared(&runs);
    assert!(c.notes.iter().any(|note| note.contains("masking")));
    assert_eq!(bold(&c), [0, 0]);
    assert!(!page(&c).contains("the best arm is bold"));
}

#[test]
fn a_difference_over_other_seeds_than_the_means_is_told() {
    let root = tempfile::tempdir().unwrap();
    let notes = |first: (u64, &[f64]), second: (u64, &[f64])| -> Vec<String> {
        let mut runs = arm(root.path(), "a", &of_width(8), first);
        runs.extend(arm(root.path(), "b", &of_width(16), second));
        let notes = compared(&runs).notes.into_iter();
        notes.filter(|note| note.contains("both have")).collect()
    };
    let losses: &[f64] = &[1.4, 1.5, 1.7];
    assert_eq!(
        notes((1, losses), (2, losses)),
        [
            "B: the difference from A is over the 2 seeds that both have (2, 3), not between their means, which are over 3 and 3 runs"
        ]
    );
    assert_eq!(
        notes((1, losses), (3, &losses[..1])),
        [
            "B: the difference from A is over the one seed that both have (3), not between their means, which are over 1 and 3 runs"
        ]
    );
    // With the same seeds, or with one or none in common: Welch's test compares the means themselves.
    assert_eq!(notes((1, losses), (1, losses)), [""; 0]);
    assert_eq!(notes((1, losses), (3, losses)), [""; 0]);
    assert_eq!(notes((1, losses), (7, losses)), [""; 0]);
}
