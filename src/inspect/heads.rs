//! What each attention head of a network attends to, over some examples: how far, how widely, and how much at the first
//! position.
//!
//! The mean distance in images is that of Dosovitskiy et al. 2021, figure 7: over queries, the distances to all keys
//! weighted by attention; class tokens are left out, and the weights of patches are rescaled to a sum of one.

use super::weights::{Layout, Weights};
use crate::nn::record::AttentionKey;
use std::collections::BTreeMap;

/// Statistics of one attention head.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadStatistics {
    /// The attention layer.
    pub at: AttentionKey,
    /// The head, from 0.
    pub head: usize,
    /// Mean over queries of the entropy of the weights, in nats.
    pub entropy: f64,
    /// Mean over queries of the maximum weight.
    pub largest: f64,
    /// Mean over queries of the weight on the first key: a class token, or the beginning of a text.
    pub first: f64,
    /// Mean over queries of Σ weight·distance, in tokens or pixels; `None` if keys and queries are not the same positions.
    pub distance: Option<f64>,
    /// Mean weight by distance in tokens, on either side, from 0; empty if there are no such distances.
    pub by_distance: Vec<f64>,
}

/// Sums of a head over queries.
#[derive(Clone, Debug, Default)]
struct Sums {
    queries: usize,
    entropy: f64,
    largest: f64,
    first: f64,
    with_distance: usize,
    distance: f64,
    weights: Vec<f64>,
    pairs: Vec<usize>,
}

/// Sums of all heads of a network, example by example.
#[derive(Clone, Debug)]
pub struct HeadSums {
    layout: Layout,
    sums: BTreeMap<(AttentionKey, usize), Sums>,
}

impl HeadSums {
    /// Builds empty sums.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            sums: BTreeMap::new(),
        }
    }

    /// Adds the attention weights of one example.
    pub fn add(&mut self, example: &BTreeMap<AttentionKey, Weights>) {
        for (at, weights) in example {
            let placed = weights.is_square() && !at.is_cross;
            let causal = placed && weights.is_causal();
            for head in 0..weights.heads {
                let sums = self.sums.entry((at.clone(), head)).or_default();
                for (query, row) in weights.rows(head).enumerate() {
                    sums.add(row);
                    if placed {
                        let seen = if causal { query + 1 } else { row.len() };
                        sums.add_distances(self.layout, query, &row[..seen]);
                    }
                }
            }
        }
    }

    /// Returns the statistics of the heads of each attention layer, in order.
    pub fn finished(self) -> Vec<HeadStatistics> {
        let each = self.sums.into_iter();
        each.map(|((at, head), sums)| sums.finished(at, head))
            .collect()
    }
}

impl Sums {
    fn add(&mut self, row: &[f32]) {
        let weights = || row.iter().map(|w| f64::from(*w));
        let surprise = |w: f64| if w > 0.0 { -w * w.ln() } else { 0.0 };
        self.queries += 1;
        self.entropy += weights().map(surprise).sum::<f64>();
        self.largest += weights().fold(0.0, f64::max);
        self.first += weights().next().unwrap_or(0.0);
    }

    /// Adds the distances from a query to the keys that it sees.
    fn add_distances(&mut self, layout: Layout, query: usize, row: &[f32]) {
        let (mut sum, mut weighted) = (0.0, 0.0);
        for (key, weight) in row.iter().enumerate() {
            let weight = f64::from(*weight);
            let Some(distance) = layout.distance(query, key) else {
                continue;
            };
            sum += weight;
            weighted += weight * distance;
            if layout == Layout::Sequence {
                let at = query.abs_diff(key);
                let longest = self.weights.len().max(at + 1);
                self.weights.resize(longest, 0.0);
                self.pairs.resize(longest, 0);
                self.weights[at] += weight;
                self.pairs[at] += 1;
            }
        }
        if sum > 0.0 {
            self.with_distance += 1;
            self.distance += weighted / sum;
        }
    }

    fn finished(self, at: AttentionKey, head: usize) -> HeadStatistics {
        let queries = self.queries.max(1) as f64;
        let by_distance = self.weights.iter().zip(&self.pairs);
        HeadStatistics {
            at,
            head,
            entropy: self.entropy / queries,
            largest: self.largest / queries,
            first: self.first / queries,
            distance: (self.with_distance > 0).then(|| self.distance / self.with_distance as f64),
            by_distance: by_distance
                .map(|(sum, n)| sum / (*n).max(1) as f64)
                .collect(),
        }
    }
}
