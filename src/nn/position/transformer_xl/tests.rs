//! Tests of `transformer_xl`.

use super::{DistanceRange, Span, distance_range, table};

#[test]
fn a_pass_has_as_many_vectors_as_distances() {
    let span = Span {
        queries: 3,
        keys: 8,
        offset: 5,
    };
    let of = |causal, clamp| distance_range(span, causal, clamp);
    let wanted = |nearest, farthest| DistanceRange { nearest, farthest };
    assert_eq!(of(true, None), wanted(0, 7));
    assert_eq!(of(true, Some(4)), wanted(0, 4));
    assert_eq!(of(false, None), wanted(-2, 7));
    assert_eq!(of(false, Some(1)), wanted(-1, 1));
    assert_eq!(of(true, None).rows(), 8);
    // A key after its query, which is masked, has the row of distance 0.
    assert_eq!([-7, 0, 2].map(|d| of(true, None).row(d)), [7, 0, 0]);
    assert_eq!([-7, 0, 2].map(|d| of(false, None).row(d)), [9, 2, 0]);
}

#[test]
fn sines_change_sign_with_the_distance() {
    let rows = table(-1, 3, 4);
    let (behind, ahead) = (&rows[8..12], &rows[0..4]);
    assert_eq!(rows[4..8], [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(behind[0], -ahead[0]);
    assert_eq!(behind[2..], ahead[2..]);
    assert!((behind[0] - 0.841_471).abs() < 1e-6 && (behind[1] - 0.01).abs() < 1e-6);
}
