//! Arms that cannot be tested because their differences from the baseline do not vary: they have no p value, and do not count
//! in the correction of the other tests.

use formwork::report::analyse::statistics::Direction;
use formwork::report::analyse::statistics::contrast::{
    Contrast, Criteria, Reason, Test, Verdict, compare_arms,
};

const CRITERIA: Criteria = Criteria {
    alpha: 0.05,
    better: Direction::Lower,
};

/// Four runs with seeds from `first` on.
fn runs(first: usize, values: [f64; 4]) -> Vec<(usize, f64)> {
    (first..).zip(values).collect()
}

fn untested(arm: &Contrast, reason: Reason) {
    assert_eq!((arm.p, arm.p_holm), (None, None), "{arm:?}");
    assert_eq!(arm.verdict, Verdict::NotTested(reason));
    assert!(arm.interval().is_some_and(|i| i.low == i.high), "{arm:?}");
    if let Test::Paired(t) = &arm.test {
        assert_eq!(t.p, None);
    }
}

/// Neither an arm's corrected p nor the number of seeds that it needs depends on arms without a test.
#[test]
fn arms_without_spread_are_no_tests() {
    let baseline = runs(0, [1.0, 1.25, 1.5, 1.75]);
    let open = runs(0, [1.5, 1.0, 1.75, 1.875]);
    let shifted = runs(0, [1.5, 1.75, 2.0, 2.25]);
    let alone = compare_arms(&baseline, &[open.as_slice()], CRITERIA);
    assert!(matches!(
        alone[0].verdict,
        Verdict::NotSettled { needed: Some(_) }
    ));
    let arms = [open.as_slice(), baseline.as_slice(), shifted.as_slice()];
    let together = compare_arms(&baseline, &arms, CRITERIA);
    assert_eq!(together[0], alone[0]);
    assert_eq!(together[0].p_holm, together[0].p);
    untested(&together[1], Reason::Identical);
    untested(&together[2], Reason::NoSpread);
}

#[test]
fn without_common_seeds_there_is_no_test_either() {
    let baseline = runs(0, [2.0; 4]);
    let (same, other) = (runs(9, [2.0; 4]), runs(9, [3.0; 4]));
    let found = compare_arms(&baseline, &[same.as_slice(), other.as_slice()], CRITERIA);
    untested(&found[0], Reason::Identical);
    untested(&found[1], Reason::NoSpread);
}

/// Differences between accuracies k/n vary in their last bit; that is rounding, not a spread to test against.
#[test]
fn rounding_is_no_spread() {
    let found = |baseline: &[f64], arm: &[f64]| {
        let runs =
            |values: &[f64]| -> Vec<(usize, f64)> { values.iter().copied().enumerate().collect() };
        compare_arms(&runs(baseline), &[runs(arm).as_slice()], CRITERIA).remove(0)
    };
    // In floats: 0.2, 0.20000000000000007 and 0.2.
    untested(&found(&[0.0, 0.6, 0.2], &[0.2, 0.8, 0.4]), Reason::NoSpread);
    for n in [10, 30, 500] {
        let share = |k: u32| f64::from(k) / f64::from(n);
        let counts = [0, 1, n / 3, n / 2 + 1, n - 4];
        let baseline = counts.map(share);
        for shift in 0..4 {
            let reason = match shift {
                0 => Reason::Identical,
                _ => Reason::NoSpread,
            };
            let arm = found(&baseline, &counts.map(|k| share(k + shift)));
            untested(&arm, reason);
            // One more example in one seed is a real difference.
            let mut other = counts.map(|k| share(k + shift));
            other[2] += share(1);
            assert!(found(&baseline, &other).p.is_some(), "{n} {shift}");
        }
    }
    // Each pair has its own magnitude: a large value does not hide the differences of small ones.
    let arm = found(&[1e300, 1.0, 2.0], &[1e300, 1.5, 2.25]);
    assert!(arm.p.is_some(), "{arm:?}");
    // A difference that is 0 except for rounding counts as 0.
    let arm = found(&[0.3, 0.6], &[0.1 + 0.2, 0.6]);
    untested(&arm, Reason::Identical);
    assert_eq!(arm.difference, Some(0.0));
}
