//! Mixtures of experts against HF's Mixtral and Switch layers (`tests/goldens/make_experts.py` makes the oracle), against a
//! dense layer, and by their properties: causality, padding, rows, losses.

use crate::oracle::{Oracle, difference, values};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use formwork::nn::feed_forward::moe::{ExpertConfig, ExpertLinear, Experts, Moe, MoeConfig};
use formwork::nn::feed_forward::{Activation, Dense, DenseConfig, Gated, GatedConfig};
use formwork::nn::init::{Init, InitConfig};
use formwork::nn::layer::{Layer, LayerContext};
use formwork::nn::linear::Linear;
use formwork::nn::pass::{Draws, Pass};
use formwork::rng::{Purpose, Stream};

pub const TOLERANCE: f64 = 5e-5;
const D_MODEL: usize = 16;

pub fn device() -> Device {
    Device::flex().autodiff()
}

fn training() -> Pass {
    Pass::training(Draws {
        seed: 1,
        step: 0,
        first_row: 0,
    })
}

fn gated(d_ff: usize) -> ExpertConfig {
    ExpertConfig::Gated(GatedConfig {
        d_ff: Some(d_ff),
        ..GatedConfig::default()
    })
}

fn relu(d_ff: usize) -> ExpertConfig {
    ExpertConfig::Dense(DenseConfig {
        d_ff: Some(d_ff),
        activation: Activation::Relu,
        bias: false,
        ..DenseConfig::default()
    })
}

fn layer(config: &MoeConfig) -> Moe {
    dropping(config, 0.0)
}

/// Builds the layer with dropout inside the experts.
fn dropping(config: &MoeConfig, dropout: f64) -> Moe {
    let device = device();
    // Far from uniform, so that a mistake in the routing shows.
    let init = serde_json::json!({ "kind": "gpt2", "std": 0.4, "depth_scaled": false });
    let init: InitConfig = serde_json::from_value(init).unwrap();
    Moe::new(
        config,
        D_MODEL,
        dropout,
        &Init::new(&device, 7, &init, 1, 1.0),
    )
}

pub fn tensor<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let array = oracle.array(name);
    Tensor::from_data(TensorData::new(array.values, array.shape), &device())
}

fn parameter<const D: usize>(value: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(value.detach().require_grad())
}

/// Fixed values, `[batch, seq, d_model]`.
fn numbers(batch: usize, seq: usize) -> Tensor<3> {
    let mut stream = Stream::new(9, Purpose::Split, (batch as u64, 0, 0));
    let count = batch * seq * D_MODEL;
    let values: Vec<f32> = (0..count).map(|_| stream.normal()).collect();
    Tensor::from_data(TensorData::new(values, [batch, seq, D_MODEL]), &device())
}

/// Loads the weights of an oracle's layer into Formwork's.
fn with_weights(mut moe: Moe, oracle: &Oracle, case: &str) -> Moe {
    let weight = |name: &str| tensor::<3>(oracle, &format!("{case}.weight.{name}"));
    moe.router.weight = parameter(tensor::<2>(oracle, &format!("{case}.weight.router")));
    let Experts { gate, up, down, .. } = &mut moe.experts;
    if let Some(gate) = gate {
        gate.weight = parameter(weight("gate"));
    }
    up.weight = parameter(weight("up"));
    down.weight = parameter(weight("down"));
    moe
}

/// Checks output, losses and all gradients of one case.
fn check(case: &str, config: &MoeConfig, lengths: Option<&[usize]>) {
    let oracle = Oracle::open("experts");
    let moe = with_weights(layer(config), &oracle, case);
    let near = |what: &str, ours: Vec<f32>| {
        let theirs = oracle.array(&format!("{case}.{what}")).values;
        let off = difference(&ours, &theirs);
        assert!(off < TOLERANCE, "{case}: {what} is off by {off:e}");
    };
    let x = tensor::<3>(&oracle, &format!("{case}.x")).require_grad();
    let pass = training();
    let y = moe.mix(x.clone(), lengths, &pass);
    near("y", values(y.clone()));
    let losses = pass.losses();
    let [balance, z] = &losses[..] else {
        panic!("two losses")
    };
    assert_eq!((balance.name, z.name), ("balance", "router_z"));
    near("balance", values(balance.mean.clone()));
    near("z", values(z.mean.clone()));
    let c = tensor::<3>(&oracle, &format!("{case}.c"));
    let added = losses.into_iter().map(|loss| loss.mean * loss.coefficient);
    let loss = added.fold((y * c).sum(), |sum, loss| sum + loss);
    near("loss", values(loss.clone()));
    let gradients = loss.backward();
    near("grad.x", values(x.grad(&gradients).unwrap()));
    let of = moe.router.weight.val().grad(&gradients).unwrap();
    near("grad.router", values(of));
    let experts = [
        ("grad.up", Some(&moe.experts.up)),
        ("grad.down", Some(&moe.experts.down)),
        ("grad.gate", moe.experts.gate.as_ref()),
    ];
    for (name, linear) in experts {
        if let Some(linear) = linear {
            near(name, values(linear.weight.val().grad(&gradients).unwrap()));
        }
    }
}

fn mixtral() -> MoeConfig {
    MoeConfig {
        n_experts: 4,
        expert: gated(24),
        balance_loss: 0.7,
        z_loss: 0.3,
        ..MoeConfig::default()
    }
}

fn switch(capacity_factor: Option<f64>) -> MoeConfig {
    MoeConfig {
        n_experts: 4,
        top_k: 1,
        expert: relu(24),
        capacity_factor,
        balance_loss: 0.7,
        z_loss: 0.3,
        ..MoeConfig::default()
    }
}

#[test]
fn mixtral_as_hf() {
    check("mixtral", &mixtral(), None);
    check("mixtral", &mixtral(), Some(&[7, 9]));
    check("mixtral_padded", &mixtral(), Some(&[7, 4]));
}

#[test]
fn switch_as_hf() {
    check("switch", &switch(None), None);
    check("switch", &switch(Some(4.0)), None);
    // ⌈1·7/4⌉ = 2.
    check("switch_full", &switch(Some(1.0)), None);
}

#[test]
fn evaluation_passes_over_no_token() {
    let x = numbers(2, 7);
    let [none, some] = [None, Some(0.5)].map(|factor| layer(&switch(factor)));
    let evaluated = |moe: &Moe| values(moe.mix(x.clone(), None, &Pass::evaluation()));
    assert_eq!(evaluated(&none), evaluated(&some));
    let trained = values(some.mix(x.clone(), None, &training()));
    let zeros = trained
        .chunks(D_MODEL)
        .filter(|row| row.iter().all(|v| *v == 0.0));
    // At least 14 − 2·4·1 tokens get no expert if each expert takes one per row.
    assert!(zeros.count() >= 6);
}

/// Runs a layer by itself, as a block calls it.
fn act(layer: &dyn Layer, x: Tensor<3>, pass: &Pass) -> Tensor<3> {
    let length = x.dims()[1];
    layer.forward(x, &mut LayerContext::standalone(length, pass))
}

/// Copies a linear layer's weights to the only expert.
fn copied(from: &Linear, to: &mut ExpertLinear) {
    let weight = from.weight.val();
    to.weight = parameter(weight.unsqueeze());
    to.bias = from.bias.as_ref().map(|bias| parameter(bias.val()));
}

#[test]
fn one_expert_is_the_dense_layer() {
    let device = device();
    let init = Init::new(&device, 3, InitConfig::default(), 1, 1.0);
    let config = GatedConfig {
        bias: true,
        ..GatedConfig::default()
    };
    let dense = Dense::new(&DenseConfig::default(), D_MODEL, 0.3, &init);
    let gated = Gated::new(&config, D_MODEL, 0.3, &init);
    let one = |expert: ExpertConfig| MoeConfig {
        n_experts: 1,
        top_k: 1,
        expert,
        ..MoeConfig::default()
    };
    let mut of_dense = dropping(&one(ExpertConfig::Dense(DenseConfig::default())), 0.3);
    copied(&dense.up, &mut of_dense.experts.up);
    copied(&dense.down, &mut of_dense.experts.down);
    let mut of_gated = dropping(&one(ExpertConfig::Gated(config)), 0.3);
    copied(&gated.gate, of_gated.experts.gate.as_mut().unwrap());
    copied(&gated.up, &mut of_gated.experts.up);
    copied(&gated.down, &mut of_gated.experts.down);
    let x = numbers(3, 11);
    let run = |f: &dyn Fn(Tensor<3>) -> Tensor<3>| {
        let x = x.clone().require_grad();
        let y = f(x.clone());
        let gradients = y.clone().square().sum().backward();
        (values(y), values(x.grad(&gradients).unwrap()))
    };
    let same = |moe: &Moe, plain: &dyn Layer| {
        for pass in [Pass::evaluation(), training()] {
            let (y, dx) = run(&|x| act(moe, x, &pass));
            let (want, dx_want) = run(&|x| act(plain, x, &pass));
            assert!(difference(&y, &want) < 1e-6);
            assert!(difference(&dx, &dx_want) < 1e-6);
        }
    };
    same(&of_dense, &dense);
    same(&of_gated, &gated);
}

/// Later tokens and other rows do not change a token's output, in training and with full experts, too.
#[test]
fn results_depend_on_no_later_token_and_no_other_row() {
    for config in [
        mixtral(),
        switch(None),
        switch(Some(0.7)),
        MoeConfig {
            capacity_factor: Some(0.6),
            ..mixtral()
        },
    ] {
        let moe = layer(&config);
        let x = numbers(3, 8);
        let whole = values(moe.mix(x.clone(), None, &training()));
        for at in 0..8 {
            let changed = x.clone().slice_assign(
                [1..2, at..8, 0..D_MODEL],
                numbers(5, 8).slice([4..5, at..8, 0..D_MODEL]),
            );
            let other = values(moe.mix(changed, None, &training()));
            let position = |row: usize, at: usize| (row * 8 + at) * D_MODEL;
            let kept = [0..position(1, at), position(2, 0)..position(3, 0)];
            for range in kept {
                assert!(difference(&other[range.clone()], &whole[range]) < 1e-6);
            }
            let rest = position(1, at)..position(2, 0);
            // A full expert may drop the changed token as it dropped the original.
            assert!(config.capacity_factor.is_some() || other[rest.clone()] != whole[rest]);
        }
        let alone = values(moe.mix(x.narrow(0, 1, 1), None, &training()));
        assert!(difference(&alone, &whole[8 * D_MODEL..16 * D_MODEL]) < 1e-6);
    }
}

#[test]
fn padding_changes_nothing() {
    for config in [mixtral(), switch(Some(0.7))] {
        let moe = layer(&config);
        let x = numbers(2, 8);
        let losses = |pass: &Pass| -> Vec<f32> {
            let losses = pass.losses();
            losses
                .into_iter()
                .flat_map(|loss| values(loss.mean))
                .collect()
        };
        let run = |x: Tensor<3>, lengths: &[usize]| {
            let pass = training();
            let y = values(moe.mix(x, Some(lengths), &pass));
            (y, losses(&pass))
        };
        let (short, of_short) = run(x.clone().slice([0..2, 0..5]), &[5, 3]);
        let (long, of_long) = run(x, &[5, 3]);
        for (row, length) in [(0, 5), (1, 3)] {
            let tokens =
                |y: &[f32], seq: usize| y[row * seq * D_MODEL..][..length * D_MODEL].to_vec();
            assert!(difference(&tokens(&long, 8), &tokens(&short, 5)) < 1e-6);
            let rest = &long[(row * 8 + length) * D_MODEL..(row + 1) * 8 * D_MODEL];
            assert!(rest.iter().all(|value| *value == 0.0));
        }
        assert!(difference(&of_long, &of_short) < 1e-6);
        let (nothing, none) = run(numbers(2, 4), &[0, 0]);
        assert!(none.is_empty() && nothing.iter().all(|value| *value == 0.0));
    }
}

/// The z-loss of a batch is the mean over its halves; the balance loss is not, which `couples_rows` declares.
#[test]
fn of_micro_batches_the_z_loss_is_a_mean_and_the_balance_loss_is_not() {
    let config = mixtral();
    let moe = layer(&config);
    let x = numbers(4, 6);
    let losses = |x: Tensor<3>| -> [f32; 2] {
        let pass = training();
        moe.mix(x, None, &pass);
        let losses = pass.losses();
        [0, 1].map(|i| values(losses[i].mean.clone())[0])
    };
    let whole = losses(x.clone());
    let [a, b] = [0..2, 2..4].map(|rows| losses(x.clone().slice([rows])));
    assert!((f64::from(a[1] + b[1]) / 2.0 - f64::from(whole[1])).abs() < 1e-5);
    assert!(((a[0] + b[0]) / 2.0 - whole[0]).abs() > 1e-3);
    assert!(config.couples_micro_batches());
    assert!(
        !MoeConfig {
            balance_loss: 0.0,
            ..config
        }
        .couples_micro_batches()
    );
}

#[test]
fn unused_experts_have_gradients_of_zero() {
    let mut moe = layer(&mixtral());
    // Experts 0 and 1 score highest for every token.
    let x = numbers(2, 5).abs();
    let router = Tensor::<2>::from_data([[9.0], [8.0], [-9.0], [-9.0]], &device());
    let router = router.expand([4, D_MODEL]);
    moe.router.weight = parameter(router);
    let y = moe.mix(x, None, &training());
    let gradients = y.sum().backward();
    for linear in [&moe.experts.up, &moe.experts.down] {
        let of = values(linear.weight.val().grad(&gradients).unwrap());
        let (used, unused) = of.split_at(of.len() / 2);
        assert!(used.iter().any(|g| *g != 0.0));
        assert!(unused.iter().all(|g| *g == 0.0));
    }
    assert_eq!(moe.num_params(), 4 * D_MODEL + 4 * 3 * 24 * D_MODEL);
}
