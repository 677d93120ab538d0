//! What tasks of several networks rely on, tested with the smallest one that needs all of it: generator and discriminator share
//! their embedding table (ELECTRA, Clark et al. 2020), the generator's samples are the discriminator's input, and a frozen
//! network of another run is the teacher (distillation, Hinton et al. 2015).

use crate::batches::{self, cut, in_one_step};
use crate::oracle::difference;
use crate::transfer::{Arrays, gradients_of, values_of};
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use burn::train::InferenceStep;
use formwork::data::{Batch, NOT_SCORED};
use formwork::evaluate::metric::Metric;
use formwork::kernel;
use formwork::nn::pass::Pass;
use formwork::rng::{Purpose, Stream};
use formwork::stack::state::ModelState;
use formwork::task::{Divisor, Frozen, Objective, Scored, StepOutput, Sum, Task, Term};
use formwork::train::checkpoint::weights;
use formwork::train::ema::Ema;
use formwork::train::gradients::accumulate;
use formwork::train::optim;
use formwork::train::parameters::{list, name_parameters};

const VOCAB: usize = 11;
const WIDTH: usize = 6;
const COLS: usize = 5;
const REPLACED_LOSS: Metric = Metric::lower("replaced_loss");
const TEACHER_LOSS: Metric = Metric::lower("teacher_loss");
const READ: Metric = Metric::lower("read");

/// A linear map to classes.
#[derive(Module, Debug)]
struct Head {
    weight: Param<Tensor<2>>,
}

#[derive(Module, Debug)]
struct Teacher {
    table: Param<Tensor<2>>,
    head: Head,
}

#[derive(Module, Debug)]
struct Pair {
    /// Shared by both networks as one parameter; a copy would diverge after the first step.
    table: Param<Tensor<2>>,
    generator: Head,
    discriminator: Head,
    teacher: Frozen<Teacher>,
    seed: u64,
    /// Coefficients of the losses of generator, discriminator and teacher, and of the added loss.
    coefficients: [f64; 4],
}

fn drawn(part: u64, shape: [usize; 2], device: &Device) -> Param<Tensor<2>> {
    let mut stream = Stream::new(3, Purpose::Split, (part, 0, 0));
    let values: Vec<f32> = (0..shape[0] * shape[1])
        .map(|_| 0.5 * stream.normal())
        .collect();
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}

fn teacher(part: u64, device: &Device) -> Teacher {
    Teacher {
        table: drawn(part, [VOCAB, WIDTH], device),
        head: Head {
            weight: drawn(part + 1, [WIDTH, VOCAB], device),
        },
    }
}

fn pair(coefficients: [f64; 4]) -> Objective<Pair> {
    let device = Device::flex().autodiff();
    name_parameters(Objective(Pair {
        table: drawn(1, [VOCAB, WIDTH], &device),
        generator: Head {
            weight: drawn(2, [WIDTH, VOCAB], &device),
        },
        discriminator: Head {
            weight: drawn(3, [WIDTH, 2], &device),
        },
        teacher: Frozen::new(teacher(4, &device)),
        seed: 9,
        coefficients,
    }))
}

/// Logits of every position `[rows · cols, classes]`.
fn scores(table: &Param<Tensor<2>>, head: &Head, values: &[i32], device: &Device) -> Tensor<2> {
    let ids = TensorData::new(values.to_vec(), [1, values.len()]);
    kernel::embedding(table.val(), Tensor::from_data(ids, device))
        .reshape([values.len(), WIDTH])
        .matmul(head.weight.val())
}

/// Samples once from each row's distribution.
fn sample(logits: &Tensor<2>, pass: &Pass) -> Vec<i32> {
    let shares = activation::softmax(logits.clone().detach(), 1).into_data();
    let shares: Vec<f32> = shares.iter::<f32>().collect();
    let rows = shares.chunks(COLS * VOCAB).enumerate();
    let drawn = rows.flat_map(|(row, shares)| {
        let mut stream = pass.stream(Purpose::Sampled, row);
        let positions = shares.chunks(VOCAB).map(move |shares| {
            let mut left = stream.uniform();
            let found = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            found.unwrap_or(VOCAB - 1) as i32
        });
        positions.collect::<Vec<i32>>()
    });
    drawn.collect()
}

impl Task for Pair {
    fn score(&self, batch: &Batch, pass: &Pass, _: Option<&mut ModelState>) -> Scored {
        let device = self.table.val().device();
        let texts = batch.text().unwrap();
        let targets = |values: &[i32]| -> Tensor<1, Int> {
            Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &device)
        };
        let guesses = scores(&self.table, &self.generator, &texts.inputs, &device);
        // A mean over tokens, as a layer would add it.
        let spread = guesses.clone().square().mean();
        pass.add_loss("spread", spread, self.coefficients[3]);
        let replaced: Vec<(i32, i32)> = sample(&guesses, pass)
            .into_iter()
            .zip(&texts.targets)
            .zip(&texts.inputs)
            .map(|((sample, target), input)| match *target {
                NOT_SCORED => (*input, 0),
                target => (sample, i32::from(sample != target)),
            })
            .collect();
        let (read, found): (Vec<i32>, Vec<i32>) = replaced.into_iter().unzip();
        let verdicts = scores(&self.table, &self.discriminator, &read, &device);
        let plain = Device::flex();
        let taught = scores(
            &self.teacher.table,
            &self.teacher.head,
            &texts.inputs,
            &plain,
        );
        assert!(!taught.is_autodiff());
        let wanted = Tensor::from_inner(activation::softmax(taught, 1));
        let wanted = match guesses.is_autodiff() {
            true => wanted,
            false => wanted.without_autodiff(),
        };
        let term = |sum, over, number: usize| Term {
            sum,
            over,
            coefficient: self.coefficients[number],
        };
        let sum = kernel::cross_entropy_sum(guesses.clone(), targets(&texts.targets), 0.0);
        let mut scored = Scored::new(sum, batch.tokens as u64);
        scored.loss.coefficient = self.coefficients[0];
        let sampled = read.iter().map(|id| f64::from(*id)).sum();
        scored
            .with_term(
                REPLACED_LOSS,
                term(
                    kernel::cross_entropy_sum(verdicts, targets(&found), 0.0),
                    Divisor::Tokens,
                    1,
                ),
            )
            .with_term(
                TEACHER_LOSS,
                term(
                    kernel::soft_cross_entropy_sum(guesses, wanted),
                    Divisor::Tokens,
                    2,
                ),
            )
            .with_metric(READ, Sum::new(sampled, batch.tokens as f64))
    }

    fn seed(&self) -> u64 {
        self.seed
    }
}

fn batch() -> Batch {
    let inputs: Vec<i32> = (0..4 * COLS as i32)
        .map(|i| (i * 7 + i * i) % VOCAB as i32)
        .collect();
    let targets: Vec<i32> = inputs
        .iter()
        .enumerate()
        .map(|(i, id)| {
            if i % 3 == 1 {
                (id * 5 + 2) % VOCAB as i32
            } else {
                NOT_SCORED
            }
        })
        .collect();
    batches::of_texts(&inputs, &targets, 4)
}

/// The batch's first row, and the other rows.
fn halves() -> Vec<Batch> {
    vec![cut(&batch(), 0..1, true), cut(&batch(), 1..4, true)]
}

fn step(task: Objective<Pair>, optimizer: &mut burn::optim::ModuleOptimizer) -> Objective<Pair> {
    let gradient = accumulate(&task, vec![batch()]);
    optimizer.step(1e-2, task, gradient.gradients)
}

fn adamw() -> optim::OptimizerConfig {
    serde_json::from_value(serde_json::json!({ "kind": "adamw", "lr": 1e-2 })).unwrap()
}

fn gradients(task: &Objective<Pair>, batches: Vec<Batch>) -> Arrays {
    gradients_of(task, &accumulate(task, batches).gradients)
}

#[test]
fn one_table_serves_two_networks() {
    let paths: Vec<String> = list(&pair([1.0; 4])).into_iter().map(|p| p.path).collect();
    assert_eq!(paths, ["table", "generator.weight", "discriminator.weight"]);
    let all = gradients(&pair([1.0, 50.0, 0.5, 0.1]), vec![batch()]);
    let one = gradients(&pair([1.0, 0.0, 0.5, 0.1]), vec![batch()]);
    let other = gradients(&pair([0.0, 50.0, 0.0, 0.0]), vec![batch()]);
    let sum: Vec<f32> = one["table"]
        .values
        .iter()
        .zip(&other["table"].values)
        .map(|(a, b)| a + b)
        .collect();
    assert!(difference(&all["table"].values, &sum) < 1e-6);
    for part in [&one, &other] {
        assert!(part["table"].values.iter().any(|x| *x != 0.0));
    }
    // After steps, both networks read the table that the optimizer wrote.
    let mut task = pair([1.0, 50.0, 0.5, 0.1]);
    let mut optimizer = optim::build(&adamw(), &task).unwrap();
    let before = accumulate(&task, vec![batch()]).output;
    for _ in 0..60 {
        task = step(task, &mut optimizer);
    }
    let after = accumulate(&task, vec![batch()]).output;
    assert!(after.loss.mean() < 0.7 * before.loss.mean());
    let replaced = |output: &StepOutput| output.metrics["replaced_loss"].mean();
    assert!(replaced(&after) < 0.9 * replaced(&before));
}

#[test]
fn micro_batches_draw_the_same_samples() {
    let task = pair([1.0, 50.0, 0.5, 0.1]);
    let whole = in_one_step(vec![batch()], 4);
    let parts = in_one_step(halves(), 4);
    let (one, two) = (accumulate(&task, whole.clone()), accumulate(&task, parts));
    assert_eq!(one.output.metrics["read"], two.output.metrics["read"]);
    let theirs = gradients_of(&task, &two.gradients);
    for (path, ours) in gradients_of(&task, &one.gradients) {
        let off = difference(&ours.values, &theirs[&path].values);
        assert!(off < 1e-5, "{path}");
    }
    let other = accumulate(&task, in_one_step(vec![batch()], 5));
    assert_ne!(one.output.metrics["read"], other.output.metrics["read"]);
    // In evaluation, samples depend on the examples, not on the batches.
    let valid = task.valid();
    let whole = InferenceStep::step(&valid, batch().into());
    let mut parts = halves();
    parts[1].samples = vec![1, 2, 3];
    let mut sum = 0.0;
    for part in parts {
        sum += InferenceStep::step(&valid, part.into()).metrics["read"].sum;
    }
    assert_eq!(sum, whole.metrics["read"].sum);
}

/// Returns all values of the teacher.
fn weights_of(task: &Objective<Pair>) -> Vec<f32> {
    let values = [&task.teacher.table, &task.teacher.head.weight].map(|param| {
        assert!(!param.val().is_autodiff());
        param.val().into_data().iter::<f32>().collect::<Vec<f32>>()
    });
    values.concat()
}

#[test]
fn losses_that_layers_add_are_means_over_the_whole_step() {
    let task = pair([1.0, 0.0, 0.0, 0.1]);
    let whole = accumulate(&task, in_one_step(vec![batch()], 4)).output;
    let parts = accumulate(&task, in_one_step(halves(), 4)).output;
    let spread = |output: &StepOutput| output.metrics["spread"].mean();
    assert!((spread(&parts) / spread(&whole) - 1.0).abs() < 1e-6);
    assert!(spread(&whole) > 0.01);
    // The reported loss does not include it, and an evaluation measures it.
    let plain = pair([1.0, 0.0, 0.0, 0.0]);
    let other = accumulate(&plain, in_one_step(vec![batch()], 4)).output;
    assert_eq!((whole.loss, spread(&whole)), (other.loss, spread(&other)));
    let measured = InferenceStep::step(&task.valid(), batch().into());
    assert!((spread(&measured) / spread(&whole) - 1.0).abs() < 1e-6);
    // It is part of the minimised loss, with its coefficient.
    let of = |coefficients| {
        gradients(&pair(coefficients), vec![batch()])["table"]
            .values
            .clone()
    };
    let (alone, without) = (of([0.0, 0.0, 0.0, 1.0]), of([1.0, 0.0, 0.0, 0.0]));
    let sum: Vec<f32> = without
        .iter()
        .zip(&alone)
        .map(|(a, b)| a + 0.1 * b)
        .collect();
    assert!(difference(&of([1.0, 0.0, 0.0, 0.1]), &sum) < 1e-6);
    assert!(alone.iter().any(|x| x.abs() > 1e-4));
}

#[test]
fn a_frozen_network_is_seen_by_nothing_that_moves_or_saves() {
    let mut task = pair([1.0, 50.0, 0.5, 0.1]);
    let start = weights_of(&task);
    let mut ema = Ema::new(0.5, &task);
    let mut optimizer = optim::build(&adamw(), &task).unwrap();
    let first = values_of(&task);
    for _ in 0..3 {
        task = step(task, &mut optimizer);
        ema = ema.update(&task);
    }
    assert!(values_of(&task)["table"] != first["table"]);
    assert_eq!(weights_of(&task), start);
    assert_eq!(weights_of(ema.model()), start);
    assert_eq!(values_of(ema.model()).len(), 3);
    // A checkpoint has only the trained weights, and fits a task with another teacher.
    let file = tempfile::NamedTempFile::new().unwrap();
    weights::save(&task, file.path()).unwrap();
    let device = Device::flex().autodiff();
    let mut other = pair([1.0, 50.0, 0.5, 0.1]);
    other.0.teacher = Frozen::new(teacher(20, &device));
    let theirs = weights_of(&other);
    let loaded = weights::load(other, file.path()).unwrap();
    assert!(values_of(&loaded) == values_of(&task));
    assert_eq!(weights_of(&loaded), theirs);
    assert_ne!(theirs, start);
    // The teacher survives every operation on modules.
    let moved = task.clone().valid().train();
    let moved = moved.to_device(&device).fork(&device);
    assert_eq!(weights_of(&moved), start);
    let ours = InferenceStep::step(&moved.valid(), batch().into());
    let wanted = InferenceStep::step(&task.valid(), batch().into());
    assert_eq!(ours, wanted);
}
