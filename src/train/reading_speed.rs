//! Seconds per token of an evaluation, timed on random tokens: text that a model with a memory reads in segments, and
//! windows that slide by one token, for a model without memory (Dai et al. 2019, section 4.5 and table 9).
//!
//! Both compute each token's loss with the evaluation step that `eval` uses. In segments a token is computed once; a
//! sliding window recomputes all of its tokens for the loss of the last one.

use crate::data::loader::{self, Batch};
use crate::data::{Item, NOT_SCORED, Source, Split, TextItem};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::stack::state::ModelState;
use crate::task::{StepInput, StepOutput, TrainableModel};
use burn::train::InferenceStep;
use std::sync::Arc;
use std::time::Instant;

/// Batch sizes that the search for the fastest batch of windows tries, as long as it gets faster.
const TRIED_BATCH_SIZES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Maximum number of tokens in a batch, so that it fits in memory.
const MOST_TOKENS: usize = 1 << 16;
/// Minimum number of segments that are timed.
const SEGMENTS: usize = 4;

/// The time per token, and how it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenTime {
    /// Seconds per scored token.
    pub seconds: f64,
    /// Rows per batch.
    pub rows: usize,
    /// Number of scored tokens that were timed.
    pub tokens: usize,
}

/// Texts of random tokens, the same in each process.
#[derive(Clone, Copy, Debug)]
pub struct RandomTexts {
    /// Vocabulary size: ids are below it.
    pub vocab: usize,
}

/// Rows of random tokens, of which the last `scored` are scored.
struct Rows {
    texts: RandomTexts,
    rows: usize,
    cols: usize,
    scored: usize,
}

impl Source for Rows {
    fn len(&self) -> usize {
        self.rows
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let mut stream = Stream::new(0, Purpose::Sampling, (sample, 0, 0));
        let mut token = || stream.below(self.texts.vocab as u64) as i32;
        let inputs = (0..self.cols).map(|_| token()).collect();
        let mut targets: Vec<i32> = (0..self.cols).map(|_| token()).collect();
        targets[..self.cols - self.scored].fill(NOT_SCORED);
        Ok(Item::Text(TextItem {
            inputs,
            targets,
            ..TextItem::default()
        }))
    }

    fn split(&self) -> Split {
        Split::Valid
    }
}

impl RandomTexts {
    /// Builds a batch of texts; the last `scored` positions of each text are scored.
    fn batch(self, rows: usize, cols: usize, scored: usize) -> Result<Batch> {
        let source = Rows {
            texts: self,
            rows,
            cols,
            scored,
        };
        let mut batches = loader::eval_batches(Arc::new(source), rows);
        let batch = batches.next();
        batch.unwrap_or_else(|| Err(Error::run("a batch has at least one text")))
    }
}

/// Returns the seconds and the output of one batch; the time includes reading its loss to the host.
fn time_batch<M: TrainableModel>(
    model: &M,
    batch: Batch,
    state: Option<ModelState>,
) -> (f64, StepOutput) {
    let began = Instant::now();
    let output = InferenceStep::step(model, StepInput { batch, state });
    (began.elapsed().as_secs_f64(), output)
}

/// Measures the seconds per token of one text that is read `segment` tokens at a time, after `before` tokens have
/// filled the model's memory; at least `least` tokens are timed.
///
/// # Errors
/// If the model keeps nothing from segment to segment.
pub fn time_segments<M: TrainableModel>(
    model: &M,
    texts: RandomTexts,
    segment: usize,
    before: usize,
    least: usize,
) -> Result<TokenTime> {
    let mut state = model.empty_state();
    if state.is_none() {
        return Err(Error::usage(
            "the model carries no state from one segment to the next; give attention a memory",
        ));
    }
    let mut seconds = 0.0;
    let timed_segments = least.div_ceil(segment).max(SEGMENTS);
    // One segment more than fills the memory, since the first one of a size allocates its buffers.
    let untimed = before.div_ceil(segment) + 1;
    for number in 0..untimed + timed_segments {
        let (time, output) = time_batch(model, texts.batch(1, segment, segment)?, state.take());
        state = output.state;
        if number >= untimed {
            seconds += time;
        }
    }
    let count = timed_segments * segment;
    Ok(TokenTime {
        seconds: seconds / count as f64,
        rows: 1,
        tokens: count,
    })
}

/// Measures the seconds per token of windows that slide by one token, at the fastest batch size; at least `least`
/// tokens are timed.
///
/// # Errors
/// None in practice: random texts always give batches.
pub fn time_sliding_windows<M: TrainableModel>(
    model: &M,
    texts: RandomTexts,
    window: usize,
    least: usize,
) -> Result<TokenTime> {
    let round = |rows: usize| -> Result<f64> {
        Ok(time_batch(model, texts.batch(rows, window, 1)?, None).0)
    };
    // The first pass allocates buffers.
    round(1)?;
    let (mut rows, mut best, mut slower) = (1, f64::INFINITY, 0);
    for tried in TRIED_BATCH_SIZES {
        if tried > 1 && (tried * window > MOST_TOKENS || slower == 2) {
            break;
        }
        // The better of two measurements: one disturbed by another process must not end the search.
        let each = round(tried)?.min(round(tried)?) / tried as f64;
        if each > best {
            slower += 1;
            continue;
        }
        (rows, best, slower) = (tried, each, 0);
    }
    let rounds = least.div_ceil(rows).max(1);
    let mut seconds = 0.0;
    for _ in 0..rounds {
        seconds += round(rows)?;
    }
    Ok(TokenTime {
        seconds: seconds / (rounds * rows) as f64,
        rows,
        tokens: rounds * rows,
    })
}
