//! Batches: examples in an order that is a function of (seed, step), made ahead on a thread.
//!
//! Which examples step s takes is [`Order`]'s to say, from the seed and s alone: a stream begins at any step at
//! once, and neither prefetch nor micro-batches can change what is learned from.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::Source;
pub use super::batch::Batch;
use super::collate::{Widths, collate};
use super::lanes;
pub use super::order::{BatchSize, Order, Taken};
use crate::error::{Error, Result};

/// Steps that are ready and wait.
const AHEAD: usize = 4;

/// One step's micro-batches.
///
/// # Errors
/// A source without examples, or one that can no longer be read.
pub fn step_batches(
    source: &dyn Source,
    order: &mut Order,
    micro_batch_size: usize,
    step: u64,
) -> Result<Vec<Batch>> {
    if source.is_empty() {
        return Err(Error::run("there is no example to train on"));
    }
    if let Some(lanes) = order.lane_count().filter(|lanes| *lanes > source.len()) {
        return Err(Error::usage(format!(
            "{lanes} lanes cannot share {} training window(s); lower train.batch_size, or [data] context",
            source.len()
        )));
    }
    let taken = order.step(source, step);
    let mut batches = gather(source, &taken, micro_batch_size.max(1), step)?;
    let scored = batches.iter().map(|b| b.scored).sum();
    let second = batches.iter().map(|b| b.second).sum();
    let tokens = batches.iter().map(|b| b.tokens).sum();
    for batch in &mut batches {
        batch.step_scored = scored;
        batch.step_second = second;
        batch.step_tokens = tokens;
        batch.step_rows = taken.len();
    }
    Ok(batches)
}

/// Some examples in batches of `rows`, all of one width, each a step of its own.
fn gather(source: &dyn Source, taken: &[Taken], rows: usize, step: u64) -> Result<Vec<Batch>> {
    let items = taken
        .iter()
        .map(|t| source.get(t.sample, t.draw))
        .collect::<Result<Vec<_>>>()?;
    let widths = Widths::of(&items);
    let parts = items.chunks(rows).zip(taken.chunks(rows)).enumerate();
    Ok(parts
        .map(|(part, (items, taken))| {
            let content = collate(items, widths);
            let (scored, tokens) = (content.scored(), content.tokens());
            let second = content.second();
            Batch {
                samples: taken.iter().map(|t| t.sample).collect(),
                rows: items.len(),
                first_row: part * rows,
                scored,
                second,
                tokens,
                step_scored: scored,
                step_second: second,
                step_tokens: tokens,
                step_rows: items.len(),
                step,
                steps: 0,
                begins: taken.iter().map(|t| t.begins).collect(),
                split: source.split(),
                watch: None,
                recompute: false,
                content,
            }
        })
        .collect())
}

/// Training steps without end, each as its micro-batches, made ahead on a thread.
pub struct TrainStream {
    ready: Option<Receiver<Result<Vec<Batch>>>>,
    thread: Option<JoinHandle<()>>,
}

/// The steps from `from_step` on (steps already done), in this order. Ends only after an error.
///
/// # Errors
/// The first item, when the source is empty or no thread can be had.
pub fn train_stream(
    source: Arc<dyn Source>,
    mut order: Order,
    micro_batch_size: usize,
    from_step: u64,
) -> TrainStream {
    let (send, ready) = sync_channel(AHEAD);
    let work = {
        let send = send.clone();
        move || {
            for step in from_step.. {
                let batches = step_batches(source.as_ref(), &mut order, micro_batch_size, step);
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
    eval_share(source, batch_size, 0, 1)
}

/// Of the batches of [`eval_batches`] the one with the number `first`, and then every `every`-th.
pub fn eval_share(
    source: Arc<dyn Source>,
    batch_size: usize,
    first: usize,
    every: usize,
) -> impl Iterator<Item = Result<Batch>> + Send {
    let len = source.len() as u64;
    let size = batch_size.max(1) as u64;
    let numbers = (first as u64..len.div_ceil(size)).step_by(every.max(1));
    numbers.map(move |number| {
        let samples = number * size..len.min((number + 1) * size);
        let taken: Vec<Taken> = samples.map(|n| Taken::alone(n, n)).collect();
        one(source.as_ref(), &taken, number)
    })
}

/// A whole split in so many lanes: row b continues where row b of the batch before ended; the last batch may have fewer
/// rows.
pub fn eval_lanes(
    source: Arc<dyn Source>,
    count: usize,
) -> impl Iterator<Item = Result<Batch>> + Send {
    let len = source.len() as u64;
    let count = count.max(1) as u64;
    (0..len.div_ceil(count)).map(move |number| {
        let taken = lanes::once(len, count, number);
        one(source.as_ref(), &taken, number)
    })
}

/// Some examples as one batch.
fn one(source: &dyn Source, taken: &[Taken], number: u64) -> Result<Batch> {
    let mut batches = gather(source, taken, taken.len().max(1), number)?;
    batches
        .pop()
        .ok_or_else(|| Error::run("an evaluation batch is empty"))
}
