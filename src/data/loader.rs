//! Batches: examples in an order that is a function of (seed, step), made ahead on a thread.
//!
//! Step s takes examples sB … sB+B−1 of an endless sequence: draws by number, or a counted source
//! in the order of its epoch's permutation. Nothing else decides, so a stream begins at any step at
//! once, and neither prefetch nor micro-batches can change what is learned from.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::{NOT_SCORED, Source, Split};
use crate::error::{Error, Result};
use crate::rng::Permutation;

/// Steps that are ready and wait.
const AHEAD: usize = 4;

/// Some rows of a step, or of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, `[rows, cols]` row by row.
    pub inputs: Vec<i32>,
    /// Token ids or [`NOT_SCORED`], `[rows, cols]`.
    pub targets: Vec<i32>,
    /// Document of each position, `[rows, cols]`, when attention must not cross documents.
    pub documents: Option<Vec<i32>>,
    /// Which example each row is.
    pub samples: Vec<u64>,
    /// Examples.
    pub rows: usize,
    /// Tokens of an example.
    pub cols: usize,
    /// Place of the first row within its step's batch.
    pub first_row: usize,
    /// Targets that are scored.
    pub scored: usize,
    /// Targets that are scored in the whole step: what the sum of losses is divided by.
    pub step_scored: usize,
    /// Steps before this one; in an evaluation, batches before this one.
    pub step: u64,
    /// Whether the step ends with it.
    pub last: bool,
    /// What it is from.
    pub split: Split,
}

/// The example numbers of training step `step`.
pub fn step_samples(source: &dyn Source, seed: u64, batch_size: usize, step: u64) -> Vec<u64> {
    let first = step * batch_size as u64;
    let numbers = first..first + batch_size as u64;
    if source.drawn() {
        return numbers.collect();
    }
    let len = source.len() as u64;
    let mut order = None;
    numbers
        .map(|number| {
            let epoch = number / len;
            let (at, permutation) =
                order.get_or_insert_with(|| (epoch, Permutation::new(seed, epoch, len)));
            if *at != epoch {
                (*at, *permutation) = (epoch, Permutation::new(seed, epoch, len));
            }
            permutation.at(number % len)
        })
        .collect()
}

/// One step's micro-batches.
///
/// # Errors
/// A source without examples, or one that can no longer be read.
pub fn step_batches(
    source: &dyn Source,
    seed: u64,
    batch_size: usize,
    micro_batch_size: usize,
    step: u64,
) -> Result<Vec<Batch>> {
    if source.is_empty() {
        return Err(Error::run("there is no example to train on"));
    }
    let samples = step_samples(source, seed, batch_size, step);
    let mut batches = samples
        .chunks(micro_batch_size.clamp(1, batch_size.max(1)))
        .scan(0, |row, samples| {
            let first_row = *row;
            *row += samples.len();
            Some(gather(source, samples, step, first_row))
        })
        .collect::<Result<Vec<_>>>()?;
    let scored = batches.iter().map(|b| b.scored).sum();
    for batch in &mut batches {
        batch.step_scored = scored;
        batch.last = false;
    }
    if let Some(batch) = batches.last_mut() {
        batch.last = true;
    }
    Ok(batches)
}

/// Some examples as one batch, a step of its own.
fn gather(source: &dyn Source, samples: &[u64], step: u64, first_row: usize) -> Result<Batch> {
    let (mut inputs, mut targets, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for sample in samples {
        let item = source.get(*sample)?;
        inputs.extend_from_slice(&item.inputs);
        targets.extend_from_slice(&item.targets);
        documents.extend(item.documents.into_iter().flatten());
    }
    let scored = targets.iter().filter(|t| **t != NOT_SCORED).count();
    Ok(Batch {
        rows: samples.len(),
        cols: inputs.len() / samples.len().max(1),
        documents: (documents.len() == inputs.len()).then_some(documents),
        inputs,
        targets,
        samples: samples.to_vec(),
        first_row,
        scored,
        step_scored: scored,
        step,
        last: true,
        split: source.split(),
    })
}

/// Training steps without end, each as its micro-batches, made ahead on a thread.
pub struct TrainStream {
    ready: Option<Receiver<Result<Vec<Batch>>>>,
    thread: Option<JoinHandle<()>>,
}

/// The steps from `from_step` on (steps already done). Ends only after an error.
///
/// # Errors
/// The first item, when the source is empty or no thread can be had.
pub fn train_stream(
    source: Arc<dyn Source>,
    seed: u64,
    batch_size: usize,
    micro_batch_size: usize,
    from_step: u64,
) -> TrainStream {
    let (send, ready) = sync_channel(AHEAD);
    let work = {
        let send = send.clone();
        move || {
            for step in from_step.. {
                let batches =
                    step_batches(source.as_ref(), seed, batch_size, micro_batch_size, step);
                let failed = batches.is_err();
                // The other side is gone when training has ended.
                if send.send(batches).is_err() || failed {
                    return;
                }
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("batches".into())
        .spawn(work);
    let thread = match thread {
        Ok(thread) => Some(thread),
        Err(e) => {
            // The queue is empty, so this does not wait.
            let _ = send.send(Err(Error::run(format!(
                "cannot start the thread that makes batches: {e}"
            ))));
            None
        }
    };
    TrainStream {
        ready: Some(ready),
        thread,
    }
}

impl Iterator for TrainStream {
    type Item = Result<Vec<Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ready.as_ref()?.recv().ok()
    }
}

impl Drop for TrainStream {
    fn drop(&mut self) {
        // A closed queue ends the thread.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A whole split in order; the last batch may have fewer rows.
pub fn eval_batches(
    source: Arc<dyn Source>,
    batch_size: usize,
) -> impl Iterator<Item = Result<Batch>> + Send {
    let len = source.len() as u64;
    let size = batch_size.max(1) as u64;
    (0..len.div_ceil(size)).map(move |number| {
        let samples: Vec<u64> = (number * size..len.min((number + 1) * size)).collect();
        gather(source.as_ref(), &samples, number, 0)
    })
}
