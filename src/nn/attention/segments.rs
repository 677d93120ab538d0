//! Segment recurrence: attention also sees the hidden states that its layer read in earlier segments, without their gradients
//! (Dai et al. 2019, Transformer-XL, section 3.2).
//!
//! With h the layer's input and m its newest `memory` states of earlier segments, queries are computed from h only, keys and
//! values from [SG(m) ∘ h]. Stacks keep m ([`crate::stack`]); the settings here determine its length.

use super::multi_head::MultiHeadConfig;
use crate::faults::{MAX_POSITIONS, TableFaults};
use crate::kernel::Window;

/// Number of earlier positions that a layer remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMemory {
    /// Number of positions in training.
    pub training: usize,
    /// Number of positions in evaluation and decoding.
    pub evaluation: usize,
    /// Whether each query sees exactly as many keys as positions are remembered, itself included, wherever it is in its segment.
    pub same_length: bool,
}

impl SegmentMemory {
    /// Returns the number of positions for training or evaluation.
    pub fn positions(self, trains: bool) -> usize {
        match trains {
            true => self.training,
            false => self.evaluation,
        }
    }

    /// Returns the window of keys before a query, if each query sees a fixed number of them.
    pub fn window(self, trains: bool) -> Option<Window> {
        self.same_length.then(|| Window {
            before: self.positions(trains).saturating_sub(1),
            after: 0,
            dilation: [].into(),
        })
    }

    /// Returns for how many positions before a new token decoding keeps the keys; `None` if it keeps all of them, because a text
    /// is one segment if evaluation has no memory.
    pub fn reach(self) -> Option<usize> {
        let others = usize::from(self.same_length);
        (self.evaluation > 0).then(|| self.evaluation.saturating_sub(others))
    }

    /// Returns the maximum number of keys that a query among `tokens` positions sees in training.
    pub fn keys(self, tokens: usize) -> usize {
        let all = tokens.saturating_add(self.training);
        match self.same_length {
            true => all.min(self.training),
            false => all,
        }
    }
}

/// Reports invalid settings of segment recurrence.
pub(super) fn faults(c: &MultiHeadConfig, at: &mut TableFaults) {
    let evaluation = c.memory_at_evaluation;
    for (key, value) in [
        ("memory", c.memory),
        ("memory_at_evaluation", evaluation.unwrap_or(0)),
    ] {
        if value > MAX_POSITIONS {
            at.fault(
                &[key],
                format!("{key} = {value} is not between 0 and {MAX_POSITIONS}"),
            );
        }
    }
    let keeps = c.segments();
    if evaluation == Some(0) && c.memory == 0 {
        let rule = "memory_at_evaluation = 0 has no effect without memory; remove it";
        at.fault(&["memory_at_evaluation", "memory"], rule);
    }
    if !c.same_length {
        return;
    }
    match keeps {
        None => {
            let rule = "same_length = true has no effect without memory, whose length it uses; set memory or remove it";
            at.fault(&["same_length", "memory"], rule);
        }
        Some(keeps) if keeps.training == 0 || keeps.evaluation == 0 => {
            let rule = "same_length = true lets a query see as many keys as memory has positions, but memory = 0 has none; set \
                        memory and memory_at_evaluation to 1 or more";
            at.fault(&["same_length", "memory_at_evaluation", "memory"], rule);
        }
        Some(_) => {}
    }
}
