//! Lists of shards that point elsewhere, entries that are no files, and PyTorch's files.

use super::super::{fixture, shown};
use super::{WEIGHTS, changed, refused};
use std::path::Path;

const INDEX: &str = "model.safetensors.index.json";

#[test]
fn hostile_shards() {
    let index = |text: String| {
        changed("gpt_neox_shards", |dir| {
            std::fs::write(dir.join(INDEX), text).unwrap()
        })
    };
    let to = |shard: &str| {
        let text = std::fs::read_to_string(fixture("gpt_neox_shards").join(INDEX)).unwrap();
        index(text.replace("model-00002-of-00005.safetensors", shard))
    };
    // A name that leads out of the folder to an existing file.
    let outside = tempfile::tempdir().unwrap();
    let good = fixture("gpt_neox_shards").join("model-00002-of-00005.safetensors");
    let target = outside.path().join("x.safetensors");
    std::fs::copy(&good, &target).unwrap();
    let absolute = shown(&target);
    let beside = format!(
        "../{}/x.safetensors",
        outside.path().file_name().unwrap().to_string_lossy()
    );
    for shard in [
        "../x",
        "..",
        ".",
        "",
        "/etc/passwd",
        "a/../../x",
        "sub/x.safetensors",
        &absolute,
        &beside,
    ] {
        refused(
            &format!("the shard `{shard}`"),
            to(shard).path(),
            &[INDEX, shard],
        );
    }
    refused(
        "a shard that is not there",
        to("model-00009-of-00005.safetensors").path(),
        &["model-00009"],
    );
    refused(
        "a configuration as shard",
        to("config.json").path(),
        &["config.json"],
    );
    for text in [
        "",
        "{}",
        "[]",
        "{\"weight_map\": []}",
        "{\"weight_map\": {\"a\": 3}}",
        "{\"weight_map\": {}}",
    ] {
        refused(
            &format!("the index {text}"),
            index(text.into()).path(),
            &[INDEX],
        );
    }
    let lost = changed("gpt_neox_shards", |dir| {
        std::fs::remove_file(dir.join("model-00003-of-00005.safetensors")).unwrap();
    });
    refused(
        "a lost shard",
        lost.path(),
        &["model-00003-of-00005.safetensors"],
    );
    let doubled = changed("gpt_neox_shards", |dir| {
        let (from, to) = (
            "model-00001-of-00005.safetensors",
            "model-00003-of-00005.safetensors",
        );
        std::fs::copy(dir.join(from), dir.join(to)).unwrap();
    });
    refused(
        "tensors in two shards",
        doubled.path(),
        &["model-00001-of-00005.safetensors"],
    );
    let cut = changed("gpt_neox_shards", |dir| {
        let shard = dir.join("model-00004-of-00005.safetensors");
        let bytes = std::fs::read(&shard).unwrap();
        std::fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
    });
    refused(
        "half a shard",
        cut.path(),
        &["model-00004-of-00005.safetensors"],
    );
}

/// Only regular files are read: a pipe would block, and a device has no end.
#[cfg(unix)]
#[test]
fn files_that_are_none() {
    use std::os::unix::fs::symlink;
    let instead = |file: &'static str, make: &dyn Fn(&Path)| {
        changed("llama_1", |dir| {
            std::fs::remove_file(dir.join(file)).unwrap();
            make(&dir.join(file));
        })
    };
    for file in [WEIGHTS, "config.json"] {
        let folder = instead(file, &|path| std::fs::create_dir(path).unwrap());
        refused("a folder", folder.path(), &[file]);
        let folder = instead(file, &|path| symlink(path, path).unwrap());
        refused("a link to itself", folder.path(), &[file]);
        let folder = instead(file, &|path| symlink("nowhere", path).unwrap());
        refused("a link to nothing", folder.path(), &[file]);
        let folder = instead(file, &|path| symlink("/dev/zero", path).unwrap());
        refused("a device", folder.path(), &[file]);
        let pipe = |path: &Path| {
            let made = std::process::Command::new("mkfifo")
                .arg(path)
                .status()
                .unwrap();
            assert!(made.success());
        };
        refused("a pipe", instead(file, &pipe).path(), &[file]);
    }
    let nowhere = tempfile::tempdir().unwrap();
    refused("an empty folder", nowhere.path(), &["config.json"]);
    refused("no folder", &nowhere.path().join("none"), &["none"]);
    refused(
        "a file",
        &fixture("llama_1").join("config.json"),
        &["config.json"],
    );
}

/// Entries of the index must agree with the shards.
#[test]
fn an_index_of_other_tensors() {
    let index = |change: fn(&mut serde_json::Value)| {
        changed("gpt_neox_shards", |dir| {
            let text = std::fs::read(dir.join(INDEX)).unwrap();
            let mut found = serde_json::from_slice(&text).unwrap();
            change(&mut found);
            std::fs::write(dir.join(INDEX), found.to_string()).unwrap();
        })
    };
    let more = index(|found| {
        found["weight_map"]["no.such.weight"] = "model-00002-of-00005.safetensors".into();
    });
    refused(
        "a tensor that no shard has",
        more.path(),
        &[INDEX, "`no.such.weight`", "no shard contains it"],
    );
    let moved = index(|found| {
        let map = found["weight_map"].as_object_mut().unwrap();
        let (name, shard) = map.iter_mut().next().unwrap();
        assert_ne!(name, "");
        let other = [
            "model-00001-of-00005.safetensors",
            "model-00005-of-00005.safetensors",
        ];
        *shard = other[usize::from(*shard == other[0])].into();
    });
    refused(
        "a tensor of another shard",
        moved.path(),
        &[INDEX, "it is in model-0000"],
    );
}

/// PyTorch's files contain pickle programs: only those that build tensors are run.
#[test]
fn hostile_pytorch_files() {
    const BIN: &str = "pytorch_model.bin";
    let bin = |bytes: Vec<u8>| {
        changed("gpt2_bin", |dir| {
            std::fs::write(dir.join(BIN), bytes).unwrap()
        })
    };
    let good = std::fs::read(fixture("gpt2_bin").join(BIN)).unwrap();
    for keep in [0, 1, 100, good.len() / 2, good.len() - 1] {
        refused(
            &format!("the first {keep} bytes"),
            bin(good[..keep].to_vec()).path(),
            &[BIN],
        );
    }
    let work = tempfile::tempdir().unwrap();
    let mark = work.path().join("was-run");
    let program = format!("cos\nsystem\n(S'touch {}'\ntR.", mark.display());
    refused("a program", bin(program.into_bytes()).path(), &[BIN]);
    assert!(!mark.exists(), "the program in a .bin was run");
    refused(
        "text",
        bin(b"<html>not found</html>".to_vec()).path(),
        &[BIN],
    );
    // Every tenth byte of the directory and of the program is changed.
    let mut spoiled = good.clone();
    spoiled
        .iter_mut()
        .take(4000)
        .step_by(10)
        .for_each(|byte| *byte ^= 0x5a);
    refused("spoiled bytes", bin(spoiled).path(), &[BIN]);
    // A flipped bit in the middle of the values, which the archive's checksums detect.
    let mut bit = good.clone();
    bit[good.len() / 2] ^= 1;
    refused("a bit", bin(bit).path(), &[BIN]);
}
