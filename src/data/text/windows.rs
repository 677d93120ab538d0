//! Windows of a token stream: next to each other, or anywhere.
//!
//! Window k of the counted kind holds tokens kT … kT+T−1 and is scored on kT+1 … kT+T, so that
//! every token but the first is scored once (nanoGPT draws the start uniformly instead). Windows that slide by S begin at
//! kS: the first is scored whole, each later one on its last S targets, so that every token is scored once still, by a
//! query with at least T − S + 1 keys (S = 1 is how Al-Rfou et al. 2019, section 4, evaluate). With
//! attention blocked between documents a document's first token, which nothing in its document
//! precedes, is not scored.

use std::sync::Arc;

use super::ids::Ids;
use crate::data::retrieval::Retrieving;
use crate::data::{Item, NOT_SCORED, Source, Split, TextItem};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// Which windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Side by side, whole windows only.
    Whole,
    /// Side by side; the last, partial one is filled up with targets that are not scored.
    Covering,
    /// Each `stride` tokens after the one before, overlapping, and scored on its last `stride` targets; the first one on
    /// all. The stride is at most a window.
    Sliding {
        /// Tokens between the beginnings of two windows.
        stride: usize,
    },
    /// Anywhere: the start is drawn for each sample number from this seed.
    Drawn {
        /// The experiment's seed.
        seed: u64,
    },
}

/// The windows of a split.
pub struct TextSource {
    tokens: Arc<dyn Ids>,
    context: usize,
    layout: Layout,
    blocked: bool,
    split: Split,
    retrieving: Option<Retrieving>,
}

impl TextSource {
    /// Windows of `context` tokens; `blocked` fills [`Item::documents`].
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
            blocked,
            split,
            retrieving: None,
        }
    }

    /// The same windows with the neighbours of their chunks, where there are some. Windows begin with a chunk of the stream.
    pub fn with(self, retrieving: Option<Retrieving>) -> Self {
        Self { retrieving, ..self }
    }

    /// Tokens that have a token before them.
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
            self.drawn() || sample < self.len() as u64,
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
        let documents = self.blocked.then(|| {
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
            // What fills a partial window is a document of its own.
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
            after,
            neighbours: self
                .retrieving
                .as_ref()
                .map(|retrieving| retrieving.of_window(from, self.context)),
            ..TextItem::default()
        }))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn drawn(&self) -> bool {
        matches!(self.layout, Layout::Drawn { .. })
    }
}
