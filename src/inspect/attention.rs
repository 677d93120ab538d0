//! Attention weights by distance, and the share of them on earlier segments (Dai et al. 2019, appendix D, show the
//! weights of each head by relative position).
//!
//! Only the last segment of each window is evaluated, where the memory is as full as possible. Distance 0 is the
//! query's own position; the weight at distance d is the mean over all queries that have a position d before them. A
//! key counts as highly attended if its weight exceeds 2/n: twice the weight of uniform attention over the n keys up to
//! the query's own position.

use super::{Reader, Window};
use crate::nn::record::RecordSelection;
use burn::tensor::TensorData;
use std::collections::BTreeMap;

/// A weight is high above this multiple of a uniform share.
pub const HIGH: f64 = 2.0;

/// Attention of one head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadAttention {
    /// The block, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// Mean weight by distance, from 0.
    pub by_distance: Vec<f64>,
    /// Mean over queries of Σ weight·distance.
    pub distance: f64,
    /// Share of keys that are highly attended.
    pub high: f64,
    /// Attention to keys in earlier segments; `None` if there are none.
    pub memory: Option<MemoryShare>,
}

/// The part of attention that lies on earlier segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryShare {
    /// Share of their keys that are highly attended.
    pub high: f64,
    /// Mean over queries of the total weight on them.
    pub weight: f64,
}

/// Running sums of one head.
#[derive(Clone, Debug, Default)]
struct Sums {
    weights: Vec<f64>,
    pairs: Vec<usize>,
    queries: usize,
    distance: f64,
    high: usize,
    memory_pairs: usize,
    memory_high: usize,
    memory_weight: f64,
}

/// Measures the attention of each head of each layer, in order; empty for a network without attention.
pub fn by_head(reader: &Reader, windows: &[Window]) -> Vec<HeadAttention> {
    let keep = RecordSelection {
        hidden_states: false,
        attentions: true,
        ..RecordSelection::default()
    };
    let mut sums: BTreeMap<(usize, usize), Sums> = BTreeMap::new();
    reader.last_segments(windows, keep, &mut |_, recorded| {
        let own = recorded.attentions.iter().filter(|(at, _)| !at.is_cross);
        for (at, weights) in own {
            add(&mut sums, at.layer, weights);
        }
    });
    let each = sums.into_iter();
    each.map(|((layer, head), sums)| sums.finish(layer, head))
        .collect()
}

/// Adds weights `[rows, heads, queries, keys]`, where the last query is at the last key.
fn add(sums: &mut BTreeMap<(usize, usize), Sums>, layer: usize, weights: &TensorData) {
    let [_, heads, queries, keys] = weights.shape()[..] else {
        unreachable!("attention weights have four dimensions")
    };
    let values: Vec<f32> = weights.iter().collect();
    let earlier = keys.saturating_sub(queries);
    for (number, row) in values.chunks(keys.max(1)).enumerate() {
        let (query, head) = (number % queries, number / queries % heads);
        let sums = sums.entry((layer, head)).or_default();
        sums.add(&row[..=(earlier + query).min(keys - 1)], earlier);
    }
}

impl Sums {
    /// Adds the weights of a query on the keys up to its own position, of which the first `earlier` are in earlier segments.
    fn add(&mut self, row: &[f32], earlier: usize) {
        let longest = self.weights.len().max(row.len());
        self.weights.resize(longest, 0.0);
        self.pairs.resize(longest, 0);
        let high = HIGH / row.len() as f64;
        for (distance, (key, weight)) in row.iter().enumerate().rev().enumerate() {
            let weight = f64::from(*weight);
            self.weights[distance] += weight;
            self.pairs[distance] += 1;
            self.distance += weight * distance as f64;
            let is_high = usize::from(weight > high);
            self.high += is_high;
            if key < earlier {
                self.memory_pairs += 1;
                self.memory_high += is_high;
                self.memory_weight += weight;
            }
        }
        self.queries += 1;
    }

    fn finish(self, layer: usize, head: usize) -> HeadAttention {
        let queries = self.queries as f64;
        let pairs: usize = self.pairs.iter().sum();
        let by_distance = self.weights.iter().zip(&self.pairs);
        HeadAttention {
            layer,
            head,
            by_distance: by_distance.map(|(sum, n)| sum / *n as f64).collect(),
            distance: self.distance / queries,
            high: self.high as f64 / pairs as f64,
            memory: (self.memory_pairs > 0).then(|| MemoryShare {
                high: self.memory_high as f64 / self.memory_pairs as f64,
                weight: self.memory_weight / queries,
            }),
        }
    }
}

/// Returns the mean weight over the distances `from..=to`.
pub fn between(head: &HeadAttention, from: usize, to: usize) -> f64 {
    let inside = &head.by_distance[from..=to];
    inside.iter().sum::<f64>() / inside.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two queries after one key of an earlier segment, computed by hand.
    #[test]
    fn weights_by_distance() {
        let values = vec![0.9f32, 0.1, 0.0, 0.7, 0.2, 0.1];
        let mut sums = BTreeMap::new();
        add(&mut sums, 3, &TensorData::new(values, [1, 1, 2, 3]));
        let head = sums.remove(&(3, 0)).unwrap().finish(3, 0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let wanted = [0.1, (0.9 + 0.2) / 2.0, 0.7];
        for (is, wanted) in head.by_distance.iter().zip(wanted) {
            assert!(near(*is, wanted), "{head:?}");
        }
        assert!(near(head.distance, (0.9 + 0.2 + 1.4) / 2.0));
        // Above 2/2 and above 2/3.
        assert!(near(head.high, 1.0 / 5.0));
        let memory = head.memory.unwrap();
        assert!(near(memory.high, 0.5) && near(memory.weight, 0.8));
        assert!(near(between(&head, 1, 2), (0.55 + 0.7) / 2.0));
    }
}
