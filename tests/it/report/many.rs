//! A thousand runs: what is read, how large the page is, how many points it has.
//!
//! Checks work and sizes rather than time, which depends on the machine. A generous time limit catches quadratic behaviour.

use super::{Fixture, compared, page};
use formwork::cli::compare::view;
use formwork::report::render::figure::{FigureOptions, figures};
use formwork::report::render::terminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[test]
fn a_thousand_runs_make_a_page_of_bounded_size() {
    let root = tempfile::tempdir().unwrap();
    let valid: Vec<(u64, f64)> = (1..=200).map(|i| (i * 25, 1.0 + 1.0 / i as f64)).collect();
    let paths: Vec<PathBuf> = (0..1000)
        .map(|i| {
            let settings = format!("[model]\nd_model = {}", 64 * (1 + i / 5));
            let mut run = Fixture::new(&format!("run-{i}"), i % 5, &settings, &valid);
            run.steps = 5000;
            run.write(root.path())
        })
        .collect();
    let start = Instant::now();
    let c = compared(&paths);
    let page = page(&c);
    let text = view(&c, true, None);
    let elapsed = start.elapsed();
    assert_eq!((c.runs.len(), c.arms.len()), (1000, 200));
    assert!(text.lines().count() > 200, "a row for each arm");
    assert!(page.len() < 12 << 20, "the page has {} bytes", page.len());
    for figure in figures(&c, FigureOptions::default()).unwrap() {
        let (name, size) = (figure.name, figure.svg.len());
        assert!(size < 1 << 20, "{name} has {size} bytes");
    }
    assert!(elapsed < Duration::from_secs(120), "took {elapsed:?}");
    println!(
        "1,000 runs in {elapsed:?}, page of {}",
        terminal::bytes(page.len() as u64)
    );
}
