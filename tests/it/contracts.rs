//! Contracts of every kind of every family: HOUSE's contract table, over all positions and norm placements.

use crate::batches;
use crate::kinds::{all, couples_rows, regrouping};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{InferenceStep, TrainStep};
use formwork::data::{Batch, Content, NOT_SCORED, Shape};
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig};
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use formwork::train::{gradients, optim, parameters};

pub const VOCAB: usize = 17;
pub const SEQ: usize = 9;

/// All decoders, including those whose attention regroups keys by all tokens of a row.
fn everything() -> impl Iterator<Item = (String, DecoderConfig)> {
    all().into_iter().chain(regrouping())
}

pub fn build(config: &DecoderConfig, device: &Device) -> Decoder {
    config.init(&BuildContext {
        shape: &Shape::of_text(SEQ + 4, VOCAB),
        seed: 5,
        device,
    })
}

fn task(config: &DecoderConfig) -> Objective<CausalLm> {
    let model = build(config, &Device::flex().autodiff());
    let config = CausalLmConfig::default();
    let task = Objective(CausalLm::new(model, &config, 11, false));
    parameters::materialize(parameters::name_parameters(task))
}

pub fn ids(values: &[i32], rows: usize) -> Tensor<2, Int> {
    let shape = [rows, values.len() / rows];
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
}

pub fn sample(rows: usize, salt: usize) -> Vec<i32> {
    (0..rows * SEQ)
        .map(|i| ((i * 7 + salt * 5 + i * i) % VOCAB) as i32)
        .collect()
}

/// Logits `[rows · seq · vocab]` of a pass in evaluation mode.
pub fn logits(model: &Decoder, input: DecoderInput) -> Vec<f32> {
    let hidden = model.forward(input, None, &Pass::evaluation());
    model.logits(hidden).into_data().iter::<f32>().collect()
}

pub fn plain(model: &Decoder, values: &[i32], rows: usize) -> Vec<f32> {
    logits(model, DecoderInput::new(ids(values, rows)))
}

pub fn near(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let scale = b.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!(
            (x - y).abs() <= 2e-5 * scale,
            "{what}: element {i}: {x} against {y}"
        );
    }
}

fn batch(inputs: &[i32], rows: usize, first_row: usize, step_scored: usize) -> Batch {
    let mut targets: Vec<i32> = inputs.iter().map(|i| (i + 1) % VOCAB as i32).collect();
    targets[0] = NOT_SCORED;
    Batch {
        first_row,
        step_scored,
        step: 3,
        ..batches::of_texts(inputs, &targets, rows)
    }
}

#[test]
fn fresh_models_guess_uniformly() {
    // An adaptive vocabulary predicts clusters first.
    let full = everything().filter(|(_, c)| c.vocabulary.is_full());
    for (name, config) in full {
        let task = task(&config);
        let output = InferenceStep::step(&task.valid(), batch(&sample(4, 1), 4, 0, 1).into());
        let uniform = (VOCAB as f64).ln();
        let loss = output.loss.mean();
        assert!(
            (loss / uniform - 1.0).abs() < 0.05,
            "{name}: {loss} against ln V = {uniform}"
        );
    }
}

#[test]
fn the_future_is_hidden_and_rows_are_apart() {
    for (name, config) in all() {
        let model = build(&config, &Device::flex());
        let values = sample(2, 0);
        let before = plain(&model, &values, 2);
        let mut changed = values.clone();
        changed[SEQ + 5] = (changed[SEQ + 5] + 1) % VOCAB as i32;
        let after = plain(&model, &changed, 2);
        let kept = (SEQ + 5) * VOCAB;
        near(&after[..kept], &before[..kept], &name);
        assert_ne!(
            after[kept..],
            before[kept..],
            "{name}: a token has no effect"
        );
        let alone = plain(&model, &values[SEQ..], 1);
        near(&alone, &before[SEQ * VOCAB..], &name);
    }
}

#[test]
fn cached_equals_uncached() {
    for (name, config) in all() {
        let model = build(&config, &Device::flex());
        let values = sample(2, 3);
        let whole = plain(&model, &values, 2);
        let mut state = model.empty_state(StateUse::Decoding);
        let mut at = 0;
        for chunk in [4, 1, 1, 3] {
            let part: Vec<i32> = (0..2)
                .flat_map(|r| values[r * SEQ + at..r * SEQ + at + chunk].to_vec())
                .collect();
            let hidden = model.forward(
                DecoderInput::new(ids(&part, 2)),
                Some(&mut state),
                &Pass::evaluation(),
            );
            let got: Vec<f32> = model.logits(hidden).into_data().iter::<f32>().collect();
            for row in 0..2 {
                let want = (row * SEQ + at) * VOCAB..(row * SEQ + at + chunk) * VOCAB;
                let have = row * chunk * VOCAB..(row + 1) * chunk * VOCAB;
                near(&got[have], &whole[want], &name);
            }
            at += chunk;
        }
        assert_eq!(state.seen, SEQ);
    }
}

#[test]
fn every_parameter_gets_a_gradient() {
    for (name, config) in everything() {
        let task = task(&config);
        let step = TrainStep::step(&task, batch(&sample(3, 4), 3, 0, 26).into());
        for parameter in parameters::list(&task) {
            let norm = gradient_norm(&step.grads, &parameter);
            let zero_by_symmetry = parameter.path.ends_with("key.bias");
            assert!(
                norm.is_finite(),
                "{name}: {} has gradient {norm}",
                parameter.path
            );
            assert!(
                norm > 0.0 || zero_by_symmetry,
                "{name}: {} has no gradient",
                parameter.path
            );
        }
    }
}

fn gradient_norm(gradients: &GradientsParams, parameter: &parameters::Parameter) -> f32 {
    let square = |t: Tensor<1>| t.square().sum().into_scalar::<f32>();
    match parameter.shape.len() {
        1 => gradients.get::<1>(parameter.id).map_or(0.0, square),
        3 => gradients.get::<3>(parameter.id).map_or(0.0, |t| {
            let n = t.shape().num_elements();
            square(t.reshape([n]))
        }),
        _ => gradients.get::<2>(parameter.id).map_or(0.0, |t| {
            let n = t.shape().num_elements();
            square(t.reshape([n]))
        }),
    }
}

/// Collects all values of a model, parameter by parameter.
#[derive(Default)]
struct Values(Vec<Vec<f32>>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().into_data().iter::<f32>().collect());
    }
}

fn values(task: &Objective<CausalLm>) -> Vec<Vec<f32>> {
    let mut values = Values::default();
    task.visit(&mut values);
    values.0
}

#[test]
fn every_parameter_moves_after_one_step_and_alike_each_time() {
    let config = serde_json::json!({ "kind": "adamw", "lr": 1e-3 });
    let config: optim::OptimizerConfig = serde_json::from_value(config).unwrap();
    for (name, decoder) in everything() {
        let stepped = || {
            let task = task(&decoder);
            let before = values(&task);
            let mut optimizer = optim::build(&config, &task).unwrap();
            let gradient = gradients::accumulate(&task, vec![batch(&sample(3, 4), 3, 0, 26)]);
            let task = task.optimize(&mut optimizer, 1e-3.into(), gradient.gradients);
            let paths = parameters::list(&task);
            (paths, before, values(&task))
        };
        let (paths, before, after) = stepped();
        for ((parameter, old), new) in paths.iter().zip(&before).zip(&after) {
            let still = parameter.path.ends_with("key.bias");
            assert!(
                still || old != new,
                "{name}: {} did not move",
                parameter.path
            );
        }
        assert!(
            after == stepped().2,
            "{name}: the same step gave other bits"
        );
    }
}

#[test]
fn micro_batches_equal_one_batch_with_dropout_on() {
    let keeping = everything().filter(|(_, config)| !couples_rows(config));
    for (name, mut config) in keeping {
        config.stack.dropout = 0.2;
        config.stack.dropout_feed_forward = Some(0.2);
        config.stack.dropout_output = Some(0.2);
        config.stack.drop_path = 0.3;
        let task = task(&config);
        let values = sample(3, 6);
        let whole = vec![batch(&values, 3, 0, 26)];
        // The batch's first row has one position that is not scored: each part gets one.
        let mut parts = vec![
            batch(&values[..SEQ], 1, 0, 26),
            batch(&values[SEQ..], 2, 1, 26),
        ];
        let Content::Text(texts) = &mut parts[1].content else {
            unreachable!("texts")
        };
        texts.targets[0] = (texts.inputs[0] + 1) % VOCAB as i32;
        parts[1].scored += 1;
        for part in &mut parts {
            part.step_tokens = 3 * SEQ;
        }
        let one = gradients::accumulate(&task, whole);
        let two = gradients::accumulate(&task, parts);
        assert!(
            (one.norm / two.norm - 1.0).abs() < 1e-4,
            "{name}: {} and {}",
            one.norm,
            two.norm
        );
        assert!(
            (one.output.loss.sum / two.output.loss.sum - 1.0).abs() < 1e-5,
            "{name}"
        );
        // The balance of experts is measured within each part.
        for (metric, whole) in one.output.metrics.iter().filter(|(n, _)| **n != "balance") {
            let parts = two.output.metrics[metric];
            assert!(
                (whole.mean() / parts.mean() - 1.0).abs() < 1e-4,
                "{name}: {metric}"
            );
        }
    }
}

#[test]
fn dropout_draws_by_step_and_rests_in_evaluation() {
    let (_, mut config) = all().remove(0);
    let still = task(&config);
    config.stack.dropout = 0.5;
    let drops = task(&config);
    let loss = |step: u64, task: &Objective<CausalLm>| {
        let mut batch = batch(&sample(2, 8), 2, 0, 17);
        batch.step = step;
        TrainStep::step(task, batch.into()).item.loss.sum
    };
    assert_eq!(loss(1, &drops), loss(1, &drops));
    assert_ne!(loss(1, &drops), loss(2, &drops));
    let evaluated = |task: &Objective<CausalLm>| {
        InferenceStep::step(&task.valid(), batch(&sample(2, 8), 2, 0, 17).into())
            .loss
            .sum
    };
    assert_eq!(evaluated(&drops), evaluated(&still));
}
