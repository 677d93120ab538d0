//! Gradients of micro-batches are summed as a binary tree, bit for bit.

use crate::batches::{cut, in_one_step};
use crate::cases::base;
use crate::transfer::gradients_of;
use burn::train::TrainStep;
use formwork::interop::weights::Array;
use formwork::train::gradients::accumulate;
use std::collections::BTreeMap;

type Gradients = BTreeMap<String, Array>;

fn sum(a: &Gradients, b: &Gradients) -> Gradients {
    let added = |(path, array): (&String, &Array)| {
        let values = array.values.iter().zip(&b[path].values);
        let array = Array {
            values: values.map(|(a, b)| a + b).collect(),
            ..array.clone()
        };
        (path.clone(), array)
    };
    a.iter().map(added).collect()
}

#[test]
fn four_micro_batches_are_summed_in_pairs() {
    let [_, classes, ..] = base(16);
    let task = classes.build();
    let whole = classes.batch();
    let micros: Vec<_> = (0..4).map(|row| cut(&whole, row..row + 1, true)).collect();
    let micros = in_one_step(micros, 0);
    let one: Vec<Gradients> = micros
        .iter()
        .map(|batch| gradients_of(&task, &TrainStep::step(&task, batch.clone().into()).grads))
        .collect();
    let pairs = sum(&sum(&one[0], &one[1]), &sum(&one[2], &one[3]));
    let fold = sum(&sum(&sum(&one[0], &one[1]), &one[2]), &one[3]);
    let ours = gradients_of(&task, &accumulate(&task, micros).gradients);
    assert!(ours == pairs, "another tree");
    assert!(fold != pairs, "the two sums cannot be told apart");
}
