//! Sums over ranks have the bits of the tree that one process adds in, even if some ranks lack gradients.

use super::{BUCKET, from_bytes, sum_in_place, to_bytes};
use crate::collective::local::run_on_ranks;
use crate::evaluate::answers::{Answers, SpanPrediction};
use crate::evaluate::classification::Confusion;
use crate::evaluate::correlation::NumberPairs;
use crate::evaluate::predictions::Predictions;
use crate::evaluate::tags::TagCounts;
use crate::rng::{Purpose, Stream};
use crate::task::StepOutput;
use crate::train::gradients::tree_sum;
use burn::tensor::{DType, Device};

/// Returns the streams of each rank after the sum; `own` holds those before it.
fn summed(own: &[Vec<Vec<u8>>], dtype: DType) -> Vec<Vec<Vec<u8>>> {
    let ended = run_on_ranks(own.len(), |ranks| {
        let mut own = own[ranks.rank()].clone();
        let mut stream: Vec<&mut [u8]> = own.iter_mut().map(|x| &mut x[..]).collect();
        sum_in_place(&mut stream, dtype, &Device::flex(), ranks)?;
        Ok(own)
    });
    ended.into_iter().map(Result::unwrap).collect()
}

fn numbers(rank: usize, lengths: &[usize]) -> Vec<Vec<f32>> {
    let each = lengths.iter().enumerate().map(|(piece, length)| {
        let mut stream = Stream::new(5, Purpose::Split, (rank as u64, piece as u64, 0));
        (0..*length)
            .map(|_| (stream.uniform() - 0.5) * 1e3)
            .collect()
    });
    each.collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn sums_are_those_of_the_tree_over_ranks() {
    // Pieces shorter than the number of ranks, an empty one, and one larger than a bucket.
    for lengths in [vec![1, 0, 3], vec![1000, 7], vec![BUCKET / 4 + 5, 3]] {
        for count in [2, 4] {
            let all: Vec<Vec<Vec<f32>>> = (0..count).map(|rank| numbers(rank, &lengths)).collect();
            let own = all.iter().map(|own| own.iter().map(|x| bytes(x)).collect());
            for found in summed(&own.collect::<Vec<_>>(), DType::F32) {
                for (piece, found) in found.iter().enumerate() {
                    let wanted = (0..lengths[piece]).map(|at| {
                        let mut parts = all.iter().map(|own| own[piece][at]);
                        tree_sum(&mut parts, count, &|a, b| a + b).unwrap()
                    });
                    assert!(
                        *found == bytes(&wanted.collect::<Vec<f32>>()),
                        "{lengths:?} on {count}"
                    );
                }
            }
        }
    }
}

/// The filler for a gradient that a rank lacks changes no bit, not even the sign of a zero.
#[test]
fn nothing_is_negative_zero() {
    let own = [-0.0_f32, 0.0, 1e-42, f32::MAX];
    let nothing = [-0.0_f32; 4];
    let found = summed(&[vec![bytes(&own)], vec![bytes(&nothing)]], DType::F32);
    assert_eq!(found[0][0], bytes(&own));
    assert_eq!(found[1][0], bytes(&own));
}

/// The predictions behind metrics of a whole split reach other ranks unchanged.
#[test]
fn predictions_of_all_kinds_are_exchanged() {
    let names = || ["O", "B-X"].map(String::from).to_vec();
    let mut classes = Confusion::new(names());
    classes.add(1, 0);
    let mut tags = TagCounts::new(names());
    tags.add(&[0, 1], &[1, 1]);
    let mut numbers = NumberPairs::default();
    numbers.add(0.1, f32::NAN);
    let mut answers = Answers::default();
    let found = SpanPrediction {
        score: 0.1,
        none: f32::NEG_INFINITY,
        text: "x",
    };
    answers.add(u64::MAX, found, &["x".into()], true);
    for predictions in [
        Predictions::Classes(classes),
        Predictions::Tags(tags),
        Predictions::Numbers(numbers),
        Predictions::Answers(answers),
    ] {
        let output = StepOutput {
            predictions: Some(predictions),
            ..StepOutput::default()
        };
        let bytes = to_bytes(std::slice::from_ref(&output)).unwrap();
        assert_eq!(from_bytes(&bytes).unwrap(), [output]);
    }
}
