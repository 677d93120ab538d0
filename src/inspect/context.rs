//! The loss of a token as a function of its position: the number of tokens that the model has read before it.
//!
//! Positions are grouped into buckets that grow by √2 (1, 2, 3, 4, 5-6, 7-8, 9-11 …), so that they are equally wide on
//! a logarithmic axis.

use super::{Reader, Window};

/// A range of positions and the mean loss there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// First position; position n is that of a token preceded by n tokens.
    pub from: usize,
    /// Last position.
    pub to: usize,
    /// Mean loss in nats; NaN if no token is scored.
    pub loss: f64,
    /// Number of tokens averaged.
    pub tokens: usize,
}

impl Bucket {
    /// Returns the middle of its positions on a logarithmic axis.
    pub fn middle(&self) -> f64 {
        (self.from as f64 * self.to as f64).sqrt()
    }
}

/// Returns buckets `(first, last)` of the positions 1 to `longest`.
pub fn buckets(longest: usize) -> Vec<(usize, usize)> {
    let (mut all, mut from) = (Vec::new(), 1);
    for half_doublings in 0.. {
        if from > longest {
            break;
        }
        let to = f64::sqrt(2.0).powi(half_doublings).round() as usize;
        if to < from {
            continue;
        }
        all.push((from, to.min(longest)));
        from = to + 1;
    }
    all
}

/// Computes mean losses by position over windows of equal length, of which the model reads as much as it can.
pub fn by_position(reader: &Reader, windows: &[Window]) -> Vec<Bucket> {
    let longest = windows.first().map_or(0, |w| reader.tokens_read(w.len()));
    let losses = reader.losses(windows, longest, longest);
    let mut sums = vec![(0.0, 0); longest + 1];
    for (window, losses) in windows.iter().zip(&losses) {
        let first = window.len() - longest;
        let mut begin = first;
        for (at, loss) in (first + 1..).zip(losses) {
            if loss.is_nan() {
                begin = at;
                continue;
            }
            let sum = &mut sums[at - begin];
            *sum = (sum.0 + loss, sum.1 + 1);
        }
    }
    let each = buckets(longest).into_iter();
    each.map(|(from, to)| {
        let inside = &sums[from..=to];
        let loss: f64 = inside.iter().map(|sum| sum.0).sum();
        let tokens = inside.iter().map(|sum| sum.1).sum();
        Bucket {
            from,
            to,
            loss: loss / tokens as f64,
            tokens,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_position_once() {
        let first = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (7, 8), (9, 11)];
        assert_eq!(buckets(11), first);
        assert_eq!(buckets(10).last(), Some(&(9, 10)));
        for longest in [1, 2, 7, 100, 4097] {
            let all: Vec<usize> = buckets(longest)
                .into_iter()
                .flat_map(|(from, to)| from..=to)
                .collect();
            assert_eq!(all, (1..=longest).collect::<Vec<_>>());
        }
    }
}
