//! The operations of Mamba's, Mamba-2's, gated delta networks' and RWKV's layers: against loops over time in float64
//! (`tests/goldens/make_mixers.py`), and against their composed implementations with sequences that begin and end inside rows,
//! for sizes around the boundaries of strips and chunks.

mod case;

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};
use formwork::kernel::Sequences;
use formwork::kernel::delta_rule::{self, DeltaRule, delta_rule};

use super::{close, device, random, values};
use crate::oracle::Oracle;
use case::{Case, Leaf, Sizes, cases};

const SIZES: [Sizes; 6] = [
    [1, 1, 1],
    [3, 2, 5],
    [2, 33, 16],
    [2, 70, 19],
    [1, 65, 130],
    [5, 40, 200],
];

/// Rows in which sequences begin at some positions, and which differ in length.
fn broken([batch, seq, _]: Sizes) -> Sequences {
    let begins: Vec<bool> = (0..batch * seq).map(|i| i % 5 == 3 || i % 7 == 0).collect();
    let lengths: Vec<usize> = (0..batch).map(|row| row * 31 % (seq + 2)).collect();
    Sequences {
        begins: Some(Arc::from(begins)),
        lengths: Some(Arc::from(lengths)),
    }
}

#[test]
fn operations_of_mixers_against_their_composed_bodies() {
    for sizes @ [batch, seq, channels] in SIZES {
        let weights = random(sizes, 50);
        for (case, width) in cases(sizes) {
            for sequences in [Sequences::default(), broken(sizes)] {
                // The state of a weighted average has a denominator, which must be above 0.
                for state in [None, Some(random([batch, width], 60).abs())] {
                    // A convolution's outputs beyond a row's length mean nothing.
                    let weights = match &sequences.lengths {
                        Some(lengths) => {
                            let seen = lengths.iter().flat_map(|len| {
                                (0..seq).map(move |at| f32::from(u8::from(at < *len)))
                            });
                            let seen: Vec<f32> = seen.collect();
                            let seen = TensorData::new(seen, [batch, seq, 1]);
                            weights.clone() * Tensor::from_data(seen, &device())
                        }
                        None => weights.clone(),
                    };
                    let fused = case.all(true, state.clone(), &sequences, &weights);
                    let oracle = case.all(false, state.clone(), &sequences, &weights);
                    for ((what, a), (_, b)) in fused.iter().zip(&oracle) {
                        let name = format!("{} {batch} {seq} {channels}: {what}", case.name);
                        close(&name, a, b);
                    }
                }
            }
        }
    }
}

fn stored<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let array = oracle.array(name);
    Tensor::from_data(TensorData::new(array.values, array.shape), &device())
}

/// Reads the leaves of a golden, under its names.
fn golden(name: &'static str, of: &str, oracle: &Oracle) -> Case {
    let three = |leaf: &str| Leaf::Three(stored(oracle, &format!("{of}.{leaf}"))).own();
    let two = |leaf: &str| Leaf::Two(stored(oracle, &format!("{of}.{leaf}"))).own();
    let one = |leaf: &str| Leaf::One(stored(oracle, &format!("{of}.{leaf}"))).own();
    let leaves = match name {
        "scan" => vec![
            ("u", three("u")),
            ("raw", three("raw")),
            ("gate", three("gate")),
            ("a", two("a")),
            ("b", three("b")),
            ("c", three("c")),
            ("skip", one("skip")),
        ],
        "ssd" | "ssd limited" => {
            // Heads and groups are concatenated.
            let flat = |leaf: &str| {
                let x: Tensor<4> = stored(oracle, &format!("{of}.{leaf}"));
                Leaf::Three(x.flatten(2, 3)).own()
            };
            vec![
                ("x", flat("x")),
                ("raw", three("raw")),
                ("b", flat("b")),
                ("c", flat("c")),
                ("a", one("a")),
                ("skip", one("skip")),
            ]
        }
        "delta" | "delta kept" => {
            let flat = |leaf: &str| {
                let x: Tensor<4> = stored(oracle, &format!("{of}.{leaf}"));
                Leaf::Three(x.flatten(2, 3)).own()
            };
            let mut leaves = vec![("q", flat("q")), ("k", flat("k")), ("v", flat("v"))];
            leaves.push(("beta", three("beta")));
            if name == "delta" {
                leaves.push(("decay", three("decay")));
            }
            leaves
        }
        "wkv" => {
            // A receptance so large that its sigmoid is 1.
            let open = three("k").three().detach() * 0.0 + 40.0;
            vec![
                ("r", Leaf::Three(open).own()),
                ("k", three("k")),
                ("v", three("v")),
                ("decay", one("decay")),
                ("first", one("first")),
            ]
        }
        _ => vec![("x", three("x")), ("w", two("w")), ("bias", one("bias"))],
    };
    Case { name, leaves }
}

#[test]
fn operations_of_mixers_against_loops_in_double_precision() {
    let oracle = Oracle::open("mixers");
    let of_all = [
        ("scan", "scan", 1e-5),
        ("ssd", "ssd", 1e-5),
        ("ssd limited", "ssd_limited", 1e-5),
        ("delta", "delta", 1e-5),
        ("delta kept", "delta_kept", 1e-5),
        ("wkv", "wkv", 1e-5),
        ("wkv", "wkv_far", 2e-4),
        ("conv", "conv", 1e-5),
    ];
    for (name, of, tolerance) in of_all {
        let case = golden(name, of, &oracle);
        let weights = oracle.array(&format!("{of}.weights"));
        let weights = match weights.shape[..] {
            [batch, seq, heads, d] => TensorData::new(weights.values, [batch, seq, heads * d]),
            _ => TensorData::new(weights.values, weights.shape),
        };
        let weights = Tensor::from_data(weights, &device());
        let composed = case.all(false, None, &Sequences::default(), &weights);
        let fused = case.all(true, None, &Sequences::default(), &weights);
        for (what, found) in fused.into_iter().chain(composed) {
            let has_state = name == "scan" || name.starts_with("ssd") || name.starts_with("delta");
            if what == "grad.r" || what == "state" && !has_state {
                continue;
            }
            let wanted = match what.as_str() {
                // Values of all channels, one channel after the other.
                "state" if name == "scan" => {
                    values(&stored::<3>(&oracle, "scan.state").swap_dims(1, 2))
                }
                "state" => values(&stored::<4>(&oracle, &format!("{of}.state")).swap_dims(1, 2)),
                _ => oracle.array(&format!("{of}.{what}")).values,
            };
            let largest = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            assert_eq!(found.len(), wanted.len(), "{of}.{what}");
            for (a, b) in found.iter().zip(&wanted) {
                let off = (a - b).abs() / largest;
                assert!(off <= tolerance, "{of}.{what}: {a} for {b}, off by {off}");
            }
        }
    }
}

/// A row with an emptied state equals a row that never began, bit for bit, however small its exponentials are.
#[test]
fn a_state_of_zeros_is_none() {
    let sizes @ [batch, seq, channels] = [2, 9, 19];
    for (case, width) in cases(sizes) {
        let mut case = case;
        if case.name == "wkv" {
            let k = Leaf::Three(random([batch, seq, channels], 9) - 200.0).own();
            case.leaves[1] = ("k", k);
        }
        for fused in [true, false] {
            let none = Sequences::default();
            let zeros = Tensor::zeros([batch, width], &device());
            let (fresh, _) = case.run(fused, None, &none);
            let (emptied, _) = case.run(fused, Some(zeros), &none);
            assert_eq!(values(&fresh), values(&emptied), "{}", case.name);
            assert!(
                values(&fresh).iter().all(|x| x.is_finite()),
                "{}",
                case.name
            );
        }
    }
}

/// Devices with other number formats: sequences that begin inside rows must not cause infinities.
#[test]
fn half_precision_is_near_single_precision() {
    let sizes = [3, 12, 5];
    let sequences = broken(sizes);
    for (case, _) in cases(sizes) {
        let (wanted, _) = case.run(true, None, &sequences);
        let half = |leaf: &Leaf| match leaf.clone() {
            Leaf::One(x) => Leaf::One(x.cast(DType::F16)),
            Leaf::Two(x) => Leaf::Two(x.cast(DType::F16)),
            Leaf::Three(x) => Leaf::Three(x.cast(DType::F16)),
        };
        let leaves = case.leaves.iter().map(|(name, leaf)| (*name, half(leaf)));
        let halves = Case {
            name: case.name,
            leaves: leaves.collect(),
        };
        let (found, _) = halves.run(true, None, &sequences);
        assert_eq!(found.dtype(), DType::F16, "{}", case.name);
        let (found, wanted) = (values(&found.cast(DType::F32)), values(&wanted));
        let largest = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for (a, b) in found.iter().zip(&wanted) {
            let off = (a - b).abs() / largest;
            assert!(off < 0.02, "{}: {a} for {b}", case.name);
        }
    }
}

/// If a key is written again, reading it gives its last value: the earlier one is removed entirely, over several chunks.
#[test]
fn a_delta_rule_overwrites() {
    let [seq, d] = [150, 6];
    let key = random([1, 1, d], 40).expand([1, seq, d]);
    let value = random([1, seq, d], 41);
    let rule = DeltaRule {
        mixed: Tensor::cat(vec![key.clone(), key, value.clone()], 2),
        beta: Tensor::ones([1, seq, 1], &device()),
        decay: None,
        state: None,
        n_key_heads: 1,
        d_key: d,
    };
    let wanted = values(&(value / (d as f64).sqrt()));
    let none = Sequences::default();
    close(
        "kernel",
        &values(&delta_rule(rule.clone(), &none, true).0),
        &wanted,
    );
    close(
        "composed",
        &values(&delta_rule::composed::delta_rule(rule, &none).0),
        &wanted,
    );
}
