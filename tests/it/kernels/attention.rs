//! Attention against its composed body, over all its masks and options.

use burn::tensor::{Bool, Tensor, TensorData};
use formwork::kernel::{self, AttentionMask, AttentionOptions, composed};
use formwork::rng::{Purpose, Stream};

use super::{device, drop_key, random, same, values};

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
                |[q, k, v]| kernel::attention(q.swap_dims(1, 2), k, v, None, mask.clone(), options),
                |[q, k, v]| {
                    composed::attention(q.swap_dims(1, 2), k, v, None, mask.clone(), options)
                },
            );
        }
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

/// −Σ w ln w of weights that are computed here one by one.
#[test]
fn entropies_are_those_of_the_weights() {
    let (b, h, h_kv, n_q, n_k, d) = (2, 4, 2, 5, 9, 3);
    let (q, k) = (random([b, h, n_q, d], 1), random([b, h_kv, n_k, d], 2));
    let bias = random([1, h, n_q, n_k], 3);
    let (offset, cap, scale) = (n_k - n_q, 1.5, 0.7);
    // One query of the second row sees nothing.
    let blocks = |row: usize, query: usize, key: usize| {
        key > offset + query || (row + query * key) % 5 == 4 || (row, query) == (1, 2)
    };
    let all = (0..b * n_q * n_k).map(|i| (i / n_k / n_q, i / n_k % n_q, i % n_k));
    let blocked: Vec<bool> = all.map(|(r, q, k)| blocks(r, q, k)).collect();
    let blocked = TensorData::new(blocked, [b, 1, n_q, n_k]);
    let mask = AttentionMask {
        causal: true,
        offset,
        blocked: Some(Tensor::<4, Bool>::from_data(blocked, &device())),
    };
    let options = AttentionOptions {
        scale,
        softcap: Some(cap),
        dropout: Some(drop_key(0.5)),
    };
    let entropy =
        kernel::attention_entropy(q.clone(), k.clone(), Some(bias.clone()), mask, options);
    assert_eq!(entropy.dims(), [b, h, n_q]);
    let (q, k, bias, found) = (values(&q), values(&k), values(&bias), values(&entropy));
    for (i, found) in found.iter().enumerate() {
        let (row, head, query) = (i / n_q / h, i / n_q % h, i % n_q);
        let visible = (0..n_k).filter(|key| !blocks(row, query, *key));
        let weights: Vec<f64> = visible
            .map(|key| {
                let shared = row * h_kv + head / (h / h_kv);
                let dot: f32 = (0..d)
                    .map(|x| q[i * d + x] * k[(shared * n_k + key) * d + x])
                    .sum();
                let score = cap * (f64::from(dot) * scale / cap).tanh();
                (score + f64::from(bias[(head * n_q + query) * n_k + key])).exp()
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        let shares = weights.iter().map(|w| w / sum);
        let wanted: f64 = shares.map(|w| -w * w.ln()).sum();
        assert!(
            (f64::from(*found) - wanted).abs() < 1e-5,
            "{i}: {found}, not {wanted}"
        );
    }
}
