//! Shares of a step: a process reads only its own examples, and its micro-batches are those that a single process would make.

use formwork::data::loader::{BatchSize, Extent, Order, Share, step_batches, step_share};
use formwork::data::{Item, PairItem, Source, TextItem};
use formwork::error::Result;
use formwork::train::gradients::subtree_ranges;
use std::sync::Mutex;

/// A source of examples of many lengths that records which were read.
struct Noted {
    pairs: bool,
    read: Mutex<Vec<u64>>,
}

impl Noted {
    fn new(pairs: bool) -> Self {
        Self {
            pairs,
            read: Mutex::new(Vec::new()),
        }
    }
}

impl Source for Noted {
    fn len(&self) -> usize {
        64
    }

    fn get(&self, sample: u64, _: u64) -> Result<Item> {
        self.read.lock().unwrap().push(sample);
        let number = sample as usize;
        let tokens = |length: usize| vec![sample as i32 + 3; length];
        if self.pairs {
            return Ok(Item::Pair(PairItem {
                source: tokens(1 + number * 7 % 31),
                target: tokens(2 + number * 5 % 23),
            }));
        }
        let (first, last) = (1 + number * 3 % 17, number * 5 % 13);
        Ok(Item::Text(TextItem {
            inputs: tokens(first + last),
            targets: tokens(first + last),
            segments: Some([vec![0; first], vec![1; last]].concat()),
            ..TextItem::default()
        }))
    }
}

#[test]
fn shares_of_a_step_are_its_micro_batches() {
    for pairs in [true, false] {
        for (rows, count) in [(24, 1), (24, 2), (24, 4), (3, 4)] {
            let order = || Order::new(3, BatchSize::Items(rows));
            for step in [0, 5] {
                let source = Noted::new(pairs);
                let whole = step_batches(&source, &mut order(), 3, step).unwrap();
                let own = |rank: usize| {
                    let source = Noted::new(pairs);
                    let part = |all| subtree_ranges(all, count).swap_remove(rank);
                    let share = step_share(&source, &mut order(), 3, step, &part).unwrap();
                    let read = source.read.into_inner().unwrap();
                    (share, read)
                };
                let (made, read): (Vec<Share>, Vec<Vec<u64>>) = (0..count).map(own).unzip();
                let sent = made.iter().map(|share| share.extent().to_bytes());
                let extent = sent
                    .map(|bytes| Extent::from_bytes(&bytes).unwrap())
                    .reduce(Extent::merged)
                    .unwrap();
                let all: usize = read.iter().map(Vec::len).sum();
                assert_eq!(all, rows, "an example is read by one process");
                for share in &made {
                    assert_eq!(share.samples().len(), rows);
                }
                let made: Vec<_> = made
                    .into_iter()
                    .flat_map(|share| share.in_step(extent))
                    .collect();
                assert!(
                    made == whole,
                    "{count} shares of {rows} rows, pairs {pairs}"
                );
            }
        }
    }
}

#[test]
fn an_extent_of_other_bytes_is_an_error() {
    let bytes = Extent::default().to_bytes();
    assert_eq!(Extent::from_bytes(&bytes).unwrap(), Extent::default());
    for wrong in [
        &bytes[1..],
        &bytes[8..],
        &[bytes.clone(), bytes.clone()].concat(),
    ] {
        assert!(Extent::from_bytes(wrong).is_err());
    }
}
