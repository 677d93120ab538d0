//! Messages before a run: the size of its data, files that are left out, keys that disappear with a kind; and messages about a
//! full disk, and the folders that commands leave behind.

use crate::binary::{failure, formwork, shipped, shown};
use std::fs;
use std::path::Path;
use std::process::Output;

const TINY: &str = "experiments/smoke/tiny.toml";

/// The smoke experiment on a folder with a text of 400 bytes, a quarter of them for validation.
fn experiment(folder: &Path) -> String {
    fs::create_dir_all(folder.join("hub")).unwrap();
    let text = "the quick brown fox ".repeat(20);
    fs::write(folder.join("hub/a.txt"), text).unwrap();
    let tiny = fs::read_to_string(shipped(TINY)).unwrap();
    let (model, rest) = tiny.split_once("[data]").unwrap();
    let (_, rest) = rest.split_once("[task]").unwrap();
    let data = "[tokenizer]\nkind = \"byte\"\n[data]\nkind = \"text\"\npath = \"hub\"\ncontext = 16\n\
                valid_fraction = 0.25\n";
    let file = folder.join("text.toml");
    fs::write(&file, format!("{model}{data}[task]{rest}")).unwrap();
    file.display().to_string()
}

/// Returns standard error of a command that must succeed.
fn told(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = formwork(arguments).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{arguments:?}: {said}");
    said
}

#[test]
fn train_and_check_say_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = experiment(folder.path());
    let run = folder.path().join("run").display().to_string();
    let size = "1 document, 300 tokens to train on, 100 to validate on";
    let said = told(&["check", &file]);
    assert!(said.lines().any(|line| line == size), "{said}");
    assert!(!told(&["check", &file, "--keys-only"]).contains(size));
    let steps = ["--set", "train.steps=10", "--run", &run];
    let said = told(&[&["train", &file], &steps[..]].concat());
    assert!(said.lines().any(|line| line == size), "{said}");
    let again = [&["train", &file, "--fresh", "--quiet"], &steps[..]].concat();
    assert!(!told(&again).contains(size));
    fs::write(
        folder.path().join("hub/b.jsonl"),
        "{\"text\": \"x\"}\n".repeat(99),
    )
    .unwrap();
    let said = told(&["check", &file]);
    assert!(said.contains("hub: a.txt left out"), "{said}");
    assert!(said.contains(" documents, "), "{said}");
}

const CLASSIFIER: &str = r#"name = "own"
[model]
kind = "encoder"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
[tokenizer]
kind = "char"
[data]
kind = "labelled_text"
path = "a.tsv"
valid_path = "a.tsv"
context = 8
[task]
kind = "text_classification"
[optimizer]
kind = "adamw"
lr = 1e-2
[train]
steps = 2
batch_size = 4
"#;

/// Reported: a class with only one row, texts longer than the context, and a table that is both trained on and evaluated.
#[test]
fn classes_and_texts_that_are_cut_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let rows = [
        "short\tred\n".repeat(11),
        "longer text\tblue\n".repeat(8),
        "odd\tRed\n".into(),
    ];
    fs::write(at("a.tsv"), rows.concat()).unwrap();
    fs::write(at("x.toml"), CLASSIFIER).unwrap();
    let (file, run) = (at("x.toml"), at("run"));
    for arguments in [
        vec!["check", &file],
        vec!["train", &file, "--run", &run, "--plain"],
    ] {
        let said = told(&arguments);
        for line in [
            "20 examples to train on, 20 to validate on",
            "3 classes: Red 1, blue 8, red 11",
            "8 of 20 texts to train on, 8 of 20 to validate on have more tokens than [data] context = 8 and are truncated",
        ] {
            assert!(said.lines().any(|one| one == line), "{arguments:?}: {said}");
        }
        let both = said
            .matches("is also training data: scores on it say nothing")
            .count();
        assert_eq!(both, 1, "{arguments:?}: {said}");
    }
    let said = told(&["check", &file, "--set", "data.context=11"]);
    assert!(!said.contains("truncated"), "{said}");
    // Joined rows: two short ones fill a text, and each long one is cut to a text of its own.
    let said = told(&["check", &file, "--set", "data.join=true"]);
    let line = "8 of 20 texts to train on, 8 of 14 to validate on have more tokens than [data] context = 8 and are truncated";
    assert!(said.lines().any(|one| one == line), "{said}");
}

#[test]
fn check_tells_pairs_that_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = "one\tuno\n".repeat(20) + &"a very long source\tx\n".repeat(3);
    fs::write(folder.path().join("p.tsv"), pairs).unwrap();
    let file = folder.path().join("x.toml");
    let text = "name = \"pairs\"\n[model]\nkind = \"encoder_decoder\"\nn_encoder_layers = 1\nn_decoder_layers = 1\n\
                d_model = 16\nattention = { kind = \"multi_head\", n_heads = 2 }\n[tokenizer]\nkind = \"byte\"\n[data]\n\
                kind = \"pairs\"\npath = \"p.tsv\"\nvalid_fraction = 0.0\nmax_len = 9\n[task]\nkind = \"translation\"\n\
                [optimizer]\nkind = \"adamw\"\nlr = 1e-2\n[train]\nsteps = 2\nbatch_size = 4\n";
    fs::write(&file, text).unwrap();
    let said = told(&["check", &file.display().to_string()]);
    assert!(said.contains("20 examples to train on"), "{said}");
    assert!(said.contains("3 training pairs are left out"), "{said}");
}

#[test]
fn keys_that_go_with_a_kind_are_named() {
    let lion = ["--set", "optimizer.kind=lion"];
    let said = told(&[&["check", TINY], &lion[..]].concat());
    assert!(
        said.contains("optimizer.kind = \"lion\" replaces the table of \"adamw\": lr = 0.003 ("),
        "{said}"
    );
    assert!(said.contains(") is dropped, 0.0001 now"), "{said}");
    let kept = ["--set", "optimizer.lr=0.003"];
    let said = told(&[&["check", TINY], &lion[..], &kept[..]].concat());
    assert!(!said.contains("is dropped"), "{said}");
    // In a sweep, the message comes once for each arm.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kinds.toml");
    let base = shipped(TINY).display().to_string();
    let arms =
        "[ablation]\nseeds = 1\n[ablation.axes]\n\"optimizer.kind\" = [\"adamw\", \"lion\"]\n";
    fs::write(
        &file,
        format!("extends = {base:?}\nname = \"kinds\"\n{arms}"),
    )
    .unwrap();
    let file = file.display().to_string();
    let run = folder.path().join("sweep").display().to_string();
    for arguments in [
        vec!["check", &file],
        vec!["sweep", &file, "--dry-run", "--no-probe", "--run", &run],
    ] {
        let said = told(&arguments);
        assert_eq!(
            said.matches("is dropped").count(),
            1,
            "{arguments:?}: {said}"
        );
        assert!(
            said.contains("lion`: optimizer.kind = \"lion\" replaces"),
            "{said}"
        );
    }
}

#[test]
fn adapters_beside_random_weights_are_told() {
    let said = told(&["check", TINY, "--set", "lora.rank=2"]);
    assert!(said.contains("[lora] without [init] from"), "{said}");
    assert!(!told(&["check", TINY]).contains("[lora]"));
}

#[test]
fn a_smoke_test_leaves_no_folder_of_runs() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = shipped(TINY).display().to_string();
    let smoke = || {
        let mut command = formwork(&["train", &tiny, "--smoke", "--quiet"]);
        let done = command.current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", shown(&done));
    };
    let runs = folder.path().join("checkpoints");
    smoke();
    assert!(!runs.exists());
    // A folder that already existed stays.
    fs::create_dir(&runs).unwrap();
    smoke();
    assert!(runs.exists());
}

/// A system limit of file size ends a run with a message, not with a signal.
#[cfg(unix)]
#[test]
fn a_file_that_is_too_large_for_the_system_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let ended = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -f 16; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_formwork"),
        ])
        .args(["train", TINY, "--quiet", "--run"])
        .arg(&run)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", shown(&ended));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.contains("error: ") && said.contains("too large"),
        "{said}"
    );
}

#[test]
fn the_cpu_has_a_name() {
    let (status, said) = failure(&["train", TINY, "--device", "cpu"]);
    assert!(status == 2 && said.contains("the CPU is `flex`"), "{said}");
}

/// If a run diverges, its expectations fail, and the remaining files are still verified.
#[test]
fn verify_goes_on_behind_a_run_that_diverges() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = fs::read_to_string(shipped(TINY)).unwrap();
    let files = [("wild", "1e30"), ("calm", "3e-3")].map(|(name, lr)| {
        let text = tiny
            .replace("lr = 3e-3", &format!("lr = {lr}"))
            .replace("smoke-tiny", name);
        let file = folder.path().join(format!("{name}.toml"));
        fs::write(&file, text + "\n[expect]\nvalid_loss = { at_most = 9.0 }\n").unwrap();
        file.display().to_string()
    });
    let runs = folder.path().join("runs").display().to_string();
    let mut command = formwork(&["verify", &files[0], &files[1], "--runs", &runs]);
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", shown(&ended));
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(said.contains("MISSED  wild: the run ended: "), "{said}");
    assert!(said.contains("holds  calm: valid_loss "), "{said}");
}
