//! Moments that are divided among ranks: the same bits and the same checkpoints, each rank a share of the memory.

use super::experiments::Files;
use super::{assert_same, content, resumed, trained};
use crate::small_run::net;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use formwork::collective::Ranks;
use formwork::collective::local::Local;
use formwork::train::checkpoint::{self, moments};
use formwork::train::optim::{self, OptimizerConfig};
use formwork::train::parameters;
use formwork::train::shard::Shard;

#[test]
fn divided_moments_change_no_bit() {
    for optimizer in ["adamw", "lamb", "adafactor", "muon"] {
        let files = Files::language_model();
        let sets = [
            format!("optimizer={{ kind = \"{optimizer}\" }}"),
            "train.steps=4".into(),
        ];
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

/// Every parameter belongs to one rank, and what the ranks keep is what one process keeps.
#[test]
fn shares_are_of_one_size_and_together_all_moments() {
    let model = net(64, 1);
    let mut gradients = GradientsParams::new();
    let device = Device::default();
    for p in parameters::list(&model) {
        match p.shape[..] {
            [n] => gradients.register(p.id, Tensor::<1>::ones([n], &device)),
            [n, m] => gradients.register(p.id, Tensor::<2>::ones([n, m], &device)),
            _ => unreachable!("the net has vectors and matrices"),
        }
    }
    let mut optimizer = optim::build(&OptimizerConfig::default(), &model).unwrap();
    let model = optimizer.step(1e-2, model, gradients);
    let whole = moments::bytes(&optimizer).unwrap().len();
    let shares: Vec<usize> = Local::ranks(2)
        .into_iter()
        .map(|engine| {
            let shard = Shard::new(&model, &Ranks::joined(Box::new(engine)));
            let own = shard.own(optimizer.clone()).unwrap();
            moments::bytes(&own).unwrap().len()
        })
        .collect();
    // The format has some bytes beside the numbers.
    assert!(
        shares.iter().sum::<usize>().abs_diff(whole) < whole / 5,
        "{shares:?} of {whole}"
    );
    assert!(
        shares.iter().all(|share| share * 4 < whole * 3),
        "{shares:?} of {whole}"
    );
}
