//! Limits in which one kind equals another, numeric gradients, and learning one batch by heart.

use crate::batches;
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::TrainStep;
use formwork::data::{Batch, Shape};
use formwork::model::{BuildContext, DecoderConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::position::alibi::{Alibi, AlibiConfig};
use formwork::nn::position::relative_bias::{RelativeBias, RelativeBiasConfig};
use formwork::nn::position::rotary::{Pairing, Rotary, RotaryConfig};
use formwork::nn::position::sinusoidal::{Layout, table};
use formwork::nn::position::{PositionScheme, PositionShape, ScoreBias, Span};
use formwork::stack::StackConfig;
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use formwork::train::{gradients, optim, parameters};

const SHAPE: PositionShape = PositionShape {
    d_model: 16,
    n_heads: 4,
    d_head: 4,
    n_layers: 1,
    context: 32,
    causal: true,
    grid: None,
    layers_without_attention: Vec::new(),
    layers_sharing_parameters: Vec::new(),
    dropout: 0.0,
};

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Biases of queries from 5 on of 8 keys equal those of the same distances among all queries.
#[test]
fn biases_depend_on_distance_alone() {
    let device = Device::flex();
    let init = Init::new(&device, 1, InitConfig::default(), 2, 1.0);
    let alibi = Alibi::new(&AlibiConfig::default(), &SHAPE);
    let bias = RelativeBias::new(&RelativeBiasConfig::default(), &SHAPE, &init);
    let schemes: [&dyn PositionScheme; 2] = [&alibi, &bias];
    for scheme in schemes {
        let of = |queries, offset| {
            let span = Span {
                queries,
                keys: 8,
                offset,
            };
            match scheme.prepare(span, &device).score_bias {
                ScoreBias::ByDistance(bias) => (span, values(bias)),
                other => panic!("{other:?} goes by distance"),
            }
        };
        let ((whole, all), (part, some)) = (of(8, 0), of(3, 5));
        for head in 0..4 {
            for diagonal in 0..part.distances() {
                let distance = part.distance(diagonal);
                let same = (0..whole.distances()).find(|d| whole.distance(*d) == distance);
                let Some(same) = same else { continue };
                let at = |diagonal, span: Span| head * span.distances() + diagonal;
                assert_eq!(some[at(diagonal, part)], all[at(same, whole)]);
            }
        }
        let last = [part.distance(0), part.distance(part.distances() - 1)];
        assert_eq!(
            last,
            [-7, 2],
            "of the last query's first key, of the first query's last"
        );
    }
}

/// Scores of rotated queries and keys depend only on their distance, in both pairings.
#[test]
fn rotations_depend_on_distance_alone() {
    let device = Device::flex();
    for pairing in [Pairing::Half, Pairing::Interleaved] {
        let config = RotaryConfig {
            pairing,
            fraction: 0.5,
            ..RotaryConfig::default()
        };
        let shape = PositionShape { d_head: 8, ..SHAPE };
        let rotary = Rotary::new(&config, &shape);
        let x = |salt: f32| {
            let data: Vec<f32> = (0..8).map(|i| ((i as f32 + salt) * 1.7).sin()).collect();
            Tensor::<4>::from_data(TensorData::new(data, [1, 1, 1, 8]), &device)
        };
        let score = |m: usize, n: usize| {
            let turned = |x: Tensor<4>, at: usize| {
                let span = Span {
                    queries: 1,
                    keys: at + 1,
                    offset: at,
                };
                let r = rotary.prepare(span, &device).rotation.unwrap();
                formwork::kernel::rotary(x, r.cos, r.sin, r.interleaved)
            };
            (turned(x(0.3), m) * turned(x(2.1), n))
                .sum()
                .into_scalar::<f32>()
        };
        assert!((score(3, 1) - score(20, 18)).abs() < 1e-4);
        assert!((score(3, 1) - score(3, 2)).abs() > 1e-3);
    }
}

/// The sinusoidal tables given in the catalogue.
#[test]
fn sinusoidal_tables() {
    let near = |from: usize, d: usize, base: f64, expected: &[f32], digits: i32| {
        for (x, e) in table(from, 1, d, base, Layout::Interleaved)
            .iter()
            .zip(expected)
        {
            assert!((x - e).abs() < 0.6 * 10f32.powi(-digits), "{x} against {e}");
        }
    };
    near(1, 5, 10_000.0, &[0.841, 0.540, 0.025, 1.000, 0.001], 3);
    near(4, 5, 10_000.0, &[-0.757, -0.654, 0.100, 0.995, 0.003], 3);
    near(1, 4, 100.0, &[0.84, 0.54, 0.10, 1.0], 2);
    near(3, 4, 100.0, &[0.14, -0.99, 0.30, 0.96], 2);
}

fn task(config: &DecoderConfig) -> Objective<CausalLm> {
    let device = Device::flex().autodiff();
    let model = config.init(&BuildContext {
        shape: &Shape::of_text(6, 11),
        seed: 2,
        device: &device,
    });
    let config = CausalLmConfig::default();
    let task = Objective(CausalLm::new(model, &config, 1, false));
    parameters::materialize(parameters::name_parameters(task))
}

fn small() -> DecoderConfig {
    DecoderConfig {
        n_layers: Some(1),
        stack: StackConfig {
            d_model: 8,
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    }
}

fn batch() -> Batch {
    let inputs: Vec<i32> = (0..12).map(|i| (i * 5 + 3) % 11).collect();
    let targets: Vec<i32> = inputs.iter().map(|i| (i * 3 + 1) % 11).collect();
    batches::of_texts(&inputs, &targets, 2)
}

/// Adds `by` to element `at` of the parameter `path`.
struct Nudge<'a> {
    id: burn::module::ParamId,
    at: usize,
    by: f32,
    device: &'a Device,
}

impl ModuleMapper for Nudge<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if param.id != self.id {
            return param;
        }
        let (id, value, mapper) = param.consume();
        let shape = value.shape();
        let mut data: Vec<f32> = values(value);
        data[self.at] += self.by;
        let value = Tensor::<D>::from_data(TensorData::new(data, shape), self.device);
        Param::from_mapped_value(id, value.require_grad(), mapper)
    }
}

fn gradient(gradients: &GradientsParams, parameter: &parameters::Parameter) -> Vec<f32> {
    match parameter.shape.len() {
        1 => values(gradients.get::<1>(parameter.id).unwrap()),
        _ => values(gradients.get::<2>(parameter.id).unwrap()),
    }
}

#[test]
fn gradients_equal_numeric_ones() {
    let task = task(&small());
    let device = Device::flex().autodiff();
    let step = TrainStep::step(&task, batch().into());
    for parameter in parameters::list(&task) {
        let analytic = gradient(&step.grads, &parameter);
        for at in [0, analytic.len() / 2, analytic.len() - 1] {
            let loss = |by: f32| {
                let id = parameter.id;
                let moved = task.clone().map(&mut Nudge {
                    id,
                    at,
                    by,
                    device: &device,
                });
                TrainStep::step(&moved, batch().into()).item.loss.mean()
            };
            // Weights start near 0.02: a longer step would leave the range in which norms are nearly linear.
            let h = 2e-3;
            let numeric = (loss(h) - loss(-h)) / (2.0 * f64::from(h));
            let difference = (numeric - f64::from(analytic[at])).abs();
            assert!(
                difference < 5e-4 + 0.03 * numeric.abs(),
                "{}[{at}]: {} against {numeric}",
                parameter.path,
                analytic[at]
            );
        }
    }
}

#[test]
fn one_batch_is_learnt_by_heart() {
    let mut task = task(&DecoderConfig {
        n_layers: Some(2),
        stack: StackConfig {
            d_model: 32,
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    });
    let config: optim::OptimizerConfig =
        serde_json::from_value(serde_json::json!({ "kind": "adamw", "lr": 3e-3 })).unwrap();
    let mut optimizer = optim::build(&config, &task).unwrap();
    let mut last = f64::INFINITY;
    for _ in 0..150 {
        let gradient = gradients::accumulate(&task, vec![batch()]);
        last = gradient.output.loss.mean();
        task = task.optimize(&mut optimizer, 3e-3.into(), gradient.gradients);
    }
    assert!(last < 0.05, "the loss of the one batch is still {last}");
}
