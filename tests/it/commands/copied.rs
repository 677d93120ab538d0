//! Runs that were copied or lost a file, and how `resume` handles them.

use super::run;
use crate::binary::{failure, formwork, output};
use std::fs;
use std::path::Path;

/// Copies a folder and follows its links, as archives and buckets do.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copied(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().unwrap().is_dir()
}

const LONGER: [&str; 2] = ["--set", "train.steps=15"];

#[test]
fn a_copy_whose_links_became_folders_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = run(folder.path(), "whole", &["train.steps=10"]);
    let [copy, other] = ["copy", "other"].map(|name| folder.path().join(name));
    for to in [&copy, &other] {
        copied(Path::new(&whole), to);
        assert!(is_folder(&to.join("latest")) && is_folder(&to.join("best")));
    }
    let shown = copy.display().to_string();
    output(&[&["resume", &shown, "--quiet"], &LONGER[..]].concat());
    let latest = fs::read_link(copy.join("latest")).unwrap();
    assert_eq!(latest, Path::new("steps/00000015"));
    assert!(copy.join("best").is_symlink());
    for left in ["latest.tmp", "best.tmp", "steps/00000010.tmp"] {
        assert!(!copy.join(left).exists(), "{left} is left");
    }
    // Another folder may hold weights that exist nowhere else.
    fs::write(other.join("latest/manifest.json"), "{}").unwrap();
    let shown = other.display().to_string();
    let (status, said) = failure(&[&["resume", &shown], &LONGER[..]].concat());
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("latest is a folder") && said.contains("move it out of the run"),
        "{said}"
    );
    assert!(other.join("latest/model.safetensors").exists());
    fs::rename(other.join("latest"), folder.path().join("away")).unwrap();
    output(&[&["resume", &shown, "--quiet"], &LONGER[..]].concat());
    // A run that is started again with `--fresh` replaces such folders, too.
    let third = folder.path().join("third");
    copied(Path::new(&whole), &third);
    let (file, third) = ("experiments/smoke/tiny.toml", third.display().to_string());
    let fresh = ["train", file, "--fresh", "--quiet", "--run", &third];
    output(&[&fresh[..], &LONGER[..]].concat());
}

/// Neither `resume` nor `--fresh` deletes a folder that replaced a link if it has a file or content of its own.
#[test]
fn a_copy_with_a_further_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = run(folder.path(), "whole", &["train.steps=10"]);
    let [further, edited] = ["further", "edited"].map(|name| folder.path().join(name));
    for to in [&further, &edited] {
        copied(Path::new(&whole), to);
    }
    fs::write(further.join("best/notes.txt"), "mine").unwrap();
    fs::write(edited.join("best/model.safetensors"), "mine").unwrap();
    for (to, own) in [
        (&further, "best/notes.txt"),
        (&edited, "best/model.safetensors"),
    ] {
        let shown = to.display().to_string();
        let file = "experiments/smoke/tiny.toml";
        let resume = ["resume", &shown];
        let fresh = ["train", file, "--fresh", "--quiet", "--run", &shown];
        for arguments in [&resume[..], &fresh[..]] {
            let (status, said) = failure(&[arguments, &LONGER[..]].concat());
            assert_eq!(status, 1, "{said}");
            for part in ["best is a folder", "move it out of the run"] {
                assert!(said.contains(part), "{part}: {said}");
            }
            assert_eq!(fs::read(to.join(own)).unwrap(), b"mine");
            assert!(to.join("steps/00000010/model.safetensors").exists());
        }
        // The other folder equals a checkpoint.
        assert!(to.join("latest").is_symlink());
        for left in ["latest.tmp", "latest.replaced", "best.replaced"] {
            assert!(!to.join(left).exists(), "{left} is left");
        }
    }
}

/// A process killed between two renames left the folder under its temporary name.
#[test]
fn a_folder_that_went_aside_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let whole = run(folder.path(), "whole", &["train.steps=10"]);
    let copy = folder.path().join("copy");
    copied(Path::new(&whole), &copy);
    fs::rename(copy.join("best"), copy.join("best.replaced")).unwrap();
    let shown = copy.display().to_string();
    output(&[&["resume", &shown, "--quiet"], &LONGER[..]].concat());
    assert!(copy.join("best").is_symlink());
    assert!(!copy.join("best.replaced").exists());
}

#[test]
fn a_lost_journal_condemns_no_weights() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "run", &["train.steps=10"]);
    let journal = Path::new(&run).join("metrics.jsonl");
    let lines = fs::read(&journal).unwrap();
    fs::remove_file(&journal).unwrap();
    let resume = [&["resume", run.as_str(), "--quiet"], &LONGER[..]].concat();
    let (status, said) = failure(&resume);
    assert_eq!(status, 1, "{said}");
    let error = said.lines().find(|line| line.starts_with("error: "));
    let error = error.unwrap();
    for part in ["at step 10 are complete", "metrics.jsonl", "[init] from = "] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!said.contains("--fresh"), "{said}");
    fs::write(&journal, lines).unwrap();
    output(&resume);
}

#[test]
fn keys_that_a_resumed_run_takes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), "run", &["train.steps=10"]);
    let file = folder.path().join("edited.toml");
    let text = fs::read_to_string("experiments/smoke/tiny.toml").unwrap();
    let text = text.replace("lr = 3e-3", "lr = 2e-3");
    fs::write(&file, text.replace("steps = 40", "steps = 15")).unwrap();
    let file = file.display().to_string();
    let ended = formwork(&["train", &file, "--resume", "--run", &run, "--quiet"]).output();
    let ended = ended.unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    let changed: Vec<&str> = said
        .lines()
        .filter(|l| l.starts_with("changed: "))
        .collect();
    assert_eq!(
        changed,
        [
            "changed: optimizer.lr 0.003 -> 0.002",
            "changed: train.steps 10 -> 15"
        ]
    );
}

#[cfg(unix)]
#[test]
fn a_link_whose_target_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("gone", &link).unwrap();
    let link = link.display().to_string();
    let (status, said) = failure(&["train", "experiments/smoke/tiny.toml", "--run", &link]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("is a symbolic link, and its target gone is missing"),
        "{said}"
    );
}
