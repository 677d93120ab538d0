//! Runs of self-distillation: killed and resumed, used as the start of a classifier, exported, and what is refused.

use crate::binary::{failure, formwork, output, shown};
use crate::recompute::killed_and_resumed;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILE: &str = "experiments/smoke/self_distillation.toml";

/// Returns the files of the last checkpoint except those with times, and the journal without its times.
fn outcome(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(run.join("steps/00000040")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let mut all: BTreeMap<String, Vec<u8>> = paths
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            (name, fs::read(path).unwrap())
        })
        .filter(|(name, _)| !["state.json", "manifest.json"].contains(&name.as_str()))
        .collect();
    let lines = formwork::train::journal::read(run.join("metrics.jsonl")).unwrap();
    let lines = lines.into_iter();
    let lines: Vec<String> = lines.map(|l| format!("{:?}", l.without_timing())).collect();
    all.insert("metrics.jsonl".into(), lines.join("\n").into_bytes());
    all
}

fn trained(run: &Path, sets: &[&str]) {
    let shown = run.display().to_string();
    let mut arguments = vec!["train", FILE, "--quiet", "--run", &shown];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    output(&arguments);
}

#[test]
fn a_killed_run_ends_as_one_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| folder.path().join(name));
    trained(&whole, &[]);
    killed_and_resumed(&killed, FILE, &[]);
    let (wanted, found) = (outcome(&whole), outcome(&killed));
    assert!(
        wanted.contains_key("ema.safetensors"),
        "the teacher is kept"
    );
    assert!(wanted.keys().eq(found.keys()));
    for (name, wanted) in wanted {
        assert!(found[&name] == wanted, "{name} differs");
    }
    let journal = fs::read_to_string(whole.join("metrics.jsonl")).unwrap();
    for metric in ["usage_entropy", "target_entropy", "knn_accuracy"] {
        assert!(journal.contains(metric), "{metric} is not in the journal");
    }
}

#[test]
fn a_run_becomes_a_classifier_vectors_and_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    trained(&folder.path().join("run"), &[]);
    let text = fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once("[task]").unwrap();
    let (_, after) = rest.split_once("[optimizer]").unwrap();
    let tuned = format!(
        "{before}[init]\nfrom = {:?}\nnew = [\"^head\"]\n\n[task]\nkind = \"image_classification\"\n\n[optimizer]{after}",
        path("run")
    );
    fs::write(folder.path().join("tuned.toml"), tuned).unwrap();
    output(&[
        "train",
        &path("tuned.toml"),
        "--quiet",
        "--run",
        &path("tuned"),
    ]);
    let said = |arguments: &[&str]| {
        let done = formwork(arguments).output().unwrap();
        assert!(done.status.success(), "{}", shown(&done));
        shown(&done)
    };
    let told = said(&["export", &path("run"), &path("exported")]);
    assert!(told.contains("no head of self-distillation"), "{told}");
    let config = fs::read_to_string(folder.path().join("exported/config.json")).unwrap();
    assert!(config.contains("\"ViTModel\""), "{config}");
    let weights = fs::read(folder.path().join("exported/model.safetensors")).unwrap();
    let header = String::from_utf8_lossy(&weights[..weights.len().min(1 << 14)]).into_owned();
    assert!(header.contains("\"embeddings.cls_token\""));
    assert!(!header.contains("projection_head") && !header.contains("centre"));
    let told = said(&["import", &path("exported"), &path("imported")]);
    assert!(told.contains("ViTModel has no classifier"), "{told}");
}

#[test]
fn keys_without_an_effect_are_refused() {
    for (set, says) in [
        ("train.ema=0.9", "ema has no effect"),
        ("train.dtype=\"bf16\"", "the teacher of [task]"),
        (
            "task.views.jitter={ saturation = 0.2 }",
            "saturation = 0.2 has no effect on grey images",
        ),
        ("task.views.grey=0.2", "grey = 0.2 has no effect on grey"),
        (
            "task.views.local=0",
            "local_size has no effect without local views",
        ),
        ("task.views.blurred=[2.0, 0.0, 0.0]", "must be three shares"),
        ("task.views.local_scale=[0.5, 0.1]", "local_scale"),
        ("task.teacher_momentum=1.5", "must be between 0 and 1"),
        ("task.student_temperature=0.0", "student_temperature = 0.0"),
        ("task.d_out=1", "d_out = 1 cannot distinguish images"),
        ("task.views.local_size=6", "is not a multiple"),
    ] {
        let (status, said) = failure(&["check", FILE, "--set", set]);
        assert!(status == 2 && said.contains(says), "{set}: {said}");
    }
}
