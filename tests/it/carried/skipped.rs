//! After a skipped step, rows continue behind its text: the step changes no weight, but its text was read.

use super::resumed::{StopAfter, job};
use super::{CONTEXT, elman, near, windows};
use crate::oracle::difference;
use crate::transfer::{Arrays, values_of};
use formwork::data::loader::{Order, step_batches};
use formwork::task::TrainableModel;
use formwork::train::checkpoint;
use formwork::train::config::OnDivergence;
use formwork::train::gradients::accumulate_from;
use formwork::train::run_dir::{Existing, RunDir};
use formwork::train::schedule::ScheduleConfig;
use formwork::train::view::NoView;
use formwork::train::{self};

const STEPS: u64 = 34;
/// Factors of the threshold, which falls with the losses; some of them cause skipped steps.
const FACTORS: [f64; 8] = [1.01, 1.0, 0.99, 0.98, 0.96, 0.94, 0.92, 0.9];

/// Trains by hand and returns the number of skipped steps and the weights; rows continue `behind` a skipped step or before it.
fn by_hand(factor: f64, behind: bool) -> (u64, Arrays) {
    let mut model = elman(None);
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path().join("run"), Existing::Refuse).unwrap();
    let mut optimizer = job(&model, run, 1).optimizer;
    let (mut state, mut mean, mut skipped) = (model.empty_state(), None, 0);
    for step in 0..STEPS {
        let source = windows(14, CONTEXT, 0);
        let batches = step_batches(&*source, &mut Order::lanes(3), 2, step).unwrap();
        let mut gradient = accumulate_from(&model, batches, state.as_ref());
        let loss = gradient.output.loss.mean();
        let skips = step >= 20 && mean.is_some_and(|mean: f64| loss > factor * mean);
        if behind || !skips {
            state = gradient.output.state.take();
        }
        if skips {
            skipped += 1;
            continue;
        }
        gradient.clip(&model, 1.0);
        let lr = ScheduleConfig::default().lr(1e-2, step, STEPS);
        model = optimizer.step(lr, model, gradient.gradients);
        mean = Some(mean.map_or(loss, |mean| 0.98 * mean + 0.02 * loss));
    }
    (skipped, values_of(&model))
}

#[test]
fn rows_go_on_behind_a_skipped_step() {
    let some = |factor: &f64| {
        let (skipped, weights) = by_hand(*factor, true);
        (skipped > 0 && skipped < STEPS - 20).then_some((*factor, skipped, weights))
    };
    let (factor, skipped, wanted) = FACTORS.iter().find_map(some).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let run = RunDir::create(&folder, Existing::Refuse).unwrap();
    run.write("resolved.toml", b"").unwrap();
    let model = elman(None);
    let mut job = job(&model, run, STEPS);
    job.config.steps = STEPS;
    job.config.spike_factor = Some(factor);
    job.config.on_divergence = OnDivergence::Skip;
    let observer = StopAfter(STEPS + 1, job.stop.clone());
    let outcome = train::run(model, job, Box::new(observer), Box::new(NoView)).unwrap();
    assert_eq!(outcome.step, STEPS);
    let newest = checkpoint::newest_complete(&folder).found.unwrap();
    assert_eq!(newest.state().skipped_steps, skipped);
    let found = values_of(&newest.load_model(elman(None)).unwrap());
    near(&found, &wanted);
    let (_, gap) = by_hand(factor, false);
    assert!(difference(&found["recurrent"].values, &gap["recurrent"].values) > 1e-4);
}
