//! Schedule-free AdamW: its average against its authors' reference (goldens/make_optimizers.py), in runs, and with other keys.

use super::{Golden, NAMES, Toy, rate, values};
use crate::binary::{failure, output};
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use formwork::train::ema::{DecayRule, Ema};
use formwork::train::optim::{self, OptimizerConfig, ScheduleFreeConfig};
use formwork::train::parameters;
use serde_json::Value;
use std::fs;

/// A case of the goldens: its config, its warmup steps, its learning rates.
struct Case {
    name: &'static str,
    config: OptimizerConfig,
    warmup_steps: u64,
    rate: fn(u64) -> f64,
}

fn cases() -> [Case; 2] {
    let config = |betas| {
        OptimizerConfig::ScheduleFree(ScheduleFreeConfig {
            lr: 3e-2,
            betas,
            weight_decay: 0.1,
            ..ScheduleFreeConfig::default()
        })
    };
    [
        Case {
            name: "schedule_free",
            config: config([0.9, 0.99]),
            warmup_steps: 0,
            rate: |step| rate(3e-2, step as usize),
        },
        Case {
            name: "schedule_free_warm",
            config: config([0.8, 0.99]),
            warmup_steps: 6,
            rate: |step| 3e-2 * ((step + 1) as f64 / 7.0).min(1.0),
        },
    ]
}

impl Case {
    fn built(&self, toy: &Toy) -> ModuleOptimizer {
        let parameters = parameters::list(toy);
        optim::build_scaled(&self.config, &parameters, None, self.warmup_steps).unwrap()
    }

    fn rule(&self) -> DecayRule {
        DecayRule::OptimizerAverage(self.config.averaging(self.warmup_steps).unwrap())
    }

    fn step(&self, golden: &Golden, mut held: Held, step: u64) -> Held {
        let gradients = golden.gradients(&held.toy, step as usize);
        held.toy = held.optimizer.step((self.rate)(step), held.toy, gradients);
        held.average = held.average.update(&held.toy);
        held
    }
}

struct Held {
    toy: Toy,
    optimizer: ModuleOptimizer,
    average: Ema<Toy>,
}

#[test]
fn averages_equal_the_reference() {
    let golden = Golden::read();
    let device = Device::default().autodiff();
    for case in cases() {
        let toy = golden.start(&device);
        let mut held = Held {
            optimizer: case.built(&toy),
            average: Ema::new(case.rule(), &toy),
            toy,
        };
        for step in 0..20 {
            held = case.step(&golden, held, step);
            if ![1, 2, 5, 20].contains(&(step + 1)) {
                continue;
            }
            for name in NAMES {
                let both = [
                    (&held.toy, format!("{}.{name}.{}", case.name, step + 1)),
                    (
                        held.average.model(),
                        format!("{}.{name}.average.{}", case.name, step + 1),
                    ),
                ];
                for (toy, key) in both {
                    for (a, b) in values(toy, name).iter().zip(golden.values(&key)) {
                        let off = (a - b).abs() / b.abs().max(1.0);
                        assert!(off <= 1e-5, "{key} is off by {off}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_average_goes_on_from_its_step() {
    let golden = Golden::read();
    let device = Device::default().autodiff();
    for case in cases() {
        let toy = golden.start(&device);
        let held = Held {
            optimizer: case.built(&toy),
            average: Ema::new(case.rule(), &toy),
            toy,
        };
        let half = (0..5).fold(held, |held, step| case.step(&golden, held, step));
        let again = Held {
            optimizer: case
                .built(&half.toy)
                .from_bytes(half.optimizer.into_bytes().unwrap())
                .unwrap(),
            average: Ema::from_average(case.rule(), 5, half.average.model().clone()),
            toy: half.toy.clone(),
        };
        let [whole, resumed] = [half, again]
            .map(|held| (5..12).fold(held, |held, step| case.step(&golden, held, step)));
        for name in NAMES {
            let (ours, theirs) = (resumed.average.model(), whole.average.model());
            assert_eq!(values(ours, name), values(theirs, name), "{name}");
        }
    }
}

const SETS: [&str; 3] = [
    "optimizer={ kind = \"schedule_free\", lr = 1e-2 }",
    "schedule={ kind = \"constant\", warmup_steps = 5 }",
    "train.ema=0",
];

fn tiny(command: &str, sets: &[&str]) -> Vec<String> {
    let mut arguments = vec![command.to_string(), "experiments/smoke/tiny.toml".into()];
    for set in sets {
        arguments.extend(["--set".into(), (*set).into()]);
    }
    arguments
}

/// The last evaluation during training uses the saved average, and every weight of it differs from the model's.
#[test]
fn evaluations_use_the_average() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let mut arguments = tiny("train", &SETS);
    arguments.extend(["--quiet".into(), "--run".into(), run.clone()]);
    output(&arguments);
    let last = folder.path().join("run/steps/00000040");
    let read = |name: &str| fs::read(last.join(name)).unwrap();
    assert_ne!(read("ema.safetensors"), read("model.safetensors"));
    let lines = formwork::train::journal::read(folder.path().join("run/metrics.jsonl")).unwrap();
    let line = lines.iter().rfind(|line| line.split == "valid").unwrap();
    let scores = output(&["eval", &run, "--checkpoint", "latest", "--json"]);
    let scores: Value = serde_json::from_str(scores.trim()).unwrap();
    let loss = scores["loss"].as_f64().unwrap();
    let of_line = line.loss.unwrap();
    assert!((loss - of_line).abs() < 1e-6, "{loss} and {of_line}");
}

#[test]
fn keys_beside_it_are_refused() {
    for (set, says) in [
        (
            "schedule={ kind = \"cosine\" }",
            "kind = \"schedule_free\" of [optimizer] averages steps of one learning rate and needs kind = \"constant\"",
        ),
        (
            "train.ema=0.9",
            "ema has no effect: evaluations use the average of [optimizer] kind = \"schedule_free\"",
        ),
        (
            "train.dtype=\"bf16\"",
            "kind = \"schedule_free\" needs dtype = \"f32\" or \"mixed_bf16\"",
        ),
        (
            "train.replay=true",
            "replay = true needs an optimizer that updates weights and moments in place",
        ),
    ] {
        let sets = [&SETS[..], &[set]].concat();
        let (status, said) = failure(&tiny("check", &sets));
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(says), "{said}");
    }
}
