//! An evaluation with carried state on several ranks: each rank reads its own lanes, and all get the sums of a single process.

use super::{Windows, elman, windows};
use burn::module::Module;
use formwork::collective::Ranks;
use formwork::collective::local::run_on_ranks;
use formwork::data::{Item, Source};
use formwork::error::Result;
use formwork::train::evaluation::{Evaluation, Split, evaluate};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ITEMS: usize = 19;

/// A source that counts how often its windows are read.
struct Counted {
    windows: Arc<Windows>,
    read: AtomicUsize,
}

impl Source for Counted {
    fn len(&self) -> usize {
        self.windows.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.windows.get(sample, draw)
    }
}

/// Returns the sums of every batch of a pass with this many lanes, and the number of windows that this rank read for them.
fn pass(lanes: usize, groups: usize, ranks: &Ranks) -> Result<(Vec<[u64; 3]>, usize)> {
    let model = elman(None).valid();
    let source = Arc::new(Counted {
        windows: windows(ITEMS, super::CONTEXT, 0),
        read: AtomicUsize::new(0),
    });
    let split = Split {
        source: source.clone(),
        bytes_per_token: None,
        carries_state: true,
        groups,
        contrasts_rows: false,
    };
    let mut pass = Evaluation::on_ranks(&split, lanes, ranks.clone());
    let mut batches = Vec::new();
    while let Some(output) = pass.step(&model)? {
        let loss = output.loss;
        batches.push([loss.sum.to_bits(), loss.weight.to_bits(), output.items]);
    }
    Ok((batches, source.read.load(Ordering::SeqCst)))
}

#[test]
fn ranks_read_their_own_lanes_and_find_the_sums_of_one_process() {
    for (lanes, groups) in [(8, 4), (8, 2), (8, 1), (6, 2), (2, 2), (32, 4)] {
        let (wanted, all) = pass(lanes, groups, &Ranks::solo()).unwrap();
        assert_eq!((wanted.len(), all), (ITEMS.div_ceil(lanes), ITEMS));
        for count in [2, 4] {
            let found = run_on_ranks(count, |ranks| pass(lanes, groups, ranks));
            let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
            let read: Vec<usize> = found.iter().map(|(_, read)| *read).collect();
            let what = format!("{lanes} lanes in {groups} groups on {count} ranks: {read:?}");
            assert!(
                found.iter().all(|(batches, _)| *batches == wanted),
                "{what}"
            );
            assert_eq!(read.iter().sum::<usize>(), ITEMS, "{what}");
            let busy = read.iter().filter(|read| **read > 0).count();
            let most = match lanes > ITEMS {
                // Lanes for which no window is left.
                true => busy,
                false => groups.min(count),
            };
            assert_eq!(busy, most, "{what}");
        }
    }
}

/// Lanes are read independently, however they are grouped; only the last digits change.
#[test]
fn groups_of_lanes_change_last_digits_alone() {
    let model = elman(None).valid();
    let loss = |groups| {
        let split = Split {
            source: windows(ITEMS, super::CONTEXT, 0),
            bytes_per_token: None,
            carries_state: true,
            groups,
            contrasts_rows: false,
        };
        evaluate(&model, &split, 8).unwrap().loss
    };
    let whole = loss(1);
    for groups in [2, 4, 8] {
        assert!((loss(groups) / whole - 1.0).abs() < 1e-6, "{groups}");
    }
}
