//! How spread attention is: the entropy −Σ w ln w of a query's weights, in nats, before dropout. It is ln n for a
//! query that looks at n keys alike and 0 for one that looks at a single key.
//!
//! It is read in one row of the batch, for at most [`QUERIES`] queries spread evenly over it, and written down as
//! the mean over heads and queries. Queries that fill the row up are left out: they may not see themselves.

use crate::kernel::{self, AttentionMask, AttentionOptions};
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use burn::tensor::{Bool, Int, Tensor, TensorData};

/// Queries that are looked at.
pub const QUERIES: usize = 128;

/// What attention was computed from, as the kernel was given it.
pub(super) struct Weighing<'a> {
    /// `[batch, heads, queries, d_head]`.
    pub q: &'a Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub k: &'a Tensor<4>,
    /// Added to the scores.
    pub bias: Option<&'a Tensor<4>>,
    /// Visibility.
    pub mask: &'a AttentionMask,
    /// Scale and soft cap.
    pub options: AttentionOptions,
    /// Whether the keys are a memory's.
    pub crossed: bool,
}

/// Notes the entropy of some queries when the pass is asked for it.
pub(super) fn read(pass: &Pass, weighing: &Weighing) {
    let Some(probe) = pass.probe() else { return };
    if let Some(sample) = probe.sample() {
        let entropy = weighing.entropy(sample);
        probe.note_entropy(entropy, weighing.crossed);
    }
}

impl Weighing<'_> {
    /// The mean over heads and chosen queries of a row.
    fn entropy(&self, Sample { row, length, .. }: Sample) -> f64 {
        let ([_, _, queries, _], keys) = (self.q.dims(), self.k.dims()[2]);
        let device = self.q.device().without_autodiff();
        let chosen = spread(length.unwrap_or(queries).clamp(1, queries));
        let places: Vec<i32> = chosen.iter().map(|q| *q as i32).collect();
        let places = TensorData::new(places, [chosen.len()]);
        let places = Tensor::<1, Int>::from_data(places, &device);
        let of_row = |x: &Tensor<4>| {
            let row = if x.dims()[0] == 1 { 0 } else { row };
            kernel::untracked(x.clone()).narrow(0, row, 1)
        };
        let blocked = self.blocked(row, &chosen);
        let counted: Vec<bool> = chosen
            .iter()
            .zip(blocked.chunks(keys))
            .map(|(query, blocked)| self.crossed || !blocked[self.mask.offset + query])
            .collect();
        let blocked = TensorData::new(blocked, [1, 1, chosen.len(), keys]);
        let mask = AttentionMask {
            causal: false,
            offset: 0,
            blocked: Some(Tensor::<4, Bool>::from_data(blocked, &device)),
        };
        let q = of_row(self.q).select(2, places.clone());
        let bias = self.bias.map(|bias| of_row(bias).select(2, places));
        let entropy = kernel::attention_entropy(q, of_row(self.k), bias, mask, self.options);
        let entropy = entropy.into_data();
        let of_heads = entropy.iter::<f32>().zip(counted.iter().cycle());
        let of_counted = of_heads.filter(|(_, counts)| **counts);
        let entropies: Vec<f64> = of_counted.map(|(x, _)| f64::from(x)).collect();
        entropies.iter().sum::<f64>() / entropies.len() as f64
    }

    /// What each chosen query of the row may not see, `[chosen, keys]`.
    fn blocked(&self, row: usize, chosen: &[usize]) -> Vec<bool> {
        let keys = self.k.dims()[2];
        let given: Option<Vec<bool>> = self.mask.blocked.as_ref().map(|blocked| {
            let row = if blocked.dims()[0] == 1 { 0 } else { row };
            let row = blocked.clone().narrow(0, row, 1);
            row.into_data().iter::<bool>().collect()
        });
        let pair = |query: usize, key: usize| {
            let later = self.mask.causal && key > self.mask.offset + query;
            later || given.as_ref().is_some_and(|all| all[query * keys + key])
        };
        let pairs = chosen.iter().flat_map(|q| (0..keys).map(move |k| (*q, k)));
        pairs.map(|(query, key)| pair(query, key)).collect()
    }
}

/// At most [`QUERIES`] of `queries`, spread evenly, the last one among them.
fn spread(queries: usize) -> Vec<usize> {
    let chosen = queries.min(QUERIES);
    (1..=chosen).map(|i| i * queries / chosen - 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_spread_over_the_row() {
        assert_eq!(spread(3), [0, 1, 2]);
        assert_eq!(spread(QUERIES), (0..QUERIES).collect::<Vec<_>>());
        let chosen = spread(1000);
        assert_eq!((chosen.len(), chosen[0], chosen[127]), (128, 6, 999));
        assert!(chosen.windows(2).all(|w| (7..=8).contains(&(w[1] - w[0]))));
    }
}
