//! `[train] recompute`: the same weights bit for bit, except where one block reads a table several times, with less memory;
//! keys without effect are refused.

use crate::batches::{cut, in_one_step};
use crate::binary::{failure, formwork, output, shown};
use crate::cases::{base, cases};
use crate::oracle::difference;
use crate::transfer::gradients_of;
use formwork::data::Batch;
use formwork::train::gradients::accumulate;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// The same batches with recomputation of activations.
fn anew(batches: &[Batch]) -> Vec<Batch> {
    let anew = batches.iter().cloned().map(|batch| Batch {
        recompute: true,
        ..batch
    });
    anew.collect()
}

/// Every kind of every family in every network, with dropout and in micro-batches.
#[test]
fn gradients_are_the_same_to_the_last_bit() {
    for case in cases() {
        let case = case.dropping(0.2, 0.3);
        let (task, whole) = (case.build(), case.batch());
        let parts = vec![cut(&whole, 0..1, false), cut(&whole, 1..4, false)];
        let parts = in_one_step(parts, 3);
        let (stored, again) = (
            accumulate(&task, parts.clone()),
            accumulate(&task, anew(&parts)),
        );
        let name = &case.name;
        assert!(stored.output.loss.sum == again.output.loss.sum, "{name}");
        for (metric, sum) in &stored.output.metrics {
            assert_eq!(
                sum.sum, again.output.metrics[metric].sum,
                "{name}: {metric}"
            );
        }
        let theirs = gradients_of(&task, &again.gradients);
        for (path, ours) in gradients_of(&task, &stored.gradients) {
            let theirs = &theirs[&path];
            let off = difference(&theirs.values, &ours.values);
            // If a block contributes several terms to a gradient, they are added in another order.
            let same = match case.reads_a_table_again() {
                true => off < 1e-6,
                false => ours.values == theirs.values,
            };
            assert!(same, "{name}: {path} is off by {off:e}");
        }
    }
}

/// Feed-forward layers over chunks of positions, the last of them shorter, give the same loss and gradients.
#[test]
fn chunks_of_positions_change_no_result() {
    for kind in ["dense", "gated"] {
        let step = |keys: Value| {
            let [.., decoder] = base(16);
            let case = decoder.with(&json!({ "feed_forward": keys }));
            let (task, batch) = (case.build(), case.batch());
            let step = accumulate(&task, vec![batch]);
            let gradients = gradients_of(&task, &step.gradients);
            (step.output.loss.sum, gradients)
        };
        let (whole, theirs) = step(json!({ "kind": kind }));
        let (chunked, ours) = step(json!({ "kind": kind, "chunk": 5 }));
        assert!(
            (chunked / whole - 1.0).abs() < 1e-6,
            "{kind}: {chunked} against {whole}"
        );
        for (path, ours) in ours {
            let off = difference(&ours.values, &theirs[&path].values);
            assert!(off < 1e-5, "{kind}: {path} is off by {off:e}");
        }
    }
}

/// Returns the arguments of a training run.
pub fn trained(run: &Path, file: &str, sets: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = ["train", file, "--quiet"].map(Into::into).to_vec();
    for set in sets {
        arguments.extend(["--set".into(), (*set).into()]);
    }
    arguments.extend(["--run".to_string(), run.display().to_string()]);
    arguments
}

/// Reads the weights of a run's last checkpoint.
pub fn last_weights(run: &Path) -> Vec<u8> {
    let steps = fs::read_dir(run.join("steps")).unwrap();
    let last = steps.map(|entry| entry.unwrap().path()).max().unwrap();
    fs::read(last.join("model.safetensors")).unwrap()
}

/// Trains a run that is killed once it has a checkpoint, and resumes it.
pub fn killed_and_resumed(run: &Path, file: &str, sets: &[&str]) {
    let mut child = formwork(&trained(run, file, sets))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let some = || fs::read_dir(run.join("steps")).is_ok_and(|mut steps| steps.next().is_some());
    while !some() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    if child.wait().unwrap().success() {
        return;
    }
    output(&[
        "resume".to_string(),
        run.display().to_string(),
        "--quiet".into(),
    ]);
}

/// An experiment with a block that reads no bias beside one that does.
const MIXED: &str = r#"
name = "mixed"

[model]
kind = "decoder"
d_model = 16
position = { kind = "relative_bias" }
layers = [{ attention = { kind = "multi_head", n_heads = 2 } }, { mixer = { kind = "mamba" } }]

[data]
kind = "reverse"
length = 6
symbols = 8

[task]
kind = "causal_lm"

[optimizer]
kind = "adamw"
lr = 3e-3

[train]
steps = 5
batch_size = 4
"#;

#[test]
fn blocks_without_attention_stand_beside_learned_biases() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mixed.toml");
    fs::write(&file, MIXED).unwrap();
    let file = file.display().to_string();
    for position in ["relative_bias", "disentangled"] {
        let kind = format!("model.position.kind={position}");
        let run = |name: &str| folder.path().join(format!("{position}-{name}"));
        output(&trained(&run("stored"), &file, &[&kind]));
        output(&trained(
            &run("anew"),
            &file,
            &[&kind, "train.recompute=true"],
        ));
        assert!(
            last_weights(&run("anew")) == last_weights(&run("stored")),
            "{position}"
        );
    }
}

/// Runs of a decoder, of one with a memory of earlier segments, and of both stacks of a text-to-text model: with recomputation
/// and without, and killed and resumed.
#[test]
fn runs_end_with_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (file, sets)) in [
        (
            "experiments/smoke/tiny.toml",
            &[
                "model.drop_path=0.1",
                "model.position={ kind = \"relative_bias\" }",
            ][..],
        ),
        (
            "experiments/smoke/segments.toml",
            &["train.steps=20", "train.checkpoint_every=5"],
        ),
        (
            "experiments/smoke/spans.toml",
            &[
                "train.steps=10",
                "train.checkpoint_every=5",
                "schedule.warmup_steps=5",
            ],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let run = |name: &str| folder.path().join(format!("{number}-{name}"));
        output(&trained(&run("stored"), file, sets));
        let wanted = last_weights(&run("stored"));
        let with: Vec<&str> = sets
            .iter()
            .copied()
            .chain(["train.recompute=true"])
            .collect();
        output(&trained(&run("anew"), file, &with));
        assert!(last_weights(&run("anew")) == wanted, "{file}");
        killed_and_resumed(&run("killed"), file, &with);
        assert!(last_weights(&run("killed")) == wanted, "{file}, killed");
    }
}

/// Returns peak megabytes of a training step, for a decoder with this number of layers on many tokens.
pub fn peak(layers: usize, sets: &[&str]) -> f64 {
    let layers = format!("model.n_layers={layers}");
    let own = [
        layers.as_str(),
        "train.batch_size=512",
        "train.micro_batch_size=512",
        "model.dropout=0.0",
    ];
    let sets: Vec<&str> = own.iter().chain(sets).copied().collect();
    peak_of("experiments/smoke/tiny.toml", &sets)
}

/// Returns peak megabytes of a training step. It runs on one thread, since every thread of the pool has its own heap, and a
/// second heap may grow by one layer's work if its thread takes a large share.
pub fn peak_of(file: &str, sets: &[&str]) -> f64 {
    let mut arguments = vec!["bench", "train", file, "--json"];
    arguments.extend(["--steps", "3", "--warmup", "1"]);
    for set in sets {
        arguments.extend(["--set", set]);
    }
    let done = formwork(&arguments)
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", shown(&done));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    found["peak_rss_mb"].as_f64().unwrap()
}

/// Memory that 18 more layers add to a step.
#[test]
fn a_layer_keeps_its_input_alone() {
    let grown = |sets: &[&str]| peak(24, sets) - peak(6, sets);
    let (stored, anew) = (grown(&[]), grown(&["train.recompute=true"]));
    println!("18 more layers: {stored:.0} MB stored, {anew:.0} MB computed anew");
    assert!(anew < 0.2 * stored, "{anew} MB against {stored} MB");
}

#[test]
fn a_plan_tells_the_memory_and_the_work() {
    let plan = |sets: &[&str]| -> Value {
        let mut arguments = vec!["plan", "experiments/smoke/tiny.toml", "--json"];
        let usual = ["model.n_layers=12", "train.batch_size=64"];
        for set in usual.iter().chain(sets) {
            arguments.extend(["--set", set]);
        }
        serde_json::from_str(&output(&arguments)).unwrap()
    };
    let kept = |plan: &Value| plan["memory_bytes"]["activations"].as_f64().unwrap();
    let work = |plan: &Value| plan["flops_per_item"].as_f64().unwrap();
    let stored = plan(&[]);
    let anew = plan(&["train.recompute=true"]);
    let reversible = plan(&["model.reversible={}"]);
    assert!(kept(&anew) < 0.4 * kept(&stored));
    assert!(kept(&reversible) < kept(&anew));
    for other in [&anew, &reversible] {
        let more = work(other) / work(&stored);
        assert!((1.2..1.34).contains(&more), "{more} times the work");
    }
}

#[test]
fn keys_without_effect_are_faults() {
    for (file, sets, words) in [
        (
            "experiments/smoke/tiny.toml",
            &["train.recompute=true", "model.reversible={}"][..],
            "recompute = true has no effect: a reversible stack recomputes all of its activations anyway; remove it",
        ),
        (
            "experiments/causal_lm/shakespeare_char_lstm.toml",
            &["train.recompute=true"],
            "recompute = true has no effect: it applies to the blocks of a transformer, and kind = \"recurrent\" has none",
        ),
        (
            "experiments/smoke/tiny.toml",
            &["model.feed_forward.chunk=4096"],
            "chunk = 4096 has no effect: inputs have at most",
        ),
        (
            "experiments/smoke/tiny.toml",
            &["model.feed_forward.chunk=0"],
            "chunk = 0 is not between 1 and",
        ),
        (
            "experiments/smoke/tiny.toml",
            &["model.feed_forward={ kind = \"moe\", expert = { kind = \"dense\", chunk = 4 } }"],
            "chunk has no effect in an expert",
        ),
    ] {
        let mut arguments = vec!["check", file];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        let (status, said) = failure(&arguments);
        assert!(status == 2 && said.contains(words), "{sets:?}: {said}");
    }
}
