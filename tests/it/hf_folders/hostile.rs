//! Damaged, truncated or malicious folders: one clear error each, no panic, no run folder left behind.

mod config;
mod keys;
mod shards;

use super::files::{copy, parts, write_parts};
use super::{fixture, shown};
use crate::binary::formwork;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

const WEIGHTS: &str = "model.safetensors";

/// Returns the output of a command, which gets a minute: a pipe opened as a file would block it forever.
fn ended(arguments: &[&str]) -> Output {
    let mut command = formwork(arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// Checks that the folder is refused with these words, and that nothing is left behind.
pub fn refused(what: &str, folder: &Path, words: &[&str]) {
    refused_with(what, folder, &[], words);
}

fn refused_with(what: &str, folder: &Path, options: &[&str], words: &[&str]) {
    let work = tempfile::tempdir().unwrap();
    let (folder, run) = (shown(folder), shown(&work.path().join("run")));
    let mut arguments = vec!["import", &folder, &run];
    arguments.extend(options);
    let output = ended(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    for word in words {
        assert!(said.contains(word), "{what}: `{word}` is not in\n{said}");
    }
    assert!(
        said.len() < 2000,
        "{what}: a message of {} bytes",
        said.len()
    );
    let left: Vec<_> = std::fs::read_dir(work.path()).unwrap().collect();
    assert!(left.is_empty(), "{what}: {left:?} is left");
}

/// A valid folder after a change to one of its files.
fn changed(name: &str, change: impl FnOnce(&Path)) -> tempfile::TempDir {
    let folder = copy(&fixture(name));
    change(folder.path());
    folder
}

/// A valid folder with a changed header of its weights.
fn with_header(change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    changed("llama_1", |dir| {
        let (mut header, data) = parts(&dir.join(WEIGHTS));
        change(&mut header);
        write_parts(&dir.join(WEIGHTS), &header.to_string(), &data);
    })
}

#[test]
fn damaged_weights() {
    let cut = |keep: usize| {
        changed("llama_1", |dir| {
            let bytes = std::fs::read(dir.join(WEIGHTS)).unwrap();
            std::fs::write(dir.join(WEIGHTS), &bytes[..keep.min(bytes.len() - 1)]).unwrap();
        })
    };
    for keep in [0, 7, 8, 100, 20_000, usize::MAX] {
        refused(
            &format!("the first {keep} bytes"),
            cut(keep).path(),
            &[WEIGHTS],
        );
    }
    for length in [u64::MAX, u64::MAX - 7, 1 << 62, 99_999_999] {
        let folder = changed("llama_1", |dir| {
            let mut bytes = std::fs::read(dir.join(WEIGHTS)).unwrap();
            bytes[..8].copy_from_slice(&length.to_le_bytes());
            std::fs::write(dir.join(WEIGHTS), bytes).unwrap();
        });
        refused(
            &format!("a header of {length} bytes"),
            folder.path(),
            &[WEIGHTS],
        );
    }
    let longer = changed("llama_1", |dir| {
        let mut bytes = std::fs::read(dir.join(WEIGHTS)).unwrap();
        bytes.extend([0; 64]);
        std::fs::write(dir.join(WEIGHTS), bytes).unwrap();
    });
    refused("bytes after the end", longer.path(), &[WEIGHTS]);
    for header in [
        "",
        "{",
        "[]",
        "null",
        "{\"a\": 1}",
        "{\"__metadata__\": 3}",
        &"[".repeat(100_000),
    ] {
        let folder = changed("llama_1", |dir| {
            write_parts(&dir.join(WEIGHTS), header, &[0; 16])
        });
        let shown = &header[..header.len().min(20)];
        refused(&format!("the header {shown}"), folder.path(), &[WEIGHTS]);
    }
}

#[test]
fn wrong_headers() {
    const NAME: &str = "model.layers.1.mlp.up_proj.weight";
    let set = |key: &str, value: Value| with_header(|header| header[NAME][key] = value);
    refused(
        "another shape",
        set("shape", json!([24, 32])).path(),
        &[NAME, "[32, 24]"],
    );
    refused("another rank", set("shape", json!([768])).path(), &[NAME]);
    refused(
        "a shape of 2^64 numbers",
        set("shape", json!([1u64 << 32, 1u64 << 32])).path(),
        &[WEIGHTS],
    );
    refused(
        "a shape of 2^65 numbers",
        set("shape", json!([1u64 << 33, 1u64 << 32])).path(),
        &[WEIGHTS],
    );
    refused(
        "a negative length",
        set("shape", json!([-32, 24])).path(),
        &[WEIGHTS],
    );
    refused(
        "a shape of nothing",
        set("shape", json!([0, 24])).path(),
        &[WEIGHTS],
    );
    refused(
        "a type that does not exist",
        set("dtype", json!("F33")).path(),
        &[WEIGHTS],
    );
    refused("integers", set("dtype", json!("I32")).path(), &[NAME]);
    refused(
        "twice the size",
        set("dtype", json!("F64")).path(),
        &[WEIGHTS],
    );
    refused(
        "data elsewhere",
        set("data_offsets", json!([u64::MAX - 3072, u64::MAX])).path(),
        &[WEIGHTS],
    );
    refused(
        "data backwards",
        set("data_offsets", json!([3072, 0])).path(),
        &[WEIGHTS],
    );
    refused(
        "data of another tensor",
        set("data_offsets", json!([0, 3072])).path(),
        &[WEIGHTS],
    );

    let twice = changed("llama_1", |dir| {
        let (header, data) = parts(&dir.join(WEIGHTS));
        let entry = format!("{{\"{NAME}\": {}, ", header["lm_head.weight"]);
        let text = header.to_string().replacen('{', &entry, 1);
        write_parts(&dir.join(WEIGHTS), &text, &data);
    });
    refused("a name twice", twice.path(), &[NAME]);

    let missing = with_header(|header| {
        let entry = header.as_object_mut().unwrap().remove(NAME).unwrap();
        header["model.layers.1.mlp.sideways_proj.weight"] = entry;
    });
    refused("a missing tensor", missing.path(), &[NAME, "missing"]);
}

/// Complete files that do not fit each other, and weights from which no training can continue.
#[test]
fn what_no_command_could_open() {
    let more = changed("llama_1", |dir| {
        let path = dir.join("config.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let known = config["vocab_size"].as_u64().unwrap();
        let words = (0..known + 7).map(|id| (format!("w{id}"), json!(id)));
        let vocab: serde_json::Map<_, _> = words.collect();
        let tokenizer = json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null, "decoder": null,
            "pre_tokenizer": { "type": "Whitespace" },
            "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "w0" },
        });
        std::fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
        config["torch_dtype"] = json!("float32");
        std::fs::write(path, config.to_string()).unwrap();
    });
    refused(
        "a larger tokenizer",
        more.path(),
        &["belongs to another model"],
    );
    let broken = changed("llama_1", |dir| {
        let (header, mut data) = parts(&dir.join(WEIGHTS));
        let (_, first) = header
            .as_object()
            .unwrap()
            .iter()
            .find(|(name, _)| name.ends_with("q_proj.weight"))
            .unwrap();
        let begin = first["data_offsets"][0].as_u64().unwrap() as usize;
        data[begin..begin + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        write_parts(&dir.join(WEIGHTS), &header.to_string(), &data);
    });
    let words = ["infinite or not numbers", "attention"];
    refused("weights that are no numbers", broken.path(), &words);
}

/// An existing run is left alone, and an unusable reference leaves no run.
#[test]
fn where_it_goes_and_what_it_is_held_against() {
    let work = tempfile::tempdir().unwrap();
    let (folder, run) = (shown(&fixture("llama_1")), work.path().join("run"));
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("notes.txt"), "mine").unwrap();
    let output = ended(&["import", &folder, &shown(&run)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let left: Vec<_> = std::fs::read_dir(&run).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let reference = std::fs::read(fixture("llama_1").join("reference.safetensors")).unwrap();
    let half = work.path().join("half.safetensors");
    std::fs::write(&half, &reference[..reference.len() / 2]).unwrap();
    let good = fixture("llama_1");
    refused_with(
        "half a reference",
        &good,
        &["--reference", &shown(&half)],
        &["half.safetensors"],
    );
    let weights = shown(&good.join(WEIGHTS));
    refused_with(
        "weights as reference",
        &good,
        &["--reference", &weights],
        &[WEIGHTS],
    );
    let (pixels, gone) = (
        shown(&fixture("vit_1").join("reference.safetensors")),
        shown(&half.with_file_name("gone")),
    );
    refused_with(
        "pixels for a text model",
        &good,
        &["--reference", &pixels],
        &["pixel_values"],
    );
    refused_with("no reference", &good, &["--reference", &gone], &["gone"]);
}

/// A killed command leaves in its target either nothing or everything, and the next command removes temporary files.
#[test]
fn killed_imports_and_exports_are_made_anew() {
    let work = tempfile::tempdir().unwrap();
    let (folder, run) = (shown(&fixture("llama_1")), shown(&work.path().join("run")));
    let to = shown(&work.path().join("to"));
    let import = (["import", &folder, &run], "resolved.toml");
    let export = (["export", &run, &to], "config.json");
    for (arguments, last) in [import, export] {
        let target = Path::new(arguments[2]);
        for wait in [0, 10, 20, 30, 50, 80] {
            let mut command = formwork(&arguments);
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(wait));
            child.kill().unwrap();
            child.wait().unwrap();
            if target.exists() {
                assert!(target.join(last).is_file(), "{arguments:?} after {wait} ms");
                std::fs::remove_dir_all(target).unwrap();
            }
        }
        let output = ended(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
    let left = std::fs::read_dir(work.path()).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["run", "to"]);
}
