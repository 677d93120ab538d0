//! Runs and sweeps given by the names of their folders in `checkpoints`, and folders given in place of experiments.

use crate::binary::shipped;
use crate::in_folder::{good, refused};
use std::fs;

const SWEPT: &str = "base = \"tiny.toml\"\nname = \"swept\"\n[train]\nsteps = 8\n[ablation]\nseeds = 1\n\
                     [ablation.axes]\n\"model.n_layers\" = [1]\n";

#[test]
fn a_run_is_found_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::copy(shipped("experiments/smoke/tiny.toml"), at.join("tiny.toml")).unwrap();
    let train = ["train", "tiny.toml", "--set", "train.steps=8", "--quiet"];
    good(at, &[&train[..], &["--set", "name=späce"]].concat());
    good(at, &[&train[..], &["--seed", "7"]].concat());
    let resolved = fs::read_to_string(at.join("checkpoints/smoke-tiny/resolved.toml")).unwrap();
    assert!(resolved.contains("\nseed = 7\n"), "{resolved}");

    let said = good(at, &["eval", "smoke-tiny"]);
    assert_eq!(said, good(at, &["eval", "checkpoints/smoke-tiny"]));
    good(at, &["eval", "späce"]);
    good(at, &["inspect", "smoke-tiny", "gradients"]);
    assert!(at.join("checkpoints/smoke-tiny/inspect").is_dir());
    good(at, &["plan", "smoke-tiny", "--no-probe"]);
    good(at, &["tokenize", "smoke-tiny", "abc"]);
    let told = good(at, &["resume", "smoke-tiny", "--set", "train.steps=9"]);
    assert!(told.contains("done after 9 steps"), "{told}");

    // An existing path takes precedence over a name.
    fs::create_dir(at.join("smoke-tiny")).unwrap();
    let told = refused(at, &["eval", "smoke-tiny"]);
    assert!(told.contains("smoke-tiny is not a run folder"), "{told}");
    fs::remove_dir(at.join("smoke-tiny")).unwrap();
    let told = refused(at, &["eval", "smoke-tinny"]);
    let wanted = "there is no run folder smoke-tinny; did you mean checkpoints/smoke-tiny?";
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn a_folder_is_no_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::copy(shipped("experiments/smoke/tiny.toml"), at.join("tiny.toml")).unwrap();
    fs::write(at.join("swept.toml"), SWEPT).unwrap();
    good(
        at,
        &["train", "tiny.toml", "--set", "train.steps=8", "--quiet"],
    );
    good(at, &["sweep", "swept.toml"]);
    assert!(good(at, &["sweep", "swept"]).starts_with("1 cell done"));

    for (words, wanted) in [
        (
            ["train", "checkpoints/smoke-tiny"],
            "checkpoints/smoke-tiny is the folder of a run, but `train` expects an experiment file; continue it with: formwork \
             resume checkpoints/smoke-tiny",
        ),
        (
            ["train", "smoke-tiny"],
            "continue it with: formwork resume checkpoints/smoke-tiny",
        ),
        (
            ["train", "checkpoints/swept"],
            "continue it with: formwork sweep checkpoints/swept",
        ),
        (
            ["train", "checkpoints"],
            "cannot read checkpoints: it is a folder",
        ),
        (
            ["check", "checkpoints/smoke-tiny"],
            "it is a folder of a run; its experiment is checkpoints/smoke-tiny/resolved.toml",
        ),
        (
            ["check", "smoke-tiny"],
            "no such file, and checkpoints/smoke-tiny is a folder of a run; its experiment is checkpoints/smoke-tiny/resolved.toml",
        ),
    ] {
        let told = refused(at, &words);
        assert!(told.contains(wanted), "{words:?}: {told}");
    }
    let told = refused(at, &["train", "tiny.toml", "--resume", "smoke-tiny"]);
    assert!(told.contains("unexpected argument 'smoke-tiny'"), "{told}");
}
