//! Fused operations against their composed implementations: values and every gradient, over odd sizes and strided inputs.

mod adaptive;
mod attention;
mod attention_goldens;
mod contracts;
mod convolution;
mod distance_maps;
mod dynamic_tanh;
mod grouped;
mod head_loss;
mod mixers;
mod prefix_sums;
mod prefix_sums_estimates;
mod recurrent;
pub mod relative;
#[cfg(target_os = "linux")]
mod relative_memory;
mod sinks;
mod sorted_chunks;
mod visibility;
mod wrong_shapes;

use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::kernel::{self, Activation, DropKey, composed};
use formwork::rng::{Purpose, Stream};

const KINDS: [Activation; 7] = [
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::ReluSquared,
    Activation::QuickGelu,
    Activation::Sigmoid,
];

fn device() -> Device {
    Device::flex().autodiff()
}

/// Normal random numbers, equal for equal seeds.
fn random<const D: usize>(dims: [usize; D], seed: u64) -> Tensor<D> {
    let mut stream = Stream::new(seed, Purpose::Split, (0, 0, 0));
    let n = dims.iter().product();
    let values: Vec<f32> = (0..n).map(|_| stream.normal()).collect();
    Tensor::from_data(TensorData::new(values, dims), &device())
}

fn tokens(n: usize, vocab: u64, seed: u64) -> Vec<i64> {
    let mut stream = Stream::new(seed, Purpose::Split, (1, 0, 0));
    (0..n).map(|_| stream.below(vocab) as i64).collect()
}

fn values<const D: usize>(x: &Tensor<D>) -> Vec<f32> {
    x.to_data().try_to_vec::<f32>().unwrap()
}

fn bits<const D: usize>(x: &Tensor<D>) -> Vec<u32> {
    values(x).iter().map(|v| v.to_bits()).collect()
}

/// Checks equality to 1e-5 of the largest value, or to 5e-6 if cancellation leaves only small values.
fn close(what: &str, fused: &[f32], oracle: &[f32]) {
    assert_eq!(fused.len(), oracle.len(), "{what}: sizes");
    let size = oracle.iter().fold(0.5f32, |m, x| m.max(x.abs()));
    for (i, (a, b)) in fused.iter().zip(oracle).enumerate() {
        assert!(
            (a - b).abs() <= 1e-5 * size,
            "{what}[{i}]: {a} instead of {b} (largest {size})"
        );
    }
}

/// Runs both implementations with gradients enabled, and compares the value and all gradients of a non-uniform loss.
fn same<const D: usize, const E: usize, const N: usize>(
    what: &str,
    leaves: [Tensor<D>; N],
    fused: impl Fn([Tensor<D>; N]) -> Tensor<E>,
    oracle: impl Fn([Tensor<D>; N]) -> Tensor<E>,
) {
    let run = |f: &dyn Fn([Tensor<D>; N]) -> Tensor<E>| {
        let leaves = leaves.clone().map(|x| x.detach().require_grad());
        let y = f(leaves.clone());
        let weights = random(y.dims(), 99);
        let grads = (y.clone() * weights).sum().backward();
        let grads = leaves.map(|x| x.grad(&grads).map(|g| values(&g)));
        (values(&y), grads)
    };
    let (y, dy) = run(&fused);
    let (z, dz) = run(&oracle);
    close(what, &y, &z);
    for (i, (a, b)) in dy.iter().zip(&dz).enumerate() {
        let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
        close(&format!("{what}, gradient {i}"), a, b);
    }
}

#[test]
fn activations() {
    for kind in KINDS {
        for dims in [[1, 1, 1], [2, 3, 5], [1, 7, 33], [3, 40, 400]] {
            let x = random(dims, 1) * 3.0;
            let name = format!("{kind:?} {dims:?}");
            same(
                &name,
                [x.clone()],
                |[x]| kernel::activate(x, kind),
                |[x]| composed::activate(x, kind),
            );
            let turned = |[x]: [Tensor<3>; 1]| x.swap_dims(1, 2);
            same(
                &name,
                [x.clone()],
                |x| kernel::activate(turned(x), kind),
                |x| composed::activate(turned(x), kind),
            );
            same(
                &name,
                [x, random(dims, 2)],
                |[x, y]| kernel::gated(x, y, kind),
                |[x, y]| composed::gated(x, y, kind),
            );
        }
    }
}

#[test]
fn linear_maps() {
    for [b, s, i, o] in [
        [1, 1, 1, 1],
        [2, 3, 5, 7],
        [3, 17, 33, 65],
        [4, 96, 128, 96],
    ] {
        let x = random([b, s, i], 3);
        let w = random([1, o, i], 4) / (i as f64).sqrt();
        let bias = random([1, 1, o], 5);
        same(
            "linear",
            [x.clone(), w.clone(), bias],
            |[x, w, b]| kernel::linear(x, w.squeeze_dim(0), Some(b.reshape([o]))),
            |[x, w, b]| composed::linear(x, w.squeeze_dim(0), Some(b.reshape([o]))),
        );
        same(
            "linear of a view",
            [x.clone().swap_dims(0, 1), w],
            |[x, w]| kernel::linear(x.swap_dims(0, 1), w.squeeze_dim(0), None),
            |[x, w]| composed::linear(x.swap_dims(0, 1), w.squeeze_dim(0), None),
        );
        // The gradient of a transposed weight is the transposed gradient.
        same(
            "linear with a weight that lies by columns",
            [x, random([1, i, o], 4)],
            |[x, w]| kernel::linear(x, w.squeeze_dim::<2>(0).transpose(), None),
            |[x, w]| composed::linear(x, w.squeeze_dim::<2>(0).transpose(), None),
        );
    }
    let (x, y) = (random([3, 5, 7], 1), random([3, 5, 7], 2));
    same("add", [x, y], |[x, y]| kernel::add(x, y), |[x, y]| x + y);
}

/// A weight stored in panels, by rows if panels do not fit, or with any strides gives the same map.
#[test]
fn a_stored_weight_gives_the_same_map() {
    for (d_in, d_out) in [(7, 64), (24, 48), (33, 16), (20, 65), (1, 32), (40, 3)] {
        let weight = random([d_out, d_in, 1], 3).squeeze_dim::<2>(2);
        let bias = random([d_out, 1, 1], 4).reshape([d_out]);
        for (batch, seq) in [(1, 1), (3, 1), (2, 9), (5, 40)] {
            let x = random([batch, seq, d_in], 5);
            for bias in [None, Some(bias.clone())] {
                let wanted = composed::linear(x.clone(), weight.clone(), bias.clone());
                let turned = weight.clone().transpose().mul_scalar(1.0).transpose();
                for stored in [weight.clone(), turned].map(kernel::repacked) {
                    let y = kernel::linear(x.clone(), stored, bias.clone());
                    assert_eq!(y.dims(), [batch, seq, d_out]);
                    close("a stored weight", &values(&y), &values(&wanted));
                }
            }
        }
    }
}

#[test]
fn norms() {
    for [b, s, d] in [[1, 1, 1], [2, 3, 5], [1, 1, 64], [3, 50, 33], [5, 70, 192]] {
        let x = random([b, s, d], 6) * 2.0 + 1.5;
        let gamma = random([1, 1, d], 7);
        let beta = random([1, 1, d], 8);
        same(
            "layer_norm",
            [x.clone(), gamma.clone(), beta],
            |[x, g, b]| kernel::layer_norm(x, Some(g.reshape([d])), Some(b.reshape([d])), 1e-5),
            |[x, g, b]| composed::layer_norm(x, Some(g.reshape([d])), Some(b.reshape([d])), 1e-5),
        );
        same(
            "layer_norm without beta, of a view",
            [x.clone().swap_dims(0, 1), gamma.clone()],
            |[x, g]| kernel::layer_norm(x.swap_dims(0, 1), Some(g.reshape([d])), None, 1e-5),
            |[x, g]| composed::layer_norm(x.swap_dims(0, 1), Some(g.reshape([d])), None, 1e-5),
        );
        same(
            "rms_norm",
            [x.clone(), gamma],
            |[x, g]| kernel::rms_norm(x, Some(g.reshape([d])), 1e-6),
            |[x, g]| composed::rms_norm(x, Some(g.reshape([d])), 1e-6),
        );
        same(
            "layer_norm without gamma",
            [x.clone()],
            |[x]| kernel::layer_norm(x, None, None, 1e-5),
            |[x]| composed::layer_norm(x, None, None, 1e-5),
        );
        same(
            "rms_norm without gamma",
            [x],
            |[x]| kernel::rms_norm(x, None, 1e-6),
            |[x]| composed::rms_norm(x, None, 1e-6),
        );
    }
}

#[test]
fn norms_of_sums() {
    for ([b, s, d], factor) in [
        ([1, 1, 1], 1.0),
        ([2, 3, 5], 1.7),
        ([1, 1, 64], 0.0),
        ([3, 50, 33], -0.5),
        ([5, 70, 192], 1.0),
    ] {
        let [x, y] = [random([b, s, d], 6) * 2.0 + 1.5, random([b, s, d], 9)];
        let [gamma, beta] = [random([1, 1, d], 7), random([1, 1, d], 8)];
        same(
            "layer norm of a sum",
            [x.clone(), y.clone(), gamma.clone(), beta],
            |[x, y, g, b]| {
                let [g, b] = [g, b].map(|vector| vector.reshape([d]));
                kernel::layer_norm_of_sum([x, y], factor, Some(g), Some(b), 1e-5)
            },
            |[x, y, g, b]| {
                let [g, b] = [g, b].map(|vector| vector.reshape([d]));
                composed::layer_norm(x * factor + y, Some(g), Some(b), 1e-5)
            },
        );
        let both = |x: Tensor<3>| [x.clone().swap_dims(0, 1), x.swap_dims(0, 1)];
        same(
            "layer norm without beta of a view and itself",
            [x.clone().swap_dims(0, 1), gamma.clone()],
            |[x, g]| {
                kernel::layer_norm_of_sum(both(x), factor + 2.0, Some(g.reshape([d])), None, 1e-5)
            },
            |[x, g]| {
                let x = x.swap_dims(0, 1);
                composed::layer_norm(
                    x.clone() * (factor + 2.0) + x,
                    Some(g.reshape([d])),
                    None,
                    1e-5,
                )
            },
        );
        same(
            "rms norm of a sum",
            [x.clone(), y.clone(), gamma],
            |[x, y, g]| kernel::rms_norm_of_sum([x, y], factor, Some(g.reshape([d])), 1e-6),
            |[x, y, g]| composed::rms_norm(x * factor + y, Some(g.reshape([d])), 1e-6),
        );
        same(
            "rms norm of a sum without gamma",
            [x, y],
            |terms| kernel::rms_norm_of_sum(terms, factor, None, 1e-6),
            |[x, y]| composed::rms_norm(x * factor + y, None, 1e-6),
        );
    }
}

#[test]
fn cross_entropies() {
    for [n, v] in [[1, 1], [3, 2], [17, 65], [40, 1003]] {
        for smoothing in [0.0, 0.1] {
            let logits = random([n, v], 9) * 3.0;
            let mut targets = tokens(n, v as u64, 10);
            targets[n / 2] = if n > 1 { -100 } else { 0 };
            let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [n]), &device());
            same(
                "cross_entropy_sum",
                [logits],
                |[x]| kernel::cross_entropy_sum(x * 1.0, targets.clone(), smoothing),
                |[x]| composed::cross_entropy_sum(x, targets.clone(), smoothing),
            );
        }
    }
}

#[test]
fn embeddings_and_rotary() {
    for [v, d, b, s] in [[1, 1, 1, 1], [5, 3, 2, 7], [300, 129, 3, 50]] {
        let ids = TensorData::new(tokens(b * s, v as u64, 3), [b, s]);
        let ids = Tensor::<2, Int>::from_data(ids, &device());
        same(
            "embedding",
            [random([v, d], 11)],
            |[w]| kernel::embedding(w, ids.clone()),
            |[w]| composed::embedding(w, ids.clone()),
        );
    }
    for interleaved in [false, true] {
        for [b, h, s, d, pairs] in [[1, 1, 1, 2, 1], [2, 3, 5, 8, 2], [2, 4, 33, 16, 8]] {
            let angle = random::<2>([s, pairs], 12).detach();
            let (cos, sin) = (angle.clone().cos(), angle.sin());
            let (cos, sin) = (&cos, &sin);
            let fused = |x| kernel::rotary(x, cos.clone(), sin.clone(), interleaved);
            let oracle = |x| composed::rotary(x, cos.clone(), sin.clone(), interleaved);
            let x = random([b, h, s, d], 13);
            same("rotary", [x.clone()], |[x]| fused(x), |[x]| oracle(x));
            same(
                "rotary of a view",
                [x.swap_dims(1, 2)],
                |[x]| fused(x.swap_dims(1, 2)),
                |[x]| oracle(x.swap_dims(1, 2)),
            );
        }
    }
}

pub fn drop_key(p: f64) -> DropKey {
    DropKey {
        p,
        seed: 3,
        step: 14,
        first_row: 15,
        site: 9,
    }
}
