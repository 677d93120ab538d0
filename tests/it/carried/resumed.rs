//! A run that carries state is stopped and resumed: weights, moments and state are the same bit for bit.

use super::{CONTEXT, Elman, WIDTH, elman, split, windows};
use crate::transfer::values_of;
use burn::tensor::Device;
use formwork::data::loader::{Order, step_batches};
use formwork::error::{Error, Result};
use formwork::model::CarriedWidths;
use formwork::stop::StopFlag;
use formwork::task::{Objective, TrainableModel};
use formwork::train::checkpoint::{self, State};
use formwork::train::config::TrainConfig;
use formwork::train::gradients::accumulate;
use formwork::train::job::{Job, Observer, Report};
use formwork::train::run_dir::{Existing, RunDir};
use formwork::train::view::NoView;
use formwork::train::{self, optim};
use std::collections::BTreeMap;
use std::path::Path;

/// Requests a stop after this step.
pub struct StopAfter(pub u64, pub StopFlag);

impl Observer<Objective<Elman>> for StopAfter {
    fn report(&mut self, report: &Report) {
        if report.step == self.0 && report.split == "train" {
            self.1.raise();
        }
    }

    fn evaluated(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn commit_samples(&mut self) -> Result<u64> {
        Ok(0)
    }
}

pub fn job(model: &Objective<Elman>, run: RunDir, eval_every: u64) -> Job<Objective<Elman>> {
    let optimizer = serde_json::json!({ "kind": "adamw", "lr": 1e-2 });
    let optimizer: optim::OptimizerConfig = serde_json::from_value(optimizer).unwrap();
    Job {
        config: TrainConfig {
            steps: 12,
            batch_size: 3,
            micro_batch_size: Some(2),
            eval_every: Some(eval_every),
            carry_state: true,
            log_every: 1,
            ..TrainConfig::default()
        },
        diagnostics: None,
        journal: Default::default(),
        seed: 1,
        optimizer: optim::build(&optimizer, model).unwrap(),
        state_sizes: Default::default(),
        base_lr: 1e-2,
        schedule: Default::default(),
        unit: "tokens",
        perplexity: true,
        ema: None,
        carried: model.empty_state(),
        updates: 1,
        train: windows(14, CONTEXT, 0),
        valid: Some(split(windows(5, CONTEXT, 0), true)),
        run,
        state: State::default(),
        last_scores: None,
        note: None,
        pause_at: None,
        stop: StopFlag::default(),
        ranks: Default::default(),
        route: Default::default(),
    }
}

/// Trains in a folder up to a step or to the end, continuing from the folder's newest checkpoint.
pub fn finished(folder: &Path, stop_after: u64, eval_every: u64) -> BTreeMap<String, Vec<u8>> {
    let mut model = elman(None);
    let found = checkpoint::newest_complete(folder).found;
    let run = match &found {
        Some(_) => RunDir::open(folder).unwrap(),
        None => {
            let run = RunDir::create(folder, Existing::Refuse).unwrap();
            run.write("resolved.toml", b"").unwrap();
            run
        }
    };
    let mut job = job(&model, run, eval_every);
    if let Some(found) = found {
        let device = Device::flex().autodiff();
        model = found.load_model(model).unwrap();
        job.optimizer = found.load_optimizer(job.optimizer, &model).unwrap();
        let empty = job.carried.take().unwrap();
        let load = |[rows, width]: [usize; 2]| {
            let widths = CarriedWidths {
                d_model: width,
                blocks: vec![[vec![width], Vec::new()]],
            };
            found.load_carried(&empty, rows, &widths, &device)
        };
        for other in [[4, WIDTH], [3, WIDTH + 1]] {
            let refused = load(other).unwrap_err().to_string();
            assert!(refused.contains("its state `blocks.0.own.0`"), "{refused}");
        }
        job.carried = Some(load([job.config.batch_size, WIDTH]).unwrap());
        job.state = found.state().clone();
    }
    let observer = StopAfter(stop_after, job.stop.clone());
    match train::run(model, job, Box::new(observer), Box::new(NoView)) {
        Ok(outcome) => assert_eq!(outcome.step, 12),
        Err(Error::Interrupted { step, .. }) => assert_eq!(step, stop_after),
        Err(other) => panic!("{other}"),
    }
    let newest = checkpoint::newest_complete(folder).found.unwrap();
    let files = ["model.safetensors", "optimizer.bpk", "state.safetensors"].map(|name| {
        let bytes = std::fs::read(newest.folder().join(name)).unwrap();
        (name.to_string(), bytes)
    });
    files.into()
}

#[test]
fn a_run_that_was_stopped_goes_on_with_its_state_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, stopped, watched] = ["alone", "stopped", "watched"].map(|n| folder.path().join(n));
    let whole = finished(&alone, 99, 12);
    finished(&stopped, 5, 12);
    finished(&stopped, 7, 12);
    assert!(
        finished(&stopped, 99, 12) == whole,
        "a resumed run is another"
    );
    // Evaluations do not disturb the state of training.
    assert!(
        finished(&watched, 99, 2) == whole,
        "evaluations change the run"
    );
    // The state matters: without it the weights differ.
    let mut model = elman(None);
    let before = values_of(&model);
    let mut job = job(
        &model,
        RunDir::create(folder.path().join("other"), Existing::Refuse).unwrap(),
        12,
    );
    for _ in 0..12 {
        let step = job.state.step;
        let batches =
            step_batches(&*windows(14, CONTEXT, 0), &mut Order::lanes(3), 2, step).unwrap();
        let mut gradient = accumulate(&model, batches);
        gradient.clip(&model, 1.0);
        model = job.optimizer.step(1e-2, model, gradient.gradients);
        job.state.step += 1;
    }
    assert!(values_of(&model)["recurrent"] != before["recurrent"]);
    let newest = checkpoint::newest_complete(&alone).found.unwrap();
    let trained = newest.load_model(elman(None)).unwrap();
    assert!(values_of(&model) != values_of(&trained));
}
