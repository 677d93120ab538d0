//! State carried from step to step, with the smallest recurrent network (Elman 1990): rows continue where they ended,
//! micro-batches and resumed runs change nothing, evaluations start from an empty state.

mod documents;
pub mod resumed;
mod shared;
mod skipped;

use crate::lanes::steps;
use crate::oracle::difference;
use crate::transfer::{Arrays, gradients_of};
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::loader::{Order, step_batches};
use formwork::data::{Batch, Item, NOT_SCORED, Source, TextItem};
use formwork::error::Result;
use formwork::kernel;
use formwork::nn::pass::Pass;
use formwork::nn::state::LayerState;
use formwork::rng::{Purpose, Stream};
use formwork::stack::state::{BlockState, ModelState};
use formwork::task::{Objective, Scored, Task};
use formwork::train::evaluation::{Split, evaluate};
use formwork::train::gradients::{Gradient, accumulate};
use formwork::train::parameters::name_parameters;
use std::sync::Arc;

const VOCAB: usize = 7;
const WIDTH: usize = 5;
const CONTEXT: usize = 6;

#[derive(Module, Debug)]
pub struct Elman {
    table: Param<Tensor<2>>,
    recurrent: Param<Tensor<2>>,
    head: Param<Tensor<2>>,
    /// Position at which the gradient is cut.
    cut: Option<usize>,
}

fn drawn(part: u64, shape: [usize; 2]) -> Param<Tensor<2>> {
    let device = Device::flex().autodiff();
    let mut stream = Stream::new(5, Purpose::Split, (part, 0, 0));
    let values: Vec<f32> = (0..shape[0] * shape[1])
        .map(|_| 0.6 * stream.normal())
        .collect();
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), &device))
}

pub fn elman(cut: Option<usize>) -> Objective<Elman> {
    name_parameters(Objective(Elman {
        table: drawn(1, [VOCAB, WIDTH]),
        recurrent: drawn(2, [WIDTH, WIDTH]),
        head: drawn(3, [WIDTH, VOCAB]),
        cut,
    }))
}

impl Task for Elman {
    fn score(&self, batch: &Batch, _: &Pass, state: Option<&mut ModelState>) -> Scored {
        let texts = batch.text().unwrap();
        let device = self.table.val().device();
        let ids = TensorData::new(texts.inputs.clone(), [batch.rows, texts.cols]);
        let ids = Tensor::<2, Int>::from_data(ids, &device);
        let x = kernel::embedding(self.table.val(), ids);
        let before = state.as_ref().and_then(|state| match &state.layers[0].own {
            LayerState::Recurrent(vectors) => vectors.first().cloned(),
            _ => None,
        });
        let mut h = before.unwrap_or_else(|| Tensor::zeros([batch.rows, WIDTH], &device));
        let mut all = Vec::new();
        for at in 0..texts.cols {
            if self.cut == Some(at) {
                h = h.detach();
            }
            let now = x.clone().narrow(1, at, 1).reshape([batch.rows, WIDTH]);
            h = (now + h.matmul(self.recurrent.val())).tanh();
            all.push(h.clone().reshape([batch.rows, 1, WIDTH]));
        }
        if let Some(state) = state {
            state.layers[0].own = LayerState::Recurrent(vec![h]);
            state.seen += texts.cols;
        }
        let hidden = Tensor::cat(all, 1).reshape([batch.rows * texts.cols, WIDTH]);
        let targets = TensorData::new(texts.targets.clone(), [texts.targets.len()]);
        let targets = Tensor::<1, Int>::from_data(targets, &device);
        let sum = kernel::cross_entropy_sum(hidden.matmul(self.head.val()), targets, 0.0);
        Scored::new(sum, texts.inputs.len() as u64)
    }

    fn seed(&self) -> u64 {
        1
    }

    fn empty_state(&self) -> Option<ModelState> {
        Some(ModelState::new(vec![BlockState {
            own: LayerState::Recurrent(Vec::new()),
            ..BlockState::default()
        }]))
    }
}

/// Windows of a text, side by side; targets before `scored_from` are not scored.
struct Windows {
    tokens: Vec<i32>,
    context: usize,
    scored_from: usize,
}

impl Source for Windows {
    fn len(&self) -> usize {
        (self.tokens.len() - 1) / self.context
    }

    fn get(&self, sample: u64, _: u64) -> Result<Item> {
        let from = sample as usize * self.context;
        let window = &self.tokens[from..from + self.context + 1];
        let targets = window[1..].iter().enumerate().map(|(at, id)| {
            if from + at < self.scored_from {
                NOT_SCORED
            } else {
                *id
            }
        });
        Ok(Item::Text(TextItem {
            inputs: window[..self.context].to_vec(),
            targets: targets.collect(),
            ..TextItem::default()
        }))
    }
}

fn text(windows: usize) -> Vec<i32> {
    let mut stream = Stream::new(8, Purpose::Split, (0, 0, 0));
    (0..windows * CONTEXT + 1)
        .map(|_| stream.below(VOCAB as u64) as i32)
        .collect()
}

fn windows(count: usize, context: usize, scored_from: usize) -> Arc<Windows> {
    Arc::new(Windows {
        tokens: text(count),
        context,
        scored_from,
    })
}

fn split(source: Arc<Windows>, carried: bool) -> Split {
    Split {
        source,
        bytes_per_token: None,
        carries_state: carried,
        groups: 1,
        contrasts_rows: false,
    }
}

fn vectors(state: &Option<ModelState>) -> Vec<f32> {
    let state = state.as_ref().unwrap();
    assert_eq!(state.seen, 0);
    match &state.layers[0].own {
        LayerState::Recurrent(vectors) => vectors[0].to_data().iter::<f32>().collect(),
        _ => unreachable!(),
    }
}

fn arrays(task: &Objective<Elman>, gradient: &Gradient) -> Arrays {
    gradients_of(task, &gradient.gradients)
}

fn near(ours: &Arrays, theirs: &Arrays) {
    for (path, array) in ours {
        let off = difference(&array.values, &theirs[path].values);
        assert!(off < 1e-5, "{path} is off by {off:e}");
    }
}

#[test]
fn segments_of_one_lane_are_one_long_pass() {
    let segments = steps(&elman(None), &*windows(4, CONTEXT, 0), [1, 1], 4);
    let sum: f64 = segments.iter().map(|step| step.output.loss.sum).sum();
    let long = steps(&elman(None), &*windows(4, 4 * CONTEXT, 0), [1, 1], 1);
    assert!((sum / long[0].output.loss.sum - 1.0).abs() < 1e-6);
    // Without the carried state, the loss differs.
    let mut order = Order::lanes(1);
    let alone = |step| step_batches(&*windows(4, CONTEXT, 0), &mut order, 1, step).unwrap();
    let alone: Vec<Gradient> = (0..4)
        .map(alone)
        .map(|b| accumulate(&elman(None), b))
        .collect();
    let without: f64 = alone.iter().map(|step| step.output.loss.sum).sum();
    assert!((without / sum - 1.0).abs() > 1e-3);
    // The gradient of the last segment stops at the segment's start.
    let task = elman(Some(3 * CONTEXT));
    let whole = steps(&task, &*windows(4, 4 * CONTEXT, 3 * CONTEXT), [1, 1], 1);
    near(&arrays(&task, &segments[3]), &arrays(&task, &whole[0]));
    let through = elman(None);
    let whole = steps(&through, &*windows(4, 4 * CONTEXT, 3 * CONTEXT), [1, 1], 1);
    let (ours, theirs) = (arrays(&task, &segments[3]), arrays(&through, &whole[0]));
    assert!(difference(&ours["recurrent"].values, &theirs["recurrent"].values) > 1e-3);
}

#[test]
fn micro_batches_carry_the_state_of_their_rows() {
    let (task, source) = (elman(None), windows(13, CONTEXT, 0));
    let whole = steps(&task, &*source, [3, 3], 9);
    for micro in [1, 2] {
        let parts = steps(&task, &*source, [3, micro], 9);
        for (one, two) in whole.iter().zip(&parts) {
            assert!((one.output.loss.sum / two.output.loss.sum - 1.0).abs() < 1e-6);
            near(&arrays(&task, one), &arrays(&task, two));
            let (one, two) = (vectors(&one.output.state), vectors(&two.output.state));
            assert!(difference(&one, &two) < 1e-6);
        }
    }
}

#[test]
fn a_lane_that_begins_anew_forgets() {
    // Lanes of 4 and 5 windows: after four steps the first lane starts again and the second continues.
    let (task, source) = (elman(None), windows(9, CONTEXT, 0));
    let all = steps(&task, &*source, [2, 2], 6);
    let state = |step: usize, row: usize| {
        vectors(&all[step].output.state)[row * WIDTH..(row + 1) * WIDTH].to_vec()
    };
    assert_eq!(state(4, 0), state(0, 0));
    assert_ne!(state(5, 0), state(0, 0));
    assert_ne!(state(4, 1), state(0, 1));
    assert_eq!(state(5, 1), state(0, 1));
}

#[test]
fn evaluation_scores_every_token_once_from_an_empty_state() {
    let model = elman(None).valid();
    let source = windows(7, CONTEXT, 0);
    let long = evaluate(&model, &split(windows(7, 7 * CONTEXT, 0), false), 1).unwrap();
    let one = evaluate(&model, &split(source.clone(), true), 1).unwrap();
    assert!((one.loss / long.loss - 1.0).abs() < 1e-6);
    assert_eq!(
        one,
        evaluate(&model, &split(source.clone(), true), 1).unwrap()
    );
    // Three lanes of 3, 2 and 2 windows are three separate texts.
    let three = evaluate(&model, &split(source.clone(), true), 3).unwrap();
    let tokens = text(7);
    let mut sum = 0.0;
    for (from, to) in [(0, 3), (3, 5), (5, 7)] {
        let part = Windows {
            tokens: tokens[from * CONTEXT..to * CONTEXT + 1].to_vec(),
            context: (to - from) * CONTEXT,
            scored_from: 0,
        };
        let scores = evaluate(&model, &split(Arc::new(part), false), 1).unwrap();
        sum += scores.loss * ((to - from) * CONTEXT) as f64;
    }
    assert!((three.loss * (7 * CONTEXT) as f64 / sum - 1.0).abs() < 1e-6);
    let apart = evaluate(&model, &split(source, false), 3).unwrap();
    assert!((apart.loss / one.loss - 1.0).abs() > 1e-3);
}
