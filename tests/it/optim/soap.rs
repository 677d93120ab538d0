//! SOAP against a public implementation (goldens/make_soap.py): from a saved state, the state that it keeps, and its keys.

use burn::module::{Module, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Bytes, Device, Tensor, TensorData};
use burn_pack::Reader;
use formwork::train::optim::{self, OptimizerConfig, SoapConfig};
use formwork::train::parameters::{self, id_of, name_parameters};
use safetensors::SafeTensors;
use std::collections::BTreeMap;

const NAMES: [&str; 5] = ["square", "wide", "tall", "kernel", "bias"];

#[derive(Module, Debug)]
struct Toy {
    square: Param<Tensor<2>>,
    wide: Param<Tensor<2>>,
    tall: Param<Tensor<2>>,
    kernel: Param<Tensor<3>>,
    bias: Param<Tensor<1>>,
}

struct Golden(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Golden {
    fn read() -> Self {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/goldens/soap.safetensors"
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

    fn start(&self) -> Toy {
        let device = &Device::default().autodiff();
        name_parameters(Toy {
            square: Param::from_tensor(self.tensor("start.square", device)),
            wide: Param::from_tensor(self.tensor("start.wide", device)),
            tall: Param::from_tensor(self.tensor("start.tall", device)),
            kernel: Param::from_tensor(self.tensor("start.kernel", device)),
            bias: Param::from_tensor(self.tensor("start.bias", device)),
        })
    }

    /// Returns the gradients of `make_soap.py` at these parameters.
    fn gradients(&self, toy: &Toy, step: usize) -> GradientsParams {
        let mut gradients = GradientsParams::new();
        let device = Device::default();
        for name in NAMES {
            let now = values(toy, name);
            let target = self.values(&format!("target.{name}"));
            let noise = &self.values(&format!("noise.{name}"))[step * now.len()..];
            let g: Vec<f32> = (0..now.len())
                .map(|i| 0.5 * (now[i] - target[i]) + noise[i])
                .collect();
            let shape = self.0[&format!("start.{name}")].0.clone();
            let data = TensorData::new(g, shape.clone());
            match shape.len() {
                1 => gradients.register(id_of(name), Tensor::<1>::from_data(data, &device)),
                2 => gradients.register(id_of(name), Tensor::<2>::from_data(data, &device)),
                _ => gradients.register(id_of(name), Tensor::<3>::from_data(data, &device)),
            }
        }
        gradients
    }

    fn steps(
        &self,
        toy: Toy,
        optimizer: &mut ModuleOptimizer,
        range: std::ops::Range<usize>,
    ) -> Toy {
        range.fold(toy, |toy, step| {
            let gradients = self.gradients(&toy, step);
            optimizer.step(3e-2 * (1.0 - 0.04 * step as f64), toy, gradients)
        })
    }
}

fn values(toy: &Toy, name: &str) -> Vec<f32> {
    match name {
        "square" => toy.square.val().into_data().try_into_vec().unwrap(),
        "wide" => toy.wide.val().into_data().try_into_vec().unwrap(),
        "tall" => toy.tall.val().into_data().try_into_vec().unwrap(),
        "kernel" => toy.kernel.val().into_data().try_into_vec().unwrap(),
        _ => toy.bias.val().into_data().try_into_vec().unwrap(),
    }
}

fn config() -> OptimizerConfig {
    OptimizerConfig::Soap(SoapConfig {
        lr: 3e-2,
        betas: [0.9, 0.95],
        precondition_frequency: 3,
        max_precond_dim: 5,
        weight_decay: 0.1,
        ..SoapConfig::default()
    })
}

#[test]
fn twenty_steps_equal_the_reference() {
    let golden = Golden::read();
    let mut toy = golden.start();
    let mut optimizer = optim::build(&config(), &toy).unwrap();
    for step in 0..20 {
        toy = golden.steps(toy, &mut optimizer, step..step + 1);
        if ![1, 2, 5, 20].contains(&(step + 1)) {
            continue;
        }
        for name in NAMES {
            let key = format!("soap.{name}.{}", step + 1);
            for (a, b) in values(&toy, name).iter().zip(golden.values(&key)) {
                let off = (a - b).abs() / b.abs().max(1.0);
                assert!(off <= 1e-5, "{key} is off by {off}");
            }
        }
    }
}

/// Interrupted after the first gradient, between two updates of the eigenbases, and after one.
#[test]
fn a_saved_state_goes_on_to_the_bit() {
    let golden = Golden::read();
    for cut in [1, 6, 7] {
        let start = golden.start();
        let mut through = optim::build(&config(), &start).unwrap();
        let half = golden.steps(start, &mut through, 0..cut);
        let bytes = through.into_bytes().unwrap();
        let whole = golden.steps(half.clone(), &mut through, cut..12);
        let again = optim::build(&config(), &half).unwrap();
        let mut again = again.from_bytes(bytes).unwrap();
        let resumed = golden.steps(half, &mut again, cut..12);
        for name in NAMES {
            assert_eq!(
                values(&whole, name),
                values(&resumed, name),
                "{name} at {cut}"
            );
        }
    }
}

/// Two moments for each value, and a preconditioner with its eigenbasis for each dimension up to 5.
#[test]
fn what_is_kept_is_what_is_planned() {
    let golden = Golden::read();
    let toy = golden.start();
    let kept = config().state_sizes(&parameters::list(&toy)).unwrap();
    let planned: usize = kept.values().map(|kept| kept.values).sum();
    let squares = 2 * (25 + 25) + 2 * 9 + 2 * 16 + 2 * (4 + 9 + 16);
    assert_eq!(planned, 2 * (25 + 21 + 28 + 24 + 4) + squares);
    let mut optimizer = optim::build(&config(), &toy).unwrap();
    golden.steps(toy, &mut optimizer, 0..1);
    let bytes = Bytes::from_bytes_vec(optimizer.into_bytes().unwrap().to_vec());
    let tensors = Reader::from_bytes(bytes).unwrap().into_tensors().unwrap();
    let found: usize = tensors.into_iter().map(|t| t.byte_len() / 4).sum();
    assert_eq!(found, planned);
}

#[test]
fn faults_are_named() {
    let faults = |json: serde_json::Value| {
        serde_json::from_value::<OptimizerConfig>(json)
            .unwrap()
            .faults()
    };
    let json = serde_json::json!({
        "kind": "soap", "precondition_frequency": 0, "max_precond_dim": 70_000, "betas": [0.95, 1.0]
    });
    assert_eq!(
        faults(json),
        [
            "precondition_frequency = 0 must be 1 or more",
            "max_precond_dim = 70000 is not between 1 and 65536",
            "betas has the value 1, which is not in [0, 1)"
        ]
    );
}
