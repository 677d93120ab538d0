//! Attention with sinks against its composed implementation, in which a sink is one more score of the softmax.

use burn::tensor::Tensor;
use formwork::kernel::{self, AttentionOptions, Positional, ScoreBias, Span, Visibility, composed};
use formwork::rng::{Purpose, Stream};

use super::visibility::drawn;
use super::{bits, drop_key, random, same, values};

fn pick(stream: &mut Stream, choices: &[usize]) -> usize {
    choices[stream.below(choices.len() as u64) as usize]
}

/// Outputs and all gradients, including those of the sinks, over visibilities, biases and options.
#[test]
fn sinks_are_scores_without_values() {
    let mut stream = Stream::new(9, Purpose::Split, (0, 0, 0));
    for case in 0..40 {
        let (b, h_kv) = (pick(&mut stream, &[1, 3]), pick(&mut stream, &[1, 2]));
        let h = h_kv * pick(&mut stream, &[1, 3]);
        let (n_q, n_k) = (
            pick(&mut stream, &[1, 5, 70]),
            pick(&mut stream, &[1, 7, 67, 340]),
        );
        let d = pick(&mut stream, &[4, 20]);
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
        let biased = stream.below(2) == 0;
        let relations = |bias: Tensor<4>, sinks: Tensor<4>| Positional {
            visible: visible.clone(),
            offset,
            bias: match biased {
                true => ScoreBias::ByDistance(bias.reshape([h, span.distances()])),
                // The bias is used, so that it has a gradient.
                false => ScoreBias::Dense(bias.narrow(3, 0, 1).expand([1, h, n_q, n_k])),
            },
            sinks: Some(sinks.reshape([h])),
            ..Positional::default()
        };
        let q = random([b, h, n_q, d], case);
        let [k, v] = [1000, 2000].map(|more| random([b, h_kv, n_k, d], case + more));
        let bias = match biased {
            true => random([1, 1, h, span.distances()], case + 3000),
            false => random([1, h, n_q, 1], case + 3000),
        };
        let sinks = random([1, 1, 1, h], case + 4000) * 3.0;
        let what = format!("case {case}: B{b} H{h}/{h_kv} Q{n_q} K{n_k} D{d} {visible:?}");
        same(
            &what,
            [q, k, v, bias, sinks],
            |[q, k, v, b, s]| kernel::attention(q, k, v, relations(b, s), options),
            |[q, k, v, b, s]| composed::attention(q, k, v, relations(b, s), options),
        );
    }
}

/// A sink far below all scores changes nothing; one far above makes outputs zero; one of 0 acts like a further key with score 0
/// and value 0.
#[test]
fn sinks_below_and_above_all_scores() {
    let dims = [2, 2, 6, 4];
    let [q, k, v] = [1, 2, 3].map(|seed| random(dims, seed));
    let options = AttentionOptions {
        scale: 0.5,
        softcap: None,
        dropout: None,
    };
    let attended = |sinks: Option<Tensor<1>>, visible: Visibility, keys: [&Tensor<4>; 2]| {
        let relations = Positional {
            visible,
            sinks,
            ..Positional::default()
        };
        let [k, v] = keys.map(Tensor::clone);
        kernel::attention(q.clone(), k, v, relations, options)
    };
    let all = |x: f32| Some(Tensor::<1>::full([2], x, &q.device()));
    let plain = attended(None, Visibility::causal(), [&k, &v]);
    let below = attended(all(-1e30), Visibility::causal(), [&k, &v]);
    assert_eq!(bits(&plain), bits(&below));
    let above = attended(all(1e30), Visibility::causal(), [&k, &v]);
    assert!(values(&above).iter().all(|x| *x == 0.0));
    let beside = attended(all(0.0), Visibility::ALL, [&k, &v]);
    let zero = Tensor::zeros([2, 2, 1, 4], &q.device());
    let [k, v] = [k, v].map(|x| Tensor::cat(vec![x, zero.clone()], 2));
    let one_more = attended(None, Visibility::ALL, [&k, &v]);
    super::close("a key of score 0", &values(&beside), &values(&one_more));
}
