//! Correlations between predicted and true numbers, equal to SciPy's `pearsonr` and `spearmanr`.
//!
//! ```text
//! Pearson r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)                        (0 where undefined)
//! Spearman ρ = r of the ranks; equal numbers share the mean of their ranks
//! ```

use serde::{Deserialize, Serialize};

/// Predicted and true numbers. Pairs are sorted before they are summed, so that scores are the same bit for bit in any
/// order of the examples and with any cut into batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberPairs {
    /// Bits of the true and of the predicted number: JSON between processes keeps integers exactly.
    pairs: Vec<[u32; 2]>,
}

impl NumberPairs {
    /// Adds the prediction of one example.
    pub fn add(&mut self, truth: f32, predicted: f32) {
        self.pairs.push([truth.to_bits(), predicted.to_bits()]);
    }

    /// Adds the predictions of another part of the split.
    pub fn merge(&mut self, other: &Self) {
        self.pairs.extend_from_slice(&other.pairs);
    }

    /// Returns Pearson's correlation; 0 if either side is constant, NaN if a number is NaN.
    pub fn pearson(&self) -> f64 {
        let [truth, predicted] = self.columns();
        pearson(&truth, &predicted)
    }

    /// Returns Spearman's rank correlation; 0 if either side is constant, NaN if a number is NaN.
    pub fn spearman(&self) -> f64 {
        let [truth, predicted] = self.columns();
        if truth.iter().chain(&predicted).any(|x| x.is_nan()) {
            return f64::NAN;
        }
        pearson(&ranks(&truth), &ranks(&predicted))
    }

    fn columns(&self) -> [Vec<f64>; 2] {
        let value = |bits: u32| f64::from(f32::from_bits(bits));
        let mut pairs: Vec<[f64; 2]> = self.pairs.iter().map(|pair| pair.map(value)).collect();
        pairs.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        [0, 1].map(|side| pairs.iter().map(|pair| pair[side]).collect())
    }
}

fn pearson(x: &[f64], y: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (of_x, of_y) = (mean(x), mean(y));
    let (mut both, mut squares) = (0.0, [0.0; 2]);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - of_x, y - of_y);
        both += x * y;
        squares[0] += x * x;
        squares[1] += y * y;
    }
    let scale = (squares[0] * squares[1]).sqrt();
    match scale == 0.0 {
        true => 0.0,
        false => (both / scale).clamp(-1.0, 1.0),
    }
}

/// Returns the rank of each number, counted from 1; equal numbers share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let before = equal.first().map_or(0, |first| {
            order.partition_point(|other| values[*other] < values[*first])
        });
        let rank = before as f64 + (equal.len() + 1) as f64 / 2.0;
        for place in equal {
            ranks[*place] = rank;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(f32, f32)]) -> NumberPairs {
        let mut numbers = NumberPairs::default();
        for (truth, predicted) in pairs {
            numbers.add(*truth, *predicted);
        }
        numbers
    }

    #[test]
    fn equal_numbers_share_a_rank() {
        assert_eq!(
            ranks(&[3.0, 1.0, 3.0, -0.0, 0.0]),
            [4.5, 3.0, 4.5, 1.5, 1.5]
        );
    }

    #[test]
    fn constants_have_no_correlation_and_lines_have_all_of_it() {
        let constant = of(&[(1.0, 2.0), (3.0, 2.0)]);
        assert_eq!((constant.pearson(), constant.spearman()), (0.0, 0.0));
        let falling = of(&[(1.0, 5.0), (2.0, 3.0), (3.0, 1.0)]);
        assert_eq!((falling.pearson(), falling.spearman()), (-1.0, -1.0));
        assert!(of(&[(1.0, f32::NAN), (2.0, 1.0)]).spearman().is_nan());
        assert_eq!(NumberPairs::default().pearson(), 0.0);
    }

    #[test]
    fn the_order_of_examples_changes_no_bit() {
        let pairs = [(0.1, 0.7), (0.4, 0.2), (0.3, 0.9), (0.4, 0.1)];
        let mut back = pairs;
        back.reverse();
        assert_eq!(
            of(&pairs).pearson().to_bits(),
            of(&back).pearson().to_bits()
        );
    }
}
