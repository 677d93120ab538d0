//! Recurrent cells against their composed implementations: values, last states and every gradient, with sequences that begin
//! and end inside rows, for sizes around the boundaries of tasks and panels.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use formwork::kernel::{self, Cell, Recurrence, Sequences, composed};

use super::{close, device, random, values};

const CELLS: [Cell; 3] = [Cell::Elman, Cell::Gru, Cell::Lstm];

/// Batch, positions and units.
type Sizes = [usize; 3];

fn leaves(cell: Cell, [batch, seq, d]: Sizes) -> Recurrence {
    let gates = cell.gates();
    let own = |x: Tensor<3>| x.detach();
    Recurrence {
        inputs: own(random([batch, seq, gates * d], 1)).require_grad(),
        weight: (random([gates * d, d], 2) / (d as f64).sqrt())
            .detach()
            .require_grad(),
        hidden_bias: (cell == Cell::Gru).then(|| random([d], 3).require_grad()),
        state: (0..cell.states())
            .map(|i| random([batch, d], 4 + i as u64).require_grad())
            .collect(),
    }
}

/// Rows in which sequences begin at some positions, and which differ in length.
fn broken([batch, seq, _]: Sizes) -> Sequences {
    let begins: Vec<bool> = (0..batch * seq).map(|i| i % 5 == 3 || i % 7 == 0).collect();
    let lengths: Vec<usize> = (0..batch)
        .map(|row| (seq + 1).min(row * 3 % (seq + 2)))
        .collect();
    Sequences {
        begins: Some(Arc::from(begins)),
        lengths: Some(Arc::from(lengths)),
    }
}

/// Returns outputs and gradients of a non-uniform loss over the outputs and, if asked for, the last states.
fn all(
    recurrence: &Recurrence,
    last: bool,
    f: impl Fn(Recurrence) -> (Tensor<3>, Vec<Tensor<2>>),
) -> Vec<(String, Vec<f32>)> {
    let (y, state) = f(recurrence.clone());
    let mut found = vec![("outputs".to_string(), values(&y))];
    let mut loss = (y.clone() * random(y.dims(), 50)).sum();
    if last {
        for (i, x) in state.iter().enumerate() {
            found.push((format!("last state {i}"), values(x)));
            loss = loss + (x.clone() * random(x.dims(), 60 + i as u64)).sum();
        }
    }
    let grads = loss.backward();
    let mut gradient = |name: &str, x: Vec<f32>| found.push((format!("gradient of {name}"), x));
    gradient("inputs", values(&recurrence.inputs.grad(&grads).unwrap()));
    gradient("weight", values(&recurrence.weight.grad(&grads).unwrap()));
    if let Some(bias) = &recurrence.hidden_bias {
        gradient("bias", values(&bias.grad(&grads).unwrap()));
    }
    for state in &recurrence.state {
        gradient("state", values(&state.grad(&grads).unwrap()));
    }
    found
}

#[test]
fn recurrences() {
    let sizes = [[1, 1, 1], [3, 2, 5], [2, 7, 16], [13, 5, 70], [7, 3, 130]];
    for cell in CELLS {
        for sizes in sizes {
            for sequences in [Sequences::default(), broken(sizes)] {
                for last in [false, true] {
                    let x = leaves(cell, sizes);
                    let fused = all(&x, last, |x| kernel::recurrent(x, cell, &sequences, last));
                    let oracle = all(&x, last, |x| composed::recurrent(x, cell, &sequences));
                    for ((name, a), (_, b)) in fused.iter().zip(&oracle) {
                        close(&format!("{cell:?} {sizes:?}: {name}"), a, b);
                    }
                    assert_eq!(fused.len(), oracle.len());
                }
            }
        }
    }
}

/// A row's content before a sequence begins, and beyond its length, has no effect.
#[test]
fn sequences_within_a_row_are_apart() {
    let sizes = [2, 6, 5];
    for cell in CELLS {
        let begins: Vec<bool> = (0..12).map(|i| i % 6 == 4).collect();
        let sequences = Sequences {
            begins: Some(Arc::from(begins)),
            lengths: Some(Arc::from([6, 5])),
        };
        let run = |x: Recurrence| {
            let (y, state) = kernel::recurrent(x, cell, &sequences, true);
            let tail = values(&y.slice([0..2, 4..6]));
            (tail, state.iter().map(values).collect::<Vec<_>>())
        };
        let x = leaves(cell, sizes);
        let mut other = x.clone();
        let change = |at: usize, len: usize| {
            let mut flags = vec![0.0; 2 * 6 * cell.gates() * 5];
            let width = cell.gates() * 5;
            for row in 0..2 {
                let from = (row * 6 + at) * width;
                flags[from..from + len * width].fill(1.0);
            }
            Tensor::from_data(TensorData::new(flags, [2, 6, width]), &device())
        };
        other.inputs = other.inputs + change(0, 4);
        other.state = other.state.into_iter().map(|x| x + 1.0).collect();
        assert_eq!(run(x.clone()), run(other), "{cell:?}: before the beginning");
        let mut other = x.clone();
        other.inputs = other.inputs + change(5, 1);
        let ((a, first), (b, second)) = (run(x), run(other));
        assert_eq!(a[10..], b[10..], "{cell:?}: beyond the length");
        assert_ne!(a[..10], b[..10], "{cell:?}");
        for (a, b) in first.iter().zip(&second) {
            assert_eq!(a[5..], b[5..], "{cell:?}: the last state");
        }
    }
}

/// Two segments with the state carried between them give the bits of one.
#[test]
fn a_carried_state_goes_on() {
    let sizes @ [batch, seq, d] = [7, 12, 70];
    for cell in CELLS {
        let x = leaves(cell, sizes);
        let none = Sequences::default();
        let (whole, last) = kernel::recurrent(x.clone(), cell, &none, true);
        let part = |from: usize, to: usize, state: Vec<Tensor<2>>| {
            let inputs = x.inputs.clone().slice([0..batch, from..to]);
            let x = Recurrence {
                inputs,
                state,
                ..x.clone()
            };
            kernel::recurrent(x, cell, &none, true)
        };
        let (first, state) = part(0, 5, x.state.clone());
        let (second, state) = part(5, seq, state);
        let both = Tensor::cat(vec![first, second], 1);
        assert_eq!(values(&both), values(&whole), "{cell:?} with {d} units");
        for (a, b) in state.iter().zip(&last) {
            assert_eq!(values(a), values(b), "{cell:?}: the last state");
        }
    }
}

/// A recurrence large enough for several threads.
#[test]
fn same_bits_alone_and_with_others() {
    let pool = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap()
    };
    for cell in CELLS {
        let x = leaves(cell, [33, 4, 130]);
        let run = || {
            let none = Sequences::default();
            let found = all(&x, true, |x| kernel::recurrent(x, cell, &none, true));
            let bits = |(_, numbers): (String, Vec<f32>)| -> Vec<u32> {
                numbers.iter().map(|x| x.to_bits()).collect()
            };
            found.into_iter().map(bits).collect::<Vec<_>>()
        };
        let once = run();
        assert!(once == run(), "{cell:?}: from run to run");
        assert!(once == pool(1).install(run), "{cell:?}: alone");
    }
}
