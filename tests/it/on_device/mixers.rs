//! The scans of Mamba and RWKV, the state space by heads and the delta rule: sequences that begin and end inside chunks and at
//! their boundaries, with an initial state and without.

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

/// Rows of one sequence each, and rows in which sequences begin at some positions and which differ in length.
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

/// Concatenates the outputs and the final states.
fn together(made: (Tensor<3>, Option<Tensor<2>>)) -> Tensor<1> {
    let (y, state) = made;
    Tensor::cat(vec![y.flatten(0, 2), state.unwrap().flatten(0, 1)], 0)
}

fn flat<const D: usize>(x: Tensor<3>, dims: [usize; D]) -> Tensor<D> {
    x.reshape(dims)
}

fn states(width: usize, batch: usize) -> [Option<Numbers<2>>; 2] {
    let mut state = random([batch, width], 60);
    // The state of a weighted average has a denominator, which must be above 0.
    state.values.iter_mut().for_each(|x| *x = x.abs());
    [None, Some(state)]
}

/// State sizes beyond the kernel's limit are scanned position by position.
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

/// Also with exponents around 300, whose exponentials overflow by themselves.
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
                            bonus: flat(first, [channels]),
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

/// Heads, channels per head, groups and state rows: less than a tile of the kernel, whole tiles, and several side by side.
const HEADS: [[usize; 4]; 5] = [
    [1, 1, 1, 1],
    [2, 8, 1, 16],
    [4, 33, 2, 5],
    [3, 64, 1, 40],
    [2, 40, 2, 65],
];

/// Batch and positions.
const ROWS: [[usize; 2]; 5] = [[1, 1], [2, 32], [3, 33], [1, 100], [2, 70]];

/// Includes steps clamped to limits, and decays that leave nothing of a state.
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
                        // If almost nothing is left of a state, flex's kernel subtracts large sums, so its composed form, which
                        // multiplies with the decay, is the oracle.
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

/// Includes steps up to 2, which overshoot the correction, and decays that leave nothing of a state.
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
