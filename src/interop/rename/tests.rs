//! Tests of the rules on small tensors.

use super::*;

/// Two groups of (2 query heads, 1 key, 1 value) of width 1, over two inputs.
#[test]
fn fused_rows_there_and_back() {
    let mut table = Table::new("");
    let fused = Fused {
        groups: 2,
        query: 2,
        key_value: 1,
        d_head: 1,
    };
    table.fused("qkv", "attention", Orientation::InOut, fused);
    let rule = &table.rules[0];
    let theirs = Array {
        shape: vec![2, 8],
        values: (0..16).map(|x| x as f32).collect(),
    };
    let parts: Vec<Array> = (0..3)
        .map(|p| rule.import(std::slice::from_ref(&theirs), p, &[]))
        .collect();
    assert_eq!(parts[0].values, [0., 8., 1., 9., 4., 12., 5., 13.]);
    assert_eq!(parts[1].values, [2., 10., 6., 14.]);
    assert_eq!(parts[2].shape, [2, 2]);
    assert_eq!(rule.export(&parts.iter().collect::<Vec<_>>()), [theirs]);
    assert_eq!(rule.their_shape(&[&[4, 2], &[2, 2], &[2, 2]]), [2, 8]);
}

#[test]
fn gpt2s_matrices_are_transposed() {
    let mut table = Table::new("");
    table.linear("fc", "up", Orientation::InOut);
    let theirs = Array {
        shape: vec![2, 3],
        values: vec![1., 2., 3., 4., 5., 6.],
    };
    let ours = table.rules[0].import(std::slice::from_ref(&theirs), 0, &[3, 2]);
    assert_eq!(ours.shape, [3, 2]);
    assert_eq!(ours.values, [1., 4., 2., 5., 3., 6.]);
    assert_eq!(table.rules[0].export(&[&ours]), [theirs]);
}

/// Two groups, each with sections of two rows and one row of the first matrix, and one row of the second.
#[test]
fn sections_of_groups_there_and_back() {
    let mut table = Table::new("");
    table.stacked_in_sections(2, "mixed", [("input", vec![2, 1]), ("gate", vec![1])]);
    let rule = &table.rules[0];
    let theirs = Array {
        shape: vec![8, 1],
        values: (0..8).map(|x| x as f32).collect(),
    };
    let parts = [0, 1].map(|part| rule.import(std::slice::from_ref(&theirs), part, &[]));
    assert_eq!(parts[0].values, [0., 1., 4., 5., 2., 6.]);
    assert_eq!(parts[1].values, [3., 7.]);
    assert_eq!(rule.their_shape(&[&[6, 1], &[2, 1]]), [8, 1]);
    assert_eq!(rule.export(&parts.each_ref()), [theirs]);
}

/// Two experts with two inputs and three outputs, whose gate and up matrices are interleaved.
#[test]
fn experts_that_take_turns_there_and_back() {
    let mut table = Table::new("");
    let ours = || ["gate", "up"].map(String::from).to_vec();
    table.experts_in_out("both".into(), vec![2, 2, 6], ours());
    table.experts_in_out("both_bias".into(), vec![2, 6], ours());
    let theirs = |shape: &[usize]| Array {
        shape: shape.to_vec(),
        values: (0..shape.iter().product()).map(|x| x as f32).collect(),
    };
    let (matrices, biases) = (theirs(&[2, 2, 6]), theirs(&[2, 6]));
    let parts = |rule: usize, theirs: &Array, shape: &[usize]| {
        let import = |part| table.rules[rule].import(std::slice::from_ref(theirs), part, shape);
        [0, 1].map(import)
    };
    let weights = parts(0, &matrices, &[2, 3, 2]);
    assert_eq!(weights[0].values[..6], [0., 6., 2., 8., 4., 10.]);
    assert_eq!(weights[1].values[6..], [13., 19., 15., 21., 17., 23.]);
    assert_eq!(table.rules[0].export(&weights.each_ref()), [matrices]);
    let vectors = parts(1, &biases, &[6]);
    assert_eq!(vectors[0].values, [0., 2., 4., 6., 8., 10.]);
    assert_eq!(table.rules[1].export(&vectors.each_ref()), [biases]);
}
