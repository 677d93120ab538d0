//! Moments that are sharded among ranks: the same bits and checkpoints, while each rank holds a share of the memory.

use super::experiments::Files;
use super::{assert_same, content, resumed, trained};
use crate::small_run::net;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Bytes, Device, Tensor};
use burn_pack::Reader;
use formwork::collective::Ranks;
use formwork::collective::local::Local;
use formwork::train::checkpoint::{self, moments};
use formwork::train::optim::{self, OptimizerConfig};
use formwork::train::parameters;
use formwork::train::shard::Shard;

#[test]
fn divided_moments_change_no_bit() {
    for optimizer in [
        "kind = \"adamw\"",
        "kind = \"adam\", weight_decay = 0.1",
        "kind = \"sgd\"",
        "kind = \"sgd\", momentum = 0.9, nesterov = true, weight_decay = 0.1",
        "kind = \"lion\", weight_decay = 0.1",
        "kind = \"lamb\"",
        "kind = \"adafactor\"",
        "kind = \"muon\"",
        "kind = \"radam\", weight_decay = 0.1",
        "kind = \"nadam\", weight_decay = 0.1",
        "kind = \"adopt\", weight_decay = 0.1",
        "kind = \"ademamix\", weight_decay = 0.1, slow_warmup = 4",
        "kind = \"adamw\", cautious = true",
        "kind = \"lion\", weight_decay = 0.1, cautious = true",
        "kind = \"schedule_free\", weight_decay = 0.1",
        "kind = \"soap\", weight_decay = 0.1, precondition_frequency = 2",
    ] {
        let files = Files::language_model();
        let mut sets = vec![
            format!("optimizer={{ {optimizer} }}"),
            "train.steps=4".into(),
        ];
        if optimizer.contains("schedule_free") {
            // It keeps its own average.
            sets.push("train.ema=0".into());
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let run = |count: usize, name: &str, sharded: &str| {
            let run = files.path(name);
            let sets = [&sets[..], &[sharded]].concat();
            for result in trained(count, &files.path("x.toml"), &run, &sets) {
                result.unwrap();
            }
            content(&run)
        };
        let whole = run(1, "whole", "train.shard_optimizer=false");
        for count in [1, 2, 4] {
            let found = run(count, &format!("of-{count}"), "train.shard_optimizer=true");
            assert_same(&found, &whole, &format!("{optimizer} on {count} ranks"));
        }
    }
}

#[test]
fn divided_moments_are_resumed_by_another_number_of_ranks() {
    let files = Files::language_model();
    let [whole, other] = ["whole", "other"].map(|name| files.path(name));
    let file = files.path("x.toml");
    let sharded = ["train.shard_optimizer=true"];
    for result in trained(1, &file, &whole, &sharded)
        .into_iter()
        .chain(trained(4, &file, &other, &sharded))
    {
        result.unwrap();
    }
    for step in checkpoint::steps(&other)
        .into_iter()
        .filter(|step| *step > 4)
    {
        std::fs::remove_dir_all(other.join(format!("steps/{step:08}"))).unwrap();
    }
    std::fs::remove_file(other.join("scores.json")).unwrap();
    for result in resumed(2, &other) {
        result.unwrap();
    }
    assert_same(&content(&other), &content(&whole), "4, then 2 ranks");
}

/// Two matrices make up nearly all of the model. Nevertheless, each of 4 or 8 ranks keeps the same number of moments, unless
/// the optimizer updates a matrix as a whole.
#[test]
fn shares_are_of_one_size_and_together_all_moments() {
    for (kind, even) in [
        ("adamw", true),
        ("lion", true),
        ("sgd", true),
        ("lamb", false),
        ("radam", true),
        ("ademamix", true),
        ("schedule_free", true),
    ] {
        let model = net(64, 1);
        let config = match kind {
            "sgd" => serde_json::json!({ "kind": kind, "momentum": 0.9 }),
            _ => serde_json::json!({ "kind": kind }),
        };
        let config: OptimizerConfig = serde_json::from_value(config).unwrap();
        let all = parameters::list(&model);
        let kept = config.state_sizes(&all).unwrap();
        let mut gradients = GradientsParams::new();
        let device = Device::default();
        for p in &all {
            match p.shape[..] {
                [n] => gradients.register(p.id, Tensor::<1>::ones([n], &device)),
                [n, m] => gradients.register(p.id, Tensor::<2>::ones([n, m], &device)),
                _ => unreachable!("the net has vectors and matrices"),
            }
        }
        let mut optimizer = optim::build(&config, &model).unwrap();
        let model = optimizer.step(1e-2, model, gradients);
        let whole = values(&optimizer);
        let expected: usize = kept.values().map(|kept| kept.values).sum();
        assert_eq!(whole, expected, "{kind}");
        for count in [2, 4, 8] {
            let shares = Local::ranks(count).into_iter().map(|engine| {
                let shard = Shard::new(&model, &kept, &Ranks::with_engine(Box::new(engine)));
                values(&shard.keep_own_moments(optimizer.clone()).unwrap())
            });
            let shares: Vec<usize> = shares.collect();
            assert_eq!(shares.iter().sum::<usize>(), whole, "{kind}: {shares:?}");
            let most = shares.iter().max().copied().unwrap_or(0);
            let times = most as f64 * count as f64 / whole as f64;
            assert_eq!(
                times < 1.1,
                even || count == 2,
                "{kind} on {count}: {shares:?} of {whole}"
            );
        }
    }
}

/// Returns the number of values that an optimizer keeps.
fn values(optimizer: &ModuleOptimizer) -> usize {
    let bytes = Bytes::from_bytes_vec(moments::bytes(optimizer).unwrap());
    let tensors = Reader::from_bytes(bytes).unwrap().into_tensors();
    let tensors = tensors.unwrap().into_iter();
    tensors.map(|tensor| tensor.byte_len() / 4).sum()
}
