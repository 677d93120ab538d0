//! Retrieval metrics: how well embeddings find their partners among those of a whole split.
//!
//! The rank of a query is 1 plus the number of other documents whose cosine with it is higher than that of its own
//! document. Documents with an equal cosine count half (Berrendorf et al., arXiv:2002.06914, section 3), so that
//! identical embeddings find nothing. Documents with the same text are one document, whose cosine is the maximum of
//! theirs: any of them is a right result, and copies of a wrong one count once. If all documents have the same text,
//! nothing is found.
//!
//! ```text
//! recall_k   share of the queries of rank k or less
//! mrr        mean of 1 / rank
//! ```

use super::metric::Metric;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Share of the queries whose own document is the nearest.
pub const RECALL_1: Metric = Metric::higher("recall_1");
/// Share of the queries whose own document is among the ten nearest.
pub const RECALL_10: Metric = Metric::higher("recall_10");
/// Mean reciprocal rank.
pub const MRR: Metric = Metric::higher("mrr");

/// Metrics of queries that look for their documents.
pub const METRICS: &[Metric] = &[RECALL_1, RECALL_10, MRR];

/// Metrics of images that look for their texts, and of texts that look for their images.
pub const IMAGE_TEXT: &[Metric] = &[
    Metric::higher("image_to_text_recall_1"),
    Metric::higher("image_to_text_recall_10"),
    Metric::higher("text_to_image_recall_1"),
    Metric::higher("text_to_image_recall_10"),
];

/// Normalised embeddings of queries and of their documents, row by row. Neither the order of the pairs nor the cut into
/// batches changes any bit of the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrieval {
    width: usize,
    /// Bits of the numbers: JSON between processes keeps integers exactly.
    queries: Vec<u32>,
    documents: Vec<u32>,
    /// Hash of each document's text; documents with equal hashes have the same text.
    texts: Vec<u64>,
}

impl Retrieval {
    /// Builds the collection from rows of `width` numbers, each of length 1, and a hash of each document's text.
    pub fn new(width: usize, queries: &[f32], documents: &[f32], texts: Vec<u64>) -> Self {
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect();
        Self {
            width,
            queries: bits(queries),
            documents: bits(documents),
            texts,
        }
    }

    /// Adds the pairs of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        self.width = self.width.max(other.width);
        self.queries.extend_from_slice(&other.queries);
        self.documents.extend_from_slice(&other.documents);
        self.texts.extend_from_slice(&other.texts);
    }

    /// Returns the rank of each query, counted from 1; every other text that is as near as its own adds one half.
    pub fn ranks(&self) -> Vec<f64> {
        let numbers =
            |bits: &[u32]| -> Vec<f32> { bits.iter().map(|b| f32::from_bits(*b)).collect() };
        let (queries, documents) = (numbers(&self.queries), numbers(&self.documents));
        let width = self.width.max(1);
        let (texts, count) = self.numbered_texts();
        let documents: Vec<(&[f32], usize)> = documents.chunks_exact(width).zip(texts).collect();
        let ranked = queries.par_chunks_exact(width).zip(&documents);
        ranked
            .map(|(query, (own, text))| {
                if dot_product(query, own).is_nan() {
                    // A query with NaN finds nothing.
                    return count as f64;
                }
                let mut nearest = vec![f32::NEG_INFINITY; count];
                for (document, text) in &documents {
                    nearest[*text] = nearest[*text].max(dot_product(query, document));
                }
                let own = nearest[*text];
                let greater = nearest.iter().filter(|other| **other > own).count();
                // Its own text is among the equal ones.
                let equal = nearest.iter().filter(|other| **other == own).count() - 1;
                1.0 + greater as f64 + equal as f64 / 2.0
            })
            .collect()
    }

    /// Numbers each document's text from 0; also returns the number of distinct texts.
    fn numbered_texts(&self) -> (Vec<usize>, usize) {
        let mut known: HashMap<u64, usize> = HashMap::new();
        let number = |text: &u64| {
            let next = known.len();
            *known.entry(*text).or_insert(next)
        };
        let texts = self.texts.iter().map(number).collect();
        (texts, known.len())
    }

    /// Returns the metrics of [`METRICS`], in their order; 0 without queries, or if all documents have the same text.
    pub fn metrics(&self) -> Vec<(Metric, f64)> {
        let told_apart = self.texts.iter().any(|text| *text != self.texts[0]);
        let mut ranks = if told_apart { self.ranks() } else { Vec::new() };
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

impl Retrieval {
    /// Returns the metrics of [`IMAGE_TEXT`], in their order, for images as queries and their texts as documents.
    /// Images with the same text are one document.
    pub fn image_text_metrics(&self) -> Vec<(Metric, f64)> {
        let back = Self {
            queries: self.documents.clone(),
            documents: self.queries.clone(),
            ..self.clone()
        };
        let ways = [self, &back].map(|way| {
            let found = way.metrics();
            [found[0].1, found[1].1]
        });
        let named = IMAGE_TEXT.iter().copied();
        named.zip(ways.concat()).collect()
    }
}

/// Number of partial sums of a dot product that are added in parallel.
const LANES: usize = 16;

/// Returns the dot product of two rows; equal rows have equal products with any other row.
pub(super) fn dot_product(a: &[f32], b: &[f32]) -> f32 {
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

    /// Builds a collection of documents with different texts.
    fn of(queries: &[[f32; 2]], documents: &[[f32; 2]]) -> Retrieval {
        let texts = (0..documents.len() as u64).collect();
        Retrieval::new(2, &queries.concat(), &documents.concat(), texts)
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
    fn documents_of_one_text_are_one() {
        let documents = [[0.8, 0.6], [0.0, 1.0], [0.8, 0.6]].concat();
        let queries = [[0.8, 0.6]; 3].concat();
        let found = Retrieval::new(2, &queries, &documents, vec![7, 8, 7]);
        assert_eq!(found.ranks(), [1.0, 2.0, 1.0]);
        // Among several documents with its own text, the nearest one counts.
        let documents = [[0.0, 1.0], [0.6, 0.8], [1.0, 0.0]].concat();
        let queries = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]].concat();
        let found = Retrieval::new(2, &queries, &documents, vec![7, 8, 7]);
        assert_eq!(found.ranks(), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn among_documents_of_one_text_nothing_is_found() {
        let documents = [[0.8, 0.6], [0.0, 1.0]].concat();
        let found = Retrieval::new(2, &documents, &documents, vec![7, 7]);
        assert!(found.metrics().iter().all(|(_, value)| *value == 0.0));
        assert!(
            found
                .image_text_metrics()
                .iter()
                .all(|(_, value)| *value == 0.0)
        );
    }

    #[test]
    fn parts_of_a_split_are_the_whole() {
        let (queries, documents) = ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]);
        let part = |n: usize| Retrieval::new(2, &queries[n], &documents[n], vec![n as u64]);
        let mut parts = part(0);
        parts.merge(&part(1));
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
