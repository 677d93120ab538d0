//! Which examples a step takes: a function of (seed, step).
//!
//! Batches of so many examples take them in the order of each epoch's permutation. Batches of so many tokens
//! first put examples of like length together: the permutation is cut into pools of 64 batches or so, a pool is
//! sorted by length and cut into batches whose rows, filled up to the longest, hold no more than the budget, and
//! the batches are shuffled (Ott et al. 2018, fairseq, batch within a budget of tokens; Marian's maxi-batches).

use super::Source;
use super::lanes;
use crate::rng::Permutation;

/// How large a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// So many examples.
    Items(usize),
    /// As many examples as hold this many tokens when all are as long as the longest, of pairs on the longer
    /// side; one at least.
    Tokens(usize),
}

/// An example that a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its number in the source.
    pub sample: u64,
    /// How many examples the run had taken before it, or a number that no other one of the run has.
    pub draw: u64,
    /// Whether the row's text begins with it, rather than going on where the example of the step before ended; `None`
    /// where rows of different steps have nothing to do with each other.
    pub begins: Option<bool>,
}

/// Batches of tokens that are sorted by length together.
const POOL: usize = 64;

/// The order of a source's examples.
#[derive(Debug)]
pub struct Order {
    seed: u64,
    size: BatchSize,
    /// Whether rows continue from step to step.
    lanes: bool,
    /// Consecutive steps that take the same examples.
    repeats: u64,
    /// Of batches of tokens: an epoch, its first step, its batches.
    epoch: Option<(u64, u64, Vec<Vec<u64>>)>,
}

impl Order {
    /// The order of a run.
    pub fn new(seed: u64, size: BatchSize) -> Self {
        Self {
            seed,
            size,
            lanes: false,
            repeats: 1,
            epoch: None,
        }
    }

    /// So many lanes, each through its own share.
    pub fn lanes(count: usize) -> Self {
        Self {
            lanes: true,
            ..Self::new(0, BatchSize::Items(count))
        }
    }

    /// The same, in which so many consecutive steps take the same examples; the first of them begins the texts of its rows.
    #[must_use]
    pub fn repeated(self, repeats: u64) -> Self {
        Self {
            repeats: repeats.max(1),
            ..self
        }
    }

    /// How many lanes it has; `None` when steps are independent of each other.
    pub fn lane_count(&self) -> Option<usize> {
        match self.size {
            BatchSize::Items(count) if self.lanes => Some(count),
            BatchSize::Items(_) | BatchSize::Tokens(_) => None,
        }
    }

    /// The examples of step `step` of a source that is not empty.
    pub fn step(&mut self, source: &dyn Source, step: u64) -> Vec<Taken> {
        if self.repeats == 1 {
            return self.taken(source, step);
        }
        let begins = Some(step.is_multiple_of(self.repeats));
        let taken = self.taken(source, step / self.repeats).into_iter();
        taken.map(|one| Taken { begins, ..one }).collect()
    }

    /// The examples of the steps with this number, of those that take others.
    fn taken(&mut self, source: &dyn Source, step: u64) -> Vec<Taken> {
        match self.size {
            BatchSize::Items(count) if self.lanes => {
                lanes::step(source.len() as u64, count as u64, step)
            }
            BatchSize::Items(count) => self.items(source, count as u64, step),
            BatchSize::Tokens(budget) => self.tokens(source, budget, step),
        }
    }

    /// Passes over the source once step `step` is taken, the one that [`Self::step`] gave last: 1.5 in the middle of the
    /// second one.
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

    /// Steps of so many passes over the source; a part of a step is a whole one.
    pub fn steps_in(&self, source: &dyn Source, epochs: f64) -> u64 {
        // Not one step more for a rounding.
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

    fn items(&self, source: &dyn Source, count: u64, step: u64) -> Vec<Taken> {
        let numbers = step * count..(step + 1) * count;
        let len = source.len() as u64;
        let mut order = None;
        let place = |number: u64| {
            if source.drawn() {
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
            .map(|(sample, draw)| Taken::alone(sample, draw))
            .collect()
    }

    fn tokens(&mut self, source: &dyn Source, budget: usize, step: u64) -> Vec<Taken> {
        let len = source.len() as u64;
        // An earlier step than those of the epoch at hand is looked for from the beginning.
        let known = self.epoch.take().filter(|(_, first, _)| *first <= step);
        let (mut epoch, mut first, mut batches) =
            known.unwrap_or_else(|| (0, 0, self.batches(source, budget, 0)));
        while step - first >= batches.len() as u64 {
            first += batches.len() as u64;
            epoch += 1;
            batches = self.batches(source, budget, epoch);
        }
        let draw = |sample: u64| match source.drawn() {
            true => sample,
            false => epoch * len + sample,
        };
        let taken = batches[(step - first) as usize]
            .iter()
            .map(|&sample| Taken::alone(sample, draw(sample)))
            .collect();
        self.epoch = Some((epoch, first, batches));
        taken
    }

    /// The batches of an epoch, one at least. Of a source that draws, each epoch has examples of its own.
    fn batches(&self, source: &dyn Source, budget: usize, epoch: u64) -> Vec<Vec<u64>> {
        let len = source.len() as u64;
        let order = Permutation::new(self.seed, epoch, len);
        let examples = (0..len).map(|i| match source.drawn() {
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
                cut(std::mem::take(&mut pool), budget, &mut batches);
                tokens = 0;
            }
        }
        cut(pool, budget, &mut batches);
        let count = batches.len() as u64;
        // Another permutation than that of the examples, for any number of epochs that a run may have.
        let order = Permutation::new(self.seed, epoch | 1 << 63, count.max(1));
        let mut shuffled: Vec<Vec<u64>> = vec![Vec::new(); batches.len()];
        for (place, batch) in batches.into_iter().enumerate() {
            shuffled[order.at(place as u64) as usize] = batch;
        }
        shuffled
    }
}

impl Taken {
    /// An example of a row that does not continue from step to step.
    pub fn alone(sample: u64, draw: u64) -> Self {
        Self {
            sample,
            draw,
            begins: None,
        }
    }
}

/// Cuts a pool of (size, example) into batches of like sizes.
fn cut(mut pool: Vec<(usize, u64)>, budget: usize, batches: &mut Vec<Vec<u64>>) {
    // A stable sort: equal sizes stay in the order of the permutation.
    pool.sort_by_key(|(size, _)| *size);
    let mut batch = Vec::new();
    for (size, sample) in pool {
        // In ascending order the newest is the longest.
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
