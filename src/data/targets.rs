//! Targets of a language model other than the plain next tokens: only some positions of a text, or also the
//! token after the next (Al-Rfou et al. 2019, "Character-level language modeling with deeper self-attention",
//! section 3.1).
//!
//! They are a view of the training examples. Scored targets are counted when batches are made, so
//! micro-batches divide by the counts of their whole step. Evaluations read the unchanged examples.

use super::batch::{Item, TextItem};
use super::{NOT_SCORED, Source};
use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The positions of a text that are scored in training, of those that have a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScoredPositions {
    /// All of them.
    #[default]
    All,
    /// The last half: no prediction is made from a short context (Dai et al. 2019, section 4.3, "half losses").
    SecondHalf,
    /// Only the last one.
    Last,
}

impl ScoredPositions {
    /// Returns how many of `all` positions are scored, counted from the end.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::All => all,
            Self::SecondHalf => all.div_ceil(2),
            Self::Last => all.min(1),
        }
    }
}

/// The targets that a text has in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Positions that are scored.
    pub positions: ScoredPositions,
    /// Whether the token after the next is also a target.
    pub second: bool,
}

impl Targets {
    /// Returns the source with these targets; the unchanged source if they are the plain ones.
    pub fn of(self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        match self == Self::default() {
            true => source,
            false => Arc::new(Retargeted {
                source,
                targets: self,
            }),
        }
    }

    /// Whether the only second target of a text is the token after its last target.
    pub fn has_single_second_target(self) -> bool {
        self.second && self.positions == ScoredPositions::Last
    }

    /// Sets these targets on a text. The second target of a position is the first target of the next
    /// position, if both are scored, so it never leaves the document.
    fn set_targets(self, mut item: TextItem) -> TextItem {
        if self.second {
            let next = item.targets.iter().skip(1).copied();
            let next = next.chain([item.next_token.unwrap_or(NOT_SCORED)]);
            let both = item.targets.iter().zip(next).map(|(first, next)| {
                if *first == NOT_SCORED {
                    NOT_SCORED
                } else {
                    next
                }
            });
            item.second = Some(both.collect());
        }
        let scored = item.targets.iter().filter(|t| **t != NOT_SCORED).count();
        let mut left_out = scored - self.positions.of(scored);
        let mut second = item.second.as_mut().map(|second| second.iter_mut());
        for target in &mut item.targets {
            let second = second.as_mut().and_then(Iterator::next);
            if left_out > 0 && *target != NOT_SCORED {
                left_out -= 1;
                *target = NOT_SCORED;
                second.into_iter().for_each(|second| *second = NOT_SCORED);
            }
        }
        item
    }
}

/// A source whose examples have different targets.
struct Retargeted {
    source: Arc<dyn Source>,
    targets: Targets,
}

impl Source for Retargeted {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        Ok(match self.source.get(sample, draw)? {
            Item::Text(item) => Item::Text(self.targets.set_targets(item)),
            other => other,
        })
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(self.source.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: i32 = NOT_SCORED;

    fn text(targets: &[i32], after: Option<i32>) -> TextItem {
        TextItem {
            inputs: vec![0; targets.len()],
            targets: targets.to_vec(),
            next_token: after,
            ..TextItem::default()
        }
    }

    fn with(
        positions: ScoredPositions,
        second: bool,
        item: TextItem,
    ) -> (Vec<i32>, Option<Vec<i32>>) {
        let item = Targets { positions, second }.set_targets(item);
        (item.targets, item.second)
    }

    #[test]
    fn positions_are_taken_from_the_end() {
        let of = |positions| with(positions, false, text(&[1, 2, 3, 4, 5], Some(6)));
        assert_eq!(of(ScoredPositions::All), (vec![1, 2, 3, 4, 5], None));
        assert_eq!(
            of(ScoredPositions::SecondHalf),
            (vec![NO, NO, 3, 4, 5], None)
        );
        assert_eq!(of(ScoredPositions::Last), (vec![NO, NO, NO, NO, 5], None));
        // For an answer after a question, only the scored positions count.
        let answer = text(&[NO, NO, 7, 8, NO], None);
        let (targets, _) = with(ScoredPositions::Last, false, answer);
        assert_eq!(targets, [NO, NO, NO, 8, NO]);
    }

    #[test]
    fn the_second_target_reaches_past_the_window_and_stays_in_its_document() {
        let window = text(&[1, 2, 3], Some(4));
        let (_, second) = with(ScoredPositions::All, true, window.clone());
        assert_eq!(second, Some(vec![2, 3, 4]));
        let (targets, second) = with(ScoredPositions::Last, true, window);
        assert_eq!((targets, second), (vec![NO, NO, 3], Some(vec![NO, NO, 4])));
        // The third token begins a document: nothing before it predicts its tokens.
        let (_, second) = with(ScoredPositions::All, true, text(&[1, NO, 3, 4], None));
        assert_eq!(second, Some(vec![NO, NO, 4, NO]));
    }
}
