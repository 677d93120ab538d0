//! Class weights: labelled examples in which each row or token has the weight of its class in the loss.
//!
//! The loss of a step is then Σ w(y)·loss / Σ w(y) over its scored rows or tokens, where y is the class of
//! each (King and Zeng 2001, section 4.2; `weight` of PyTorch's cross-entropy). As for all losses, the
//! divisor is counted when batches are made, so that micro-batches divide by the sum of their whole step. An
//! evaluation reads its split with the same weights.

use super::batch::{Content, ImageBatch, Item};
use super::{NOT_SCORED, Source};
use crate::error::Result;
use std::sync::Arc;

/// A source of examples whose classes have weights.
pub struct WeightedSource {
    source: Arc<dyn Source>,
    weights: Arc<[f32]>,
}

impl WeightedSource {
    /// Adds class weights, indexed by class, to a source.
    pub fn of(source: Arc<dyn Source>, weights: Arc<[f32]>) -> Arc<dyn Source> {
        Arc::new(Self { source, weights })
    }
}

impl Source for WeightedSource {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.source.get(sample, draw)
    }

    fn class_weights(&self) -> Option<&Arc<[f32]>> {
        Some(&self.weights)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(self.source.as_ref())
    }
}

/// Returns the weight of a row of this class; for a row mixed from two classes, the mean of their weights by
/// their shares. A weight has 24 significant bits and a sum 53: the sum over n rows is exact in any order
/// while n times the largest weight is below 2²⁹ times the smallest. Beyond that, the order may change its
/// last digits.
fn row_weight(weights: &[f32], class: i32, mixed: Option<(i32, f32)>) -> f64 {
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

/// Returns the sum of the weights of the scored targets (tokens if tokens have targets, otherwise rows); 0 if
/// there are no classes.
pub fn total_weight(content: &Content, weights: &[f32]) -> f64 {
    let sum = |classes: &[i32]| -> f64 {
        let scored = classes.iter().filter(|class| **class != NOT_SCORED);
        scored.map(|class| row_weight(weights, *class, None)).sum()
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
            rows.map(|(label, mixed)| row_weight(weights, *label, Some(*mixed)))
                .sum()
        }
        Content::Images(c) => sum(&c.labels),
        Content::Pairs(_) | Content::Captioned(_) | Content::Spoken(_) => 0.0,
    }
}

/// The reason why the classes of examples are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// Examples are drawn without end.
    Endless,
    /// The class of an example is only known once the example is made, which is slow.
    Costly,
    /// Pairs and captions have no class.
    Classless,
}

impl Uncounted {
    /// Returns the reason as a clause about the training examples.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Endless => "but this data generates them without end",
            Self::Costly => {
                "but this data knows the class of an example only after building it, which is slow"
            }
            Self::Classless => "but the examples of this data have no classes",
        }
    }
}

/// Counts how often each of the `classes` classes occurs in the examples: in tokens if tokens have targets,
/// otherwise in rows. The inner `Err` is the reason why they are not counted.
///
/// # Errors
/// If an example cannot be read.
pub fn class_counts(
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
    if source.is_endless() {
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
