//! Batches: order is a function of seed and step, whatever the prefetching, the micro-batches and the first step.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Folder, items};
use burn::data::dataset::Dataset;
use formwork::data::burn_adapters::Items;
use formwork::data::loader::{
    Batch, BatchSize, Order, eval_batches, eval_lanes, step_batches, train_stream,
};
use formwork::data::{Data, Item, Source, Split};

fn text(windows: &str) -> (Folder, Data) {
    let text = super::prose(120);
    let folder = Folder::with(&[("t.txt", text.as_bytes())]);
    let data = format!("kind = \"text\"\npath = \"t.txt\"\ncontext = 16\nwindows = \"{windows}\"");
    let data = folder.prepare(&data, "kind = \"char\"\nend_of_text = \"<|e|>\"");
    (folder, data.unwrap())
}

/// Joins the micro-batches of a step into one set of rows.
fn joined(step: &[Batch]) -> (Vec<u64>, Vec<i32>, Vec<i32>, usize) {
    let texts = || step.iter().map(|b| b.text().unwrap());
    let inputs = texts().flat_map(|b| b.inputs.clone()).collect();
    let targets = texts().flat_map(|b| b.targets.clone()).collect();
    (
        step.iter().flat_map(|b| b.samples.clone()).collect(),
        inputs,
        targets,
        step[0].step_scored,
    )
}

#[test]
fn order_does_not_depend_on_micro_batches_or_the_start() {
    for windows in ["random", "contiguous"] {
        let (_folder, data) = text(windows);
        let steps = |micro, from, count| -> Vec<_> {
            let stream = train_stream(
                Arc::clone(&data.train),
                Order::new(5, BatchSize::Items(12)),
                micro,
                from,
            );
            stream.take(count).map(|s| joined(&s.unwrap())).collect()
        };
        let whole = steps(12, 0, 30);
        // Batches made without a thread, last step first.
        let mut order = Order::new(5, BatchSize::Items(12));
        for step in (0..30).rev() {
            let alone = step_batches(data.train.as_ref(), &mut order, 12, step).unwrap();
            assert_eq!(joined(&alone), whole[step as usize]);
        }
        for micro in [1, 5, 12, 100] {
            assert_eq!(steps(micro, 0, 30), whole, "{windows} {micro}");
        }
        for from in [1, 7, 29] {
            assert_eq!(
                steps(4, from, 30 - from as usize),
                whole[from as usize..],
                "{windows} from {from}"
            );
        }
        let other = train_stream(
            Arc::clone(&data.train),
            Order::new(6, BatchSize::Items(12)),
            12,
            0,
        )
        .next()
        .unwrap()
        .unwrap();
        if windows == "contiguous" {
            assert_ne!(joined(&other).0, whole[0].0);
        }
        // The batch of a distant step is found at once.
        let far = train_stream(
            Arc::clone(&data.train),
            Order::new(5, BatchSize::Items(12)),
            12,
            1 << 40,
        )
        .next()
        .unwrap()
        .unwrap();
        assert_eq!(far[0].step, 1 << 40);
    }
}

#[test]
fn micro_batches_know_their_step() {
    let (_folder, data) = text("contiguous");
    let step = train_stream(data.train, Order::new(5, BatchSize::Items(10)), 4, 3)
        .next()
        .unwrap()
        .unwrap();
    let shape: Vec<_> = step
        .iter()
        .map(|b| (b.first_row, b.rows, b.text().unwrap().cols, b.step))
        .collect();
    assert_eq!(shape, [(0, 4, 16, 3), (4, 4, 16, 3), (8, 2, 16, 3)]);
    assert!(
        step.iter()
            .all(|b| b.step_scored == 160 && b.scored == b.rows * 16 && b.split == Split::Train)
    );
}

#[test]
fn an_epoch_shows_every_window_once() {
    let (_folder, data) = text("contiguous");
    let len = data.train.len() as u64;
    assert!(len > 20);
    // Batches that do not divide the epoch continue past its end.
    let count = 3 * len;
    let mut order = Order::new(5, BatchSize::Items(7));
    let numbers: Vec<u64> = (0..count.div_ceil(7))
        .flat_map(|step| order.step(data.train.as_ref(), step))
        .map(|taken| taken.sample)
        .take(count as usize)
        .collect();
    for epoch in numbers.chunks(len as usize) {
        assert_eq!(
            epoch.iter().copied().collect::<BTreeSet<_>>(),
            (0..len).collect()
        );
    }
    assert_ne!(
        numbers[..len as usize],
        numbers[len as usize..2 * len as usize]
    );
}

#[test]
fn evaluation_is_whole_and_in_order() {
    let (_folder, data) = text("random");
    let valid = data.valid.unwrap();
    let batches: Vec<Batch> = eval_batches(Arc::clone(&valid), 5)
        .map(Result::unwrap)
        .collect();
    let samples: Vec<u64> = batches.iter().flat_map(|b| b.samples.clone()).collect();
    assert_eq!(samples, (0..valid.len() as u64).collect::<Vec<_>>());
    let scored: usize = batches.iter().map(|b| b.scored).sum();
    assert_eq!(scored as u64, data.tokens.valid - 1);
    assert!(
        batches
            .iter()
            .all(|b| b.step_scored == b.scored && b.split == Split::Valid)
    );
}

#[test]
fn burn_sees_the_same_examples() {
    let (_folder, data) = text("contiguous");
    let valid = data.valid.unwrap();
    let seen = Items(Arc::clone(&valid));
    assert_eq!(Dataset::len(&seen), valid.len());
    assert_eq!(
        Dataset::get(&seen, 1).unwrap(),
        Item::Text(items(&valid)[1].clone())
    );
}

#[test]
fn rows_of_lanes_go_on_where_they_ended() {
    let (_folder, data) = text("contiguous");
    let order = || Order::lanes(3);
    let steps: Vec<Vec<Batch>> = train_stream(Arc::clone(&data.train), order(), 2, 0)
        .take(2 * data.train.len().div_ceil(3) + 2)
        .map(Result::unwrap)
        .collect();
    for pair in steps.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|step| joined(step));
        let begins: Vec<bool> = pair[1]
            .iter()
            .flat_map(|batch| batch.begins.clone().unwrap())
            .collect();
        for (row, begins) in begins.iter().enumerate() {
            let next_of = |targets: &[i32]| targets[row * 16 + 15];
            assert_eq!(*begins, before.0[row] + 1 != after.0[row]);
            assert!(*begins || next_of(&before.2) == after.1[row * 16]);
        }
    }
    let mut samples: Vec<u64> = steps.iter().flat_map(|step| joined(step).0).collect();
    samples.sort_unstable();
    samples.dedup();
    assert_eq!(
        samples.len(),
        data.train.len(),
        "windows that no lane reads"
    );
    let begun = train_stream(Arc::clone(&data.train), order(), 2, 5).next();
    assert_eq!(begun.unwrap().unwrap(), steps[5]);
    let valid = data.valid.unwrap();
    let batches: Vec<Batch> = eval_lanes(Arc::clone(&valid), 3, 1, 0..1)
        .flat_map(Result::unwrap)
        .collect();
    let scored: usize = batches.iter().map(|batch| batch.scored).sum();
    let all: usize = eval_batches(Arc::clone(&valid), 3)
        .map(|b| b.unwrap().scored)
        .sum();
    assert_eq!(scored, all);
    let many = train_stream(Arc::clone(&data.train), Order::lanes(10_000), 2, 0).next();
    let refused = many.unwrap().unwrap_err().to_string();
    assert!(
        refused.starts_with("10000 rows cannot each read a share"),
        "{refused}"
    );
}

#[test]
fn an_error_ends_the_stream() {
    struct Broken;
    impl Source for Broken {
        fn len(&self) -> usize {
            10
        }
        fn get(&self, _: u64, _: u64) -> formwork::error::Result<formwork::data::Item> {
            Err(formwork::error::Error::run("the disk is gone"))
        }
    }
    let mut stream = train_stream(Arc::new(Broken), Order::new(1, BatchSize::Items(2)), 2, 0);
    assert_eq!(
        stream.next().unwrap().unwrap_err().to_string(),
        "the disk is gone"
    );
    assert!(stream.next().is_none());
}
