//! Sorted chunks: the kernel against its composed implementation, both against dense attention that counts keys as often as
//! they are met, and shared-query attention as the limit.

use burn::tensor::{FloatDType, Tensor, TensorData, activation};
use formwork::kernel::sorted_chunks::{
    ChunkSizes, SELF_SCORE, SortedChunks, SortedSettings, composed, sorted_chunks,
};
use formwork::kernel::{Documents, Visibility};
use formwork::rng::{Purpose, Stream};

use super::{bits, device, drop_key, random, same, values};

/// Sizes, and the width of a head.
const SIZES: [(ChunkSizes, usize); 6] = [
    (sizes([1, 1, 1, 1], [1, 0, 0]), 3),
    (sizes([2, 3, 9, 2], [4, 1, 0]), 5),
    (sizes([1, 2, 30, 3], [5, 1, 1]), 8),
    (sizes([2, 2, 40, 1], [8, 2, 0]), 7),
    (sizes([1, 2, 150, 2], [64, 1, 0]), 16),
    (sizes([1, 2, 300, 4], [70, 1, 0]), 33),
];

const fn sizes(
    [rows, heads, tokens, rounds]: [usize; 4],
    [chunk, back, ahead]: [usize; 3],
) -> ChunkSizes {
    ChunkSizes {
        rows,
        heads,
        tokens,
        rounds,
        chunk,
        back,
        ahead,
    }
}

/// Every supported visibility rule, alone and combined.
fn visibilities(sizes: ChunkSizes) -> Vec<Visibility> {
    let ChunkSizes { rows, tokens, .. } = sizes;
    let lengths: Vec<usize> = (0..rows).map(|row| tokens - row * tokens / 3).collect();
    let documents: Vec<i32> = (0..rows * tokens)
        .map(|i| (i % tokens * 3 / tokens) as i32)
        .collect();
    let prefix: Vec<usize> = (0..rows).map(|row| (row + 1) * tokens / 4).collect();
    let lengths = Some(lengths.into());
    vec![
        Visibility::default(),
        Visibility::causal(),
        Visibility {
            lengths: lengths.clone(),
            ..Visibility::default()
        },
        Visibility {
            prefix: Some(prefix.into()),
            lengths,
            ..Visibility::causal()
        },
        Visibility {
            documents: Some(Documents::new(&documents, tokens)),
            ..Visibility::causal()
        },
    ]
}

fn settings(sizes: ChunkSizes, visible: Visibility) -> SortedSettings {
    let mut stream = Stream::new(5, Purpose::Split, (sizes.tokens as u64, 0, 0));
    let count = sizes.rows * sizes.heads * sizes.rounds * sizes.tokens;
    let buckets: Vec<u32> = (0..count).map(|_| stream.below(6) as u32).collect();
    SortedSettings {
        plan: SortedChunks::new(sizes, &buckets, visible.lengths.as_deref()),
        visible,
        scale: 0.4,
        dropout: None,
        first: 0,
    }
}

fn inputs(sizes: ChunkSizes, width: usize) -> [Tensor<4>; 3] {
    let dims = [sizes.rows, sizes.tokens, sizes.heads, width];
    [1, 2, 3].map(|seed| random(dims, seed).swap_dims(1, 2))
}

#[test]
fn the_kernel_is_the_composed_body() {
    for (sizes, width) in SIZES {
        for (i, visible) in visibilities(sizes).into_iter().enumerate() {
            for dropout in [None, Some(drop_key(0.3))] {
                for first in [0, sizes.tokens / 2] {
                    let settings = SortedSettings {
                        dropout,
                        first,
                        ..settings(sizes, visible.clone())
                    };
                    let name = format!("{sizes:?} {i} {dropout:?} {first}");
                    same(
                        &name,
                        inputs(sizes, width),
                        |[q, k, v]| sorted_chunks(q, k, v, settings.clone()),
                        |[q, k, v]| composed::sorted_chunks(q, k, v, &settings),
                    );
                }
            }
        }
    }
}

/// Counts from the plan how often each query meets each key, `[B, H, T, T]`.
fn met(settings: &SortedSettings) -> Vec<f32> {
    let sizes = settings.plan.sizes();
    let tokens = sizes.tokens;
    let mut counts = vec![0.0; sizes.rows * sizes.heads * tokens * tokens];
    for (part, counts) in counts.chunks_mut(tokens * tokens).enumerate() {
        let order = settings.plan.order(part / sizes.heads, part % sizes.heads);
        let chunks: Vec<&[u32]> = order.chunks(sizes.chunk).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            for distance in -(sizes.back as i64)..=sizes.ahead as i64 {
                let other = (number as i64 + distance).rem_euclid(chunks.len() as i64);
                for query in chunk.iter().map(|q| *q as usize) {
                    for key in chunks[other as usize].iter().map(|k| *k as usize) {
                        if query < tokens && key < tokens {
                            counts[query * tokens + key] += 1.0;
                        }
                    }
                }
            }
        }
    }
    counts
}

/// Softmax attention with the full score matrix: a key that is met n times has ln n added to its score.
fn dense([q, k, v]: [Tensor<4>; 3], settings: &SortedSettings) -> Tensor<4> {
    let sizes = settings.plan.sizes();
    let ChunkSizes {
        rows,
        heads,
        tokens,
        ..
    } = sizes;
    let dims = [rows, heads, tokens, tokens];
    let counts = Tensor::<4>::from_data(TensorData::new(met(settings), dims), &device());
    let span = formwork::kernel::Span::full(tokens);
    let hidden = settings.visible.dense_mask([rows, heads], span, &device());
    let scores = q.matmul(k.transpose()) * settings.scale;
    let scores = match hidden {
        Some(hidden) => scores.mask_fill(hidden.expand(dims), -1e9),
        None => scores,
    };
    let own: Vec<bool> = (0..rows * heads * tokens * tokens)
        .map(|i| i / tokens % tokens == i % tokens)
        .collect();
    let own = Tensor::from_data(TensorData::new(own, dims), &device());
    let scores = scores.mask_fill(own, SELF_SCORE);
    let unmet = counts.clone().equal_elem(0.0);
    let scores = (scores + counts.clamp_min(1.0).log()).mask_fill(unmet, -1e9);
    activation::softmax(scores, 3).matmul(v)
}

#[test]
fn rounds_are_one_softmax_over_the_keys_that_are_met() {
    for (sizes, width) in SIZES {
        for (i, visible) in visibilities(sizes).into_iter().enumerate() {
            let settings = settings(sizes, visible);
            // Queries at padding mean nothing: they see all keys that they meet.
            same(
                &format!("{sizes:?} {i}"),
                inputs(sizes, width),
                |[q, k, v]| sorted_chunks(q, k, v, settings.clone()),
                |x| dense(x, &settings),
            );
        }
    }
}

/// A single chunk is attention with shared queries, however many rounds there are.
#[test]
fn one_chunk_sees_everything() {
    for (rounds, causal) in [(1, true), (1, false), (3, true), (3, false)] {
        let sizes = sizes([2, 2, 20, rounds], [20, 1, 0]);
        let visible = Visibility {
            causal,
            ..Visibility::default()
        };
        let whole = SortedSettings {
            plan: SortedChunks::single_chunk([2, 2, 20]),
            ..settings(sizes, visible.clone())
        };
        let settings = settings(sizes, visible);
        same(
            "one chunk",
            inputs(sizes, 6),
            |[q, k, v]| sorted_chunks(q, k, v, settings.clone()),
            |x| dense(x, &whole),
        );
    }
}

/// Half precision cannot represent the fill values of hidden keys: outputs and gradients are finite nevertheless, and close to
/// those in single precision.
#[test]
fn half_precision_is_near_single_precision() {
    let sizes = sizes([2, 2, 40, 2], [8, 1, 0]);
    let run = |settings: &SortedSettings, format: FloatDType| {
        let leaves = inputs(sizes, 8).map(|x| x.detach().cast(format).require_grad());
        let [q, k, v] = leaves.clone();
        let y = sorted_chunks(q, k, v, settings.clone());
        assert_eq!(FloatDType::from(y.dtype()), format);
        let y = y.cast(FloatDType::F32);
        let grads = (y.clone() * random(y.dims(), 7)).sum().backward();
        let mut all = vec![values(&y)];
        all.extend(leaves.map(|x| values(&x.grad(&grads).unwrap().cast(FloatDType::F32))));
        all
    };
    for (i, visible) in visibilities(sizes).into_iter().enumerate() {
        let settings = settings(sizes, visible);
        let whole = run(&settings, FloatDType::F32);
        for (format, within) in [(FloatDType::F16, 0.02), (FloatDType::BF16, 0.15)] {
            for (number, (half, whole)) in run(&settings, format).iter().zip(&whole).enumerate() {
                let size = whole.iter().fold(0.5f32, |m, x| m.max(x.abs()));
                for (a, b) in half.iter().zip(whole) {
                    let off = (a - b).abs();
                    assert!(off <= within * size, "{i} {number} {format:?}: {a} and {b}");
                }
            }
        }
    }
}

/// Several pieces, large enough for all threads.
#[test]
fn same_bits_for_any_number_of_threads() {
    let sizes = sizes([2, 3, 300, 2], [32, 1, 0]);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let leaves = inputs(sizes, 32).map(|x| x.detach().require_grad());
            let [q, k, v] = leaves.clone();
            let settings = SortedSettings {
                dropout: Some(drop_key(0.1)),
                ..settings(sizes, Visibility::causal())
            };
            let y = sorted_chunks(q, k, v, settings);
            let grads = (y.clone() * random(y.dims(), 7)).sum().backward();
            let mut all = vec![bits(&y)];
            all.extend(leaves.map(|x| bits(&x.grad(&grads).unwrap())));
            all
        })
    };
    let once = run(2);
    assert_eq!(once, run(1));
    assert_eq!(once, run(5));
}
