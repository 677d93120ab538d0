//! `unset` and `--unset` remove keys of extended files and of presets.

use crate::binary::{failure, output};
use std::fs;
use std::path::Path;

const BASE: &str = r#"name = "base"
[model]
kind = "encoder"
pooler = true
pooler_activation = "relu"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
[data]
kind = "grammar"
[task]
kind = "masked_lm"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 2
batch_size = 2
ema = 0.5
"#;

/// Writes `child.toml` with this text, which extends a base.
fn child(folder: &Path, text: &str) -> String {
    fs::write(folder.join("base.toml"), BASE).unwrap();
    let path = folder.join("child.toml");
    fs::write(
        &path,
        format!("extends = \"base.toml\"\nname = \"child\"\n{text}"),
    )
    .unwrap();
    path.display().to_string()
}

#[test]
fn keys_of_the_files_below_are_taken_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = child(
        folder.path(),
        "unset = [\"train.ema\", \"model.pooler_activation\"]\n[model]\npooler = false\n",
    );
    let told = output(&["check", "--keys-only", &file]);
    assert!(
        !told.contains("\nema") && !told.contains("\npooler_activation"),
        "{told}"
    );
    for key in ["train.ema = 0.5", "model.pooler_activation = \"relu\""] {
        let line = told
            .lines()
            .find(|line| line.starts_with(&format!("# {key} (")));
        let line = line.unwrap_or_else(|| panic!("no {key}: {told}"));
        assert!(
            line.contains("base.toml:") && line.ends_with("child.toml:3"),
            "{line}"
        );
    }
    // The output is a complete experiment that extends nothing.
    let whole = folder.path().join("whole.toml");
    fs::write(&whole, &told).unwrap();
    output(&["check", "--keys-only", &whole.display().to_string()]);

    // A table that is removed starts from its defaults.
    let file = child(
        folder.path(),
        "unset = [\"model\"]\n[model]\nkind = \"encoder\"\nn_layers = 1\nd_model = 32\n",
    );
    let told = output(&["check", "--keys-only", &file]);
    assert!(
        !told.contains("\npooler_activation") && !told.contains("n_heads = 2"),
        "{told}"
    );
    let file = child(folder.path(), "[model]\npooler = false\n");
    let told = output(&[
        "check",
        "--keys-only",
        &file,
        "--unset",
        "model.pooler_activation",
        "--unset",
        "train.ema",
    ]);
    assert!(told.contains("is unset by --set unset"), "{told}");
    assert!(!told.contains("\nema"), "{told}");
}

#[test]
fn a_preset_loses_a_width() {
    let folder = tempfile::tempdir().unwrap();
    let model = "[model]\npreset = \"bert-base\"\nd_model = 96\nn_layers = 1\n";
    let text = "unset = [\"model.feed_forward.d_ff\"]\n[data]\nkind = \"grammar\"\n[task]\nkind = \"masked_lm\"\n\
                [optimizer]\nkind = \"adamw\"\nlr = 1e-3\n[train]\nsteps = 1\nbatch_size = 1\n";
    let path = folder.path().join("n.toml");
    fs::write(&path, format!("name = \"n\"\n{text}{model}")).unwrap();
    let told = output(&["check", "--keys-only", &path.display().to_string()]);
    assert!(!told.contains("\nd_ff = 3072"), "{told}");
}

#[test]
fn keys_that_nothing_sets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str, says: &[&str]| {
        let (status, said) = failure(&["check", "--keys-only", &child(folder.path(), text)]);
        assert_eq!(status, 2, "{said}");
        for part in says {
            assert!(said.contains(part), "{part}: {said}");
        }
    };
    refused(
        "unset = [\"train.emma\"]\n",
        &["child.toml:3", "no extended file sets", "`train.ema`"],
    );
    refused("unset = \"train.ema\"\n", &["must be a list of keys"]);
    refused("unset = []\n", &["must be a list of keys"]);
    refused("unset = [1]\n", &["must be a list of keys"]);
    refused("unset = [\"model.preset\"]\n", &["a preset is removed"]);
    refused(
        "unset = [\"train.ema\"]\n[train]\nema = 0.9\n",
        &["`train.ema`", "but the same file sets it"],
    );
    refused("unset = [\"name\"]\n", &["but the same file sets it"]);
    // The remaining keys must still make an experiment.
    refused(
        "unset = [\"model.pooler\"]\n",
        &["unset = [\"model.pooler_activation\"] at the top of"],
    );

    let base = folder.path().join("base.toml").display().to_string();
    let alone = fs::read_to_string(&base).unwrap();
    fs::write(
        &base,
        format!(
            "unset = [\"train.ema\"]\n{}",
            alone.replace("ema = 0.5\n", "")
        ),
    )
    .unwrap();
    let (status, said) = failure(&["check", "--keys-only", &base]);
    assert!(
        status == 2 && said.contains("this file extends no file"),
        "{said}"
    );
    fs::write(&base, BASE).unwrap();
    let (status, said) = failure(&["check", "--keys-only", &base, "--unset", "train.lrr"]);
    assert!(
        status == 2 && said.contains("unset: no extended file sets `train.lrr`"),
        "{said}"
    );
}
