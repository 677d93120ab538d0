//! The scans of Mamba and RWKV, the state space by heads and the delta rule: rows that begin anew and end within chunks and at their
//! bounds, from a state and from none.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use formwork::kernel::Sequences;
use formwork::kernel::delta_rule::{DeltaRule, delta_rule};
use formwork::kernel::selective_scan::{Scan, selective_scan};
use formwork::kernel::ssd::{self, Ssd, ssd};
use formwork::kernel::wkv::{Wkv, wkv};

use super::{Numbers, device, random, same};

/// Batch, positions and channels.
const SIZES: [[usize; 3]; 5] = [[1, 1, 1], [2, 16, 5], [3, 17, 33], [5, 40, 64], [2, 70, 40]];

/// Rows that follow each other as they are, and rows that begin anew at some positions and are shorter than others.
fn sequences([batch, seq, _]: [usize; 3]) -> [Sequences; 2] {
    let begins: Vec<bool> = (0..batch * seq)
        .map(|i| i % 21 == 3 || i % 32 == 0)
        .collect();
    let lengths: Vec<usize> = (0..batch).map(|row| (row * 31 + 16) % (seq + 2)).collect();
    let broken = Sequences {
        begins: Some(Arc::from(begins)),
        lengths: Some(Arc::from(lengths)),
    };
    [Sequences::default(), broken]
}

/// The results, and behind them the states that they end with.
fn together(made: (Tensor<3>, Option<Tensor<2>>)) -> Tensor<1> {
    let (y, state) = made;
    Tensor::cat(vec![y.flatten(0, 2), state.unwrap().flatten(0, 1)], 0)
}

fn flat<const D: usize>(x: Tensor<3>, dims: [usize; D]) -> Tensor<D> {
    x.reshape(dims)
}

fn states(width: usize, batch: usize) -> [Option<Numbers<2>>; 2] {
    let mut state = random([batch, width], 60);
    // Of an average's sums the one below is above 0.
    state.values.iter_mut().for_each(|x| *x = x.abs());
    [None, Some(state)]
}

/// More numbers than the kernel takes are scanned position by position.
#[test]
fn selective_scans() {
    let Some(device) = device() else { return };
    for (sizes @ [batch, seq, channels], n) in SIZES.into_iter().zip([1, 5, 16, 64, 65]) {
        for sequences in sequences(sizes) {
            for state in states(n * channels, batch) {
                let wide = |seed| random(sizes, seed);
                let mut decay = random([1, channels, n], 4).times(0.5);
                decay.values.iter_mut().for_each(|x| *x = -x.exp());
                let leaves = [
                    wide(1),
                    wide(2).times(3.0),
                    wide(3),
                    decay,
                    random([batch, seq, 2 * n], 5),
                    random([1, 1, channels], 7),
                ];
                let of = |device: &Device, leaves: [Tensor<3>; 6]| {
                    let [u, raw, gate, decay, directions, skip] = leaves;
                    let scan = Scan {
                        u,
                        raw,
                        gate,
                        decay: flat(decay, [channels, n]),
                        directions,
                        skip: flat(skip, [channels]),
                        state: state.as_ref().map(|state| state.on(device)),
                    };
                    together(selective_scan(scan, &sequences, true))
                };
                same(&format!("a scan of {sizes:?}, {n}"), &device, leaves, of);
            }
        }
    }
}

/// Exponents of which none could be raised alone, too.
#[test]
fn averages_of_rwkv() {
    let Some(device) = device() else { return };
    for sizes @ [batch, _, channels] in SIZES {
        for sequences in sequences(sizes) {
            for state in states(3 * channels, batch) {
                for shift in [0.0, 300.0] {
                    let wide = |seed| random(sizes, seed);
                    let mut decay = random([1, 1, channels], 4);
                    decay.values.iter_mut().for_each(|x| *x = -x.exp());
                    let leaves = [
                        wide(1),
                        wide(2),
                        wide(3),
                        decay,
                        random([1, 1, channels], 5),
                    ];
                    let of = |device: &Device, leaves: [Tensor<3>; 5]| {
                        let [r, k, v, decay, first] = leaves;
                        let average = Wkv {
                            r,
                            k: k + shift,
                            v,
                            decay: flat(decay, [channels]),
                            first: flat(first, [channels]),
                            state: state.as_ref().map(|state| state.on(device)),
                        };
                        together(wkv(average, &sequences, true))
                    };
                    let what = format!("an average of {sizes:?} around {shift}");
                    same(&what, &device, leaves, of);
                }
            }
        }
    }
}

/// Heads, their channels, groups and rows of a state: less than a square of the kernel's, whole ones, and some beside each other.
const HEADS: [[usize; 4]; 5] = [
    [1, 1, 1, 1],
    [2, 8, 1, 16],
    [4, 33, 2, 5],
    [3, 64, 1, 40],
    [2, 40, 2, 65],
];

/// Batch and positions.
const ROWS: [[usize; 2]; 5] = [[1, 1], [2, 32], [3, 33], [1, 100], [2, 70]];

/// Steps that are held between limits, too, and decays by which nothing is left of a state.
#[test]
fn state_spaces_by_heads() {
    let Some(device) = device() else { return };
    for ([batch, seq], [heads, d_head, groups, n]) in ROWS.into_iter().zip(HEADS) {
        let channels = heads * d_head;
        for sequences in sequences([batch, seq, channels]) {
            for state in states(n * channels, batch) {
                for (limits, factor) in [(None, 0.5), (Some([0.05, 0.8]), 1.0), (None, 300.0)] {
                    let mut decay = random([1, 1, heads], 4);
                    decay.values.iter_mut().for_each(|x| *x = -x.exp() * factor);
                    let leaves = [
                        random([batch, seq, channels + 2 * groups * n], 1),
                        random([batch, seq, heads], 2).times(2.0),
                        decay,
                        random([1, 1, heads], 5),
                    ];
                    let of = |device: &Device, leaves: [Tensor<3>; 4]| {
                        let [mixed, raw, decay, skip] = leaves;
                        let space = Ssd {
                            mixed,
                            raw,
                            decay: flat(decay, [heads]),
                            skip: flat(skip, [heads]),
                            state: state.as_ref().map(|state| state.on(device)),
                            groups,
                            d_state: n,
                            limits,
                        };
                        // Flex takes large sums from each other where next to nothing is left, and multiplies with the decay.
                        match factor > 1.0 && *device == Device::flex() {
                            true => {
                                let (y, state) = ssd::composed::ssd(space, &sequences);
                                together((y, Some(state.detach())))
                            }
                            false => together(ssd(space, &sequences, true)),
                        }
                    };
                    let sizes = [batch, seq, heads, d_head, groups, n];
                    let what = format!("a state space of {sizes:?} by {factor}");
                    same(&what, &device, leaves, of);
                }
            }
        }
    }
}

/// Steps up to 2, by which a state overshoots what it corrects, and decays by which nothing is left of it.
#[test]
fn delta_rules() {
    let Some(device) = device() else { return };
    for ([batch, seq], [heads, d_head, groups, n]) in ROWS.into_iter().zip(HEADS) {
        let channels = heads * d_head;
        for sequences in sequences([batch, seq, channels]) {
            for state in states(n * channels, batch) {
                for (most, factor) in [(1.0, 0.1), (2.0, 0.0), (1.0, 300.0)] {
                    let mut beta = random([batch, seq, heads], 2);
                    let step = |x: f32| most / (1.0 + (-x).exp());
                    beta.values.iter_mut().for_each(|x| *x = step(*x));
                    let mut decay = random([batch, seq, heads], 4);
                    decay.values.iter_mut().for_each(|x| *x = -x.exp() * factor);
                    let leaves = [
                        random([batch, seq, channels + 2 * groups * n], 1),
                        beta,
                        decay,
                    ];
                    let of = |device: &Device, leaves: [Tensor<3>; 3]| {
                        let [mixed, beta, decay] = leaves;
                        let rule = DeltaRule {
                            mixed,
                            beta,
                            decay: Some(decay),
                            state: state.as_ref().map(|state| state.on(device)),
                            n_key_heads: groups,
                            d_key: n,
                        };
                        together(delta_rule(rule, &sequences, true))
                    };
                    let sizes = [batch, seq, heads, d_head, groups, n];
                    let what = format!("a delta rule of {sizes:?} up to {most} by {factor}");
                    same(&what, &device, leaves, of);
                }
            }
        }
    }
}
