//! What training never sees: of all things that a generator draws some are held out, by a hash of the thing itself, so that no seed,
//! order or length of training ever shows a held-out one. Held-out sets are fixed: the same for every seed.

use crate::data::Split;
use crate::error::Error;
use crate::rng::{Purpose, Stream, mix};
use std::collections::HashSet;
use std::hash::Hash;

/// Training draws by the run's seed, held-out sets by this one.
pub(super) const FIXED_SEED: u64 = 0;
/// Draws before a generator is taken to have no further thing of the wanted split.
const PATIENCE: usize = 10_000;
/// The length of one pass over things that are drawn, of which there is no end.
pub(super) const PASS: usize = 10_000;

/// The sizes of the held-out sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// Share of all problems kept from training for each set that is not empty.
    pub share: f64,
    /// Validation items at most.
    pub valid_items: usize,
    /// Test items at most.
    pub test_items: usize,
}

impl HeldOut {
    /// Where a problem belongs.
    pub fn split(&self, key: u64) -> Split {
        let place = mix(key) as f64 / u64::MAX as f64;
        let valid = if self.valid_items > 0 {
            self.share
        } else {
            0.0
        };
        let test = if self.test_items > 0 { self.share } else { 0.0 };
        if place < valid {
            Split::Valid
        } else if place < valid + test {
            Split::Test
        } else {
            Split::Train
        }
    }

    /// Items of a split at most; of training those of one pass.
    pub fn items(&self, split: Split) -> usize {
        match split {
            Split::Train => PASS,
            Split::Valid => self.valid_items,
            Split::Test => self.test_items,
        }
    }

    /// Whether there is such a split.
    pub fn has(&self, split: Split) -> bool {
        self.items(split) > 0
    }

    /// The held-out set of a split: different things, in the order in which a fixed stream of the generator's `site` draws them. `key`
    /// decides where one belongs, `identity` which are the same.
    pub(super) fn fixed<T, I: Eq + Hash>(
        &self,
        (split, site): (Split, u64),
        mut draw: impl FnMut(&mut Stream) -> T,
        key: impl Fn(&T) -> u64,
        identity: impl Fn(&T) -> I,
    ) -> Vec<T> {
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, (0, split as u64, site));
        let (mut seen, mut set, mut in_vain) = (HashSet::new(), Vec::new(), 0);
        while set.len() < self.items(split) && in_vain < PATIENCE {
            let thing = draw(&mut stream);
            if self.split(key(&thing)) == split && seen.insert(identity(&thing)) {
                set.push(thing);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        set
    }

    /// The first thing to train on that a stream draws; `None` where hardly any is one.
    pub(super) fn first_of_training<T>(
        &self,
        stream: &mut Stream,
        mut draw: impl FnMut(&mut Stream) -> T,
        key: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let mut drawn = (0..PATIENCE).map(|_| draw(stream));
        drawn.find(|thing| self.split(key(thing)) == Split::Train)
    }

    /// Faults of the sizes.
    pub fn faults(&self) -> Vec<String> {
        let sets = [self.valid_items, self.test_items]
            .iter()
            .filter(|n| **n > 0)
            .count();
        if self.share > 0.0 && self.share * (sets as f64) < 1.0 {
            Vec::new()
        } else {
            vec![format!(
                "[data] held_out = {} must be above 0 and leave problems to train on",
                self.share
            )]
        }
    }
}

/// A key from a problem's text.
pub fn key(text: &str) -> u64 {
    text.bytes()
        .fold(0x0F0C_AB1E, |key, byte| mix(key ^ u64::from(byte)))
}

/// The error of a split without any of these, of which `held_out` decides.
pub(super) fn too_few(called: &str, split: Split) -> Error {
    Error::usage(format!(
        "[data] held_out leaves no {called} for the {} split; choose another share",
        split.name()
    ))
}
