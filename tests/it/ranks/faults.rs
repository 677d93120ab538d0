//! Refusals of ranks, and how a failure of one rank ends all.

use super::experiments::Files;
use super::{options, run_on_ranks, trained};
use formwork::error::{Error, Result};
use formwork::experiment::run::{Start, train};
use formwork::experiment::{check, load};
use formwork::train::job::Outcome;

/// Returns the error that one rank reports and with which all ranks end.
fn told(results: &[Result<Outcome>], rank: usize) -> (u8, String) {
    let error = results[rank].as_ref().unwrap_err();
    for (other, result) in results.iter().enumerate() {
        let found = result.as_ref().unwrap_err();
        assert_eq!(found.exit_status(), error.exit_status(), "rank {other}");
        let silent = matches!(found, Error::OtherRank { .. });
        assert_eq!(silent, other != rank, "rank {other}: {found}");
    }
    (error.exit_status(), error.to_string())
}

#[test]
fn ranks_that_cannot_share_a_step_name_the_nearest_number() {
    let files = Files::language_model();
    let (file, run) = (files.path("x.toml"), files.path("run"));
    for (ranks, sets, wanted) in [
        (3, &[][..], "divides 4; take 2"),
        (8, &[], "take 4, or set train.micro_batch_size = 1 for 8"),
        (
            2,
            &["train.micro_batch_size=8"],
            "the single micro-batch of a step",
        ),
        (4, &["train.batch_size=12"], "the 6 micro-batches of a step"),
    ] {
        let (status, error) = told(&trained(ranks, &file, &run, sets), 0);
        assert_eq!(status, 2);
        assert!(error.contains(wanted), "{error}");
        assert!(!run.exists());
    }
    let files = Files::translation();
    let text = std::fs::read_to_string(files.path("x.toml")).unwrap();
    let (status, error) = told(&trained(3, &files.path("x.toml"), &run, &[]), 0);
    assert_eq!(status, 2);
    assert!(error.contains("power of two; take"), "{error}");
    std::fs::write(
        files.path("x.toml"),
        text.replace("micro_batch_size = 3\n", ""),
    )
    .unwrap();
    let (_, error) = told(&trained(2, &files.path("x.toml"), &run, &[]), 0);
    assert!(error.contains("set train.micro_batch_size"), "{error}");
}

#[test]
fn batch_norms_are_refused() {
    let files = Files::images();
    let text = std::fs::read_to_string(files.path("x.toml")).unwrap();
    let (_, rest) = text.split_once("[data]").unwrap();
    let text = format!("name = \"resnet\"\n[model]\nkind = \"resnet\"\n[data]{rest}");
    std::fs::write(files.path("x.toml"), text).unwrap();
    let (status, error) = told(
        &trained(2, &files.path("x.toml"), &files.path("run"), &[]),
        0,
    );
    assert_eq!(status, 2);
    assert!(
        error.contains("batch norm (") && error.contains("train with one process"),
        "{error}"
    );
}

#[test]
fn a_rank_with_another_experiment_or_other_data_is_refused() {
    let files = [Files::segments(), Files::segments()];
    let run = files[0].path("run");
    let both = |sets: [&str; 2]| {
        run_on_ranks(2, |ranks| {
            let file = files[ranks.rank()].path("x.toml");
            let loaded = load(&file, &[sets[ranks.rank()].to_string()])?;
            check(&loaded)?;
            train(&loaded, &run, Start::New, options(ranks))
        })
    };
    let (status, error) = told(&both(["train.steps=8", "train.steps=9"]), 0);
    assert_eq!(status, 2);
    assert!(
        error.contains("rank 1 has a different experiment than rank 0"),
        "{error}"
    );
    std::fs::write(files[1].path("text.txt"), "another text ".repeat(200)).unwrap();
    let (status, error) = told(&both(["train.steps=8", "train.steps=8"]), 0);
    assert_eq!(status, 2);
    assert!(
        error.contains("rank 1 has different data files than rank 0"),
        "{error}"
    );
    assert!(!run.exists());
}

#[test]
fn a_run_folder_that_is_taken_ends_all_ranks() {
    let files = Files::language_model();
    let (file, run) = (files.path("x.toml"), files.path("run"));
    trained(1, &file, &run, &["train.steps=3"])
        .remove(0)
        .unwrap();
    let (status, error) = told(&trained(2, &file, &run, &["train.steps=3"]), 0);
    assert_eq!(status, 2);
    assert!(error.contains("contains a run at step 3"), "{error}");
}

#[test]
fn a_divergence_ends_all_ranks_with_the_error_of_one_process() {
    let files = Files::language_model();
    let file = files.path("x.toml");
    let sets = [
        "optimizer.lr=1e30",
        "train.clip_norm=0",
        "train.checkpoint_every=100",
        "train.eval_every=100",
    ];
    let sets: Vec<&str> = sets.into_iter().chain(["train.eval_batches=1"]).collect();
    let run = files.path("run");
    let (_, alone) = told(&trained(1, &file, &run, &sets), 0);
    std::fs::remove_dir_all(&run).unwrap();
    let (status, many) = told(&trained(4, &file, &run, &sets), 0);
    assert_eq!(status, 1);
    assert!(many.contains("diverged: the loss is NaN"), "{many}");
    assert_eq!(many, alone);
}
