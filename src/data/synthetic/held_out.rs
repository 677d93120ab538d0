//! Held-out sets of generators. Whether a generated thing is held out is decided by its hash, so that
//! training never shows a held-out one, whatever its seed, order or length. Held-out sets are fixed: the same
//! for every seed.

use crate::data::Split;
use crate::error::Error;
use crate::rng::{Purpose, Stream, mix};
use std::collections::HashSet;
use std::hash::Hash;

/// Seed of the held-out sets; training draws by the run's seed.
pub(super) const FIXED_SEED: u64 = 0;
/// Number of draws after which a generator is assumed to have no further thing of the wanted split.
const MAX_DRAWS: usize = 10_000;
/// Length of one pass over things that are drawn without end.
pub(super) const PASS: usize = 10_000;

/// The sizes of the held-out sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// Share of all problems that is kept from training for each non-empty held-out set.
    pub share: f64,
    /// Maximum number of validation items.
    pub valid_items: usize,
    /// Maximum number of test items.
    pub test_items: usize,
}

impl HeldOut {
    /// Returns the split that a problem belongs to.
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

    /// Returns the maximum number of items in a split; for training, the length of one pass.
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

    /// Returns the held-out set of a split: different things, in the order in which a fixed stream of the
    /// generator's `site` draws them. `key` decides the split of a thing, `identity` which things are the
    /// same.
    pub(super) fn fixed<T, I: Eq + Hash>(
        &self,
        (split, site): (Split, u64),
        mut draw: impl FnMut(&mut Stream) -> T,
        key: impl Fn(&T) -> u64,
        identity: impl Fn(&T) -> I,
    ) -> Vec<T> {
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, (0, split as u64, site));
        let (mut seen, mut set, mut in_vain) = (HashSet::new(), Vec::new(), 0);
        while set.len() < self.items(split) && in_vain < MAX_DRAWS {
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

    /// Returns the first training thing that a stream draws; `None` if there is hardly any.
    pub(super) fn first_of_training<T>(
        &self,
        stream: &mut Stream,
        mut draw: impl FnMut(&mut Stream) -> T,
        key: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let mut drawn = (0..MAX_DRAWS).map(|_| draw(stream));
        drawn.find(|thing| self.split(key(thing)) == Split::Train)
    }

    /// Returns the faults of the sizes.
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

/// Returns a key from a problem's text.
pub fn key(text: &str) -> u64 {
    text.bytes()
        .fold(0x0F0C_AB1E, |key, byte| mix(key ^ u64::from(byte)))
}

/// Returns the error of a split for which `held_out` leaves nothing; `called` names the things.
pub(super) fn too_few(called: &str, split: Split) -> Error {
    Error::usage(format!(
        "[data] held_out leaves no {called} for the {} split; choose another share",
        split.name()
    ))
}
