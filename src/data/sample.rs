//! A random sample of a split that stands for the whole split. It is the same for every run and every seed,
//! so that evaluations are comparable.
//!
//! The first examples of a file are often from one source or of one length, so they are not representative.

use std::sync::Arc;

use super::{Item, Source};
use crate::error::Result;
use crate::rng::Permutation;

/// Seed and epoch of the draw; no run reaches this epoch.
const DRAW: (u64, u64) = (0, u64::MAX - 1);

/// Returns a predicate that tells whether an example is among the `count` of `len` that are sampled.
fn is_sampled(len: usize, count: usize) -> impl Fn(u64) -> bool {
    let order = Permutation::new(DRAW.0, DRAW.1, len as u64);
    move |number| order.at(number) < count as u64
}

/// Returns the numbers of the `count` sampled examples out of `len`, in ascending order.
pub fn sampled_numbers(len: usize, count: usize) -> Vec<u64> {
    let chosen = is_sampled(len, count);
    (0..len as u64).filter(|number| chosen(*number)).collect()
}

/// A split with the `count` sampled examples first: a pass that ends after them covers the sample, and one
/// that continues reads the rest.
pub struct SampleFirst {
    source: Arc<dyn Source>,
    order: Vec<u64>,
}

impl SampleFirst {
    /// Reorders the split.
    pub fn new(source: Arc<dyn Source>, count: usize) -> Self {
        let len = source.len();
        let chosen = is_sampled(len, count);
        let (mut order, rest): (Vec<u64>, Vec<u64>) =
            (0..len as u64).partition(|number| chosen(*number));
        order.extend(rest);
        Self { source, order }
    }
}

impl Source for SampleFirst {
    fn len(&self) -> usize {
        self.order.len()
    }

    // An evaluation sees an example as in a pass in order, so the draw is the sample's own number.
    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let number = self.order[sample as usize];
        self.source.get(number, number)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(self.source.as_ref())
    }

    fn inner_number(&self, sample: u64) -> u64 {
        self.order[sample as usize]
    }

    fn is_endless(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_drawn_from_everywhere_and_always_the_same() {
        let part = sampled_numbers(1000, 100);
        assert_eq!(part.len(), 100);
        assert!(part.is_sorted() && part == sampled_numbers(1000, 100));
        for hundreds in 0..10 {
            let within = part.iter().filter(|n| **n / 100 == hundreds).count();
            assert!(
                (1..30).contains(&within),
                "{within} of the {hundreds}th hundred"
            );
        }
        assert_eq!(sampled_numbers(7, 7), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(sampled_numbers(3, 9), [0, 1, 2]);
    }
}
