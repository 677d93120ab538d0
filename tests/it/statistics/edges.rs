//! Statistics of edge cases: no values, one, equal ones, infinite ones, absurd options. Nothing panics, and no result is NaN or
//! infinite.

use formwork::report::analyse::statistics::bootstrap::bootstrap;
use formwork::report::analyse::statistics::contrast::{
    Contrast, Criteria, Reason, Test, Verdict, compare_arms,
};
use formwork::report::analyse::statistics::curve::{common_range, mean_height, steps_to_reach};
use formwork::report::analyse::statistics::holm::holm;
use formwork::report::analyse::statistics::independent::welch_t;
use formwork::report::analyse::statistics::paired::{paired_t, small_sample_factor};
use formwork::report::analyse::statistics::power::{
    independent_power, paired_power, pairs_needed, runs_needed,
};
use formwork::report::analyse::statistics::rates::{Rate, compare_rates, fisher_exact};
use formwork::report::analyse::statistics::summary::summarize;
use formwork::report::analyse::statistics::{Direction, Interval};
use serde::Serialize;

use super::random::Random;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
const CRITERIA: Criteria = Criteria {
    alpha: 0.05,
    better: Direction::Lower,
};

#[test]
fn values_that_are_not_finite_are_left_out() {
    let sound = summarize([1.0, 2.0, 4.0], 0.95);
    assert_eq!(summarize([1.0, NAN, 2.0, INF, 4.0, -INF], 0.95), sound);
    assert_eq!(sound.unwrap().n, 3);
    assert_eq!(
        paired_t(&[NAN, 1.0, 3.0, INF], 0.95),
        paired_t(&[1.0, 3.0], 0.95)
    );
    assert_eq!(
        welch_t(&[1.0, NAN, 2.0], &[3.0, 5.0], 0.9),
        welch_t(&[1.0, 2.0], &[3.0, 5.0], 0.9)
    );
    let all = bootstrap(&[1.0, NAN, 2.0, 5.0], 0.9, 10, |_| 0);
    assert_eq!(all, bootstrap(&[1.0, 2.0, 5.0], 0.9, 10, |_| 0));
}

#[test]
fn none_and_one_value() {
    assert_eq!(summarize([], 0.95), None);
    assert_eq!(summarize([NAN], 0.95), None);
    let one = summarize([3.0], 0.95).unwrap();
    assert_eq!(
        (one.mean, one.median, one.sd, one.interval),
        (3.0, 3.0, None, None)
    );
    for few in [&[][..], &[1.0], &[1.0, NAN]] {
        assert_eq!(paired_t(few, 0.95), None);
        assert_eq!(welch_t(few, &[1.0, 2.0], 0.95), None);
        assert_eq!(welch_t(&[1.0, 2.0], few, 0.95), None);
        assert_eq!(bootstrap(few, 0.95, 10, |_| 0), None);
    }
    assert_eq!(holm(&[]), []);
    assert_eq!(holm(&[None, Some(NAN), Some(0.5)]), [None, None, Some(0.5)]);
}

#[test]
fn equal_differences_have_no_p() {
    let same = paired_t(&[0.1; 3], 0.95).unwrap();
    assert_eq!(
        (same.mean, same.sd, same.p, same.t, same.d_z),
        (0.1, 0.0, None, None, None)
    );
    assert_eq!(
        same.interval,
        Interval {
            low: 0.1,
            high: 0.1
        }
    );
    assert_eq!(paired_t(&[0.0, -0.0], 0.95).unwrap().p, None);
    assert_eq!(welch_t(&[2.0; 2], &[3.0; 3], 0.95).unwrap().p, None);
    assert_eq!(welch_t(&[2.0; 2], &[2.0; 2], 0.95).unwrap().p, None);
    let flat = bootstrap(&[0.1; 12], 0.95, 10, |_| 0).unwrap();
    assert_eq!(
        (flat.bca, flat.percentile, flat.drawn),
        (same.interval, same.interval, None)
    );
    assert_eq!(paired_t(&[1.0, 2.0], 0.95).unwrap().g_z, None);
    assert_eq!(small_sample_factor(1.0), None);
}

#[test]
fn verdicts_of_every_kind() {
    let seeds = |values: &[f64]| {
        values
            .iter()
            .copied()
            .enumerate()
            .collect::<Vec<(usize, f64)>>()
    };
    let apart = |values: &[f64]| {
        values
            .iter()
            .map(|&v| (values.len() + 90, v))
            .collect::<Vec<_>>()
    };
    let baseline = seeds(&[3.0, 3.1, 2.9, 3.05, 3.2]);
    let arms = [
        seeds(&[2.5, 2.62, 2.4, 2.55, 2.69]),
        seeds(&[3.5, 3.62, 3.4, 3.55, 3.69]),
        seeds(&[3.1, 3.0, 2.8, 3.15, 3.25]),
        seeds(&[3.0, 3.1, 2.9, 3.05, 3.2]),
        seeds(&[3.5, 3.6]),
        seeds(&[NAN, NAN, INF]),
        apart(&[4.0]),
        seeds(&[2.0]),
    ];
    let lists: Vec<&[(usize, f64)]> = arms.iter().map(Vec::as_slice).collect();
    let found = compare_arms(&baseline, &lists, CRITERIA);
    let verdicts: Vec<String> = found.iter().map(|c| c.verdict.to_string()).collect();
    let expected = [
        "better",
        "worse",
        "not settled; more than 1000 seeds needed",
        "not tested: equal to the baseline for every seed",
        "not tested: the same difference for every seed",
        "not tested: no values",
        "not tested: fewer than two seeds",
        "not tested: fewer than two seeds",
    ];
    assert_eq!(verdicts, expected);
    assert_eq!(found[6].difference.map(|d| (d * 100.0).round()), Some(95.0));
    assert_eq!((found[7].pairs, found[7].difference), (1, Some(-1.0)));
    assert!(matches!(found[7].test, Test::Untested));
    let upwards = Criteria {
        better: Direction::Higher,
        ..CRITERIA
    };
    assert_eq!(
        compare_arms(&baseline, &lists, upwards)[0].verdict,
        Verdict::Worse
    );
}

/// By scipy's noncentral t: 69 pairs for an effect of 0.71 J(2) = 0.4006 at 0.05/3; d_z = 0.71 itself would need 24.
#[test]
fn seeds_that_settle_go_by_the_effect_that_is_shown() {
    let runs =
        |values: &[f64]| -> Vec<(usize, f64)> { (0..).zip(values.iter().copied()).collect() };
    let baseline = runs(&[0.0; 3]);
    let arm = runs(&[-0.29, 0.71, 1.71]);
    for found in compare_arms(&baseline, &[arm.as_slice(); 3], CRITERIA) {
        assert!((found.effect().unwrap() - 0.4006).abs() < 1e-4, "{found:?}");
        assert_eq!(found.verdict, Verdict::NotSettled { needed: Some(69) });
    }
    // Two seeds give no effect size, so no number of seeds is named that would settle the difference.
    let found = &compare_arms(&baseline[..2], &[&arm[..2]], CRITERIA)[0];
    assert_eq!((found.effect(), found.verdict), (None, Verdict::Open));
    assert_eq!(found.verdict.to_string(), "not settled");
}

/// J approaches 0 as the degrees of freedom approach 1, so a large d would be shown as no effect.
#[test]
fn two_unequal_spreads_of_two_seeds_have_no_corrected_effect() {
    let found = welch_t(&[1.0, 1.01], &[3.0, 5.0], 0.95).unwrap();
    assert!(found.d.unwrap() > 2.0);
    assert_eq!(found.g, None);
    let even = welch_t(&[1.0, 2.0], &[3.0, 4.0], 0.95).unwrap();
    assert!(even.g.is_some_and(|g| g > 0.5), "{even:?}");
}

#[test]
fn values_of_one_seed_count_by_their_mean() {
    let baseline = [("a", 1.0), ("a", 3.0), ("b", 4.0), ("c", NAN)];
    let arm = [("b", 7.0), ("a", 4.0), ("c", 1.0)];
    let found = &compare_arms(&baseline, &[arm.as_slice()], CRITERIA)[0];
    assert_eq!((found.pairs, found.difference), (2, Some(2.5)));
}

#[test]
fn few_and_large_effects_have_a_power() {
    assert_eq!(paired_power(1.0, 1, 0.05), None);
    assert_eq!(paired_power(NAN, 5, 0.05), None);
    for alpha in [0.0, 1.0, -1.0, NAN, INF] {
        assert_eq!(paired_power(1.0, 5, alpha), None);
        assert_eq!(pairs_needed(1.0, alpha, 0.8, 1000), None);
    }
    assert!((paired_power(0.0, 5, 0.05).unwrap() - 0.05).abs() < 1e-12);
    assert!((independent_power(0.0, 2, 0.01).unwrap() - 0.01).abs() < 1e-12);
    assert_eq!(pairs_needed(0.0, 0.05, 0.8, 1000), None);
    assert_eq!(pairs_needed(1e300, 0.05, 0.8, 1000), Some(2));
    assert_eq!(runs_needed(-1e9, 0.05, 0.8, 1000), Some(2));
    for most in [0, 1] {
        assert_eq!(pairs_needed(5.0, 0.05, 0.8, most), None);
    }
    let rising = (2..200).map(|n| paired_power(0.3, n, 0.05).unwrap());
    assert!(rising.is_sorted());
}

#[test]
fn rates_of_nothing() {
    let rate = |events, n| Rate { events, n };
    assert_eq!((rate(0, 0).value(), rate(0, 0).wilson(0.95)), (None, None));
    assert_eq!(rate(1, 4).wilson(1.0), None);
    assert_eq!(rate(9, 4).value(), Some(1.0));
    assert_eq!(rate(0, 3).wilson(0.95).unwrap().low, 0.0);
    assert_eq!(rate(3, 3).wilson(0.95).unwrap().high, 1.0);
    assert_eq!(compare_rates(rate(0, 0), rate(1, 2)), None);
    assert_eq!(fisher_exact(rate(0, 0), rate(1, 2)), 1.0);
    assert_eq!(fisher_exact(rate(0, 7), rate(0, 4)), 1.0);
    let p = fisher_exact(rate(0, 100_000), rate(50_000, 100_000));
    assert!((0.0..1e-300).contains(&p));
}

#[test]
fn curves_that_end_early() {
    let diverged = [(0, 4.0), (10, 2.0), (20, NAN), (30, 1.0)];
    let whole = [(0, 4.0), (10, 3.0), (5, -9.0), (30, 1.0)];
    assert_eq!(common_range([&diverged[..], &whole]), Some((0.0, 10.0)));
    assert_eq!(mean_height(&diverged, (0.0, 10.0)), Some(3.0));
    assert_eq!(mean_height(&diverged, (0.0, 30.0)), None);
    assert_eq!(mean_height(&whole, (20.0, 30.0)), Some(1.5));
    assert_eq!(steps_to_reach(&diverged, 1.0, Direction::Lower), None);
    assert_eq!(steps_to_reach(&whole, 2.0, Direction::Lower), Some(20.0));
    assert_eq!(steps_to_reach(&whole, 5.0, Direction::Lower), Some(0.0));
    assert_eq!(steps_to_reach(&whole, 5.0, Direction::Higher), None);
    assert_eq!(steps_to_reach(&whole, NAN, Direction::Higher), None);
    assert_eq!(common_range([]), None);
    assert_eq!(common_range([&diverged[..], &[]]), None);
    assert_eq!(common_range([&[(3, 1.0)][..]]), None);
    assert_eq!(mean_height(&[], (0.0, 1.0)), None);
    assert_eq!(mean_height(&whole, (5.0, 5.0)), None);
    assert_eq!(mean_height(&whole, (NAN, 5.0)), None);
}

/// Checks that no number of a result is NaN or infinite. Both would be serialised as null, so nulls of plain numbers reveal
/// them; `None` is excluded by looking only at the debug text.
fn sane<T: Serialize + std::fmt::Debug>(result: &T, input: &dyn std::fmt::Debug) {
    let text = format!("{result:?}");
    assert!(
        !text.contains("NaN") && !text.contains("inf"),
        "{text} of {input:?}"
    );
    assert!(serde_json::to_string(result).is_ok());
}

/// Passes random lists of awkward numbers, levels and counts through every function.
#[test]
fn nothing_panics_and_nothing_leaks() {
    let pieces = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        1.0 + f64::EPSILON,
        5e-324,
        -5e-324,
        1e-300,
        1e300,
        -1e308,
        f64::MAX,
        f64::MIN,
        NAN,
        INF,
        -INF,
        3.5,
        2.5,
        1e-160,
        1e160,
    ];
    let levels = [
        0.95,
        0.95,
        0.95,
        0.5,
        1e-9,
        1.0 - 1e-12,
        0.0,
        1.0,
        -3.0,
        NAN,
        INF,
    ];
    let mut random = Random(9);
    for _ in 0..1000 {
        let pick = |random: &mut Random| pieces[random.below(pieces.len() as u64) as usize];
        let mut list = |most| {
            (0..random.below(most))
                .map(|_| pick(&mut random))
                .collect::<Vec<f64>>()
        };
        let (a, b, c) = (list(9), list(14), list(60));
        let level = levels[random.below(levels.len() as u64) as usize];
        for values in [&a, &b, &c] {
            sane(&summarize(values.iter().copied(), level), values);
            sane(&paired_t(values, level), values);
            sane(&welch_t(values, &b, level), values);
            sane(&welch_t(&a, values, level), values);
        }
        for values in [&a, &c] {
            sane(&bootstrap(values, level, 20, |n| random.below(n)), values);
            sane(&bootstrap(values, level, 0, |_| u64::MAX), values);
        }
        let runs = |values: &[f64]| {
            values
                .iter()
                .map(|&v| (v.to_bits() % 5, v))
                .collect::<Vec<_>>()
        };
        let arms = [runs(&a), runs(&b), runs(&c)];
        let lists: Vec<&[(u64, f64)]> = arms.iter().map(Vec::as_slice).collect();
        let criteria = Criteria {
            alpha: 1.0 - level,
            ..CRITERIA
        };
        let found: Vec<Contrast> = compare_arms(&arms[1], &lists, criteria);
        sane(&found, &arms);
        let own = &found[1];
        assert!(
            matches!(own.verdict, Verdict::NotTested(_)),
            "an arm against itself: {own:?}"
        );
        assert!(own.verdict != Verdict::NotTested(Reason::NoSpread));
        let curve: Vec<(u64, f64)> = c.iter().map(|&v| (random.below(40), v)).collect();
        sane(&mean_height(&curve, (1.0, 20.0)), &curve);
        sane(
            &steps_to_reach(&curve, pick(&mut random), Direction::Lower),
            &curve,
        );
        let p: Vec<Option<f64>> = c.iter().map(|&v| Some(v)).collect();
        sane(&holm(&p), &p);
    }
}
