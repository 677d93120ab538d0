//! Contracts of every kernel: dropout's statistics, numeric gradients, NaN, the optimizer's arithmetic, empty tensors, and the
//! same bits for any number of threads.

use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::kernel::grouped::{Groups, combine, gather, grouped_linear};
use formwork::kernel::linear_attention::{FeatureMap, Features, linear_attention};
use formwork::kernel::{
    self, Activation, AdamwArgs, AttentionOptions, DropKey, Positional, ScoreBias, Visibility,
    composed,
};

use super::{KINDS, bits, close, device, drop_key, random, same, tokens, values};

#[test]
fn dropout_statistics_and_micro_batches() {
    let key = drop_key(0.25);
    let x = Tensor::<3>::ones([8, 33, 129], &device());
    let y = kernel::dropout(x.clone(), key);
    let all = values(&y);
    let kept = all.iter().filter(|v| **v != 0.0).count() as f64 / all.len() as f64;
    assert!((kept - 0.75).abs() < 0.005, "{kept} are kept");
    assert!(
        all.iter()
            .all(|&v| v == 0.0 || (v - 4.0 / 3.0).abs() < 1e-6)
    );
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
    close(
        "drop_path",
        &values(&y),
        &values(&composed::drop_path(rows, key)),
    );
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

/// Central differences in float32, at sizes where these are precise enough.
#[test]
fn numeric_gradients() {
    let options = AttentionOptions {
        scale: 0.5,
        softcap: Some(3.0),
        dropout: Some(drop_key(0.2)),
    };
    let f = |x: Tensor<4>| {
        let part = |i| x.clone().narrow(0, i, 1);
        let relations = Positional {
            visible: Visibility::causal(),
            offset: 1,
            bias: ScoreBias::Dense(part(3)),
            ..Positional::default()
        };
        let y = kernel::attention(part(0), part(1), part(2), relations, options);
        let y = y.reshape([2, 3, 3]);
        let y = kernel::gated(y.clone(), y.clone(), Activation::Gelu) + y;
        let y = kernel::rms_norm(y, None, 1e-2);
        let y = kernel::rms_norm_of_sum([y.clone(), y * 0.5], 1.5, None, 1e-2);
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
    let y = values(&kernel::layer_norm(
        x.clone(),
        Some(gamma.clone()),
        None,
        1e-5,
    ));
    assert!(y[4..8].iter().all(|v| v.is_nan()) && !y[0].is_nan());
    let alpha = Tensor::<1>::ones([1], &device());
    let y = kernel::dynamic_tanh(x.clone(), alpha, gamma.clone(), gamma.clone());
    let y = values(&y);
    assert!(y[7].is_nan() && y.iter().filter(|v| v.is_nan()).count() == 1);
    let terms = [x.clone() * 0.0, x.clone()];
    let y = kernel::layer_norm_of_sum(terms, 2.0, Some(gamma), None, 1e-5);
    let y = values(&y);
    assert!(y[4..8].iter().all(|v| v.is_nan()) && !y[0].is_nan());
    let heads = x.clone().reshape([1, 2, 3, 4]);
    let options = AttentionOptions {
        scale: 1.0,
        softcap: None,
        dropout: None,
    };
    let ones = Tensor::<4>::ones([1, 2, 3, 4], &device());
    let all = Positional::default();
    let y = kernel::attention(heads, ones.clone(), ones, all, options);
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
    let pairs = values(&p).into_iter().zip(values(&g));
    let apart: f64 = pairs.map(|(x, y)| f64::from(x - y).powi(2)).sum();
    assert!((kernel::squared_distance(&p, &g) / apart - 1.0).abs() < 1e-6);
    close(
        "scale",
        &values(&kernel::scale(p.clone(), 0.3)),
        &values(&(p * 0.3)),
    );
}

/// Two of three groups for each row, multiplied with one matrix or its multiples and added.
fn grouped(x: Tensor<2>, w: Tensor<2>) -> Tensor<2> {
    let chosen: Vec<_> = (0..1040).map(|i| Some(i * i % 7 % 3)).collect();
    let groups = Groups::new(&chosen, 2, 3);
    let weight = Tensor::stack(vec![w.clone(), w.clone() * 0.5, w * 0.25], 0);
    let rows = gather(x, &groups);
    let y = grouped_linear(rows, weight, None, &groups);
    combine(y, random([520, 2], 6), &groups)
}

/// Attention with random features, long enough for several parts.
fn by_features(x: Tensor<4>) -> Tensor<4> {
    let [batch, heads, n, d] = x.dims();
    let long = x.reshape([1, heads, batch * n, d]).repeat_dim(2, 3);
    let map = FeatureMap {
        features: Features::Exponential {
            scale: 0.2,
            eps: 1e-4,
        },
        projection: Some(random([70, d], 8)),
    };
    let y = linear_attention(
        long.clone(),
        long.clone(),
        long,
        &map,
        &Visibility::causal(),
    );
    y.narrow(2, batch * n, batch * n)
        .reshape([batch, heads, n, d])
}

/// Returns the results of all kernels as bits, on a pool of this size.
fn all_bits(threads: usize) -> Vec<Vec<u32>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    pool.install(|| {
        let x = random([4, 130, 192], 1).require_grad();
        let w = random([192, 192], 2).require_grad();
        let b = random([192], 3).require_grad();
        let y = kernel::layer_norm(x.clone(), Some(b.clone()), Some(b.clone()), 1e-5);
        let alpha = b.clone().narrow(0, 5, 1);
        let y = kernel::dynamic_tanh(y, alpha, b.clone(), b.clone());
        let y = kernel::linear(y, w.clone(), Some(b.clone()));
        let y = kernel::activate(y, Activation::Gelu);
        let y = kernel::dropout(y, drop_key(0.1));
        let y = kernel::add(y, x.clone());
        let terms = [x.clone(), y];
        let y = kernel::layer_norm_of_sum(terms, 0.7, Some(b.clone()), Some(b.clone()), 1e-5);
        let heads = y.reshape([4, 130, 6, 32]).swap_dims(1, 2);
        let distances = b.clone().reshape([6, 32]).repeat_dim(1, 9);
        let relations = Positional {
            visible: Visibility::causal(),
            bias: ScoreBias::ByDistance(distances.narrow(1, 0, 259)),
            ..Default::default()
        };
        let options = AttentionOptions {
            scale: 0.2,
            softcap: None,
            dropout: Some(drop_key(0.1)),
        };
        let y = kernel::attention(heads.clone(), heads.clone(), heads, relations, options);
        let y = by_features(y);
        let y = y.swap_dims(1, 2).reshape([4 * 130, 192]);
        let y = grouped(y, w.clone());
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

#[test]
fn empty_tensors() {
    let x = || Tensor::<3>::zeros([0, 3, 4], &device());
    let vector = Tensor::<1>::ones([4], &device());
    let weight = Tensor::<2>::ones([5, 4], &device());
    let bias = Tensor::<1>::ones([5], &device());
    assert_eq!(kernel::activate(x(), Activation::Silu).dims(), [0, 3, 4]);
    assert_eq!(kernel::dropout(x(), drop_key(0.5)).dims(), [0, 3, 4]);
    assert_eq!(kernel::rms_norm(x(), Some(vector), 1e-5).dims(), [0, 3, 4]);
    assert_eq!(kernel::linear(x(), weight, Some(bias)).dims(), [0, 3, 5]);
    let y = kernel::rms_norm_of_sum([x(), x()], 1.0, None, 1e-5);
    assert_eq!(y.dims(), [0, 3, 4]);
    assert_eq!(kernel::sum_of_squares(&x().inner()), 0.0);
}

/// Dropping everything gives zeros instead of infinities.
#[test]
fn dropping_everything() {
    let x = random([2, 3, 70], 1);
    let key = drop_key(1.0);
    assert!(
        values(&kernel::dropout(x.clone(), key))
            .iter()
            .all(|v| *v == 0.0)
    );
    assert!(values(&composed::dropout(x, key)).iter().all(|v| *v == 0.0));
}
