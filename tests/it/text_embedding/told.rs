//! Refused text embedding experiments and data.

use super::runs::{TABLE, WORDS};
use crate::binary::{failure, formwork, output};
use crate::in_folder::{trained, written};
use crate::inspect::looked::json;
use std::fs;
use std::path::Path;

#[test]
fn what_cannot_be_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let task = "kind = \"text_embedding\"";
    let with = |keys: &str| format!("{task}\n{keys}");
    let cases = [
        (
            task,
            with("top_score = 5.0"),
            "top_score has no effect with loss = \"in_batch\"",
        ),
        (
            task,
            with("temperature = 0.0"),
            "temperature = 0.0 must be at least 0.001",
        ),
        (
            task,
            with("group = 1"),
            "group = 1 leaves no other pair to compare with",
        ),
        (
            task,
            with("group = 5"),
            "group = 5 does not divide batch_size = 32",
        ),
        (
            task,
            with("group = 32"),
            "group = 32 has no effect: it is the whole batch_size = 32",
        ),
        (task, with("loss = \"cosine\""), "provides pairs of texts"),
        (task, with("loss = \"cosin\""), "did you mean `cosine`"),
        (task, with("los = \"cosine\""), "did you mean `loss`"),
        (
            task,
            with("global_tokens = \"first_segment\""),
            "makes every token global",
        ),
        (
            "batch_size = 32",
            "batch_size = 32\nmicro_batch_size = 8".into(),
            "set [task] group to compare fewer",
        ),
        (
            "batch_size = 32",
            "batch_size = 32\neval_batch_size = 1".into(),
            "eval_batch_size = 1, but the loss compares all 32",
        ),
        (
            "batch_size = 32",
            "batch_size = 1".into(),
            "batch_size = 1 is too small",
        ),
        (
            "batch_size = 32",
            "batch_tokens = 500".into(),
            "batch_tokens = 500 makes steps with different numbers of rows",
        ),
        (
            "[train]",
            "[decode]\nmetrics = [\"bleu\"]\n[train]".into(),
            "[decode] decode has no effect",
        ),
        (
            "kind = \"number_words\"\nvalid_items = 100",
            "kind = \"random_pairs\"\nvocab_size = 50\nsource_len = 8\ntarget_len = 8".into(),
            "no pairs of texts that can be encoded separately",
        ),
        (
            "valid_items = 100",
            "valid_items = 99999999".into(),
            "valid_items = 99999999 must be at most 131072",
        ),
    ];
    for (from, to, expected) in cases {
        let text = WORDS.replace(from, &to);
        assert_ne!(text, WORDS);
        let file = written(folder.path(), "wrong.toml", &text);
        let (status, said) = failure(&["check", &file]);
        assert_eq!(status, 2, "{to}");
        assert!(said.contains(expected), "{to}: {said}");
        assert!(said.contains("wrong.toml"), "{to}: {said}");
    }
    let groups = WORDS.replace(
        "kind = \"text_embedding\"",
        "kind = \"text_embedding\"\ngroup = 8",
    );
    let groups = groups.replace("batch_size = 32", "batch_size = 32\nmicro_batch_size = 16");
    let file = written(folder.path(), "groups.toml", &groups);
    assert!(
        formwork(&["check", &file])
            .output()
            .unwrap()
            .status
            .success()
    );
}

/// Scores that no cosine reaches are reported before the first step; so are an empty text, which finds nothing, and a single
/// example, which has no gradient.
#[test]
fn examples_are_held_against_the_task() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "pairs.tsv", &TABLE.repeat(4));
    let data = "[tokenizer]\nkind = \"wordpiece\"\nvocab_size = 80\n[data]\nkind = \"labelled_text\"\npath = \"pairs.tsv\"\n\
        pair = 2\nscore = 3\nvalid_fraction = 0.5\ncontext = 24\n";
    let scores = WORDS
        .replace("[data]\nkind = \"number_words\"\nvalid_items = 100\n", data)
        .replace(
            "kind = \"text_embedding\"",
            "kind = \"text_embedding\"\nloss = \"cosine\"",
        );
    let file = written(folder.path(), "scores.toml", &scores);
    let run = folder.path().join("none").display().to_string();
    let (status, said) = failure(&["train", &file, "--quiet", "--run", &run]);
    assert!(
        status == 2 && said.contains("set top_score = 5.0"),
        "{said}"
    );
    assert!(!Path::new(&run).exists());

    let run = trained(folder.path(), WORDS);
    let (status, said) = failure(&["inspect", &run, "gradients"]);
    assert!(
        status == 2 && said.contains("compares the rows of a batch"),
        "{said}"
    );
    let (status, said) = failure(&["inspect", &run, "attention", "--text", "7", "--pair", "8"]);
    assert!(status == 2 && said.contains("remove --pair"), "{said}");
    let pairs = "seven\t7\n\t8\nnine\t\nten\t10\n";
    let table = written(folder.path(), "held.tsv", pairs);
    let experiment = WORDS
        .replace(
            "[data]\nkind = \"number_words\"\nvalid_items = 100\n",
            "[tokenizer]\nkind = \"char\"\n[data]\nkind = \"pairs\"\npath = \"train.tsv\"\nvalid_path = \"held.tsv\"\n",
        )
        .replace("batch_size = 32", "batch_size = 4")
        .replace("steps = 60", "steps = 2");
    written(
        folder.path(),
        "train.tsv",
        &"seven\t7\nten\t10\nnine8\t9\neight\t8\n".repeat(3),
    );
    assert!(Path::new(&table).exists());
    fs::remove_dir_all(&run).unwrap();
    let run = trained(folder.path(), &experiment);
    let scores = json(&output(&["eval", &run, "--json"]));
    let found = scores["recall_1"].as_f64().unwrap();
    assert!([0.0, 0.5, 1.0].contains(&found), "of two queries: {scores}");
}
