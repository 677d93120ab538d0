//! Spread of attention: the entropy −Σ w ln w of a query's weights, in nats, before dropout. It is ln n for a query that attends
//! equally to n keys, and 0 for one that attends to a single key.
//!
//! It is measured in one row of the batch, for at most [`MAX_QUERIES`] queries spread evenly over the row, and reported as the mean
//! over heads and queries. Padding queries are left out: they may not see themselves.

use crate::kernel::{self, AttentionOptions, Positional, Query, QuerySelection, Relative};
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use burn::tensor::Tensor;

/// Maximum number of queries that are measured.
pub const MAX_QUERIES: usize = 128;

/// The arguments of an attention kernel call.
pub(super) struct WeighingArgs<'a> {
    /// `[batch, heads, queries, d_head]`.
    pub q: &'a Tensor<4>,
    /// `[batch, kv heads, keys, d_head]`.
    pub k: &'a Tensor<4>,
    /// The keys that each query sees, and their relations.
    pub relations: &'a Positional,
    /// Scale and soft cap.
    pub options: AttentionOptions,
    /// Whether this is cross-attention.
    pub is_cross: bool,
    /// Whether each key stands for several positions, so that no query has a key at its own position.
    pub keys_are_summaries: bool,
}

/// Notes the entropy of some queries if the pass is asked for it.
pub(super) fn note_entropy(pass: &Pass, weighing: &WeighingArgs) {
    let Some(probe) = pass.probe() else { return };
    if let Some(sample) = probe.sample() {
        let entropy = weighing.entropy(sample);
        probe.note_entropy(entropy, weighing.is_cross);
    }
}

/// Records the result of `change` on all weights of a layer's attention, if the pass records attention weights.
pub(super) fn record_weights(
    pass: &Pass,
    layer: usize,
    weighing: &WeighingArgs,
    change: impl FnOnce(Tensor<4>) -> Tensor<4>,
) {
    if let Some(record) = pass.record().filter(|record| record.keeps_attentions()) {
        record.note_attention(layer, weighing.is_cross, change(weighing.weights()));
    }
}

/// Returns the relations without gradient tracking.
pub(super) fn untracked(relations: &Positional) -> Positional {
    Positional {
        bias: relations.bias.untracked(),
        relative: relations.relative.as_ref().map(Relative::untracked),
        sinks: relations.sinks.clone().map(kernel::untracked),
        ..relations.clone()
    }
}

impl WeighingArgs<'_> {
    /// Returns all weights, `[batch, heads, queries, keys]`, without gradient tracking.
    fn weights(&self) -> Tensor<4> {
        let (q, k) = (self.q.clone(), self.k.clone());
        let (q, k) = (kernel::untracked(q), kernel::untracked(k));
        let options = AttentionOptions {
            dropout: None,
            ..self.options
        };
        kernel::attention_weights(q, k, &self.untracked(), options)
    }

    fn untracked(&self) -> Positional {
        untracked(self.relations)
    }

    /// Returns the mean entropy over heads and sampled queries of a row.
    fn entropy(&self, ProbeSample { row, length, .. }: ProbeSample) -> f64 {
        let [_, _, queries, _] = self.q.dims();
        let queries = &spread_indices(length.unwrap_or(queries).clamp(1, queries));
        let relations = self.untracked();
        let (q, k) = (self.q.clone(), self.k.clone());
        let (q, k) = (kernel::untracked(q), kernel::untracked(k));
        let chosen = QuerySelection { row, queries };
        let entropy = kernel::attention_entropy(q, k, &relations, self.options, chosen);
        let entropy = kernel::read(entropy);
        let counted = self.counted_queries(row, queries);
        let of_heads = entropy.iter::<f32>().zip(counted.iter().cycle());
        let of_counted = of_heads.filter(|(_, counts)| **counts);
        let entropies: Vec<f64> = of_counted.map(|(x, _)| f64::from(x)).collect();
        entropies.iter().sum::<f64>() / entropies.len().max(1) as f64
    }

    /// Returns, for each query, whether it counts: padding queries do not see themselves and are left out. Queries whose keys
    /// include no key of their own always count.
    fn counted_queries(&self, row: usize, queries: &[usize]) -> Vec<bool> {
        let Positional {
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
            visible.mask_scores(query, keys, position, &mut hidden, true);
            !hidden[0]
        };
        let each = queries.iter();
        each.map(|query| self.is_cross || self.keys_are_summaries || sees_itself(query))
            .collect()
    }
}

/// Returns at most [`QUERIES`] of `queries` indices, spread evenly and including the last one.
pub(super) fn spread_indices(queries: usize) -> Vec<usize> {
    let chosen = queries.min(MAX_QUERIES);
    (1..=chosen).map(|i| i * queries / chosen - 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_spread_over_the_row() {
        assert_eq!(spread_indices(3), [0, 1, 2]);
        assert_eq!(
            spread_indices(MAX_QUERIES),
            (0..MAX_QUERIES).collect::<Vec<_>>()
        );
        let chosen = spread_indices(1000);
        assert_eq!((chosen.len(), chosen[0], chosen[127]), (128, 6, 999));
        assert!(chosen.windows(2).all(|w| (7..=8).contains(&(w[1] - w[0]))));
    }
}
