//! How well vectors find their partners among those of a whole split.
//!
//! The rank of a query is 1 and the number of other documents whose cosine with it is greater than its own document's; of those
//! with an equal cosine half are counted (Berrendorf et al., arXiv:2002.06914, section 3), so that vectors that are all alike
//! find nothing.
//!
//! ```text
//! recall_k   share of the queries of rank k or less
//! mrr        mean of 1 / rank
//! ```

use super::metric::Metric;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Share of the queries whose own document is the nearest of all.
pub const RECALL_1: Metric = Metric::higher("recall_1");
/// Share of those whose own document is among the ten nearest.
pub const RECALL_10: Metric = Metric::higher("recall_10");
/// Mean reciprocal rank.
pub const MRR: Metric = Metric::higher("mrr");

/// What is measured.
pub const METRICS: &[Metric] = &[RECALL_1, RECALL_10, MRR];

/// Directions of queries and of their documents, row by row. Neither the order of the pairs nor the cut into batches changes a
/// bit of what is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrieval {
    width: usize,
    /// The bits of the numbers: JSON between processes keeps every bit of whole numbers.
    queries: Vec<u32>,
    documents: Vec<u32>,
}

impl Retrieval {
    /// Of rows of `width` numbers, each of length 1.
    pub fn of(width: usize, queries: &[f32], documents: &[f32]) -> Self {
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect();
        Self {
            width,
            queries: bits(queries),
            documents: bits(documents),
        }
    }

    /// Adds those of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        self.width = self.width.max(other.width);
        self.queries.extend_from_slice(&other.queries);
        self.documents.extend_from_slice(&other.documents);
    }

    /// The rank of each query, from 1 on; a half more for each two documents that are as near as its own.
    pub fn ranks(&self) -> Vec<f64> {
        let numbers =
            |bits: &[u32]| -> Vec<f32> { bits.iter().map(|b| f32::from_bits(*b)).collect() };
        let (queries, documents) = (numbers(&self.queries), numbers(&self.documents));
        let width = self.width.max(1);
        let documents: Vec<&[f32]> = documents.chunks_exact(width).collect();
        let ranked = queries.par_chunks_exact(width).zip(&documents);
        ranked
            .map(|(query, own)| {
                let own = product(query, own);
                if own.is_nan() {
                    // A number that is none finds nothing.
                    return documents.len() as f64;
                }
                let (mut greater, mut equal) = (0usize, 0usize);
                for other in &documents {
                    let other = product(query, other);
                    greater += usize::from(other > own);
                    equal += usize::from(other == own);
                }
                // Its own document is one of the equal ones.
                1.0 + greater as f64 + (equal - 1) as f64 / 2.0
            })
            .collect()
    }

    /// The metrics of [`METRICS`], in their order; 0 of no query.
    pub fn metrics(&self) -> Vec<(Metric, f64)> {
        let mut ranks = self.ranks();
        ranks.sort_unstable_by(f64::total_cmp);
        let count = ranks.len().max(1) as f64;
        let within = |k: f64| ranks.iter().filter(|rank| **rank <= k).count() as f64 / count;
        let reciprocal: f64 = ranks.iter().map(|rank| 1.0 / rank).sum();
        vec![
            (RECALL_1, within(1.0)),
            (RECALL_10, within(10.0)),
            (MRR, reciprocal / count),
        ]
    }
}

/// Sums of a product that are added side by side.
const LANES: usize = 16;

/// The product of two rows; equal rows have equal products with any other.
fn product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (whole_a, whole_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = whole_a.remainder().iter().zip(whole_b.remainder());
    let rest: f32 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in whole_a.zip(whole_b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(queries: &[[f32; 2]], documents: &[[f32; 2]]) -> Retrieval {
        Retrieval::of(2, &queries.concat(), &documents.concat())
    }

    #[test]
    fn ranks_count_greater_cosines_and_half_of_equal_ones() {
        let queries = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]];
        // The first and the last document are equal.
        let documents = [[0.8, 0.6], [1.0, 0.0], [0.8, 0.6]];
        let found = of(&queries, &documents);
        assert_eq!(found.ranks(), [2.5, 3.0, 1.5]);
        let [recall_1, recall_10, mrr] = [0, 1, 2].map(|n| found.metrics()[n].1);
        assert_eq!((recall_1, recall_10), (0.0, 1.0));
        assert!((mrr - (1.0 / 2.5 + 1.0 / 3.0 + 1.0 / 1.5) / 3.0).abs() < 1e-12);
        let alike = of(&[[1.0, 0.0]; 50], &[[1.0, 0.0]; 50]);
        assert_eq!(alike.ranks(), [25.5; 50]);
        assert_eq!(alike.metrics()[1].1, 0.0);
    }

    #[test]
    fn parts_of_a_split_are_the_whole() {
        let (queries, documents) = ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]);
        let mut parts = of(&queries[..1], &documents[..1]);
        parts.merge(&of(&queries[1..], &documents[1..]));
        assert_eq!(parts, of(&queries, &documents));
        assert_eq!(parts.ranks(), [2.0, 2.0]);
    }

    #[test]
    fn numbers_that_are_none_find_nothing() {
        let found = of(&[[f32::NAN, 0.0], [0.0, 1.0]], &[[1.0, 0.0], [0.0, 1.0]]);
        assert_eq!(found.ranks(), [2.0, 1.0]);
        assert_eq!(Retrieval::default().metrics()[2].1, 0.0);
    }
}
