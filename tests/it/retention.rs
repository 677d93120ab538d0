//! The layer of retentive networks against its parallel form in double precision (`tests/goldens/make_retention.py`), and in
//! pieces joined by a state.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use formwork::kernel::Sequences;
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::pass::Pass;
use formwork::nn::recurrent::retention::{Retention, RetentionConfig};
use formwork::nn::recurrent::stateful::{MixerContext, StatefulMixer};
use std::sync::Arc;

use crate::oracle::{Oracle, values};

const D_MODEL: usize = 12;

fn stored<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let (array, device) = (oracle.array(name), Device::flex().autodiff());
    Tensor::from_data(TensorData::new(array.values, array.shape), &device)
}

/// The layer with the golden's weights.
fn layer(oracle: &Oracle, rotation: bool) -> Retention {
    let config = RetentionConfig {
        n_heads: 3,
        d_key: Some(4),
        d_value: Some(5),
        rotation,
        ..RetentionConfig::default()
    };
    let device = Device::flex().autodiff();
    let init = Init::new(&device, 3, InitConfig::default(), 1, 1.0);
    let mut layer = Retention::new(&config, D_MODEL, &init);
    layer.input.weight = Param::from_tensor(stored(oracle, "input"));
    let gate = layer.gate.as_mut().unwrap();
    gate.weight = Param::from_tensor(stored(oracle, "gate"));
    layer.output.weight = Param::from_tensor(stored(oracle, "output"));
    layer
}

/// A pass without first-layer values.
fn beside(pass: &Pass) -> MixerContext<'_> {
    MixerContext {
        pass,
        first_values: None,
    }
}

fn close(what: &str, found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    for (at, (a, b)) in found.iter().zip(wanted).enumerate() {
        let off = (a - b).abs() / largest;
        assert!(off <= 1e-5, "{what}[{at}]: {a} for {b}, off by {off}");
    }
}

#[test]
fn retention_is_its_parallel_form() {
    let oracle = Oracle::open("retention");
    let x = stored::<3>(&oracle, "x").require_grad();
    let layer = layer(&oracle, true);
    let pass = Pass::evaluation();
    let (y, _) = layer.advance(
        x.clone(),
        None,
        &Sequences::default(),
        false,
        &beside(&pass),
    );
    close("y", &values(y.clone()), &oracle.array("y").values);
    let grads = (y * stored(&oracle, "weights")).sum().backward();
    let gate = layer.gate.as_ref().unwrap();
    let found = [
        ("x", values(x.grad(&grads).unwrap())),
        (
            "input",
            values(layer.input.weight.val().grad(&grads).unwrap()),
        ),
        ("gate", values(gate.weight.val().grad(&grads).unwrap())),
        (
            "output",
            values(layer.output.weight.val().grad(&grads).unwrap()),
        ),
    ];
    for (name, found) in found {
        let wanted = oracle.array(&format!("grad.{name}")).values;
        close(&format!("gradient of {name}"), &found, &wanted);
    }
}

#[test]
fn without_rotation_positions_only_decay() {
    let oracle = Oracle::open("retention");
    let x = stored::<3>(&oracle, "x");
    let (rows, pass) = (Sequences::default(), Pass::evaluation());
    let made = layer(&oracle, false).advance(x, None, &rows, false, &beside(&pass));
    close("y", &values(made.0), &oracle.array("plain.y").values);
}

/// Rows of different lengths: each continues from its own last position.
#[test]
fn pieces_go_on_from_a_state() {
    let oracle = Oracle::open("retention");
    let layer = layer(&oracle, true);
    let x = stored::<3>(&oracle, "x");
    let [_, seq, _] = x.dims();
    let wanted = oracle.array("y").values;
    let whole = |row: usize, from: usize, to: usize| {
        let from = (row * seq + from) * D_MODEL;
        &wanted[from..(row * seq + to) * D_MODEL]
    };
    let ends = [33, 21];
    let first = Sequences {
        begins: None,
        lengths: Some(Arc::from(ends)),
    };
    let pass = Pass::evaluation();
    let (_, state) = layer.advance(
        x.clone().narrow(1, 0, 40),
        None,
        &first,
        true,
        &beside(&pass),
    );
    let state = state.unwrap();
    for (row, end) in ends.into_iter().enumerate() {
        let rest = x.clone().narrow(0, row, 1).narrow(1, end, seq - end);
        let state = state.iter().map(|x| x.clone().narrow(0, row, 1)).collect();
        let (y, _) = layer.advance(
            rest,
            Some(state),
            &Sequences::default(),
            false,
            &beside(&pass),
        );
        close(&format!("row {row}"), &values(y), whole(row, end, seq));
    }
}
