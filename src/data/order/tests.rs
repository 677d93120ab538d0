//! Tests of orders: token budgets, endless draws, repeated steps.

use super::*;
use crate::data::{Item, TextItem};
use crate::error::Result;

struct Lengths(Vec<usize>);

/// A source that draws without end; 50 examples count as one pass.
struct Drawn;

impl Source for Drawn {
    fn len(&self) -> usize {
        50
    }

    fn get(&self, _sample: u64, _draw: u64) -> Result<Item> {
        Ok(Item::Text(TextItem::default()))
    }

    fn size(&self, sample: u64) -> usize {
        1 + (sample % 13) as usize
    }

    fn is_endless(&self) -> bool {
        true
    }
}

impl Source for Lengths {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, _sample: u64, _draw: u64) -> Result<Item> {
        Ok(Item::Text(TextItem::default()))
    }

    fn size(&self, sample: u64) -> usize {
        self.0[sample as usize]
    }
}

#[test]
fn a_budget_of_tokens_is_kept_and_every_example_comes_once_an_epoch() {
    let source = Lengths((0..1000).map(|i| 1 + i * 7 % 40).collect());
    let mut order = Order::new(7, BatchSize::Tokens(200));
    let mut seen = Vec::new();
    let mut padding = 0;
    let mut step = 0;
    while seen.len() < 1000 {
        let batch = order.step(&source, step);
        let longest = batch.iter().map(|t| source.size(t.sample)).max().unwrap();
        assert!(batch.len() * longest <= 200);
        padding += batch
            .iter()
            .map(|t| longest - source.size(t.sample))
            .sum::<usize>();
        seen.extend(batch.iter().map(|t| t.sample));
        step += 1;
    }
    // Out of 20,500 tokens.
    assert!(padding < 1000, "{padding}");
    assert_eq!(order.epoch_after(&source, step - 1), 1.0);
    seen.sort_unstable();
    assert_eq!(seen, (0..1000).collect::<Vec<u64>>());
    // The next epoch has another order and its own draws; going back gives the same batches again.
    let later = order.step(&source, step + 3);
    assert!(later.iter().all(|t| t.draw >= 1000));
    let epoch = order.epoch_after(&source, step + 3);
    assert!(epoch > 1.0 && epoch < 1.1, "{epoch}");
    let of_items = Order::new(7, BatchSize::Items(250)).epoch_after(&source, 5);
    assert_eq!(of_items, 1.5);
    assert_eq!(order.steps_in(&source, 1.0), step);
    let half = order.steps_in(&source, 1.5) - step;
    assert!(half.abs_diff(step / 2) <= 2, "{half} of {step}");
    let items = |count, epochs| Order::new(7, BatchSize::Items(count)).steps_in(&source, epochs);
    assert_eq!(
        (items(250, 1.5), items(300, 1.0), items(10, 0.3)),
        (6, 4, 30)
    );
    let first = order.step(&source, 0);
    assert_eq!(
        first,
        Order::new(7, BatchSize::Tokens(200)).step(&source, 0)
    );
    assert_eq!(later, order.step(&source, step + 3));
    assert_ne!(
        first,
        Order::new(8, BatchSize::Tokens(200)).step(&source, 0)
    );
}

#[test]
fn no_example_of_a_source_that_draws_comes_twice() {
    let mut order = Order::new(3, BatchSize::Tokens(40));
    let taken: Vec<SampleRef> = (0..100).flat_map(|step| order.step(&Drawn, step)).collect();
    let mut samples: Vec<u64> = taken.iter().map(|t| t.sample).collect();
    assert!(samples.len() > 3 * Drawn.len());
    samples.sort_unstable();
    samples.dedup();
    assert_eq!(samples.len(), taken.len());
    assert!(taken.iter().all(|t| t.draw == t.sample));
}

#[test]
fn consecutive_steps_may_take_the_same_examples() {
    let source = Lengths(vec![1; 40]);
    let mut plain = Order::new(7, BatchSize::Items(4));
    let mut repeated = Order::new(7, BatchSize::Items(4)).repeated(3);
    for step in 0..30 {
        let wanted = plain.step(&source, step / 3).into_iter();
        let begins = Some(step % 3 == 0);
        let wanted: Vec<SampleRef> = wanted
            .map(|one| SampleRef {
                begins_text: begins,
                ..one
            })
            .collect();
        assert_eq!(repeated.step(&source, step), wanted, "{step}");
    }
    assert_eq!(repeated.steps_in(&source, 1.0), 30);
    assert_eq!(repeated.epoch_after(&source, 29), 1.0);
}

#[test]
fn an_example_beyond_the_budget_is_a_batch_of_its_own() {
    let source = Lengths(vec![5, 300, 5]);
    let mut order = Order::new(1, BatchSize::Tokens(100));
    let sizes: Vec<usize> = (0..2).map(|s| order.step(&source, s).len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 3);
    assert!(sizes.contains(&1));
}
