//! Optimizers against PyTorch and the papers (goldens/make_optimizers.py), parameter groups, averaged weights.

mod cases;
mod resumed;
mod schedule_free;
mod soap;

use burn::module::{Module, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData};
use cases::cases;
use formwork::train::ema::Ema;
use formwork::train::optim::{self, AdamwConfig, GroupConfig, OptimizerConfig, SgdConfig};
use formwork::train::parameters::{self, id_of, name_parameters};
use safetensors::SafeTensors;
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["wide", "tall", "bias"];

#[derive(Module, Debug)]
struct Toy {
    wide: Param<Tensor<2>>,
    tall: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

struct Golden(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Golden {
    fn read() -> Self {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/goldens/optimizers.safetensors"
        );
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let values = |data: &[u8]| {
            data.chunks(4)
                .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
                .collect()
        };
        Self(
            file.iter()
                .map(|(name, t)| (name.to_string(), (t.shape().to_vec(), values(t.data()))))
                .collect(),
        )
    }

    fn values(&self, name: &str) -> &[f32] {
        &self.0[name].1
    }

    fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let (shape, values) = &self.0[name];
        Tensor::from_data(TensorData::new(values.clone(), shape.clone()), device)
    }

    fn start(&self, device: &Device) -> Toy {
        name_parameters(Toy {
            wide: Param::from_tensor(self.tensor("start.wide", device)),
            tall: Param::from_tensor(self.tensor("start.tall", device)),
            bias: Param::from_tensor(self.tensor("start.bias", device)),
        })
    }

    /// Returns the gradients of `make_optimizers.py` at these parameters.
    fn gradients(&self, toy: &Toy, step: usize) -> GradientsParams {
        let mut gradients = GradientsParams::new();
        for name in NAMES {
            let now = values(toy, name);
            let target = self.values(&format!("target.{name}"));
            let noise = &self.values(&format!("noise.{name}"))[step * now.len()..];
            let g: Vec<f32> = (0..now.len())
                .map(|i| 0.5 * (now[i] - target[i]) + noise[i])
                .collect();
            let device = Device::default();
            let shape = self.0[&format!("start.{name}")].0.clone();
            let data = TensorData::new(g, shape.clone());
            match shape.len() {
                1 => gradients.register(id_of(name), Tensor::<1>::from_data(data, &device)),
                _ => gradients.register(id_of(name), Tensor::<2>::from_data(data, &device)),
            }
        }
        gradients
    }
}

fn values(toy: &Toy, name: &str) -> Vec<f32> {
    match name {
        "wide" => toy.wide.val().into_data().try_into_vec().unwrap(),
        "tall" => toy.tall.val().into_data().try_into_vec().unwrap(),
        _ => toy.bias.val().into_data().try_into_vec().unwrap(),
    }
}

fn rate(base: f64, step: usize) -> f64 {
    base * (1.0 - 0.04 * step as f64)
}

/// Returns the largest difference from the golden trajectory, relative to max(1, |golden|).
fn follow(golden: &Golden, case: &str, config: &OptimizerConfig) -> f32 {
    let device = Device::default().autodiff();
    let mut toy = golden.start(&device);
    let mut optimizer = optim::build(config, &toy).unwrap();
    let mut worst = 0.0f32;
    for step in 0..20 {
        let gradients = golden.gradients(&toy, step);
        toy = optimizer.step(rate(config.lr(), step), toy, gradients);
        if ![1, 2, 5, 20].contains(&(step + 1)) {
            continue;
        }
        for name in NAMES {
            let expected = golden.values(&format!("{case}.{name}.{}", step + 1));
            for (a, b) in values(&toy, name).iter().zip(expected) {
                worst = worst.max((a - b).abs() / b.abs().max(1.0));
            }
        }
    }
    worst
}

#[test]
fn twenty_steps_equal_pytorch_and_the_papers() {
    let golden = Golden::read();
    let worst: Vec<(&str, f32)> = cases()
        .iter()
        .map(|(case, config)| (*case, follow(&golden, case, config)))
        .collect();
    eprintln!("largest relative differences: {worst:?}");
    for (case, difference) in worst {
        assert!(difference <= 1e-5, "{case} is off by {difference}");
    }
}

/// Every kind continues from a saved state bit for bit as without interruption.
#[test]
fn a_saved_state_goes_on_to_the_bit() {
    let golden = Golden::read();
    let device = Device::default().autodiff();
    for (case, config) in cases() {
        let steps = |toy: Toy, optimizer: &mut ModuleOptimizer, range: std::ops::Range<usize>| {
            range.fold(toy, |toy, step| {
                let gradients = golden.gradients(&toy, step);
                optimizer.step(rate(config.lr(), step), toy, gradients)
            })
        };
        let start = golden.start(&device);
        let mut through = optim::build(&config, &start).unwrap();
        let half = steps(start.clone(), &mut through, 0..7);
        let bytes = through.into_bytes().unwrap();
        let whole = steps(half.clone(), &mut through, 7..12);
        let mut again = optim::build(&config, &half)
            .unwrap()
            .from_bytes(bytes)
            .unwrap();
        let resumed = steps(half, &mut again, 7..12);
        for name in NAMES {
            assert_eq!(
                values(&whole, name),
                values(&resumed, name),
                "{case} {name}"
            );
        }
    }
}

#[test]
fn groups_scale_rates_and_replace_decay() {
    let golden = Golden::read();
    let toy = golden.start(&Device::default().autodiff());
    let listed = parameters::list(&toy);
    let config = |groups: Vec<GroupConfig>| {
        OptimizerConfig::Adamw(AdamwConfig {
            weight_decay: 0.1,
            groups,
            ..AdamwConfig::default()
        })
    };
    let group = |pattern: &str, lr_scale, weight_decay| GroupConfig {
        pattern: pattern.into(),
        lr_scale,
        weight_decay,
    };
    let groups = vec![
        group("wide|bias", Some(0.1), Some(0.5)),
        group("^wide$", None, Some(0.2)),
    ];
    let clusters = config(groups).clusters(&listed).unwrap();
    let found: Vec<(f64, f64, Vec<String>)> = clusters
        .into_iter()
        .map(|c| (c.settings.lr_scale, c.settings.weight_decay, c.paths))
        .collect();
    assert_eq!(
        found,
        [
            (0.1, 0.2, vec!["wide".to_string()]),
            (1.0, 0.1, vec!["tall".to_string()]),
            (0.1, 0.0, vec!["bias".to_string()]),
        ]
    );

    // In plain gradient descent, a tenth of the rate makes a tenth of the step.
    let sgd = |groups| {
        OptimizerConfig::Sgd(SgdConfig {
            groups,
            ..SgdConfig::default()
        })
    };
    let moved = |groups| {
        let mut optimizer = optim::build(&sgd(groups), &toy).unwrap();
        let after = optimizer.step(0.5, toy.clone(), golden.gradients(&toy, 0));
        values(&after, "wide")[0] - values(&toy, "wide")[0]
    };
    let (whole, tenth) = (moved(vec![]), moved(vec![group("wide", Some(0.1), None)]));
    assert!((tenth / whole - 0.1).abs() < 1e-4, "{tenth} of {whole}");

    let message = |pattern: &str| {
        optim::build(&config(vec![group(pattern, Some(0.1), None)]), &toy)
            .err()
            .unwrap()
            .to_string()
    };
    assert_eq!(
        message("wade"),
        "[optimizer] groups: `wade` matches no parameter; did you mean `wide`?"
    );
    assert_eq!(
        message("experts"),
        "[optimizer] groups: `experts` matches no parameter; parameters are named like `wide`, `tall`, `bias`"
    );
    assert!(message("(").contains("not a regular expression"));
}

#[test]
fn averages_follow_their_formula() {
    let golden = Golden::read();
    let device = Device::default().autodiff();
    let start = golden.start(&device);
    let mut ema = Ema::new(0.75, &start);
    let mut optimizer = optim::build(&OptimizerConfig::default(), &start).unwrap();
    let mut expected = values(&start, "wide");
    let mut toy = start;
    for step in 0..4 {
        let gradients = golden.gradients(&toy, step);
        toy = optimizer.step(0.1, toy, gradients);
        ema = ema.update(&toy);
        for (e, w) in expected.iter_mut().zip(values(&toy, "wide")) {
            *e = *e * 0.75 + w * 0.25;
        }
    }
    assert_eq!(values(ema.model(), "wide"), expected);
    assert!(!ema.model().wide.val().device().is_autodiff());
}
