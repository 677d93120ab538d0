//! Which examples a step takes: a function of (seed, step).
//!
//! Batches of a fixed number of examples take them in the order of each epoch's permutation. Batches of a
//! fixed number of tokens first group examples of similar length: the permutation is divided into pools of
//! about 64 batches; each pool is sorted by length and divided into batches that, padded to their longest
//! row, stay within the token budget; then the batches are shuffled (Ott et al. 2018, fairseq, batch within a
//! budget of tokens; Marian's maxi-batches).

use super::Source;
use super::lanes;
use crate::rng::Permutation;

/// The size of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// Number of examples.
    Items(usize),
    /// Token budget: as many examples as fit when all are padded to the longest (of pairs, on the longer
    /// side), and at least one.
    Tokens(usize),
}

/// An example that a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRef {
    /// Number of the example in its source.
    pub sample: u64,
    /// Number of examples that the run took before this one, or another number that is unique in the run.
    pub draw: u64,
    /// Whether the row's text begins with this example rather than continuing where the example of the
    /// previous step ended; `None` if rows of different steps are unrelated.
    pub begins_text: Option<bool>,
}

/// Number of batches whose examples are sorted by length together.
const POOL: usize = 64;

/// The order of a source's examples.
#[derive(Debug)]
pub struct Order {
    seed: u64,
    size: BatchSize,
    /// Whether rows continue from step to step.
    lanes: bool,
    /// Number of consecutive steps that take the same examples.
    repeats: u64,
    /// For batches by tokens: an epoch, its first step, and its batches.
    epoch: Option<(u64, u64, Vec<Vec<u64>>)>,
}

impl Order {
    /// Returns the order of a run.
    pub fn new(seed: u64, size: BatchSize) -> Self {
        Self {
            seed,
            size,
            lanes: false,
            repeats: 1,
            epoch: None,
        }
    }

    /// Returns the order of `count` lanes, each of which reads its own share of the examples.
    pub fn lanes(count: usize) -> Self {
        Self {
            lanes: true,
            ..Self::new(0, BatchSize::Items(count))
        }
    }

    /// Returns the same order with every batch taken in `repeats` consecutive steps; the first of them begins
    /// the texts of its rows.
    #[must_use]
    pub fn repeated(self, repeats: u64) -> Self {
        Self {
            repeats: repeats.max(1),
            ..self
        }
    }

    /// Returns the number of lanes; `None` if steps are independent of each other.
    pub fn lane_count(&self) -> Option<usize> {
        match self.size {
            BatchSize::Items(count) if self.lanes => Some(count),
            BatchSize::Items(_) | BatchSize::Tokens(_) => None,
        }
    }

    /// Returns the examples of step `step`; the source must not be empty.
    pub fn step(&mut self, source: &dyn Source, step: u64) -> Vec<SampleRef> {
        if self.repeats == 1 {
            return self.distinct_step(source, step);
        }
        let begins = Some(step.is_multiple_of(self.repeats));
        let taken = self.distinct_step(source, step / self.repeats).into_iter();
        taken
            .map(|one| SampleRef {
                begins_text: begins,
                ..one
            })
            .collect()
    }

    /// Returns the examples of step `step`, counting repeated steps once.
    fn distinct_step(&mut self, source: &dyn Source, step: u64) -> Vec<SampleRef> {
        match self.size {
            BatchSize::Items(count) if self.lanes => {
                lanes::step(source.len() as u64, count as u64, step)
            }
            BatchSize::Items(count) => self.items(source, count as u64, step),
            BatchSize::Tokens(budget) => self.tokens(source, budget, step),
        }
    }

    /// Returns the number of passes over the source after step `step`, which must be the one that
    /// [`Self::step`] returned last: 1.5 in the middle of the second pass.
    pub fn epoch_after(&self, source: &dyn Source, step: u64) -> f64 {
        let step = step / self.repeats;
        match (self.size, &self.epoch) {
            (BatchSize::Items(count), _) => {
                (step + 1) as f64 * count as f64 / source.len().max(1) as f64
            }
            (BatchSize::Tokens(_), Some((epoch, first, batches))) => {
                *epoch as f64 + (step + 1).saturating_sub(*first) as f64 / batches.len() as f64
            }
            (BatchSize::Tokens(_), None) => 0.0,
        }
    }

    /// Returns the number of steps in `epochs` passes over the source, rounded up.
    pub fn steps_in(&self, source: &dyn Source, epochs: f64) -> u64 {
        // A rounding error must not add a step.
        let whole = |steps: f64| (steps - 1e-6).ceil().max(0.0) as u64;
        let steps = match self.size {
            BatchSize::Items(count) => whole(epochs * source.len() as f64 / count.max(1) as f64),
            BatchSize::Tokens(budget) => {
                let batches = |epoch| self.batches(source, budget, epoch).len();
                let passes = (0..epochs as u64).map(|epoch| batches(epoch) as u64);
                let steps: u64 = passes.sum();
                match epochs.fract() {
                    0.0 => steps,
                    part => steps + whole(part * batches(epochs as u64) as f64),
                }
            }
        };
        steps * self.repeats
    }

    fn items(&self, source: &dyn Source, count: u64, step: u64) -> Vec<SampleRef> {
        let numbers = step * count..(step + 1) * count;
        let len = source.len() as u64;
        let mut order = None;
        let place = |number: u64| {
            if source.is_endless() {
                return number;
            }
            let epoch = number / len;
            let (at, permutation) =
                order.get_or_insert_with(|| (epoch, Permutation::new(self.seed, epoch, len)));
            if *at != epoch {
                (*at, *permutation) = (epoch, Permutation::new(self.seed, epoch, len));
            }
            permutation.at(number % len)
        };
        let samples: Vec<u64> = numbers.clone().map(place).collect();
        let taken = samples.into_iter().zip(numbers);
        taken
            .map(|(sample, draw)| SampleRef::independent(sample, draw))
            .collect()
    }

    fn tokens(&mut self, source: &dyn Source, budget: usize, step: u64) -> Vec<SampleRef> {
        let len = source.len() as u64;
        // For a step before the current epoch, start again from the first epoch.
        let known = self.epoch.take().filter(|(_, first, _)| *first <= step);
        let (mut epoch, mut first, mut batches) =
            known.unwrap_or_else(|| (0, 0, self.batches(source, budget, 0)));
        while step - first >= batches.len() as u64 {
            first += batches.len() as u64;
            epoch += 1;
            batches = self.batches(source, budget, epoch);
        }
        let draw = |sample: u64| match source.is_endless() {
            true => sample,
            false => epoch * len + sample,
        };
        let taken = batches[(step - first) as usize]
            .iter()
            .map(|&sample| SampleRef::independent(sample, draw(sample)))
            .collect();
        self.epoch = Some((epoch, first, batches));
        taken
    }

    /// Returns the batches of an epoch, at least one. If the source draws its examples, each epoch has its
    /// own.
    fn batches(&self, source: &dyn Source, budget: usize, epoch: u64) -> Vec<Vec<u64>> {
        let len = source.len() as u64;
        let order = Permutation::new(self.seed, epoch, len);
        let examples = (0..len).map(|i| match source.is_endless() {
            true => epoch * len + i,
            false => order.at(i),
        });
        let mut batches = Vec::new();
        let (mut pool, mut tokens) = (Vec::new(), 0);
        for sample in examples {
            let size = source.size(sample);
            pool.push((size, sample));
            tokens += size;
            if tokens >= budget.saturating_mul(POOL) {
                split_pool(std::mem::take(&mut pool), budget, &mut batches);
                tokens = 0;
            }
        }
        split_pool(pool, budget, &mut batches);
        let count = batches.len() as u64;
        // A different permutation from that of the examples, for any number of epochs that a run may have.
        let order = Permutation::new(self.seed, epoch | 1 << 63, count.max(1));
        let mut shuffled: Vec<Vec<u64>> = vec![Vec::new(); batches.len()];
        for (place, batch) in batches.into_iter().enumerate() {
            shuffled[order.at(place as u64) as usize] = batch;
        }
        shuffled
    }
}

impl SampleRef {
    /// An example in a row that does not continue from step to step.
    pub fn independent(sample: u64, draw: u64) -> Self {
        Self {
            sample,
            draw,
            begins_text: None,
        }
    }
}

/// Divides a pool of (size, example) pairs into batches of similar sizes.
fn split_pool(mut pool: Vec<(usize, u64)>, budget: usize, batches: &mut Vec<Vec<u64>>) {
    // A stable sort: equal sizes stay in the order of the permutation.
    pool.sort_by_key(|(size, _)| *size);
    let mut batch = Vec::new();
    for (size, sample) in pool {
        // Sizes ascend, so the newest example is the longest.
        if !batch.is_empty() && (batch.len() + 1) * size.max(1) > budget {
            batches.push(std::mem::take(&mut batch));
        }
        batch.push(sample);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
}

#[cfg(test)]
mod tests;
