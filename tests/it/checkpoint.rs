//! Checkpoints: exact, identical for identical runs, refused if damaged or foreign, pruned.

use crate::small_run::{Run, files, folder, net};
use formwork::train::checkpoint::{
    self, Best, Checkpoint, State, Window, newest_complete, weights_hash,
};
use formwork::train::optim::{self, OptimizerConfig, SgdConfig};
use std::path::Path;

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let (_temp, dir) = folder();
    let whole = Run::new(8).steps(9);
    let half = Run::new(8).steps(4);
    let place = half.save(&dir, 2);
    drop(half);
    let saved = Checkpoint::open(&place).unwrap();
    let resumed = Run::load(&saved, 8).steps(5);
    assert_eq!(resumed.hashes(), whole.hashes());
    assert_eq!(resumed.state, whole.state);
    // Files are the same in another folder, too: they contain nothing random.
    let (_other, other) = folder();
    assert_eq!(files(&resumed.save(&dir, 2)), files(&whole.save(&other, 2)));
}

#[test]
fn evaluations_get_the_averaged_weights() {
    let (_temp, dir) = folder();
    let run = Run::new(4).steps(3);
    let saved = Checkpoint::open(run.save(&dir, 1)).unwrap();
    let evaluated = saved.load_evaluated(net(4, 99)).unwrap();
    assert_eq!(weights_hash(&evaluated), run.hashes()[1]);
}

#[test]
fn states_read_back_to_the_bit() {
    let state = State {
        step: 7,
        best: Some(Best {
            step: 3,
            value: 0.1 + 0.2,
        }),
        window: Window {
            loss: f64::MIN_POSITIVE / 3.0,
            weight: 1e300 / 7.0,
            ..Window::default()
        },
        mean_loss: Some(1.0 / 3.0),
        elapsed_s: 123_456.789_012_345_67,
        ..State::default()
    };
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
}

#[test]
fn damage_is_refused_by_name_and_the_newest_whole_one_is_found() {
    let (_temp, dir) = folder();
    let run = Run::new(4).steps(2);
    run.save(&dir, 5);
    let place = run.steps(2).save(&dir, 5);
    let refused = || {
        let search = newest_complete(dir.root());
        assert_eq!(search.found.unwrap().state().step, 2);
        assert_eq!(search.refused.len(), 1);
        search.refused[0].to_string()
    };
    for (name, bytes) in files(&place) {
        let path = place.join(&name);
        for at in [0, bytes.len() / 3, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 7);
            if name == "manifest.json" && flipped[at].is_ascii_whitespace() {
                continue;
            }
            std::fs::write(&path, &flipped).unwrap();
            let message = refused();
            assert!(message.contains("steps/00000004: "), "{message}");
            assert!(
                message.contains(&name) || name == "manifest.json",
                "{message}"
            );
        }
        for length in [0, 1, bytes.len() / 2, bytes.len() - 2] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let message = refused();
            assert!(message.contains(&name), "{message}");
            if name != "manifest.json" {
                let size = bytes.len();
                let told = format!(
                    "{name} is truncated: it has {length} bytes, but manifest.json says {size}"
                );
                assert!(message.ends_with(&told), "{message}");
            }
        }
        std::fs::remove_file(&path).unwrap();
        let message = refused();
        assert!(message.contains(&name), "{message}");
        std::fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(newest_complete(dir.root()).found.unwrap().state().step, 4);
}

#[test]
fn foreign_checkpoints_are_refused() {
    let (_temp, dir) = folder();
    let saved = Checkpoint::open(Run::new(4).steps(1).save(&dir, 1)).unwrap();
    let message = |error: formwork::error::Error| {
        let text = error.to_string();
        let (_, tail) = text.split_once("00000001/").unwrap();
        tail.to_string()
    };
    assert_eq!(
        message(saved.load_model(net(5, 1)).unwrap_err()),
        "model.safetensors does not fit the model: `blocks.0.weight` has the shape [4, 4], but the model needs [5, 5]; \
         `blocks.0.bias` has the shape [4], but the model needs [5]; \
         `blocks.1.weight` has the shape [4, 4], but the model needs [5, 5]; \
         `head` has the shape [4, 3], but the model needs [5, 3]"
    );
    let mut other = net(4, 1);
    let last = other.blocks.pop().unwrap();
    other.blocks[0].bias = None;
    assert_eq!(
        message(saved.load_model(other.clone()).unwrap_err()),
        "model.safetensors does not fit the model: `blocks.0.bias` is in the file but not in the model; \
         `blocks.1.weight` is in the file but not in the model"
    );
    let mut more = net(4, 1);
    more.blocks.push(last);
    assert_eq!(
        message(saved.load_model(more).unwrap_err()),
        "model.safetensors does not fit the model: `blocks.2.weight` is missing"
    );
    let whole = net(4, 1);
    let sgd = OptimizerConfig::Sgd(SgdConfig {
        momentum: 0.9,
        ..SgdConfig::default()
    });
    let sgd = optim::build(&sgd, &whole).unwrap();
    assert_eq!(
        message(saved.load_optimizer(sgd, &whole).err().unwrap()),
        "optimizer.bpk: the state is of another kind of optimizer"
    );
    let adamw = optim::build(&OptimizerConfig::default(), &other).unwrap();
    let text = message(saved.load_optimizer(adamw, &other).err().unwrap());
    assert!(text.contains("is not a parameter of this model"), "{text}");
}

#[test]
fn the_newest_and_the_best_are_kept() {
    let (_temp, dir) = folder();
    let mut run = Run::new(4).steps(1);
    run.state.best = Some(Best {
        step: 1,
        value: 2.0,
    });
    for _ in 0..4 {
        run.save(&dir, 2);
        run = run.step();
    }
    assert_eq!(checkpoint::steps(dir.root()), [1, 3, 4]);
    let target = |name: &str| std::fs::read_link(dir.root().join(name)).unwrap();
    assert_eq!(target("latest"), Path::new("steps/00000004"));
    assert_eq!(target("best"), Path::new("steps/00000001"));
    assert_eq!(Checkpoint::open(dir.path("best")).unwrap().state().step, 1);
    // A run that went back to step 1: later checkpoints belong to an abandoned past and are removed.
    let back = Run::load(&Checkpoint::open(dir.steps().join("00000001")).unwrap(), 4).step();
    back.save(&dir, 2);
    assert_eq!(checkpoint::steps(dir.root()), [1, 2]);
    assert_eq!(target("latest"), Path::new("steps/00000002"));
}

#[test]
fn leftovers_of_a_killed_save_are_cleaned() {
    let (_temp, dir) = folder();
    let place = Run::new(4).steps(3).save(&dir, 2);
    let whole = files(&place);
    std::fs::create_dir(dir.steps().join("00000005.tmp")).unwrap();
    std::fs::write(dir.steps().join("00000005.tmp/model.safetensors"), "x").unwrap();
    std::fs::rename(&place, place.with_extension("old")).unwrap();
    std::fs::write(dir.path("latest.tmp"), "x").unwrap();
    assert!(newest_complete(dir.root()).found.is_none());
    checkpoint::clean(&dir).unwrap();
    assert_eq!(files(&place), whole);
    assert_eq!(std::fs::read_dir(dir.steps()).unwrap().count(), 1);
    assert!(!dir.path("latest.tmp").exists());
    assert_eq!(newest_complete(dir.root()).found.unwrap().state().step, 3);
}
