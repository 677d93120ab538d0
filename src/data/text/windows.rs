//! Windows of a token stream: consecutive, or anywhere.
//!
//! Consecutive window k holds tokens kT … kT+T−1 and is scored on kT+1 … kT+T, so that every token but the
//! first is scored once (nanoGPT draws the start uniformly instead). Windows that slide by S begin at kS: the
//! first is scored on all targets, each later one on its last S. Every token is still scored once, by a query
//! with at least T − S + 1 keys (S = 1 is how Al-Rfou et al. 2019, section 4, evaluate). If attention is
//! blocked between documents, the first token of a document is not scored, since nothing precedes it in its
//! document.

use std::sync::Arc;

use super::ids::Ids;
use crate::data::retrieval::NeighbourLists;
use crate::data::{Item, NOT_SCORED, Source, Split, TextItem};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// Which windows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Consecutive windows, only whole ones.
    Whole,
    /// Consecutive windows; the last, partial one is padded with targets that are not scored.
    Covering,
    /// Overlapping windows, each `stride` tokens after the one before. Each is scored on its last `stride`
    /// targets, the first one on all. The stride is at most the length of a window.
    Sliding {
        /// Number of tokens between the beginnings of two windows.
        stride: usize,
    },
    /// Windows anywhere: the start is drawn for each sample number from this seed.
    Drawn {
        /// Seed of the experiment.
        seed: u64,
    },
}

/// A source of the windows of a split.
pub struct TextSource {
    tokens: Arc<dyn Ids>,
    context: usize,
    layout: Layout,
    isolates_documents: bool,
    split: Split,
    neighbours: Option<NeighbourLists>,
}

impl TextSource {
    /// Builds windows of `context` tokens; `blocked` sets [`TextItem::documents`].
    pub fn new(
        tokens: Arc<dyn Ids>,
        context: usize,
        layout: Layout,
        blocked: bool,
        split: Split,
    ) -> Self {
        Self {
            tokens,
            context,
            layout,
            isolates_documents: blocked,
            split,
            neighbours: None,
        }
    }

    /// Returns the same windows with the neighbours of their chunks, if given. Windows must begin with a
    /// chunk of the stream.
    pub fn with_neighbours(self, retrieving: Option<NeighbourLists>) -> Self {
        Self {
            neighbours: retrieving,
            ..self
        }
    }

    /// Returns the number of tokens that have a token before them.
    fn scored(&self) -> usize {
        self.tokens.len().saturating_sub(1)
    }

    fn start(&self, sample: u64) -> usize {
        match self.layout {
            Layout::Whole | Layout::Covering => sample as usize * self.context,
            Layout::Sliding { stride } => sample as usize * stride,
            Layout::Drawn { seed } => {
                // A split shorter than one window and its last target is refused when data is
                // prepared.
                let starts = (self.tokens.len().saturating_sub(self.context)).max(1) as u64;
                Stream::new(seed, Purpose::Window, (sample, 0, 0)).below(starts) as usize
            }
        }
    }
}

impl Source for TextSource {
    fn len(&self) -> usize {
        match self.layout {
            Layout::Whole | Layout::Drawn { .. } => self.scored() / self.context,
            Layout::Covering => self.scored().div_ceil(self.context),
            Layout::Sliding { stride } => {
                let later = self.scored().saturating_sub(self.context);
                usize::from(self.scored() > 0) + later.div_ceil(stride)
            }
        }
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        assert!(
            self.is_endless() || sample < self.len() as u64,
            "window {sample} of {}",
            self.len()
        );
        let from = self.start(sample);
        let count = self.context.min(self.tokens.len() - 1 - from);
        let read = (count + 2).min(self.tokens.len() - from);
        let window = self.tokens.window(from, read)?;
        let mut inputs = window[..count].to_vec();
        let mut targets = window[1..=count].to_vec();
        let mut after = window.get(count + 1).copied();
        if let (Layout::Sliding { stride }, 1..) = (self.layout, sample) {
            let known = self.context.saturating_sub(stride).min(count);
            targets[..known].fill(NOT_SCORED);
        }
        let documents = self.isolates_documents.then(|| {
            // A window that begins with its document has no part in the one before it.
            let open = self.tokens.document(from.saturating_sub(1));
            let mut numbers: Vec<i32> = (from..=from + count)
                .map(|at| (self.tokens.document(at) - open) as i32)
                .collect();
            for i in 0..count {
                if numbers[i] != numbers[i + 1] {
                    targets[i] = NOT_SCORED;
                }
            }
            let end = from + count;
            if after.is_some() && self.tokens.document(end) != self.tokens.document(end + 1) {
                after = None;
            }
            numbers.truncate(count);
            // The padding of a partial window is a separate document.
            let filling = numbers.last().map_or(0, |n| n + 1);
            numbers.resize(self.context, filling);
            numbers
        });
        inputs.resize(self.context, 0);
        targets.resize(self.context, NOT_SCORED);
        Ok(Item::Text(TextItem {
            inputs,
            targets,
            documents,
            next_token: after,
            neighbours: self
                .neighbours
                .as_ref()
                .map(|retrieving| retrieving.of_window(from, self.context)),
            ..TextItem::default()
        }))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_endless(&self) -> bool {
        matches!(self.layout, Layout::Drawn { .. })
    }
}
