//! Segment recurrence: attention also looks at the hidden states that its layer read in earlier segments, without their
//! gradients (Dai et al. 2019, Transformer-XL, section 3.2).
//!
//! With h the layer's input and m its newest `memory` states of earlier segments, queries are made of h alone, keys and
//! values of [SG(m) ∘ h]. Stacks keep m ([`crate::stack`]); keys say here how much of it.

use super::multi_head::MultiHeadConfig;
use crate::faults::{LONGEST, TableFaults};
use crate::kernel::Window;

/// How much a layer remembers of earlier segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMemory {
    /// Positions in training.
    pub training: usize,
    /// Positions in evaluation and decoding.
    pub evaluation: usize,
    /// Whether a query sees as many keys as there are positions, itself included, wherever it stands in its segment.
    pub same_length: bool,
}

impl SegmentMemory {
    /// The positions of a pass that trains or does not.
    pub fn positions(self, trains: bool) -> usize {
        match trains {
            true => self.training,
            false => self.evaluation,
        }
    }

    /// The keys that a query sees of those before it, when that is a number.
    pub fn window(self, trains: bool) -> Option<Window> {
        self.same_length.then(|| Window {
            before: self.positions(trains).saturating_sub(1),
            after: 0,
            dilation: [].into(),
        })
    }

    /// Positions before a new token whose keys decoding keeps; `None` when it keeps all of them: without a memory in
    /// evaluation a text is one segment.
    pub fn reach(self) -> Option<usize> {
        let others = usize::from(self.same_length);
        (self.evaluation > 0).then(|| self.evaluation.saturating_sub(others))
    }

    /// Most keys that a query of `tokens` positions sees in training.
    pub fn keys(self, tokens: usize) -> usize {
        let all = tokens.saturating_add(self.training);
        match self.same_length {
            true => all.min(self.training),
            false => all,
        }
    }
}

/// Faults of the keys of segment recurrence.
pub(super) fn faults(c: &MultiHeadConfig, at: &mut TableFaults) {
    let evaluation = c.memory_at_evaluation;
    for (key, value) in [
        ("memory", c.memory),
        ("memory_at_evaluation", evaluation.unwrap_or(0)),
    ] {
        if value > LONGEST {
            at.fault(
                &[key],
                format!("{key} = {value} is not between 0 and {LONGEST}"),
            );
        }
    }
    let keeps = c.segments();
    if evaluation == Some(0) && c.memory == 0 {
        let rule = "memory_at_evaluation = 0 has no effect without memory; leave it out";
        at.fault(&["memory_at_evaluation", "memory"], rule);
    }
    if !c.same_length {
        return;
    }
    match keeps {
        None => {
            let rule = "same_length = true has no effect without memory, whose length it is; set memory or leave it out";
            at.fault(&["same_length", "memory"], rule);
        }
        Some(keeps) if keeps.training == 0 || keeps.evaluation == 0 => {
            let rule = "same_length = true lets a query see as many keys as memory has positions, and memory = 0 has none: \
                        set memory and memory_at_evaluation to 1 or more";
            at.fault(&["same_length", "memory_at_evaluation", "memory"], rule);
        }
        Some(_) => {}
    }
}
