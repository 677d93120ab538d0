//! `metrics.csv`: the journals in long form, covering the whole run even if it is switched on late.

use super::{lines, resume, train};
use crate::binary::output;
use formwork::train::run_manifest;
use std::fs;

#[test]
fn every_number_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["journal.csv=true", "diagnostics.every=15"]);
    let text = fs::read_to_string(run.join("metrics.csv")).unwrap();
    let mut wanted = vec![String::from("step,split,metric,value")];
    let diagnostics = lines(&run.join("diagnostics.jsonl"));
    for line in lines(&run.join("metrics.jsonl")) {
        let (step, split) = (line["step"].as_u64().unwrap(), line["split"].as_str());
        let split = split.unwrap();
        for (metric, value) in line.as_object().unwrap() {
            if let (Some(value), false) = (value.as_f64(), metric == "step") {
                wanted.push(format!("{step},{split},{metric},{value}"));
            }
        }
    }
    let rows: Vec<&str> = text.lines().collect();
    let (parts, metrics): (Vec<&str>, Vec<&str>) = rows.iter().partition(|r| r.contains('/'));
    assert_eq!(metrics, wanted);
    let count = |line: &serde_json::Value| -> usize {
        let objects = line.as_object().unwrap().values();
        objects.filter_map(|o| o.as_object().map(|o| o.len())).sum()
    };
    assert_eq!(parts.len(), diagnostics.iter().map(count).sum::<usize>());
    let norm = diagnostics[1]["update_norm"]["embedding"].as_f64().unwrap();
    assert!(parts.contains(&format!("30,train,update_norm/embedding,{norm}").as_str()));
    // A step's diagnostics come before its metrics.
    let place = |row: &str| rows.iter().position(|r| r.starts_with(row)).unwrap();
    assert!(place("30,train,attention_entropy/") < place("30,train,loss"));
}

#[test]
fn what_is_asked_for_late_is_measured_from_then_on_and_copied_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &[]);
    assert!(!run.join("metrics.csv").exists() && !run.join("diagnostics.jsonl").exists());
    resume(
        &run,
        &["train.steps=60", "diagnostics.every=10", "journal.csv=true"],
    );
    let steps = |run: &std::path::Path| -> Vec<u64> {
        let lines = lines(&run.join("diagnostics.jsonl"));
        lines.iter().map(|l| l["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(steps(&run), [50, 60]);
    let text = fs::read_to_string(run.join("metrics.csv")).unwrap();
    for row in ["3,train,loss,", "40,valid,loss,", "60,valid,loss,"] {
        let count = text.lines().filter(|line| line.starts_with(row)).count();
        assert_eq!(count, 1, "{row}");
    }
    // After it is switched off, earlier measurements stay.
    let resolved = run.join("resolved.toml");
    let text = fs::read_to_string(&resolved).unwrap();
    let tables = text.find("\n[diagnostics]").unwrap()..text.find("\n[journal]").unwrap();
    let mut without = text.clone();
    without.replace_range(tables, "");
    fs::write(&resolved, without).unwrap();
    run_manifest::seal(&run).unwrap();
    resume(&run, &["train.steps=70"]);
    assert_eq!(steps(&run), [50, 60]);
}

#[test]
fn a_fresh_start_leaves_nothing_of_the_old_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let copies = "journal={csv=true,tensorboard=true}";
    train(&run, &["train.steps=10", "diagnostics.every=5", copies]);
    let shown = run.display().to_string();
    let experiment = "experiments/smoke/tiny.toml";
    output(&["train", experiment, "--fresh", "--quiet", "--run", &shown]);
    for entry in fs::read_dir(&run).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let old = ["diagnostics", "metrics.csv", "events"];
        assert!(!old.iter().any(|o| name.starts_with(o)), "{name} is left");
    }
}
