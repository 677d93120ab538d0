//! A run with fewer instruction sets and fewer threads gives the same result, up to rounding.

use crate::binary::formwork;
use std::path::Path;

/// Returns the last validation loss of a short run with these environment variables.
fn loss(folder: &Path, name: &str, environment: &[(&str, &str)]) -> f64 {
    let run = folder.join(name);
    let shown = run.display().to_string();
    let mut command = formwork(&[
        "train",
        "experiments/smoke/tiny.toml",
        "--quiet",
        "--run",
        &shown,
        "--set",
        "train.steps=30",
        "--set",
        "train.eval_every=30",
    ]);
    let ended = command.envs(environment.iter().copied()).output().unwrap();
    assert!(ended.status.success(), "{name}");
    let journal = formwork::train::journal::read(run.join("metrics.jsonl")).unwrap();
    let valid = journal.iter().rev().find(|line| line.split == "valid");
    valid.unwrap().loss.unwrap()
}

#[test]
fn without_avx512_without_simd_and_on_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    let best = loss(folder.path(), "best", &[]);
    for (name, simd, threads) in [
        ("avx2", "avx2", "2"),
        ("portable", "portable", "2"),
        ("alone", "avx2", "1"),
    ] {
        let environment = [("FORMWORK_SIMD", simd), ("RAYON_NUM_THREADS", threads)];
        let other = loss(folder.path(), name, &environment);
        assert!(
            (other - best).abs() < 1e-5 * best,
            "{name}: {other}, {best}"
        );
    }
}
