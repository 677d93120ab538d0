//! ARCHITECTURE.md's invariants, checked in the sources: floors, file lengths, forbidden code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The floor of each room; a file may use rooms on lower floors, and its own room.
const FLOORS: &[(u32, &[&str])] = &[
    (
        0,
        &[
            "error",
            "rng",
            "device",
            "digest",
            "files",
            "faults",
            "kind",
            "one_table",
            "stop",
            "collective",
        ],
    ),
    (1, &["kernel", "tokenizer", "evaluate"]),
    (2, &["nn"]),
    (3, &["stack", "data"]),
    (4, &["model"]),
    (5, &["task"]),
    (6, &["train", "generate"]),
    (7, &["plan", "interop"]),
    (8, &["report", "inspect"]),
    (9, &["experiment", "watch"]),
    (10, &["ablation"]),
    (11, &["cli"]),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the room of a source file: the first part of its path below src/.
fn room(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str();
    first.to_string_lossy().trim_end_matches(".rs").to_string()
}

/// Returns the rooms named behind `crate::`, alone or in braces, outside comments.
fn used_rooms(text: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            let names = match rest.strip_prefix('{') {
                Some(list) => list.split(',').map(str::trim).collect(),
                None => vec![rest],
            };
            for name in names {
                let end = name
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .unwrap_or(name.len());
                rooms.push(name[..end].to_string());
            }
        }
    }
    rooms
}

#[test]
fn every_file_uses_floors_below_its_own() {
    let floor: BTreeMap<&str, u32> = FLOORS
        .iter()
        .flat_map(|(floor, rooms)| rooms.iter().map(|room| (*room, *floor)))
        .collect();
    let mut wrong = Vec::new();
    for path in sources(&root().join("src")) {
        let own = room(&path);
        if own == "lib" || own == "main" {
            continue;
        }
        let Some(own_floor) = floor.get(own.as_str()) else {
            wrong.push(format!("{}: room `{own}` has no floor", path.display()));
            continue;
        };
        for used in used_rooms(&fs::read_to_string(&path).unwrap()) {
            if let Some(used_floor) = floor.get(used.as_str())
                && used != own
                && used_floor >= own_floor
                // Rooms of the ground floor may use each other.
                && *own_floor > 0
            {
                wrong.push(format!(
                    "{} (floor {own_floor}) uses {used} (floor {used_floor})",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_stay_under_350_lines() {
    let mut long = Vec::new();
    for folder in ["src", "tests"] {
        for path in sources(&root().join(folder)) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > 350 {
                long.push(format!("{}: {lines}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["src", "tests"] {
        for path in sources(&root().join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                text.starts_with("//! "),
                "{} does not open with //!",
                path.display()
            );
        }
    }
}

/// Returns the part of a file before its unit tests.
fn library_part(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

#[test]
fn what_is_absent_stays_absent() {
    let mut found = Vec::new();
    for path in sources(&root().join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        let text = library_part(&text);
        let own = room(&path);
        let mut forbid = |word: &str, allowed: bool| {
            if !allowed
                && text
                    .lines()
                    .any(|l| !l.trim_start().starts_with("//") && l.contains(word))
            {
                found.push(format!("{} holds `{word}`", path.display()));
            }
        };
        // Printing is allowed only on the top floor, unsafe code only in the fast path.
        forbid("println!", false);
        let fast_path = own == "kernel" && path.components().any(|c| c.as_os_str() == "flex");
        // NVIDIA's libraries are found by loading them; a recording replays on the buffers with which it was made.
        let others = [
            "collective/nccl.rs",
            "device/toolkit.rs",
            "kernel/cube/replay.rs",
        ];
        forbid(
            "unsafe ",
            fast_path || others.iter().any(|other| path.ends_with(other)),
        );
        // burn-train's steps are implemented in the tasks, and its loop is entered in one place.
        forbid("impl TrainStep", own == "task");
        forbid("impl InferenceStep", own == "task");
        forbid("SupervisedTraining::", path.ends_with("train/launch.rs"));
        // Only the experiment room reads TOML; model and tokenizer rooms do not know weight files.
        forbid("toml_edit::", own == "experiment");
        // Configurations reject unknown keys.
        forbid("serde(flatten", false);
        forbid("serde(untagged", false);
        // Cross-entropy is computed only by kernels and tasks; modules know no loss.
        forbid("cross_entropy", own == "kernel" || own == "task");
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Families, each with the only folder or file that may name its variants.
const FAMILIES: &[(&str, &str)] = &[
    ("TaskConfig", "src/task"),
    ("ClassWeights", "src/task"),
    ("ModelConfig", "src/model"),
    ("StemConfig", "src/model/vision"),
    ("DataConfig", "src/data"),
    ("TokenizerConfig", "src/tokenizer"),
    ("ScheduleConfig", "src/train/schedule"),
    ("NormPlacement", "src/stack"),
    ("ResidualScaleConfig", "src/stack"),
    ("ShareConfig", "src/stack"),
    ("AttentionConfig", "src/nn/attention"),
    ("FeedForwardConfig", "src/nn/feed_forward"),
    ("PositionConfig", "src/nn/position"),
    ("RecurrentConfig", "src/nn/recurrent"),
    ("MixerConfig", "src/nn/recurrent"),
    ("VocabularyConfig", "src/nn/vocabulary"),
    ("ScalingConfig", "src/nn/position"),
    ("NormConfig", "src/nn/norm"),
    ("ChannelNormConfig", "src/nn/channel_norm.rs"),
    ("InitConfig", "src/nn/init"),
    ("OptimizerConfig", "src/train/optim"),
];

/// Facts about a variant are kept with it: only its family and the tables of Hugging Face may name it.
#[test]
fn no_variant_is_named_outside_its_family() {
    for path in sources(&root().join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.strip_prefix(root()).unwrap().display().to_string();
        for (family, home) in FAMILIES {
            if shown.starts_with(home) || shown.starts_with("src/interop") {
                continue;
            }
            let named = library_part(&text)
                .match_indices(&format!("{family}::"))
                .any(|(at, _)| {
                    let before = text[..at].chars().next_back();
                    let own = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
                    let variant = text[at + family.len() + 2..].chars().next();
                    own && variant.is_some_and(char::is_uppercase)
                });
            assert!(!named, "{shown} names a variant of {family}");
        }
    }
}

#[test]
fn shipped_experiments_open_with_what_they_are() {
    fn visit(folder: &Path, check: &mut dyn FnMut(&Path)) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, check);
            } else if path.extension().is_some_and(|e| e == "toml") {
                check(&path);
            }
        }
    }
    visit(&root().join("experiments"), &mut |path| {
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let shown = path.display();
        assert!(
            lines[0].starts_with("# "),
            "{shown} does not say what it is"
        );
        assert!(
            lines[1].starts_with("# run:    formwork "),
            "{shown} has no command"
        );
        assert!(lines[2].starts_with("# result: "), "{shown} has no result");
        assert!(!lines[2].contains("pending"), "{shown} was never measured");
    });
}
