//! Experiments that name another experiment in place of a run: `verify` trains that one first, once; `train` names the command
//! that does.

use crate::in_folder::run;
use std::path::Path;
use std::process::Output;

/// Writes an experiment on a decoder that reverses three symbols; `more` is appended to its `[train]`.
fn file(folder: &Path, name: &str, more: &str) {
    let text = format!(
        r#"
name = "{name}"
[model]
kind = "decoder"
n_layers = 1
d_model = 8
attention = {{ kind = "multi_head", n_heads = 2 }}
[data]
kind = "reverse"
length = 3
symbols = 4
valid_items = 8
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 2
batch_size = 2
{more}
"#
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(all).unwrap()
}

const EXPECT: &str = "[expect]\nvalid_loss = { at_most = 100.0 }";

fn from(name: &str) -> String {
    format!("[init]\nfrom = \"{name}.toml\"\n{EXPECT}")
}

#[test]
fn verify_trains_what_others_begin_from_once_and_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "base", "");
    file(at, "middle", &from("base"));
    file(at, "last", &from("middle"));
    file(at, "other", &from("base"));
    let verified = run(at, &["verify", "last.toml", "other.toml", "middle.toml"]);
    let said = said(&verified);
    assert!(verified.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let names: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split("  ").nth(1)?.split(':').next())
        .collect();
    assert_eq!(names, ["base", "middle", "last", "other"], "{said}");
    // The resolved file names only runs.
    let resolved = at.join("checkpoints/verify/last/resolved.toml");
    let resolved = std::fs::read_to_string(resolved).unwrap();
    assert!(resolved.contains("from = \"../middle\""), "{resolved}");
    assert!(!at.join("checkpoints/base").exists());
}

#[test]
fn train_says_what_to_train_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "base", "");
    file(at, "next", &from("base"));
    let refused = run(at, &["train", "next.toml", "--quiet"]);
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(
        text.contains("train it first: formwork train base.toml"),
        "{text}"
    );
    assert!(text.contains("next.toml:"), "{text}");
    for command in [["train", "base.toml"], ["train", "next.toml"]] {
        let done = run(at, &command);
        assert!(done.status.success(), "{}", said(&done));
    }
    // The two runs move together, and the experiment files stay behind.
    let moved = at.join("elsewhere");
    std::fs::rename(at.join("checkpoints"), &moved).unwrap();
    std::fs::remove_file(at.join("base.toml")).unwrap();
    let more = ["resume", "elsewhere/next", "--set", "train.steps=3"];
    let resumed = run(at, &more);
    assert!(resumed.status.success(), "{}", said(&resumed));
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "one", &from("two"));
    file(at, "two", &from("one"));
    file(at, "three", &from("missing"));
    let sweep = "[ablation]\nseeds = 2\n[ablation.axes]\n\"optimizer.lr\" = [1e-3, 1e-4]";
    file(at, "sweep", sweep);
    file(at, "four", &from("sweep"));
    for (name, wanted) in [
        ("one", "it refers back to this file"),
        ("three", "there is no such file or run"),
        ("four", "it has [ablation]"),
    ] {
        let file = format!("{name}.toml");
        let refused = run(at, &["verify", &file]);
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("from = "), "{text}");
    }
}

#[test]
fn a_run_that_others_begin_from_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    file(at, "base", "");
    file(at, "next", &from("base"));
    let same = std::fs::read_to_string(at.join("base.toml")).unwrap();
    std::fs::write(at.join("double.toml"), format!("{same}\n{EXPECT}")).unwrap();
    let refused = run(at, &["verify", "next.toml", "double.toml"]);
    let text = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(
        text.contains("two experiments have the name \"base\""),
        "{text}"
    );
}
