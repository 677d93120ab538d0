//! Attention against its composed implementation, over all visibilities, biases and options.

use burn::tensor::Tensor;
use formwork::kernel::{
    self, AttentionOptions, DistanceRows, DistanceTable, Documents, Positional, QuerySelection,
    Relative, ScoreBias, Span, Visibility, composed,
};
use formwork::rng::{Purpose, Stream};

use super::visibility::drawn;
use super::{drop_key, random, same, values};

fn pick(stream: &mut Stream, choices: &[usize]) -> usize {
    choices[stream.below(choices.len() as u64) as usize]
}

/// All variants of visibility, bias and options that attention supports.
#[test]
fn attentions() {
    let mut stream = Stream::new(5, Purpose::Split, (0, 0, 0));
    for case in 0..80 {
        let b = pick(&mut stream, &[1, 2, 3]);
        let h_kv = pick(&mut stream, &[1, 2]);
        let h = h_kv * pick(&mut stream, &[1, 1, 3]);
        let n_q = pick(&mut stream, &[1, 5, 64, 65, 130]);
        let n_k = pick(&mut stream, &[1, 7, 64, 67, 300, 530]);
        let d = pick(&mut stream, &[1, 8, 20]);
        let offset = n_k.saturating_sub(n_q);
        let span = Span {
            queries: n_q,
            keys: n_k,
            offset,
        };
        let visible = drawn(&mut stream, [b, h], span);
        let options = AttentionOptions {
            scale: 1.0 / (d as f64).sqrt(),
            softcap: (stream.below(3) == 0).then_some(2.0),
            dropout: (stream.below(3) == 0).then_some(drop_key(0.3)),
        };
        let relations = |bias: ScoreBias| Positional {
            visible: visible.clone(),
            offset,
            bias,
            ..Positional::default()
        };
        let q = random([b, h, n_q, d], case);
        let k = random([b, h_kv, n_k, d], case + 1000);
        let v = random([b, h_kv, n_k, d], case + 2000);
        let kind = pick(&mut stream, &[0, 1, 2, 3]);
        let what = format!(
            "case {case}: B{b} H{h}/{h_kv} Q{n_q} K{n_k} D{d} bias {kind} {visible:?} {options:?}"
        );
        let bias = match kind {
            0 => {
                same(
                    &what,
                    [q.swap_dims(1, 2), k, v],
                    |[q, k, v]| {
                        let relations = relations(ScoreBias::None);
                        kernel::attention(q.swap_dims(1, 2), k, v, relations, options)
                    },
                    |[q, k, v]| {
                        let relations = relations(ScoreBias::None);
                        composed::attention(q.swap_dims(1, 2), k, v, relations, options)
                    },
                );
                continue;
            }
            1 => random([1, 1, h, n_q + n_k - 1], case + 3000),
            2 => random([1, h, n_q, n_k], case + 3000),
            _ => random([b, h, n_q, n_k], case + 3000),
        };
        let biased = |bias: Tensor<4>| match kind {
            1 => relations(ScoreBias::ByDistance(bias.reshape([h, n_q + n_k - 1]))),
            _ => relations(ScoreBias::Dense(bias)),
        };
        same(
            &what,
            [q, k, v, bias],
            |[q, k, v, b]| kernel::attention(q, k, v, biased(b), options),
            |[q, k, v, b]| composed::attention(q, k, v, biased(b), options),
        );
    }
}

/// A bias by distance, compared pair by pair.
#[test]
fn biases_by_distance_are_those_of_their_diagonals() {
    for (queries, keys) in [(1, 1), (1, 6), (4, 4), (3, 8), (5, 2)] {
        let span = Span {
            queries,
            keys,
            offset: 0,
        };
        let bias = random([2, span.distances()], 3);
        let rows = bias.clone().reshape([1, 2, 1, span.distances()]);
        let rows = rows.expand([1, 2, queries, span.distances()]);
        let (pairs, bias) = (
            values(&kernel::diagonals_to_pairs(rows, span)),
            values(&bias),
        );
        for (at, pair) in pairs.iter().enumerate() {
            let (head, i, j) = (at / keys / queries, at / keys % queries, at % keys);
            assert_eq!(*pair, bias[head * span.distances() + j + queries - 1 - i]);
        }
    }
}

/// Value vectors by distance, compared key by key.
#[test]
fn values_by_distance_are_added_to_the_values() {
    let (b, h, n_q, n_k, d) = (2, 2, 3, 5, 4);
    let options = AttentionOptions {
        scale: 0.5,
        softcap: None,
        dropout: Some(drop_key(0.2)),
    };
    let relations = |values: Tensor<3>| {
        let span = Span {
            queries: n_q,
            keys: n_k,
            offset: 2,
        };
        // One row for each diagonal.
        let row = |distance: i64| (distance + (n_q + span.offset) as i64 - 1) as usize;
        let values = DistanceTable {
            table: values,
            rows: DistanceRows::new(span, row),
        };
        Positional {
            visible: Visibility::causal(),
            offset: 2,
            bias: ScoreBias::None,
            relative: Some(Relative {
                values: Some(values),
                ..Relative::default()
            }),
            sinks: None,
        }
    };
    let q = random([b, h, n_q, d], 1);
    let [k, v] = [2, 3].map(|seed| random([b, h, n_k, d], seed));
    let of_distances = random([1, h, n_q + n_k - 1, d], 4);
    same(
        "values by distance",
        [q, k, v, of_distances],
        |[q, k, v, more]| {
            let more = more.reshape([h, n_q + n_k - 1, d]);
            kernel::attention(q, k, v, relations(more), options)
        },
        |[q, k, v, more]| {
            // One query after the other, each with its own values of the keys.
            let each = (0..n_q).map(|i| {
                let visible = Visibility::from_lengths(&[i + 3, i + 3]);
                let own = more.clone().narrow(2, n_q - 1 - i, n_k);
                let relations = Positional {
                    visible,
                    ..Positional::default()
                };
                let v = v.clone() + own;
                let (all, k) = (q.clone(), k.clone());
                // All queries are computed, so that the same weights are dropped.
                composed::attention(all, k, v, relations, options).narrow(2, i, 1)
            });
            Tensor::cat(each.collect(), 2)
        },
    );
}

#[test]
fn a_query_with_nothing_to_see_gives_zeros() {
    let relations = Positional {
        visible: Visibility {
            documents: Some(Documents::new(&[0, 1, 1], 3)),
            lengths: Some([1].into()),
            ..Visibility::default()
        },
        ..Positional::default()
    };
    let options = AttentionOptions {
        scale: 1.0,
        softcap: None,
        dropout: None,
    };
    let [q, k, v] = [1, 2, 3].map(|s| random([1, 1, 3, 4], s).require_grad());
    let y = kernel::attention(q.clone(), k, v.clone(), relations, options);
    assert_eq!(values(&y)[..4], values(&v)[..4]);
    assert_eq!(values(&y)[4..], [0.0; 8]);
    let grads = y.sum().backward();
    let d_q = values(&q.grad(&grads).unwrap());
    assert!(d_q.iter().all(|x| x.is_finite()));
}

/// −Σ w ln w over weights that are computed here one by one.
#[test]
fn entropies_are_those_of_the_weights() {
    let (b, h, h_kv, n_q, n_k, d) = (2, 4, 2, 5, 9, 3);
    let (q, k) = (random([b, h, n_q, d], 1), random([b, h_kv, n_k, d], 2));
    let bias = random([h, n_q + n_k - 1], 3);
    let (offset, cap, scale) = (n_k - n_q, 1.5, 0.7);
    let lengths = [9, 3];
    let blocks = |row: usize, query: usize, key: usize| key > offset + query || key >= lengths[row];
    let relations = Positional {
        visible: Visibility {
            lengths: Some(lengths.into()),
            ..Visibility::causal()
        },
        offset,
        bias: ScoreBias::ByDistance(bias.clone()),
        ..Positional::default()
    };
    let options = AttentionOptions {
        scale,
        softcap: Some(cap),
        dropout: Some(drop_key(0.5)),
    };
    let (queries, bias) = ([0, 2, 4], values(&bias));
    for row in 0..b {
        let chosen = QuerySelection {
            row,
            queries: &queries,
        };
        let (q, k) = (q.clone(), k.clone());
        let entropy = kernel::attention_entropy(q.clone(), k.clone(), &relations, options, chosen);
        assert_eq!(entropy.dims(), [h, queries.len()]);
        let (q, k) = (values(&q), values(&k));
        for (i, found) in values(&entropy).iter().enumerate() {
            let (head, query) = (i / queries.len(), queries[i % queries.len()]);
            let visible = (0..n_k).filter(|key| !blocks(row, query, *key));
            let weights: Vec<f64> = visible
                .map(|key| {
                    let shared = row * h_kv + head / (h / h_kv);
                    let own = (row * h + head) * n_q + query;
                    let dot: f32 = (0..d)
                        .map(|x| q[own * d + x] * k[(shared * n_k + key) * d + x])
                        .sum();
                    let score = cap * (f64::from(dot) * scale / cap).tanh();
                    let diagonal = key + n_q - 1 - query;
                    (score + f64::from(bias[head * (n_q + n_k - 1) + diagonal])).exp()
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            let shares = weights.iter().map(|w| w / sum);
            let wanted: f64 = shares.map(|w| -w * w.ln()).sum();
            assert!(
                (f64::from(*found) - wanted).abs() < 1e-5,
                "{row} {i}: {found}, not {wanted}"
            );
        }
    }
}
