//! Batches: examples in an order that is a function of (seed, step), made ahead on a thread.
//!
//! Which examples step s takes is [`Order`]'s to say, from the seed and s alone: a stream begins at any step at
//! once, and neither prefetch nor micro-batches can change what is learned from.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::Source;
pub use super::batch::Batch;
use super::lanes;
pub use super::order::{BatchSize, Order, Taken};
pub use super::share::{Extent, Share};
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
    step_share(source, order, micro_batch_size, step, &|all| 0..all).map(Share::alone)
}

/// Of one step's micro-batches those that `share` names, given their number. No other example is read.
///
/// # Errors
/// A source without examples, or one that can no longer be read.
pub fn step_share(
    source: &dyn Source,
    order: &mut Order,
    micro_batch_size: usize,
    step: u64,
    share: &dyn Fn(usize) -> Range<usize>,
) -> Result<Share> {
    if source.is_empty() {
        return Err(Error::run("there is no example to train on"));
    }
    if let Some(lanes) = order.lane_count().filter(|lanes| *lanes > source.len()) {
        return Err(Error::usage(format!(
            "{lanes} rows cannot each read a share of {} training windows; lower train.batch_size, or [data] context",
            source.len()
        )));
    }
    let taken = order.step(source, step);
    let rows = micro_batch_size.max(1);
    let own = share(taken.len().div_ceil(rows));
    let epoch = order.epoch_after(source, step);
    Ok(Share::read(source, &taken, rows, step, own)?.until(epoch))
}

/// Training steps without end, made ahead on a thread.
pub struct TrainStream<T> {
    ready: Option<Receiver<Result<T>>>,
    thread: Option<JoinHandle<()>>,
}

/// The steps from `from_step` on (steps already done), in this order, each as its micro-batches. Ends only after an error.
///
/// # Errors
/// The first item, when the source is empty or no thread can be had.
pub fn train_stream(
    source: Arc<dyn Source>,
    mut order: Order,
    micro_batch_size: usize,
    from_step: u64,
) -> TrainStream<Vec<Batch>> {
    ahead(from_step, move |step| {
        step_batches(source.as_ref(), &mut order, micro_batch_size, step)
    })
}

/// The steps of [`train_stream`], of each the micro-batches that `share` names.
///
/// # Errors
/// Those of [`train_stream`].
pub fn share_stream(
    source: Arc<dyn Source>,
    mut order: Order,
    micro_batch_size: usize,
    from_step: u64,
    share: impl Fn(usize) -> Range<usize> + Send + 'static,
) -> TrainStream<Share> {
    ahead(from_step, move |step| {
        step_share(source.as_ref(), &mut order, micro_batch_size, step, &share)
    })
}

/// Steps from `from_step` on, made ahead on a thread until one fails.
fn ahead<T: Send + 'static>(
    from_step: u64,
    mut make: impl FnMut(u64) -> Result<T> + Send + 'static,
) -> TrainStream<T> {
    let (send, ready) = sync_channel(AHEAD);
    let work = {
        let send = send.clone();
        move || {
            for step in from_step.. {
                let made = make(step);
                let failed = made.is_err();
                // The other side is gone when training has ended.
                if send.send(made).is_err() || failed {
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

impl<T> Iterator for TrainStream<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ready.as_ref()?.recv().ok()
    }
}

impl<T> Drop for TrainStream<T> {
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
    eval_share(source, EvalSize::of(batch_size), 0, 1)
}

/// The rows of the batches of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct EvalSize {
    /// Of each batch.
    pub rows: usize,
    /// Of the last one at least: fewer belong to the batch before.
    pub least: usize,
}

impl EvalSize {
    /// Batches of so many rows each, the last of which may have fewer.
    pub fn of(rows: usize) -> Self {
        Self { rows, least: 1 }
    }

    /// How many batches so many examples make.
    pub fn batches(self, examples: usize) -> usize {
        let rows = self.rows.max(1);
        let all = examples.div_ceil(rows);
        match all > 1 && examples - (all - 1) * rows < self.least {
            true => all - 1,
            false => all,
        }
    }
}

/// Of the batches of a split the one with the number `first`, and then every `every`-th.
pub fn eval_share(
    source: Arc<dyn Source>,
    size: EvalSize,
    first: usize,
    every: usize,
) -> impl Iterator<Item = Result<Batch>> + Send {
    let len = source.len() as u64;
    let count = size.batches(source.len()) as u64;
    let size = size.rows.max(1) as u64;
    let numbers = (first as u64..count).step_by(every.max(1));
    numbers.map(move |number| {
        let end = if number + 1 == count {
            len
        } else {
            (number + 1) * size
        };
        let samples = number * size..end;
        let taken: Vec<Taken> = samples.map(|n| Taken::alone(n, n)).collect();
        one(source.as_ref(), &taken, number)
    })
}

/// A whole split in so many lanes: row b continues where row b of the batch before ended. The lanes are divided into
/// `groups` of consecutive ones, each a batch; of every step the batches of the groups `own`. The last step may have fewer
/// rows, and groups without any have no batch.
pub fn eval_lanes(
    source: Arc<dyn Source>,
    count: usize,
    groups: usize,
    own: Range<usize>,
) -> impl Iterator<Item = Result<Vec<Batch>>> + Send {
    let (len, count) = (source.len() as u64, count.max(1));
    let each = count.div_ceil(groups.max(1));
    (0..len.div_ceil(count as u64)).map(move |number| {
        let taken = lanes::once(len, count as u64, number);
        let groups = taken.chunks(each).enumerate();
        let own = groups.filter(|(group, _)| own.contains(group));
        own.map(|(_, lanes)| one(source.as_ref(), lanes, number))
            .collect()
    })
}

/// Some examples as one batch.
fn one(source: &dyn Source, taken: &[Taken], number: u64) -> Result<Batch> {
    let mut batches = Share::read(source, taken, taken.len().max(1), number, 0..1)?.alone();
    batches
        .pop()
        .ok_or_else(|| Error::run("an evaluation batch is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_row_belongs_to_the_batch_before_where_it_must_not_stand_alone() {
        let batches = |least, examples| EvalSize { rows: 8, least }.batches(examples);
        assert_eq!([0, 1, 8, 9, 10].map(|n| batches(2, n)), [0, 1, 1, 1, 2]);
        assert_eq!([0, 1, 8, 9, 10].map(|n| batches(1, n)), [0, 1, 1, 2, 2]);
    }
}
