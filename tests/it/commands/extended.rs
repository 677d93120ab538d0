//! Experiments that extend files of other folders or runs, and what is reported, refused and stored before a run begins.

use crate::binary::{failure, formwork, output};
use crate::model_details::weights;
use formwork::tokenizer::Tokenizer;
use std::fs;
use std::path::Path;
use std::process::Output;

const BASE: &str = r#"name = "base"
[model]
kind = "decoder"
n_layers = 1
d_model = 16
attention = { kind = "multi_head", n_heads = 2 }
[tokenizer]
kind = "bpe"
vocab_size = 270
[data]
kind = "text"
path = "data/t.txt"
context = 8
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 2
batch_size = 2
"#;

fn text(words: &[&str]) -> String {
    (0..400).map(|i| words[i * i % words.len()]).collect()
}

/// Creates a folder `lib` with an experiment and its text.
fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("lib/data")).unwrap();
    fs::create_dir(at.join("project")).unwrap();
    fs::write(at.join("lib/base.toml"), BASE).unwrap();
    let words = ["the sea ", "a tide\n", "no heron ", "of rain, "];
    fs::write(at.join("lib/data/t.txt"), text(&words)).unwrap();
    folder
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Runs the command in a folder other than the experiment's.
fn elsewhere(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = formwork(arguments);
    command.current_dir(folder).output().unwrap()
}

#[test]
fn a_path_is_found_beside_the_file_that_wrote_it() {
    let folder = library();
    let at = folder.path();
    let child = "name = \"child\"\nextends = \"../lib/base.toml\"\n";
    fs::write(at.join("project/child.toml"), child).unwrap();
    let file = path(at, "project/child.toml");
    let run = path(at, "runs/child");
    let done = elsewhere(at, &["train", &file, "--quiet", "--run", &run]);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    // The run stores the path relative to its own folder.
    let resolved = fs::read_to_string(at.join("runs/child/resolved.toml")).unwrap();
    assert!(
        resolved.contains("path = \"../../lib/data/t.txt\""),
        "{resolved}"
    );

    let (status, message) = failure(&["check", &file, "--set", "data.path=none.txt"]);
    assert!(
        status == 2 && message.contains("project,") && message.contains("lib,"),
        "{message}"
    );
}

#[test]
fn a_tokenizer_that_comes_from_a_run_is_that_runs() {
    let folder = library();
    let at = folder.path();
    let run = path(at, "runs/base");
    output(&[
        "train",
        &path(at, "lib/base.toml"),
        "--quiet",
        "--run",
        &run,
    ]);
    let words = ["new words ", "in other order\n", "than before "];
    fs::write(at.join("project/own.txt"), text(&words)).unwrap();
    let tuned = "name = \"tuned\"\nextends = \"../runs/base/resolved.toml\"\n[data]\npath = \"own.txt\"\n[init]\nfrom = \
                 \"../runs/base\"\n";
    fs::write(at.join("project/tuned.toml"), tuned).unwrap();
    let file = path(at, "project/tuned.toml");
    output(&["train", &file, "--quiet", "--run", &path(at, "runs/tuned")]);
    let tokenizer = |run: &str| fs::read(at.join("runs").join(run).join("tokenizer.json")).unwrap();
    assert_eq!(tokenizer("tuned"), tokenizer("base"));
    // A tokenizer set in the experiment itself is trained again, and does not fit.
    let own = format!("{tuned}[tokenizer]\nkind = \"bpe\"\nvocab_size = 270\n");
    fs::write(&file, own).unwrap();
    let (status, message) = failure(&["check", &file]);
    assert!(
        status == 2 && message.contains("a different vocabulary"),
        "{message}"
    );
}

/// If the tokenizer has further tokens behind those of the run, their embedding rows are initialised and the run's rows are
/// kept.
#[test]
fn a_vocabulary_with_further_tokens_begins_with_the_run_s_rows() {
    let folder = library();
    let at = folder.path();
    let base = path(at, "runs/base");
    let file = path(at, "lib/base.toml");
    let untied = ["--set", "model.tie_embeddings=false", "--set", "seed=5"];
    output(&[&["train", &file, "--quiet", "--run", &base], &untied[..]].concat());
    let theirs = Tokenizer::load(&at.join("runs/base/tokenizer.json")).unwrap();
    let added = ["<tide>", "<rain>"].into_iter().map(String::from);
    let longer = theirs.with_tokens(added).unwrap();
    longer.save(&at.join("longer.json")).unwrap();
    let (from, to) = (theirs.vocab_size(), longer.vocab_size());
    assert_eq!(to, from + 2);
    let set = |key: &str, value: &str| format!("{key}={value}");
    let pretrained = format!(
        "tokenizer={{ kind = \"pretrained\", path = {:?} }}",
        path(at, "longer.json")
    );
    let sets = [
        pretrained,
        set("init.from", &format!("{base:?}")),
        set("init.checkpoint", "latest"),
        set("init.freeze", "[\"embedding\", \"head\"]"),
    ];
    let mut arguments = vec!["train", &file, "--plain", "--run"];
    let longer = path(at, "runs/longer");
    arguments.push(&longer);
    arguments.extend(untied);
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    let said = formwork(&arguments).output().unwrap();
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    let noted =
        format!("with rows of new tokens: model.embedding.weight [{from}, 16] → [{to}, 16]");
    assert!(said.contains(&noted), "{said}");
    let of = |run: &str| {
        let all = weights(&at.join("runs").join(run).join("latest/model.safetensors"));
        let table = all
            .into_iter()
            .find(|(name, _)| name == "model.embedding.weight");
        table.unwrap().1
    };
    let (theirs, own) = (of("base"), of("longer"));
    assert_eq!(theirs.len(), from * 16);
    assert_eq!(own.len(), to * 16);
    assert_eq!(own[..theirs.len()], theirs[..]);
    assert!(own[theirs.len()..].iter().any(|value| *value != 0.0));
}

/// The recipe of docs/pretrain_and_fine_tune.md: the first run's file is extended, including its `[tokenizer]`.
#[test]
fn a_tokenizer_that_is_inherited_and_the_runs_is_that_runs() {
    let folder = library();
    let at = folder.path();
    let train = |file: &str| elsewhere(at, &["train", file, "--quiet"]);
    let done = train("lib/base.toml");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{told}");
    let words = ["new words ", "in other order\n", "than before "];
    fs::write(at.join("project/own.txt"), text(&words)).unwrap();
    let tokenizer = |run: &str| fs::read(at.join("checkpoints").join(run).join("tokenizer.json"));
    // From the run's folder, from its file, and from a run that got its tokenizer in the same way.
    for (name, extends, from) in [
        ("tuned", "../lib/base.toml", "checkpoints/base"),
        ("named", "../lib/base.toml", "../lib/base.toml"),
        ("again", "tuned.toml", "checkpoints/tuned"),
        ("once-more", "tuned.toml", "tuned.toml"),
    ] {
        let tuned = format!(
            "name = \"{name}\"\nextends = \"{extends}\"\n[data]\npath = \"own.txt\"\n[init]\nfrom = \"{from}\"\n"
        );
        let file = format!("project/{name}.toml");
        fs::write(at.join(&file), tuned).unwrap();
        let done = train(&file);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{name}: {told}");
        assert_eq!(
            tokenizer(name).unwrap(),
            tokenizer("base").unwrap(),
            "{name}"
        );
    }
    // A tokenizer different from the run's is trained again, and the message says how to take the run's.
    let other = "name = \"other\"\nextends = \"tuned.toml\"\n[tokenizer]\nvocab_size = 265\n";
    fs::write(at.join("project/other.toml"), other).unwrap();
    let told = String::from_utf8(train("project/other.toml").stderr).unwrap();
    let remedy = "set [tokenizer] kind = \"pretrained\", path = ";
    assert!(
        told.contains("a different vocabulary") && told.contains(remedy),
        "{told}"
    );
}

#[test]
fn a_run_that_is_refused_leaves_the_one_before() {
    let folder = library();
    let at = folder.path();
    let (file, run) = (path(at, "lib/base.toml"), path(at, "runs/base"));
    let carried = [
        "--set",
        "train.carry_state=true",
        "--set",
        "data.windows=contiguous",
        "--set",
        "model.attention={ kind = \"multi_head\", n_heads = 2, memory = 8 }",
        "--set",
        "model.position={ kind = \"transformer_xl\" }",
    ];
    let train = [&["train", &file, "--quiet", "--run", &run], &carried[..]].concat();
    output(&train);
    let before = fs::read(at.join("runs/base/metrics.jsonl")).unwrap();
    let wide = ["--fresh", "--set", "train.batch_size=100000"];
    let (status, message) = failure(&[&train[..], &wide].concat());
    assert_eq!(status, 2, "{message}");
    assert!(
        message.contains("batch_size = 100000 must be at most"),
        "{message}"
    );
    assert_eq!(
        fs::read(at.join("runs/base/metrics.jsonl")).unwrap(),
        before
    );
    output(&["eval", &run]);
    // What `train` refuses, `check` refuses.
    let check = [&["check", &file], &carried[..], &wide[1..]].concat();
    assert_eq!(failure(&check).0, 2);
    let large = ["check", &file, "--set", "train.batch_size=10000000"];
    let (status, message) = failure(&large);
    assert!(status == 2 && message.contains("of memory"), "{message}");
}

#[test]
fn a_text_to_evaluate_on_that_is_trained_on_is_told() {
    let folder = library();
    let at = folder.path();
    fs::copy(at.join("lib/data/t.txt"), at.join("lib/copy.txt")).unwrap();
    let file = path(at, "lib/base.toml");
    let train = |valid: &str, run: &str| {
        let valid = format!("data.valid_path={valid}");
        let run = path(at, run);
        let done = formwork(&["train", &file, "--plain", "--run", &run, "--set", &valid])
            .output()
            .unwrap();
        assert!(done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    let said = train("copy.txt", "one");
    assert!(said.contains("is also training data"), "{said}");
    fs::write(at.join("lib/copy.txt"), text(&["other ", "words "])).unwrap();
    let said = train("copy.txt", "two");
    assert!(!said.contains("is also training data"), "{said}");
}

#[test]
fn caches_need_no_folder_beside_the_work() {
    let folder = library();
    let at = folder.path();
    let caches = at.join("caches");
    let done = formwork(&["check", &path(at, "lib/base.toml")])
        .current_dir(at.join("project"))
        .env("XDG_CACHE_HOME", &caches)
        .env_remove("FORMWORK_CACHE")
        .output()
        .unwrap();
    assert!(done.status.success());
    assert!(!at.join("project/datasets").exists());
    assert!(caches.join("formwork/data").is_dir());
}
