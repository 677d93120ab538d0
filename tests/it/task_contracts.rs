//! Contracts that tasks keep on any input, checked for one task and one batch: every parameter learns, the same seed gives the
//! same bits, micro-batches make one batch, blocks can be recomputed, padding changes nothing, dropout draws by step.

use crate::batches::{cut, in_one_step};
use crate::oracle::difference;
use crate::transfer::{gradients_of, values_of};
use burn::module::Module;
use burn::train::{InferenceStep, TrainStep};
use formwork::data::batch::Batch;
use formwork::task::{Objective, StepOutput};
use formwork::train::gradients::accumulate;
use formwork::train::optim::{self, OptimizerConfig};
use serde_json::json;

fn adamw(lr: f64) -> OptimizerConfig {
    serde_json::from_value(json!({ "kind": "adamw", "lr": lr })).unwrap()
}

/// Whether a parameter's gradient is only rounding: key biases shift all scores of a query alike.
fn idle(path: &str) -> bool {
    path.ends_with("key.bias")
}

/// Trains a number of steps on one batch.
pub fn trained(mut task: Objective, batch: &Batch, lr: f64, steps: usize) -> Objective {
    let mut optimizer = optim::build(&adamw(lr), &task).unwrap();
    for _ in 0..steps {
        let gradient = accumulate(&task, vec![batch.clone()]);
        task = task.optimize(&mut optimizer, lr.into(), gradient.gradients);
    }
    task
}

/// Checks that a step moves every parameter, and repeated gives the same values.
pub fn every_parameter_learns(name: &str, batch: &Batch, build: impl Fn() -> Objective) {
    let stepped = || {
        let task = build();
        let gradient = accumulate(&task, vec![batch.clone()]);
        for (path, array) in gradients_of(&task, &gradient.gradients) {
            let most = array.values.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let learns = most.is_finite() && (most > 0.0 || idle(&path));
            assert!(learns, "{name}: {path}");
        }
        let before = values_of(&task);
        let mut optimizer = optim::build(&adamw(1e-3), &task).unwrap();
        let task = task.optimize(&mut optimizer, 1e-3.into(), gradient.gradients);
        (before, values_of(&task))
    };
    let (before, after) = stepped();
    for (path, old) in &before {
        let moves = *old != after[path] || idle(path);
        assert!(moves, "{name}: {path} stays");
    }
    assert!(stepped() == (before, after), "{name}: other bits");
}

/// Checks that a batch of four rows has the loss and the gradients of its first row and of the others as micro-batches.
pub fn micro_batches_equal_one_batch(name: &str, batch: &Batch, task: &Objective) {
    let parts = vec![cut(batch, 0..1, false), cut(batch, 1..4, false)];
    let one = accumulate(task, in_one_step(vec![batch.clone()], 3));
    let two = accumulate(task, in_one_step(parts, 3));
    let (a, b) = (one.output.loss.sum, two.output.loss.sum);
    assert!((a - b).abs() < 1e-4 * b.abs(), "{name}: {a} {b}");
    let theirs = gradients_of(task, &two.gradients);
    for (path, ours) in gradients_of(task, &one.gradients) {
        let off = difference(&ours.values, &theirs[&path].values);
        let near = off < 1e-3 || idle(&path);
        assert!(near, "{name}: {path} is off by {off:e}");
    }
}

/// Checks that gradients differ by at most `most` if blocks are recomputed.
pub fn blocks_computed_anew(name: &str, batch: &Batch, task: &Objective, most: f64) {
    let step = |recompute: bool| {
        let whole = Batch {
            recompute,
            ..batch.clone()
        };
        let step = accumulate(task, in_one_step(vec![whole], 3));
        gradients_of(task, &step.gradients)
    };
    let (ours, theirs) = (step(false), step(true));
    for (path, gradient) in &ours {
        let off = difference(&theirs[path].values, &gradient.values);
        assert!(off <= most, "{name}: {path} is off by {off:e}");
    }
}

/// Returns the evaluation of a batch, and checks that it equals that of a batch with other padding.
pub fn filling_changes_nothing(
    name: &str,
    [plain, filled]: [Batch; 2],
    task: &Objective,
) -> StepOutput {
    let task = task.valid();
    let evaluated = |batch: Batch| InferenceStep::step(&task, batch.into());
    let (one, two) = (evaluated(plain), evaluated(filled));
    let (a, b) = (one.loss.sum, two.loss.sum);
    assert!((a - b).abs() < 1e-5, "{name}: {a} {b}");
    one
}

/// Checks that dropout draws differently at each step, and that evaluation equals that of a task without dropout.
pub fn dropout_draws_by_step(name: &str, batch: &Batch, [task, still]: [Objective; 2]) {
    let loss = |step: usize| {
        let batch = in_one_step(vec![batch.clone()], step).remove(0);
        TrainStep::step(&task, batch.into()).item.loss.sum
    };
    assert_eq!(loss(1), loss(1), "{name}");
    assert_ne!(loss(1), loss(2), "{name}");
    let evaluated = |task: &Objective| InferenceStep::step(&task.valid(), batch.clone().into());
    assert_eq!(evaluated(&task), evaluated(&still), "{name}");
}
