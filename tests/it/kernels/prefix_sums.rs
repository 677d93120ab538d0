//! Attention by features against its composed form; causality, independent rows, and sums that continue.

use burn::tensor::{Tensor, TensorData};
use formwork::kernel::linear_attention::{
    FeatureMap, Features, RunningSums, composed, linear_attention,
};
use formwork::kernel::{Documents, Sequences, Span, Visibility};
use formwork::nn::attention::random_features::{RowNorms, draw_orthogonal};
use formwork::rng::{Purpose, Stream};

use super::{bits, close, device, random, values};

/// Random projection vectors of a draw.
pub fn projection(features: usize, d: usize, draw: u64) -> Tensor<2> {
    let stream = Stream::new(9, Purpose::Features, (draw, 0, 0));
    let rows = draw_orthogonal([features, d], RowNorms::Chi, stream);
    Tensor::from_data(TensorData::new(rows, [features, d]), &device())
}

pub fn exponential(scale: f64, eps: f64, projection: Tensor<2>) -> FeatureMap {
    FeatureMap {
        features: Features::Exponential { scale, eps },
        projection: Some(projection),
    }
}

/// Feature maps of each kind for vectors of width `d`.
fn maps(d: usize) -> Vec<FeatureMap> {
    let scale = 1.0 / (d as f64).sqrt();
    vec![
        FeatureMap::plain(Features::Elu),
        exponential(scale, 1e-4, projection(2 * d + 3, d, 0)),
        FeatureMap {
            features: Features::Rectified { scale, eps: 1e-3 },
            projection: Some(projection(d + 1, d, 1)),
        },
    ]
}

/// Documents in rows of `n` positions that begin at these positions.
fn documents(n: usize, rows: &[&[usize]]) -> Documents {
    let numbers: Vec<i32> = rows
        .iter()
        .flat_map(|begins| {
            (0..n).map(|at| begins.iter().filter(|begin| **begin <= at).count() as i32)
        })
        .collect();
    Documents::new(&numbers, n)
}

/// All visibilities of two rows of `n` positions.
fn visible(n: usize) -> Vec<Visibility> {
    let documents = documents(n, &[&[n / 3, n / 3 + 1, n / 2], &[n - 1]]);
    let mut all = Vec::new();
    for causal in [true, false] {
        let plain = Visibility {
            causal,
            ..Visibility::default()
        };
        all.push(plain.clone());
        all.push(Visibility {
            lengths: Some([n - n / 4, n / 2].into()),
            ..plain.clone()
        });
        all.push(Visibility {
            documents: Some(documents.clone()),
            lengths: Some([n, n - n / 5].into()),
            ..plain
        });
    }
    all
}

/// Returns the output, and the gradients of queries, keys and values.
fn run(leaves: &[Tensor<4>; 3], attend: impl Fn([Tensor<4>; 3]) -> Tensor<4>) -> [Tensor<4>; 4] {
    let leaves = leaves.clone().map(|x| x.detach().require_grad());
    let y = attend(leaves.clone());
    let weights = random(y.dims(), 99);
    let grads = (y.clone() * weights).sum().backward();
    let [q, k, v] = leaves.map(|x| x.grad(&grads).unwrap());
    [y.inner(), q, k, v]
}

pub fn leaves([batch, heads, kv_heads, n, d]: [usize; 5]) -> [Tensor<4>; 3] {
    [
        random([batch, heads, n, d], 1),
        random([batch, kv_heads, n, d], 2),
        random([batch, kv_heads, n, d], 3),
    ]
}

#[test]
fn sums_of_features() {
    for (heads, kv_heads, n, d) in [(1, 1, 1, 1), (2, 2, 7, 5), (4, 2, 130, 8), (3, 1, 64, 16)] {
        let leaves = leaves([2, heads, kv_heads, n, d]);
        for map in maps(d) {
            for visible in visible(n) {
                let fused = |[q, k, v]: [Tensor<4>; 3]| linear_attention(q, k, v, &map, &visible);
                let plain =
                    |[q, k, v]: [Tensor<4>; 3]| composed::linear_attention(q, k, v, &map, &visible);
                let (ours, oracle) = (run(&leaves, fused), run(&leaves, plain));
                for (i, (a, b)) in ours.iter().zip(&oracle).enumerate() {
                    let what = format!("{n} {:?} {visible:?}: {i}", map.features);
                    close(&what, &values(a), &values(b));
                }
            }
        }
    }
}

/// Sequences of several parts, the last of them short, with documents that begin inside parts.
#[test]
fn runs_of_several_parts() {
    let n = 2300;
    let leaves = leaves([1, 2, 1, n, 4]);
    for map in maps(4) {
        for causal in [true, false] {
            for documents in [None, Some(documents(n, &[&[10, 1500]]))] {
                let visible = Visibility {
                    causal,
                    documents,
                    lengths: Some([n - 40].into()),
                    ..Visibility::default()
                };
                let fused = |[q, k, v]: [Tensor<4>; 3]| linear_attention(q, k, v, &map, &visible);
                let plain =
                    |[q, k, v]: [Tensor<4>; 3]| composed::linear_attention(q, k, v, &map, &visible);
                let (ours, oracle) = (run(&leaves, fused), run(&leaves, plain));
                for (i, (a, b)) in ours.iter().zip(&oracle).enumerate() {
                    let what = format!("{:?} {causal}: {i}", map.features);
                    close(&what, &values(a), &values(b));
                }
                let again = run(&leaves, fused);
                assert!(ours.iter().zip(&again).all(|(a, b)| bits(a) == bits(b)));
            }
        }
    }
}

/// Cross-attention, with any number of queries.
#[test]
fn queries_of_another_length() {
    for map in maps(6) {
        for (queries, keys) in [(3, 200), (700, 5), (1, 1), (70, 0)] {
            let q = random([2, 4, queries, 6], 1);
            let [k, v] = [2, 3].map(|seed| random([2, 2, keys, 6], seed));
            let visible = Visibility::from_lengths(&[keys, keys / 2]);
            let leaves = [q, k, v];
            let fused = |[q, k, v]: [Tensor<4>; 3]| linear_attention(q, k, v, &map, &visible);
            if keys == 0 {
                let [q, k, v] = leaves;
                assert!(values(&fused([q, k, v])).iter().all(|x| *x == 0.0));
                continue;
            }
            let plain =
                |[q, k, v]: [Tensor<4>; 3]| composed::linear_attention(q, k, v, &map, &visible);
            let (ours, oracle) = (run(&leaves, fused), run(&leaves, plain));
            for (i, (a, b)) in ours.iter().zip(&oracle).enumerate() {
                let what = format!("{queries} {keys} {:?}: {i}", map.features);
                close(&what, &values(a), &values(b));
            }
        }
    }
}

/// Bit for bit, no later position, other document or other row affects an output.
#[test]
fn nothing_later_and_no_other_document() {
    let n = 1300;
    for map in maps(8) {
        let visible = Visibility {
            causal: true,
            documents: Some(documents(n, &[&[500], &[500]])),
            ..Visibility::default()
        };
        let [q, k, v] = leaves([2, 2, 2, n, 8]);
        let y = linear_attention(q.clone(), k.clone(), v.clone(), &map, &visible);
        let other = |x: &Tensor<4>, row: usize, from: usize, to: usize| {
            let place = [row..row + 1, 0..2, from..to, 0..8];
            let far = x.clone().slice(place.clone()) * 3.0 + 1.0;
            x.clone().slice_assign(place, far)
        };
        let changed = |row: usize, from: usize, to: usize| {
            let (k, v) = (other(&k, row, from, to), other(&v, row, from, to));
            linear_attention(q.clone(), k, v, &map, &visible)
        };
        let part = |y: &Tensor<4>, row: usize, from: usize, to: usize| {
            bits(&y.clone().slice([row..row + 1, 0..2, from..to, 0..8]))
        };
        let later = changed(0, 1200, n);
        assert_eq!(part(&later, 0, 0, 1200), part(&y, 0, 0, 1200));
        assert_ne!(part(&later, 0, 1200, 1201), part(&y, 0, 1200, 1201));
        assert_eq!(part(&later, 1, 0, n), part(&y, 1, 0, n));
        let first = changed(1, 0, 500);
        assert_eq!(part(&first, 1, 500, n), part(&y, 1, 500, n));
        let alone = [&q, &k, &v].map(|x| x.clone().narrow(0, 1, 1));
        let [q, k, v] = alone;
        let of_row = Visibility {
            documents: Some(documents(n, &[&[500]])),
            ..visible.clone()
        };
        let alone = linear_attention(q, k, v, &map, &of_row);
        assert_eq!(part(&alone, 0, 0, n), part(&y, 1, 0, n));
    }
}

/// Sums that are continued over pieces of any length give the result of one pass, and their size stays constant.
#[test]
fn sums_are_read_on() {
    let n = 150;
    let numbers = documents(n, &[&[40, 41], &[100]]);
    for documents in [None, Some(numbers)] {
        let visible = Visibility {
            causal: true,
            documents,
            lengths: Some([n, 120].into()),
            ..Visibility::default()
        };
        for map in maps(6) {
            let [q, k, v] = leaves([2, 4, 2, n, 6]);
            let wanted = linear_attention(q.clone(), k.clone(), v.clone(), &map, &visible);
            let mut sums: Option<RunningSums> = None;
            let mut sizes = Vec::new();
            let mut first = 0;
            for len in [1, 70, 1, 1, 5, 64, 8] {
                let inputs = [&q, &k, &v].map(|x| x.clone().narrow(2, first, len));
                let span = Span {
                    queries: len,
                    keys: first + len,
                    offset: first,
                };
                let mut sequences = Sequences::from_visibility(&visible, span);
                if first == 0
                    && let Some(begins) = &mut sequences.begins
                {
                    // Nothing was read before the first position.
                    *begins = begins.iter().map(|_| false).collect();
                }
                let (y, after) = RunningSums::advance(sums.take(), inputs, &map, &sequences);
                let vectors = after.into_vectors();
                sizes.push(vectors.iter().map(|x| x.dims()[1]).sum::<usize>());
                sums = RunningSums::from_vectors(vectors, 2, 6);
                for (row, length) in [n, 120].into_iter().enumerate() {
                    let seen = len.min(length.saturating_sub(first));
                    let part = |y: Tensor<4>, from: usize| {
                        values(&y.slice([row..row + 1, 0..4, from..from + seen, 0..6]))
                    };
                    let what = format!("{:?} at {first} of row {row}", map.features);
                    if seen > 0 {
                        close(&what, &part(y.clone(), 0), &part(wanted.clone(), first));
                    }
                }
                first += len;
            }
            assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
        }
    }
}
