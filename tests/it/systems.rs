//! `experiments/systems`: each system has a file, which is its preset made small by changing only numbers. It trains with the
//! system's own objective for a few minutes, and expects results that an untrained network does not reach.

mod repeated;
mod table;

use crate::binary::{formwork, shipped};
use formwork::data::Shape;
use formwork::experiment::{LoadedExperiment, check, load};
use formwork::model::preset::parse_preset;
use formwork::model::{ModelConfig, ThroughputUnit};
use formwork::plan::{PlanRequest, plan};
use formwork::train::schedule::{KINDS, ScheduleConfig};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use table::{SYSTEMS, System};

/// Three to four minutes on two cores, at 1e11 operations per second in training.
const MOST_FLOPS: f64 = 2e13;
const MOST_PARAMS: usize = 4_000_000;

fn file(system: &System) -> String {
    format!("experiments/systems/{}.toml", system.name)
}

fn loaded(system: &System) -> LoadedExperiment {
    load(&shipped(&file(system)), &[]).unwrap()
}

/// Collects values that are neither tables nor lists of tables, by dotted key.
fn leaves(value: &Value, at: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let at = match at {
                    "" => key.clone(),
                    _ => format!("{at}.{key}"),
                };
                leaves(value, &at, found);
            }
        }
        Value::Array(tables) if tables.iter().any(Value::is_object) => {
            for (number, table) in tables.iter().enumerate() {
                leaves(table, &format!("{at}.{number}"), found);
            }
        }
        other => {
            found.insert(at.to_string(), other.clone());
        }
    }
}

fn leaves_of(model: &ModelConfig) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    leaves(&serde_json::to_value(model).unwrap(), "", &mut found);
    found
}

/// Whether a value is a size: a number, a list of numbers, or absent.
fn sized(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Number(_)) => true,
        Some(Value::Array(values)) => values.iter().all(Value::is_number),
        Some(_) => false,
    }
}

#[test]
fn every_system_has_its_file_and_its_line() {
    let listed: BTreeSet<String> = SYSTEMS.iter().map(file).collect();
    let there: BTreeSet<String> = std::fs::read_dir(shipped("experiments/systems"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| format!("experiments/systems/{name}"))
        .collect();
    assert_eq!(listed, there);
    let page = std::fs::read_to_string(shipped("docs/systems.md")).unwrap();
    for system in SYSTEMS {
        let name = format!("systems/{}.toml", system.name);
        assert!(page.contains(&name), "docs/systems.md does not name {name}");
    }
}

#[test]
fn a_system_is_its_preset_made_small_by_numbers() {
    for system in SYSTEMS {
        let (name, loaded) = (system.name, loaded(system));
        let text: toml::Table = toml::from_str(&loaded.source).unwrap();
        assert_eq!(
            text["model"]["preset"].as_str(),
            Some(system.preset),
            "{name}"
        );
        let preset = leaves_of(&parse_preset(system.preset).unwrap().model);
        let own = leaves_of(&loaded.experiment.model);
        let keys: BTreeSet<&String> = preset.keys().chain(own.keys()).collect();
        let changed: Vec<&str> = keys
            .into_iter()
            .filter(|key| preset.get(*key) != own.get(*key))
            .filter(|key| !repeated::is(key, &preset, &own))
            .filter(|key| !(sized(preset.get(*key)) && sized(own.get(*key))))
            .map(String::as_str)
            .collect();
        assert_eq!(changed, system.changed, "{name}");
    }
}

#[test]
fn a_system_trains_with_its_own_objective_and_expects_something() {
    for system in SYSTEMS {
        let (name, loaded) = (system.name, loaded(system));
        let (kind, wanted) = system.task;
        let task = serde_json::to_value(&loaded.experiment.task).unwrap();
        assert_eq!(task["kind"], kind, "{name}");
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        for (key, value) in wanted.as_object().unwrap() {
            assert_eq!(&task[key], value, "{name}: {key}");
        }
        assert!(!loaded.experiment.expect.is_empty(), "{name}");
    }
}

/// Limits both the size of the network and all products of its training, so that a laptop is enough.
#[test]
fn a_system_trains_within_minutes() {
    for system in SYSTEMS {
        let (name, loaded) = (system.name, loaded(system));
        let experiment = &loaded.experiment;
        let context = experiment.data.context();
        // More subwords than any of them has, and the images of Fashion-MNIST.
        let shape = Shape {
            image: Some([1, 28, 28]),
            speech: experiment.data.data_set().speech(),
            classes: (0..10).map(|class| class.to_string()).collect(),
            ..Shape::of_text(context, 4096)
        };
        let question = PlanRequest::of(&experiment.model, &shape);
        let cost = plan(&question, &burn::tensor::Device::default()).unwrap();
        assert!(cost.params < MOST_PARAMS, "{name}: {}", cost.params);
        let train = &experiment.train;
        let rows = match (experiment.model.throughput_unit(), train.batch_tokens) {
            (ThroughputUnit::Image | ThroughputUnit::Recording, _) | (_, None) => {
                train.batch_size as f64
            }
            (ThroughputUnit::Token | ThroughputUnit::Pair, Some(tokens)) => {
                tokens as f64 / context as f64
            }
        };
        let row = experiment.task.facts().products(&experiment.model, &shape);
        let flops = 6.0 * row * rows * train.steps as f64;
        assert!(flops < MOST_FLOPS, "{name}: {flops:e}");
    }
}

/// Returns the smallest number of steps that leaves room for a schedule's warmup, and for its decay if that is a share of the
/// run.
fn fewest_steps(schedule: &ScheduleConfig, most: u64) -> u64 {
    let fits = |steps: &u64| schedule.length_fault(*steps).is_none();
    (1..=most).find(fits).unwrap()
}

#[test]
fn a_system_may_have_any_schedule() {
    for row in KINDS {
        let schedule: ScheduleConfig = toml::from_str(row.example).unwrap();
        let steps = fewest_steps(&schedule, 5000);
        assert!(steps >= schedule.warmup_steps(), "{}", row.kind);
        let sets: Vec<String> = row.example.lines().map(|l| l.replace(' ', "")).collect();
        let sets = sets.iter().map(|set| format!("schedule.{set}"));
        let sets: Vec<String> = sets.chain([format!("train.steps={steps}")]).collect();
        let loaded = load(&shipped("experiments/smoke/tiny.toml"), &sets).unwrap();
        check(&loaded).unwrap_or_else(|error| panic!("{}: {error}", row.kind));
    }
}

/// A bound that an untrained network meets says nothing. Tested for systems that read no files and begin from no other run,
/// whose evaluation takes seconds.
#[test]
fn an_untrained_network_misses_what_its_system_expects() {
    let mut tried = 0;
    for system in SYSTEMS {
        let loaded = loaded(system);
        let experiment = &loaded.experiment;
        let alone = experiment.init.initial_runs().is_empty() && system.task.0 != "distillation";
        if !alone || !experiment.data.data_set().paths().is_empty() {
            continue;
        }
        tried += 1;
        let steps = fewest_steps(&experiment.schedule, experiment.train.steps);
        let folder = tempfile::tempdir().unwrap();
        let steps = format!("train.steps={steps}");
        let runs = folder.path().display().to_string();
        let file = file(system);
        // These tasks distinguish a pair from others in its batch.
        let batch = match system.task.0 {
            "text_embedding" | "image_text" => "train.batch_size=2",
            _ => "train.batch_size=1",
        };
        let arguments = [
            "verify",
            &file,
            "--runs",
            &runs,
            "--set",
            &steps,
            "--set",
            batch,
            "--set",
            "optimizer.lr=1e-12",
        ];
        let ended = formwork(&arguments).output().unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{file}: {said}{told}");
        let judged = said
            .lines()
            .filter(|line| line.starts_with("MISSED"))
            .count();
        assert_eq!(judged, experiment.expect.len(), "{file}: {said}");
    }
    assert!(tried > 1, "no system without files");
}
