//! Tests of `image_classification`.

use super::*;

#[test]
fn ranks() {
    let logits = [0.5, 2.0, 0.5, -1.0];
    let ranks: Vec<usize> = (0..4).map(|label| rank(&logits, label)).collect();
    assert_eq!(ranks, [1, 0, 2, 3]);
    assert_eq!(rank(&[f32::NAN, f32::NAN], 0), 2);
}

#[test]
fn shares_of_mixed_images() {
    let found = shares(&[0, 2], &[(1, 0.75), (2, 0.5)], 4, 0.2);
    let wanted = [0.65, 0.25, 0.05, 0.05, 0.05, 0.05, 0.85, 0.05];
    for (x, y) in found.iter().zip(wanted) {
        assert!((x - y).abs() < 1e-6, "{found:?}");
    }
}
