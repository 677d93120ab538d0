//! Norms that no published model here uses, against x-transformers (`tests/goldens/make_norms.py`).

use crate::oracle::{Oracle, difference, values};
use crate::transfer::{gradients_of, put, values_of};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::norm::{Norm, NormConfig};
use formwork::train::parameters::{materialize, name_parameters};
use serde_json::{Value, json};

const TOLERANCE: f64 = 2e-6;

/// The norm of a config over vectors of 6 elements, with the golden's parameters.
fn norm(oracle: &Oracle, kind: &str, config: Value) -> Norm {
    let config: NormConfig = serde_json::from_value(config).unwrap();
    let device = Device::flex().autodiff();
    let init = Init::new(&device, 3, InitConfig::default(), 1, 1.0);
    let norm = materialize(name_parameters(config.init(6, &init)));
    let prefix = format!("{kind}.parameter.");
    let mut parameters = values_of(&norm);
    for (path, array) in &mut parameters {
        let name = path.rsplit('.').next().unwrap();
        *array = oracle.array(&format!("{prefix}{name}"));
    }
    put(norm, &parameters)
}

fn check(kind: &str, config: Value) {
    let oracle = Oracle::open("norms");
    let norm = norm(&oracle, kind, config);
    let stored = |name: &str| {
        let array = oracle.array(&format!("{kind}.{name}"));
        let data = TensorData::new(array.values, array.shape);
        Tensor::<3>::from_data(data, &Device::flex().autodiff())
    };
    let near = |what: &str, ours: &[f32], theirs: &[f32]| {
        let off = difference(ours, theirs);
        assert!(off < TOLERANCE, "{kind}: {what} is off by {off:e}");
    };
    let x = stored("x").require_grad();
    let y = norm.forward(x.clone());
    near(
        "y",
        &values(y.clone()),
        &oracle.array(&format!("{kind}.y")).values,
    );
    let mut gradients = (y * stored("weights")).sum().backward();
    let of_x = x.grad_remove(&mut gradients).unwrap();
    let wanted = |name: &str| oracle.array(&format!("{kind}.grad.{name}")).values;
    near("gradient of x", &values(of_x), &wanted("x"));
    let gradients = GradientsParams::from_grads(gradients, &norm);
    for (path, array) in gradients_of(&norm, &gradients) {
        let name = path.rsplit('.').next().unwrap();
        near(&path, &array.values, &wanted(name));
    }
    // The norm of a residual sum equals the norm of one summed tensor.
    let (x, y) = (stored("x"), stored("weights"));
    let summed = norm.forward_of_sum(x.clone(), y.clone(), 1.5);
    let one = norm.forward(x * 1.5 + y);
    near("norm of a sum", &values(summed), &values(one));
}

#[test]
fn scale_norm_is_x_transformers_s() {
    check("scale", json!({ "kind": "scale", "eps": 1e-12 }));
}

#[test]
fn dynamic_tanh_is_x_transformers_s() {
    check("dynamic_tanh", json!({ "kind": "dynamic_tanh" }));
}
