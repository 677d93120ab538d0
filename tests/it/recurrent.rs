//! Recurrent layers against torch's (`tests/goldens/make_recurrent.py`): outputs, last states and all gradients of two layers,
//! with and without an initial state, and with rows of different lengths; additive attention; and the step that SYSTEMS.md
//! computes by hand.

use crate::oracle::{Oracle, difference, values};
use burn::module::Param;
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::pass::Pass;
use formwork::nn::recurrent::{AdditiveAttention, Recurrent, RecurrentConfig, Sequences};

/// Largest difference, relative to the largest value.
const TOLERANCE: f64 = 1e-5;

fn tensor<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let array = oracle.array(name);
    let device = Device::flex().autodiff();
    Tensor::from_data(TensorData::new(array.values, array.shape), &device)
}

fn param<const D: usize>(oracle: &Oracle, name: &str) -> Param<Tensor<D>> {
    Param::from_tensor(tensor::<D>(oracle, name).require_grad())
}

fn layer(config: &RecurrentConfig, oracle: &Oracle, number: usize) -> Recurrent {
    let device = Device::flex().autodiff();
    let init = Init::new(&device, 0, InitConfig::default(), 1, 1.0);
    let mut layer = config.init(1, 1, &init);
    let gates = match &mut layer {
        Recurrent::Elman(layer) => &mut layer.gates,
        Recurrent::Gru(layer) => &mut layer.gates,
        Recurrent::Lstm(layer) => &mut layer.gates,
    };
    gates.input = param(oracle, &format!("weight.weight_ih_l{number}"));
    gates.hidden = param(oracle, &format!("weight.weight_hh_l{number}"));
    gates.input_bias = Some(param(oracle, &format!("weight.bias_ih_l{number}")));
    gates.hidden_bias = Some(param(oracle, &format!("weight.bias_hh_l{number}")));
    layer
}

/// A case of torch, whose arrays are compared one by one.
struct Case<'a> {
    oracle: &'a Oracle,
    name: String,
    kind: &'a str,
}

impl Case<'_> {
    fn equals<const D: usize>(&self, what: &str, ours: Tensor<D>) {
        let theirs = self.oracle.array(&format!("{}.{what}", self.name));
        let off = difference(&values(ours), &theirs.values);
        let (kind, name) = (self.kind, &self.name);
        assert!(off < TOLERANCE, "{kind}, {name}: {what} is off by {off:e}");
    }

    fn gradient<const D: usize>(&self, what: &str, x: &Tensor<D>, grads: &Gradients) {
        self.equals(&format!("grad.{what}"), x.grad(grads).unwrap());
    }
}

const LENGTHS: [usize; 3] = [5, 2, 4];

fn check(kind: &str, case: &str) {
    let oracle = Oracle::open(&format!("recurrent_{kind}"));
    let config: RecurrentConfig = toml::from_str(&format!("kind = \"{kind}\"")).unwrap();
    let layers = [0, 1].map(|number| layer(&config, &oracle, number));
    let x = tensor::<3>(&oracle, "x").require_grad();
    let [batch, seq, _] = x.dims();
    let names: &[&str] = if kind == "lstm" { &["h", "c"] } else { &["h"] };
    let first: Vec<Tensor<3>> = names
        .iter()
        .map(|name| tensor(&oracle, &format!("{name}0")).require_grad())
        .collect();
    let sequences = Sequences {
        begins: None,
        lengths: (case == "packed").then(|| LENGTHS.to_vec().into()),
    };
    let (mut y, mut last) = (x.clone(), vec![Vec::new(); names.len()]);
    for (number, layer) in layers.iter().enumerate() {
        let of_layer = |x: &Tensor<3>| {
            let [_, batch, d] = x.dims();
            x.clone().narrow(0, number, 1).reshape([batch, d])
        };
        let state: Vec<Tensor<2>> = first.iter().map(of_layer).collect();
        let state = (case == "carried").then_some(state.as_slice());
        let (next, states) = layer.layer().forward_with_state(y, state, &sequences);
        y = next;
        for (last, state) in last.iter_mut().zip(states) {
            last.push(state.unsqueeze_dim::<3>(0));
        }
    }
    if case == "packed" {
        let valid: Vec<f32> = LENGTHS
            .iter()
            .flat_map(|len| (0..seq).map(move |at| f32::from(at < *len)))
            .collect();
        let valid = TensorData::new(valid, [batch, seq, 1]);
        y = y.clone() * Tensor::from_data(valid, &y.device());
    }
    let case = Case {
        oracle: &oracle,
        name: case.into(),
        kind,
    };
    case.equals("y", y.clone());
    let mut loss = (y * tensor(&oracle, "y_weight")).sum();
    for (name, last) in names.iter().zip(last) {
        let last = Tensor::cat(last, 0);
        case.equals(&format!("{name}_n"), last.clone());
        loss = loss + (last * tensor(&oracle, &format!("{name}_weight"))).sum();
    }
    let grads = loss.backward();
    case.gradient("x", &x, &grads);
    for (number, layer) in layers.iter().enumerate() {
        let gates = layer.layer().gates();
        case.gradient(&format!("weight_ih_l{number}"), &gates.input.val(), &grads);
        case.gradient(&format!("weight_hh_l{number}"), &gates.hidden.val(), &grads);
        let biases = [("ih", &gates.input_bias), ("hh", &gates.hidden_bias)];
        for (name, bias) in biases {
            let bias = bias.as_ref().unwrap().val();
            case.gradient(&format!("bias_{name}_l{number}"), &bias, &grads);
        }
    }
    if case.name == "carried" {
        for (name, first) in names.iter().zip(&first) {
            case.gradient(&format!("{name}0"), first, &grads);
        }
    }
}

#[test]
fn layers_equal_torchs() {
    for kind in ["elman", "gru", "lstm"] {
        for case in ["zero", "carried", "packed"] {
            check(kind, case);
        }
    }
}

#[test]
fn additive_attention_equals_torchs() {
    let oracle = Oracle::open("additive_attention");
    let attention = AdditiveAttention {
        query: param(&oracle, "W"),
        key: param(&oracle, "U"),
        score: param(&oracle, "v"),
    };
    let query = tensor::<2>(&oracle, "query").require_grad();
    let memory = tensor::<3>(&oracle, "memory").require_grad();
    let ready = attention.memory(memory.clone(), Some(&LENGTHS));
    let seen = attention.forward(query.clone(), &ready, &Pass::evaluation());
    let close = |what: &str, ours: Vec<f32>| {
        let off = difference(&ours, &oracle.array(what).values);
        assert!(off < TOLERANCE, "{what} is off by {off:e}");
    };
    close("seen", values(seen.clone()));
    let grads = (seen * tensor(&oracle, "y_weight")).sum().backward();
    close("grad.query", values(query.grad(&grads).unwrap()));
    close("grad.memory", values(memory.grad(&grads).unwrap()));
    for (name, param) in [
        ("W", &attention.query),
        ("U", &attention.key),
        ("v", &attention.score),
    ] {
        close(
            &format!("grad.{name}"),
            values(param.val().grad(&grads).unwrap()),
        );
    }
}

/// W_hh = [[.1, .2], [−.1, .3]], W_xh = [[.4, .5], [.6, .7]], b = (.1, .2), x = (1, 0), h = (.5, −.5).
#[test]
fn an_elman_step_by_hand() {
    let device = Device::flex();
    let init = Init::new(&device, 0, InitConfig::default(), 1, 1.0);
    let config = RecurrentConfig::Elman(Default::default());
    let Recurrent::Elman(mut layer) = config.init(2, 2, &init) else {
        unreachable!("the kind that was asked for");
    };
    let matrix = |rows: [[f32; 2]; 2]| Param::from_tensor(Tensor::from_data(rows, &device));
    let vector = |row: [f32; 2]| Some(Param::from_tensor(Tensor::from_data(row, &device)));
    layer.gates.input = matrix([[0.4, 0.5], [0.6, 0.7]]);
    layer.gates.hidden = matrix([[0.1, 0.2], [-0.1, 0.3]]);
    layer.gates.input_bias = vector([0.1, 0.2]);
    layer.gates.hidden_bias = vector([0.0, 0.0]);
    let x = Tensor::from_data([[[1.0, 0.0]]], &device);
    let h = Tensor::from_data([[0.5, -0.5]], &device);
    let layer = Recurrent::Elman(layer);
    let y = layer.layer().forward(x, Some(&[h]), &Sequences::default());
    let y = values(y);
    for (ours, theirs) in y.iter().zip([0.4219, 0.5370]) {
        assert!((ours - theirs).abs() < 5e-5, "{y:?}");
    }
    assert!((0.8 * y[0] + 0.9 * y[1] - 0.8209).abs() < 5e-5);
}
