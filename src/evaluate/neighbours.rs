//! k-nearest-neighbour accuracy: how well the class of an example is predicted by its nearest neighbours (Wu et al.
//! 2018, "Unsupervised feature learning via non-parametric instance discrimination", section 3.4; Caron et al. 2021,
//! section 4.1).
//!
//! Each example of a split is left out in turn. The 20 other examples with the highest cosines vote for their class,
//! each with the weight e^(cosine / 0.07). On a tie of votes the class with the lower number wins; on a tie of cosines
//! the earlier example is nearer. Nothing is trained, so that only the embeddings are measured.

use super::metric::Metric;
use super::retrieval::dot_product;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Share of the examples whose class is predicted right by their neighbours.
pub const KNN_ACCURACY: Metric = Metric::higher("knn_accuracy");

/// Number of neighbours that vote.
const VOTERS: usize = 20;
/// Temperature of the votes.
const TEMPERATURE: f64 = 0.07;

/// Normalised embeddings of examples, with their classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnnEmbeddings {
    width: usize,
    /// Bits of the numbers: JSON between processes keeps integers exactly.
    directions: Vec<u32>,
    classes: Vec<i32>,
}

impl KnnEmbeddings {
    /// Normalises rows of `width` numbers; `classes` has the class of each row.
    pub fn new(width: usize, rows: &[f32], classes: &[i32]) -> Self {
        let directions = rows.chunks_exact(width.max(1)).flat_map(|row| {
            let length = row
                .iter()
                .map(|x| f64::from(*x).powi(2))
                .sum::<f64>()
                .sqrt();
            row.iter()
                .map(move |x| (f64::from(*x) / length.max(f64::MIN_POSITIVE)) as f32)
        });
        Self {
            width,
            directions: directions.map(f32::to_bits).collect(),
            classes: classes.to_vec(),
        }
    }

    /// Adds the examples of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        self.width = self.width.max(other.width);
        self.directions.extend_from_slice(&other.directions);
        self.classes.extend_from_slice(&other.classes);
    }

    /// Returns the share of the examples whose class is predicted right by their neighbours; 0 with fewer than two
    /// examples.
    pub fn accuracy(&self) -> f64 {
        let numbers = self.directions.iter().map(|bits| f32::from_bits(*bits));
        let numbers: Vec<f32> = numbers.collect();
        let rows: Vec<&[f32]> = numbers.chunks_exact(self.width.max(1)).collect();
        if rows.len() < 2 {
            return 0.0;
        }
        let right = (0..rows.len())
            .into_par_iter()
            .filter(|own| self.predict(&rows, *own) == Some(self.classes[*own]))
            .count();
        right as f64 / rows.len() as f64
    }

    /// Returns the class that the neighbours of an example predict.
    fn predict(&self, rows: &[&[f32]], own: usize) -> Option<i32> {
        let others = rows.iter().enumerate().filter(|(at, _)| *at != own);
        let mut others: Vec<(f32, usize)> = others
            .map(|(at, row)| (dot_product(rows[own], row), at))
            .filter(|(cosine, _)| !cosine.is_nan())
            .collect();
        let nearer = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if others.len() > VOTERS {
            others.select_nth_unstable_by(VOTERS - 1, nearer);
            others.truncate(VOTERS);
        }
        // Sort them, so that the sums of votes do not depend on the selection algorithm.
        others.sort_unstable_by(nearer);
        let mut votes: Vec<(i32, f64)> = Vec::new();
        for (cosine, at) in others {
            let vote = (f64::from(cosine) / TEMPERATURE).exp();
            match votes
                .iter_mut()
                .find(|(class, _)| *class == self.classes[at])
            {
                Some((_, sum)) => *sum += vote,
                None => votes.push((self.classes[at], vote)),
            }
        }
        let most = votes
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        most.map(|(class, _)| class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_others_tell_a_class() {
        // Two clusters of embeddings of any length, and one stray in the wrong cluster.
        let rows = [
            [1.0, 0.1],
            [5.0, 0.0],
            [2.0, -0.1],
            [0.0, 3.0],
            [0.2, 2.0],
            [0.1, 9.0],
        ];
        let classes = [4, 4, 4, 7, 7, 7];
        let found = KnnEmbeddings::new(2, &rows.concat(), &classes);
        assert_eq!(found.accuracy(), 1.0);
        let mut strays = found.clone();
        strays.merge(&KnnEmbeddings::new(2, &[1.0, 0.0], &[7]));
        assert_eq!(strays.accuracy(), 6.0 / 7.0);
    }

    #[test]
    fn votes_are_counted_by_hand() {
        // The cosines of the first row with the others are 0.9, 0.8 and 0.8: e^(0.9/T) against 2 e^(0.8/T), T = 0.07.
        let of = |cosine: f32| [cosine, (1.0 - cosine * cosine).sqrt()];
        let rows = [[1.0, 0.0], of(0.9), of(0.8), of(0.8)];
        let found = KnnEmbeddings::new(2, &rows.concat(), &[1, 1, 2, 2]);
        let numbers: Vec<f32> = rows.concat();
        let rows: Vec<&[f32]> = numbers.chunks_exact(2).collect();
        // e^(0.1/0.07) = 4.17 is more than 2.
        assert_eq!(found.predict(&rows, 0), Some(1));
    }

    #[test]
    fn parts_of_a_split_are_the_whole_and_nothing_tells_nothing() {
        let rows: Vec<f32> = (0..60).map(|n| (n * n % 17) as f32 - 8.0).collect();
        let classes: Vec<i32> = (0..30).map(|n| n % 3).collect();
        let whole = KnnEmbeddings::new(2, &rows, &classes);
        let mut parts = KnnEmbeddings::new(2, &rows[..20], &classes[..10]);
        parts.merge(&KnnEmbeddings::new(2, &rows[20..], &classes[10..]));
        assert_eq!(parts, whole);
        assert!((0.0..=1.0).contains(&whole.accuracy()));
        assert_eq!(KnnEmbeddings::default().accuracy(), 0.0);
        assert_eq!(KnnEmbeddings::new(2, &[1.0, 2.0], &[0]).accuracy(), 0.0);
        let strange = KnnEmbeddings::new(1, &[f32::NAN, 1.0, 1.0], &[0, 1, 1]);
        assert_eq!(strange.accuracy(), 2.0 / 3.0);
    }
}
