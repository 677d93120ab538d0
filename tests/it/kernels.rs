//! The fused operations against their composed bodies: values and every gradient, over odd sizes, strided
//! inputs, masks and options; numeric gradients; dropout's contracts; the same bits for any number of threads.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use formwork::kernel::{
    self, Activation, AdamwArgs, AttentionMask, AttentionOptions, DropKey, composed,
};
use formwork::rng::{Purpose, Stream};

const KINDS: [Activation; 5] = [
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::ReluSquared,
];

fn device() -> Device {
    Device::flex().autodiff()
}

/// Normal numbers, the same for the same seed.
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

/// Equal at 1e-5 of the largest value, or at 5e-6 where cancellation leaves only small ones.
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

/// Runs both on tracked leaves and compares the value and all gradients, for an uneven loss.
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
    for [b, s, i, o] in [[1, 1, 1, 1], [2, 3, 5, 7], [3, 17, 33, 65], [4, 96, 128, 96]] {
        let x = random([b, s, i], 3);
        let w = random([1, i, o], 4) / (i as f64).sqrt();
        let bias = random([1, 1, o], 5);
        same(
            "linear",
            [x.clone(), w.clone(), bias],
            |[x, w, b]| kernel::linear(x, w.squeeze_dim(0), Some(b.reshape([o]))),
            |[x, w, b]| composed::linear(x, w.squeeze_dim(0), Some(b.reshape([o]))),
        );
        same(
            "linear of a view",
            [x.clone().swap_dims(0, 1), w.clone()],
            |[x, w]| kernel::linear(x.swap_dims(0, 1), w.squeeze_dim(0), None),
            |[x, w]| composed::linear(x.swap_dims(0, 1), w.squeeze_dim(0), None),
        );
        same(
            "linear_transposed",
            [x, w.swap_dims(1, 2)],
            |[x, w]| kernel::linear_transposed(x, w.squeeze_dim(0)),
            |[x, w]| composed::linear_transposed(x, w.squeeze_dim(0)),
        );
    }
    let (x, y) = (random([3, 5, 7], 1), random([3, 5, 7], 2));
    same("add", [x, y], |[x, y]| kernel::add(x, y), |[x, y]| x + y);
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
            |[x, g, b]| kernel::layer_norm(x, g.reshape([d]), Some(b.reshape([d])), 1e-5),
            |[x, g, b]| composed::layer_norm(x, g.reshape([d]), Some(b.reshape([d])), 1e-5),
        );
        same(
            "layer_norm without beta, of a view",
            [x.clone().swap_dims(0, 1), gamma.clone()],
            |[x, g]| kernel::layer_norm(x.swap_dims(0, 1), g.reshape([d]), None, 1e-5),
            |[x, g]| composed::layer_norm(x.swap_dims(0, 1), g.reshape([d]), None, 1e-5),
        );
        same(
            "rms_norm",
            [x.clone(), gamma],
            |[x, g]| kernel::rms_norm(x, Some(g.reshape([d])), 1e-6),
            |[x, g]| composed::rms_norm(x, Some(g.reshape([d])), 1e-6),
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

/// All variants of mask and options that attention knows.
#[test]
fn attentions() {
    let mut stream = Stream::new(5, Purpose::Split, (0, 0, 0));
    for case in 0..48 {
        let pick = |stream: &mut Stream, choices: &[usize]| {
            choices[stream.below(choices.len() as u64) as usize]
        };
        let b = pick(&mut stream, &[1, 2, 3]);
        let h_kv = pick(&mut stream, &[1, 2]);
        let h = h_kv * pick(&mut stream, &[1, 1, 3]);
        let n_q = pick(&mut stream, &[1, 5, 64, 65, 130]);
        let n_k = pick(&mut stream, &[1, 7, 64, 67, 300]);
        let d = pick(&mut stream, &[1, 8, 20]);
        let bias_rows = pick(&mut stream, &[0, 1, b]);
        let causal = stream.below(2) == 0;
        let offset = if causal { n_k.saturating_sub(n_q) } else { 0 };
        let blocked = (stream.below(2) == 0).then(|| {
            let rows = pick(&mut stream, &[1, b]);
            let mask: Vec<bool> = (0..rows * n_q * n_k)
                .map(|i| stream.below(4) == 0 || i / n_k == n_q / 2)
                .collect();
            let mask = TensorData::new(mask, [rows, 1, n_q, n_k]);
            Tensor::<4, Bool>::from_data(mask, &device())
        });
        let options = AttentionOptions {
            scale: 1.0 / (d as f64).sqrt(),
            softcap: (stream.below(3) == 0).then_some(2.0),
            dropout: (stream.below(3) == 0).then_some(drop_key(0.3)),
        };
        let mask = AttentionMask {
            causal,
            offset,
            blocked,
        };
        let q = random([b, h, n_q, d], case);
        let k = random([b, h_kv, n_k, d], case + 1000);
        let v = random([b, h_kv, n_k, d], case + 2000);
        let what = format!(
            "case {case}: B{b} H{h}/{h_kv} Q{n_q} K{n_k} D{d} bias {bias_rows} causal {causal} \
             blocked {} cap {:?} drop {}",
            mask.blocked.is_some(),
            options.softcap,
            options.dropout.is_some()
        );
        if bias_rows > 0 {
            let bias = random([bias_rows, h, n_q, n_k], case + 3000);
            same(
                &what,
                [q, k, v, bias],
                |[q, k, v, b]| kernel::attention(q, k, v, Some(b), mask.clone(), options),
                |[q, k, v, b]| composed::attention(q, k, v, Some(b), mask.clone(), options),
            );
        } else {
            same(
                &what,
                [q.swap_dims(1, 2), k, v],
                |[q, k, v]| {
                    kernel::attention(q.swap_dims(1, 2), k, v, None, mask.clone(), options)
                },
                |[q, k, v]| {
                    composed::attention(q.swap_dims(1, 2), k, v, None, mask.clone(), options)
                },
            );
        }
    }
}

fn drop_key(p: f64) -> DropKey {
    DropKey {
        p,
        seed: 3,
        step: 14,
        first_row: 15,
        site: 9,
    }
}

#[test]
fn a_query_with_nothing_to_see_gives_zeros() {
    let blocked = Tensor::<4, Bool>::from_data(
        TensorData::new(vec![true, true, false, true], [1, 1, 2, 2]),
        &device(),
    );
    let mask = AttentionMask {
        blocked: Some(blocked),
        ..Default::default()
    };
    let options = AttentionOptions {
        scale: 1.0,
        softcap: None,
        dropout: None,
    };
    let [q, k, v] = [1, 2, 3].map(|s| random([1, 1, 2, 4], s).require_grad());
    let y = kernel::attention(q.clone(), k, v.clone(), None, mask, options);
    assert_eq!(values(&y)[..4], [0.0; 4]);
    assert_eq!(values(&y)[4..], values(&v)[..4]);
    let grads = y.sum().backward();
    let d_q = values(&q.grad(&grads).unwrap());
    assert!(d_q.iter().all(|x| x.is_finite()));
}

#[test]
fn dropout_statistics_and_micro_batches() {
    let key = drop_key(0.25);
    let x = Tensor::<3>::ones([8, 33, 129], &device());
    let y = kernel::dropout(x.clone(), key);
    let all = values(&y);
    let kept = all.iter().filter(|v| **v != 0.0).count() as f64 / all.len() as f64;
    assert!((kept - 0.75).abs() < 0.005, "{kept} are kept");
    assert!(all.iter().all(|&v| v == 0.0 || (v - 4.0 / 3.0).abs() < 1e-6));
    close("dropout", &all, &values(&composed::dropout(x.clone(), key)));
    for first in [0, 2, 5] {
        let key = DropKey {
            first_row: key.first_row + first as u64,
            ..key
        };
        let part = kernel::dropout(x.clone().narrow(0, first, 3), key);
        assert_eq!(bits(&part), bits(&y.clone().narrow(0, first, 3)));
    }
    for other in [
        DropKey { step: 15, ..key },
        DropKey { site: 8, ..key },
        DropKey { seed: 4, ..key },
    ] {
        assert_ne!(bits(&kernel::dropout(x.clone(), other)), bits(&y));
    }
    let rows = Tensor::<3>::ones([400, 2, 3], &device());
    let y = kernel::drop_path(rows.clone(), key);
    close("drop_path", &values(&y), &values(&composed::drop_path(rows, key)));
    let kept = values(&y).iter().filter(|v| **v != 0.0).count() as f64 / 2400.0;
    assert!((kept - 0.75).abs() < 0.08, "{kept} of the rows are kept");
    let x = random([3, 5, 7], 1);
    same(
        "dropout",
        [x],
        |[x]| kernel::dropout(x, key),
        |[x]| composed::dropout(x, key),
    );
}

/// Central differences, in float32, on sizes where that is precise enough.
#[test]
fn numeric_gradients() {
    let options = AttentionOptions {
        scale: 0.5,
        softcap: Some(3.0),
        dropout: Some(drop_key(0.2)),
    };
    let mask = AttentionMask {
        causal: true,
        offset: 1,
        blocked: None,
    };
    let f = |x: Tensor<4>| {
        let part = |i| x.clone().narrow(0, i, 1);
        let y = kernel::attention(
            part(0),
            part(1),
            part(2),
            Some(part(3).narrow(3, 0, 3)),
            mask.clone(),
            options,
        );
        let y = y.reshape([2, 3, 3]);
        let y = kernel::gated(y.clone(), y.clone(), Activation::Gelu) + y;
        let y = kernel::rms_norm(y, None, 1e-2);
        (y * random([2, 3, 3], 44)).sum()
    };
    let x = random([4, 2, 3, 3], 21).require_grad();
    let grads = f(x.clone()).backward();
    let exact = values(&x.grad(&grads).unwrap());
    let start = values(&x);
    for i in 0..start.len() {
        let at = |step: f32| {
            let mut moved = start.clone();
            moved[i] += step;
            let moved = Tensor::from_data(TensorData::new(moved, [4, 2, 3, 3]), &device());
            f(moved).into_scalar::<f32>()
        };
        let numeric = (at(5e-3) - at(-5e-3)) / 1e-2;
        assert!(
            (numeric - exact[i]).abs() < 2e-2 * exact[i].abs().max(1.0),
            "{i}: {numeric} and {}",
            exact[i]
        );
    }
}

#[test]
fn not_a_number_comes_through() {
    let mut start = vec![1.0f32; 24];
    start[7] = f32::NAN;
    let x = Tensor::<3>::from_data(TensorData::new(start.clone(), [2, 3, 4]), &device());
    for kind in KINDS {
        assert!(values(&kernel::activate(x.clone(), kind))[7].is_nan());
    }
    let gamma = Tensor::<1>::ones([4], &device());
    let y = values(&kernel::layer_norm(x.clone(), gamma, None, 1e-5));
    assert!(y[4..8].iter().all(|v| v.is_nan()) && !y[0].is_nan());
    let heads = x.clone().reshape([1, 2, 3, 4]);
    let options = AttentionOptions {
        scale: 1.0,
        softcap: None,
        dropout: None,
    };
    let ones = Tensor::<4>::ones([1, 2, 3, 4], &device());
    let y = kernel::attention(heads, ones.clone(), ones, None, Default::default(), options);
    let y = values(&y);
    assert!(y[4..8].iter().all(|v| v.is_nan()) && !y[8].is_nan());
    let targets = Tensor::<1, Int>::from_data([0i64, 1, 2, 3, 0, 1], &device());
    let loss = kernel::cross_entropy_sum(x.reshape([6, 4]), targets, 0.0);
    assert!(loss.into_scalar::<f32>().is_nan());
}

#[test]
fn optimizer_steps() {
    let plain = Device::flex();
    let fresh = |seed| Tensor::<2>::from_data(random::<2>([300, 201], seed).to_data(), &plain);
    let (mut p, g) = (fresh(1), fresh(2));
    let (mut m, mut v) = (fresh(3) * 0.1, fresh(4).square());
    let (mut p2, mut m2, mut v2) = (p.clone(), m.clone(), v.clone());
    for time in 1..4 {
        let args = AdamwArgs {
            lr: 1e-2,
            beta_1: 0.9,
            beta_2: 0.95,
            eps: 1e-8,
            weight_decay: 0.1,
            time,
        };
        (p, m, v) = kernel::adamw_step(p, g.clone(), m, v, args);
        (p2, m2, v2) = composed::adamw_step(p2, g.clone(), m2, v2, args);
    }
    close("param", &values(&p), &values(&p2));
    close("moment 1", &values(&m), &values(&m2));
    close("moment 2", &values(&v), &values(&v2));
    let exact: f64 = values(&p).iter().map(|&x| f64::from(x).powi(2)).sum();
    assert!((kernel::sum_of_squares(&p) / exact - 1.0).abs() < 1e-6);
    close(
        "scale",
        &values(&kernel::scale(p.clone(), 0.3)),
        &values(&(p * 0.3)),
    );
}

/// Everything at once, as bits, on a pool of a given size.
fn all_bits(threads: usize) -> Vec<Vec<u32>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| {
        let x = random([4, 130, 192], 1).require_grad();
        let w = random([192, 192], 2).require_grad();
        let b = random([192], 3).require_grad();
        let y = kernel::layer_norm(x.clone(), b.clone(), Some(b.clone()), 1e-5);
        let y = kernel::linear(y, w.clone(), Some(b.clone()));
        let y = kernel::activate(y, Activation::Gelu);
        let y = kernel::dropout(y, drop_key(0.1));
        let y = kernel::add(y, x.clone());
        let heads = y.reshape([4, 130, 6, 32]).swap_dims(1, 2);
        let mask = AttentionMask {
            causal: true,
            ..Default::default()
        };
        let options = AttentionOptions {
            scale: 0.2,
            softcap: None,
            dropout: Some(drop_key(0.1)),
        };
        let y = kernel::attention(heads.clone(), heads.clone(), heads, None, mask, options);
        let y = y.swap_dims(1, 2).reshape([4 * 130, 192]);
        let targets = TensorData::new(tokens(520, 192, 5), [520]);
        let targets = Tensor::<1, Int>::from_data(targets, &device());
        let loss = kernel::cross_entropy_sum(y, targets, 0.1);
        let grads = loss.clone().backward();
        let norm = kernel::sum_of_squares(&x.grad(&grads).unwrap());
        vec![
            bits(&loss),
            bits(&x.grad(&grads).unwrap()),
            bits(&w.grad(&grads).unwrap()),
            bits(&b.grad(&grads).unwrap()),
            vec![norm.to_bits() as u32],
        ]
    })
}

#[test]
fn same_bits_for_any_number_of_threads() {
    let once = all_bits(2);
    assert_eq!(once, all_bits(2));
    assert_eq!(once, all_bits(1));
    assert_eq!(once, all_bits(5));
}

