//! Runs a language model over windows of text: at once, or segment by segment if it carries its state.

use crate::data::batch::TextBatch;
use crate::data::{NOT_SCORED, Source};
use crate::error::{Error, Result};
use crate::kernel;
use crate::model::LanguageModel;
use crate::nn::pass::Pass;
use crate::nn::record::{RecordSelection, RecordedValues};
use crate::nn::state::StateUse;
use crate::task::causal_lm;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};

/// Maximum number of logits that are computed at one time.
const SCORES: usize = 1 << 23;

/// A piece of text whose last token is predicted and not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Token ids, one more than are read.
    pub tokens: Vec<i32>,
    /// The document of each token that is read, if attention must not cross documents.
    pub documents: Option<Vec<i32>>,
}

impl Window {
    /// Returns the number of tokens that are read.
    pub fn len(&self) -> usize {
        self.tokens.len() - 1
    }

    /// Returns whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the token at `at` is in the same document as the one before it, so that it can be predicted.
    fn continues(&self, at: usize) -> bool {
        let documents = self.documents.as_ref();
        documents.is_none_or(|d| at >= d.len() || d[at] == d[at - 1])
    }
}

/// Returns at most `count` windows of a source, spread evenly over it. Windows whose last token begins a document are skipped.
///
/// # Errors
/// If the source cannot be read, is not text, or has no whole window.
pub fn windows(source: &dyn Source, count: usize) -> Result<Vec<Window>> {
    let (len, mut found) = (source.len(), Vec::new());
    for number in 0..count.min(len) {
        let sample = (number * len / count.min(len)) as u64;
        let item = source.get(sample, sample)?;
        let Some(item) = item.text() else {
            return Err(Error::usage("the examples of the run are not texts"));
        };
        match item.targets.last() {
            Some(last) if *last != NOT_SCORED => {
                let mut tokens = item.inputs;
                tokens.push(*last);
                found.push(Window {
                    tokens,
                    documents: item.documents,
                });
            }
            Some(_) | None => {}
        }
    }
    match found.is_empty() {
        true => Err(Error::usage("the split is shorter than one window")),
        false => Ok(found),
    }
}

/// A language model with the way it reads windows.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The network.
    pub network: &'a dyn LanguageModel,
    /// Number of tokens that it reads at once.
    pub segment: usize,
    /// Whether it carries its state from segment to segment. Otherwise it reads only the last `segment` tokens of a window.
    pub carries_state: bool,
    /// Number of windows that are read side by side.
    pub rows: usize,
}

/// A segment that was read.
struct ReadSegment {
    /// Index of its first token in the window.
    from: usize,
    /// Number of its tokens.
    count: usize,
    /// Whether it is the last one of its windows.
    last: bool,
    /// Hidden states `[rows, count, d_model]`.
    hidden: Tensor<3>,
    recorded: RecordedValues,
}

impl Reader<'_> {
    /// Returns how many of the last `length` tokens of a window the model reads.
    pub fn tokens_read(&self, length: usize) -> usize {
        match self.carries_state {
            true => length,
            false => length.min(self.segment),
        }
    }

    /// Computes the losses in nats of the last `scored` tokens of each window, when the model reads `length` tokens
    /// before the last one. Tokens that begin a document have no loss: `NaN`.
    pub fn losses(&self, windows: &[Window], length: usize, scored: usize) -> Vec<Vec<f64>> {
        let mut losses = vec![Vec::new(); windows.len()];
        for (number, some) in windows.chunks(self.rows.max(1)).enumerate() {
            let first = number * self.rows.max(1);
            self.read(some, length, None, &mut |part| {
                for (row, window) in some.iter().enumerate() {
                    // Position i predicts token i + 1.
                    let begin = (window.tokens.len() - scored.min(window.len())).max(part.from + 1);
                    let end = part.from + part.count + 1;
                    if begin >= end {
                        continue;
                    }
                    let states = part.hidden.clone().narrow(0, row, 1);
                    let states = states.narrow(1, begin - 1 - part.from, end - begin);
                    let each = self.token_losses(states, &window.tokens[begin..end]);
                    let each = each.into_iter().zip(begin..end);
                    losses[first + row].extend(each.map(|(loss, at)| match window.continues(at) {
                        true => loss,
                        false => f64::NAN,
                    }));
                }
            });
        }
        losses
    }

    /// Passes on what the model records of the last segment of each window, one window at a time, with the segment's
    /// number of tokens.
    pub(super) fn last_segments(
        &self,
        windows: &[Window],
        keep: RecordSelection,
        each: &mut dyn FnMut(usize, RecordedValues),
    ) {
        for window in windows {
            let one = std::slice::from_ref(window);
            self.read(one, window.len(), Some(keep), &mut |part| {
                if part.last {
                    each(part.count, part.recorded);
                }
            });
        }
    }

    /// Reads the last `length` tokens of some windows of equal length, and passes on each segment.
    fn read(
        &self,
        windows: &[Window],
        length: usize,
        keep: Option<RecordSelection>,
        each: &mut dyn FnMut(ReadSegment),
    ) {
        let Some(whole) = windows.first().map(Window::len) else {
            return;
        };
        let device = self.network.device();
        let mut state = self
            .carries_state
            .then(|| self.network.empty_state(StateUse::Segments));
        let mut from = whole - self.tokens_read(length.min(whole));
        while from < whole {
            let to = (from + self.segment.max(1)).min(whole);
            let pass = match keep {
                Some(keep) => Pass::evaluation().with_record(keep),
                None => Pass::evaluation(),
            };
            let input = causal_lm::input(&segment(windows, from, to), &device);
            let hidden = self.network.forward(input, state.as_mut(), &pass);
            if let Some(state) = &mut state {
                // Positions are counted from 0 again in each segment, as in training.
                state.seen = 0;
            }
            each(ReadSegment {
                from,
                count: to - from,
                last: to == whole,
                hidden,
                recorded: pass.take_recorded(),
            });
            from = to;
        }
    }

    /// Computes the losses of `tokens` from the hidden states `[1, tokens, d_model]` before them.
    fn token_losses(&self, states: Tensor<3>, tokens: &[i32]) -> Vec<f64> {
        let vocab = self.network.vocabulary_head().embedding.vocab_size();
        let most = (SCORES / vocab.max(1)).max(1);
        let mut losses = Vec::with_capacity(tokens.len());
        for (number, targets) in tokens.chunks(most).enumerate() {
            let count = targets.len();
            let part = states.clone().narrow(1, number * most, count);
            let logits = kernel::untracked(self.network.logits(part));
            let [_, _, vocab] = logits.dims();
            let scores = log_softmax(logits.reshape([count, vocab]), 1);
            let targets = TensorData::new(targets.to_vec(), [count, 1]);
            let targets = Tensor::<2, Int>::from_data(targets, &scores.device());
            let chosen = scores.gather(1, targets).into_data();
            losses.extend(chosen.iter::<f32>().map(|score| -f64::from(score)));
        }
        losses
    }
}

/// Builds a batch of tokens `from..to` of some windows; documents are numbered relative to the one before the segment.
fn segment(windows: &[Window], from: usize, to: usize) -> TextBatch {
    let inputs = windows.iter().flat_map(|w| &w.tokens[from..to]).copied();
    let documents = |window: &Window| {
        let documents = window.documents.as_ref()?;
        let open = documents[from.saturating_sub(1)];
        let each = documents[from..to].iter().map(move |number| number - open);
        Some(each.collect::<Vec<i32>>())
    };
    let documents: Option<Vec<Vec<i32>>> = windows.iter().map(documents).collect();
    TextBatch {
        inputs: inputs.collect(),
        documents: documents.map(|rows| rows.concat()),
        cols: to - from,
        ..TextBatch::default()
    }
}
