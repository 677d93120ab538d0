//! How spread attention is: the entropy −Σ w ln w of a query's weights, in nats, before dropout. It is ln n for a
//! query that looks at n keys alike and 0 for one that looks at a single key.
//!
//! It is read in one row of the batch, for at most [`QUERIES`] queries spread evenly over it, and written down as
//! the mean over heads and queries. Queries that fill the row up are left out: they may not see themselves.

use crate::kernel::{self, AttentionOptions, Chosen, Query, Relations, Relative};
use crate::nn::pass::Pass;
use crate::nn::probe::Sample;
use burn::tensor::Tensor;

/// Queries that are looked at.
pub const QUERIES: usize = 128;

/// The arguments of attention, as the kernel was given it.
pub(super) struct Weighing<'a> {
    /// `[batch, heads, queries, d_head]`.
    pub q: &'a Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub k: &'a Tensor<4>,
    /// The keys that each query sees, and their relations.
    pub relations: &'a Relations,
    /// Scale and soft cap.
    pub options: AttentionOptions,
    /// Whether the keys are a memory's.
    pub crossed: bool,
    /// Whether a key stands for several positions, so that no query has one of its own.
    pub summaries: bool,
}

/// Notes the entropy of some queries when the pass is asked for it.
pub(super) fn read(pass: &Pass, weighing: &Weighing) {
    let Some(probe) = pass.probe() else { return };
    if let Some(sample) = probe.sample() {
        let entropy = weighing.entropy(sample);
        probe.note_entropy(entropy, weighing.crossed);
    }
}

/// Records what `change` makes of all weights of a layer's attention when the pass is recorded with them.
pub(super) fn record(
    pass: &Pass,
    layer: usize,
    weighing: &Weighing,
    change: impl FnOnce(Tensor<4>) -> Tensor<4>,
) {
    if let Some(record) = pass.record().filter(|record| record.keeps_attentions()) {
        record.note_attention(layer, weighing.crossed, change(weighing.weights()));
    }
}

/// Relations without what gradients need.
pub(super) fn untracked(relations: &Relations) -> Relations {
    Relations {
        bias: relations.bias.untracked(),
        relative: relations.relative.as_ref().map(Relative::untracked),
        sinks: relations.sinks.clone().map(kernel::untracked),
        ..relations.clone()
    }
}

impl Weighing<'_> {
    /// All weights, `[batch, heads, queries, keys]`, without what gradients need.
    fn weights(&self) -> Tensor<4> {
        let (q, k) = (self.q.clone(), self.k.clone());
        let (q, k) = (kernel::untracked(q), kernel::untracked(k));
        let options = AttentionOptions {
            dropout: None,
            ..self.options
        };
        kernel::attention_weights(q, k, &self.untracked(), options)
    }

    fn untracked(&self) -> Relations {
        untracked(self.relations)
    }

    /// The mean over heads and chosen queries of a row.
    fn entropy(&self, Sample { row, length, .. }: Sample) -> f64 {
        let [_, _, queries, _] = self.q.dims();
        let queries = &spread(length.unwrap_or(queries).clamp(1, queries));
        let relations = self.untracked();
        let (q, k) = (self.q.clone(), self.k.clone());
        let (q, k) = (kernel::untracked(q), kernel::untracked(k));
        let chosen = Chosen { row, queries };
        let entropy = kernel::attention_entropy(q, k, &relations, self.options, chosen);
        let entropy = kernel::read(entropy);
        let counted = self.counted(row, queries);
        let of_heads = entropy.iter::<f32>().zip(counted.iter().cycle());
        let of_counted = of_heads.filter(|(_, counts)| **counts);
        let entropies: Vec<f64> = of_counted.map(|(x, _)| f64::from(x)).collect();
        entropies.iter().sum::<f64>() / entropies.len().max(1) as f64
    }

    /// Whether each of the queries is no padding: it sees itself, or looks at keys of which none is its own.
    fn counted(&self, row: usize, queries: &[usize]) -> Vec<bool> {
        let Relations {
            visible, offset, ..
        } = self.relations;
        let keys = self.k.dims()[2];
        let sees_itself = |query: &usize| {
            let position = offset + query;
            let query = Query {
                row,
                head: 0,
                position,
            };
            let mut hidden = [false];
            visible.hide(query, keys, position, &mut hidden, true);
            !hidden[0]
        };
        let each = queries.iter();
        each.map(|query| self.crossed || self.summaries || sees_itself(query))
            .collect()
    }
}

/// At most [`QUERIES`] of `queries`, spread evenly, the last one among them.
pub(super) fn spread(queries: usize) -> Vec<usize> {
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
