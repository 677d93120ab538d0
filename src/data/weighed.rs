//! Weights of classes: labelled examples, each row or token of which has the weight of its class in the loss.
//!
//! The loss of a step is then Σ w(y)·loss / Σ w(y) over its scored rows or tokens, y the class of each (King and Zeng 2001,
//! section 4.2; `weight` of PyTorch's cross-entropy). The divisor is counted where batches are made, as that of all losses is,
//! so that micro-batches divide by the sum of their whole step; an evaluation reads its split under the same weights.

use super::batch::{Content, ImageBatch, Item};
use super::{NOT_SCORED, Origin, Source, Split, TaggedWords};
use crate::error::Result;
use std::sync::Arc;

/// Examples whose classes have weights.
pub struct Weighed {
    source: Arc<dyn Source>,
    weights: Arc<[f32]>,
}

impl Weighed {
    /// The examples with the weights of their classes, by their numbers.
    pub fn of(source: Arc<dyn Source>, weights: Arc<[f32]>) -> Arc<dyn Source> {
        Arc::new(Self { source, weights })
    }
}

impl Source for Weighed {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.source.get(sample, draw)
    }

    fn size(&self, sample: u64) -> usize {
        self.source.size(sample)
    }

    fn split(&self) -> Split {
        self.source.split()
    }

    fn is_costly(&self) -> bool {
        self.source.is_costly()
    }

    fn drawn(&self) -> bool {
        self.source.drawn()
    }

    fn label(&self, sample: u64) -> Option<i32> {
        self.source.label(sample)
    }

    fn tagged_words(&self, sample: u64) -> Option<&TaggedWords> {
        self.source.tagged_words(sample)
    }

    fn origin(&self, sample: u64) -> Option<&Origin> {
        self.source.origin(sample)
    }

    fn class_weights(&self) -> Option<&Arc<[f32]>> {
        Some(&self.weights)
    }
}

/// The weight of a row with this class, of two mixed ones the mean by their shares. A weight has 24 binary digits and a sum 53:
/// the sum over n rows is exact, whatever their order, while n times the largest weight is below 2²⁹ times the smallest; else
/// the order may decide its last digits.
fn of_row(weights: &[f32], class: i32, mixed: Option<(i32, f32)>) -> f64 {
    let of = |class: i32| {
        let number = usize::try_from(class).ok();
        number.and_then(|n| weights.get(n)).copied().unwrap_or(0.0)
    };
    let weight = match mixed {
        None => of(class),
        Some((other, share)) => share * of(class) + (1.0 - share) * of(other),
    };
    weight.into()
}

/// The sum of the weights of what is scored, targets where tokens have targets and otherwise rows; 0 where there are no classes.
pub fn weight(content: &Content, weights: &[f32]) -> f64 {
    let sum = |classes: &[i32]| -> f64 {
        let scored = classes.iter().filter(|class| **class != NOT_SCORED);
        scored.map(|class| of_row(weights, *class, None)).sum()
    };
    match content {
        Content::Text(c) if c.targets.is_empty() => c.labels.as_deref().map_or(0.0, sum),
        Content::Text(c) => sum(&c.targets),
        Content::Images(ImageBatch {
            labels,
            mixed: Some(mixed),
            ..
        }) => {
            let rows = labels.iter().zip(mixed);
            rows.map(|(label, mixed)| of_row(weights, *label, Some(*mixed)))
                .sum()
        }
        Content::Images(c) => sum(&c.labels),
        Content::Pairs(_) | Content::Captioned(_) | Content::Spoken(_) => 0.0,
    }
}

/// Why the classes of examples are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// Examples are drawn without end.
    Endless,
    /// An example shows its class once it is made, which takes long.
    Costly,
    /// Pairs and captions have no class.
    Classless,
}

impl Uncounted {
    /// The reason, about the training examples.
    pub fn told(self) -> &'static str {
        match self {
            Self::Endless => "which this data draws without end",
            Self::Costly => {
                "which this data says of examples alone that are made, one by one and slowly"
            }
            Self::Classless => "and the examples of this data are of no class",
        }
    }
}

/// How often each of so many classes stands in the examples, targets where tokens have targets and otherwise rows; or why that
/// is not counted.
///
/// # Errors
/// An example that cannot be read.
pub fn counts(
    source: &dyn Source,
    classes: usize,
) -> Result<std::result::Result<Vec<u64>, Uncounted>> {
    let mut counts = vec![0; classes];
    let mut add = |class: i32| {
        let number = usize::try_from(class).ok();
        if let Some(count) = number.and_then(|n| counts.get_mut(n)) {
            *count += 1;
        }
    };
    if source.drawn() {
        return Ok(Err(Uncounted::Endless));
    }
    for sample in 0..source.len() as u64 {
        if let Some(class) = source.label(sample) {
            add(class);
            continue;
        }
        if source.is_costly() {
            return Ok(Err(Uncounted::Costly));
        }
        match source.get(sample, sample)? {
            Item::Text(item) => match (item.label, item.classes) {
                (_, Some(classes)) => classes.into_iter().for_each(&mut add),
                (Some(class), None) if item.targets.is_empty() => add(class),
                _ => item.targets.into_iter().for_each(&mut add),
            },
            Item::Image(item) => add(item.label),
            Item::Pair(_) | Item::Captioned(_) | Item::Spoken(_) => {
                return Ok(Err(Uncounted::Classless));
            }
        }
    }
    Ok(Ok(counts))
}
