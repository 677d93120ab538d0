//! Tests of `pass`.

use super::*;

/// A network with more dropouts in other parts draws the same mask in this one, so that runs with one seed stay paired.
#[test]
fn a_dropout_is_keyed_by_its_part() {
    let pass = || {
        Pass::training(Draws {
            seed: 3,
            step: 5,
            first_row: 0,
        })
    };
    let residual = |pass: &Pass| pass.in_network("blocks.1", || pass.key("attention", 0.1));
    let plain = residual(&pass()).map(|key| key.site);
    let other = pass();
    assert!(other.key("embedding", 0.2).is_some());
    other.in_network("blocks.0", || {
        other.in_part("feed_forward", || other.key("inner", 0.3))
    });
    assert_eq!(residual(&other).map(|key| key.site), plain);
    let inner = other.in_network("blocks.1", || {
        other.in_part("attention", || other.key("weights", 0.1))
    });
    assert_ne!(inner.map(|key| key.site), plain);
    assert!(residual(&Pass::evaluation()).is_none());
}
