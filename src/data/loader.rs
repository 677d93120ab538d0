//! Batches: examples in an order that is a function of (seed, step), made ahead of time on a thread.
//!
//! [`Order`] decides which examples step s takes, from only the seed and s. A stream can therefore start at
//! any step without replaying earlier ones, and neither prefetching nor micro-batches change what the model
//! learns from.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::Source;
pub use super::batch::Batch;
use super::lanes;
pub use super::order::{BatchSize, Order, SampleRef};
pub use super::share::{Extent, Share};
use crate::error::{Error, Result};

/// Maximum number of prepared steps that wait in the queue.
const QUEUE_LENGTH: usize = 4;

/// Returns the micro-batches of one step.
///
/// # Errors
/// If the source has no examples or can no longer be read.
pub fn step_batches(
    source: &dyn Source,
    order: &mut Order,
    micro_batch_size: usize,
    step: u64,
) -> Result<Vec<Batch>> {
    step_share(source, order, micro_batch_size, step, &|all| 0..all).map(Share::as_whole_step)
}

/// Returns the micro-batches of one step that `share` selects, given their count. No other example is read.
///
/// # Errors
/// If the source has no examples or can no longer be read.
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
    Ok(Share::read(source, &taken, rows, step, own)?.with_epoch(epoch))
}

/// An endless stream of training steps, made ahead of time on a thread.
pub struct TrainStream<T> {
    ready: Option<Receiver<Result<T>>>,
    thread: Option<JoinHandle<()>>,
}

/// Streams the steps from `from_step` (the number of steps already done) on, each as its micro-batches. The
/// stream ends only after an error.
///
/// # Errors
/// The first item is an error if the source is empty or the thread cannot be started.
pub fn train_stream(
    source: Arc<dyn Source>,
    mut order: Order,
    micro_batch_size: usize,
    from_step: u64,
) -> TrainStream<Vec<Batch>> {
    prefetch(from_step, move |step| {
        step_batches(source.as_ref(), &mut order, micro_batch_size, step)
    })
}

/// Streams the steps of [`train_stream`] with only the micro-batches that `share` selects.
///
/// # Errors
/// As for [`train_stream`].
pub fn share_stream(
    source: Arc<dyn Source>,
    mut order: Order,
    micro_batch_size: usize,
    from_step: u64,
    share: impl Fn(usize) -> Range<usize> + Send + 'static,
) -> TrainStream<Share> {
    prefetch(from_step, move |step| {
        step_share(source.as_ref(), &mut order, micro_batch_size, step, &share)
    })
}

/// Makes steps from `from_step` on, on a thread, until one fails.
fn prefetch<T: Send + 'static>(
    from_step: u64,
    mut make: impl FnMut(u64) -> Result<T> + Send + 'static,
) -> TrainStream<T> {
    let (send, ready) = sync_channel(QUEUE_LENGTH);
    let work = {
        let send = send.clone();
        move || {
            for step in from_step.. {
                let made = make(step);
                let failed = made.is_err();
                // The receiver is gone when training has ended.
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
            // The queue is empty, so this does not block.
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
        // Closing the queue ends the thread.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the batches of a whole split in order; the last batch may have fewer rows.
pub fn eval_batches(
    source: Arc<dyn Source>,
    batch_size: usize,
) -> impl Iterator<Item = Result<Batch>> + Send {
    eval_share(source, EvalSize::of(batch_size), 0, 1)
}

/// Row counts of the batches of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct EvalSize {
    /// Rows of each batch.
    pub rows: usize,
    /// Minimum number of rows of the last batch: fewer are added to the batch before.
    pub min_last_rows: usize,
}

impl EvalSize {
    /// Batches of `rows` rows each, of which the last may have fewer.
    pub fn of(rows: usize) -> Self {
        Self {
            rows,
            min_last_rows: 1,
        }
    }

    /// Returns the number of batches that `examples` examples make.
    pub fn batches(self, examples: usize) -> usize {
        let rows = self.rows.max(1);
        let all = examples.div_ceil(rows);
        match all > 1 && examples - (all - 1) * rows < self.min_last_rows {
            true => all - 1,
            false => all,
        }
    }
}

/// Returns every `every`-th batch of a split, starting with batch `first`.
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
        let taken: Vec<SampleRef> = samples.map(|n| SampleRef::independent(n, n)).collect();
        single_batch(source.as_ref(), &taken, number)
    })
}

/// Returns a whole split in `count` lanes: row b continues where row b of the batch before ended. Consecutive
/// lanes form `groups` groups, each a batch; every item holds the batches of the groups in `own` for one
/// step. The last step may have fewer rows, and groups without rows have no batch.
pub fn eval_lanes(
    source: Arc<dyn Source>,
    count: usize,
    groups: usize,
    own: Range<usize>,
) -> impl Iterator<Item = Result<Vec<Batch>>> + Send {
    let (len, count) = (source.len() as u64, count.max(1));
    let each = count.div_ceil(groups.max(1));
    (0..len.div_ceil(count as u64)).map(move |number| {
        let taken = lanes::pass_batch(len, count as u64, number);
        let groups = taken.chunks(each).enumerate();
        let own = groups.filter(|(group, _)| own.contains(group));
        own.map(|(_, lanes)| single_batch(source.as_ref(), lanes, number))
            .collect()
    })
}

/// Collates some examples into one batch.
fn single_batch(source: &dyn Source, taken: &[SampleRef], number: u64) -> Result<Batch> {
    let mut batches = Share::read(source, taken, taken.len().max(1), number, 0..1)?.as_whole_step();
    batches
        .pop()
        .ok_or_else(|| Error::run("an evaluation batch is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_row_belongs_to_the_batch_before_where_it_must_not_stand_alone() {
        let batches = |least, examples| {
            EvalSize {
                rows: 8,
                min_last_rows: least,
            }
            .batches(examples)
        };
        assert_eq!([0, 1, 8, 9, 10].map(|n| batches(2, n)), [0, 1, 1, 1, 2]);
        assert_eq!([0, 1, 8, 9, 10].map(|n| batches(1, n)), [0, 1, 1, 2, 2]);
    }
}
