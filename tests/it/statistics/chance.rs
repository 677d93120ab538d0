//! What the tests of ablations promise, checked on seeded random data: error rates, coverage, power.

use formwork::report::analyse::statistics::Direction;
use formwork::report::analyse::statistics::bootstrap::bootstrap;
use formwork::report::analyse::statistics::contrast::{
    Contrast, Criteria, Test, Verdict, compare_arms,
};
use formwork::report::analyse::statistics::power::paired_power;
use formwork::report::analyse::statistics::summary::summarize;

use super::random::Random;

const CRITERIA: Criteria = Criteria {
    alpha: 0.05,
    better: Direction::Lower,
};
const TIMES: usize = 2000;

/// Draws the runs of one arm: a component shared by all arms of a seed, and a separate one.
fn runs(random: &mut Random, shared: &[f64], effect: f64) -> Vec<(usize, f64)> {
    let seeds = shared.iter().enumerate();
    seeds
        .map(|(seed, s)| (seed, 3.0 + 2.0 * s + 0.1 * (random.normal() + effect)))
        .collect()
}

/// Repeats an ablation with `effects.len()` arms on `n` seeds.
fn ablations(seed: u64, n: usize, effects: &[f64]) -> Vec<Vec<Contrast>> {
    let mut random = Random(seed);
    let mut once = || {
        let shared: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let baseline = runs(&mut random, &shared, 0.0);
        let arms: Vec<_> = effects
            .iter()
            .map(|&e| runs(&mut random, &shared, e))
            .collect();
        let arms: Vec<&[(usize, f64)]> = arms.iter().map(Vec::as_slice).collect();
        compare_arms(&baseline, &arms, CRITERIA)
    };
    (0..TIMES).map(|_| once()).collect()
}

fn share(count: usize) -> f64 {
    count as f64 / TIMES as f64
}

fn settled(c: &Contrast) -> bool {
    matches!(c.verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn an_arm_equal_to_the_baseline_is_found_different_in_one_case_of_twenty() {
    let found = ablations(1, 5, &[0.0]);
    let rate = share(found.iter().filter(|c| settled(&c[0])).count());
    assert!((rate - 0.05).abs() < 0.015, "{rate}");
}

#[test]
fn four_equal_arms_together_have_a_false_verdict_in_one_case_of_twenty() {
    let found = ablations(2, 5, &[0.0; 4]);
    let corrected = share(found.iter().filter(|c| c.iter().any(settled)).count());
    let low = |c: &Contrast| c.p.is_some_and(|p| p <= 0.05);
    let uncorrected = share(found.iter().filter(|c| c.iter().any(low)).count());
    assert!(corrected < 0.065, "{corrected}");
    assert!(uncorrected > 0.1, "the check has no teeth: {uncorrected}");
}

/// The effect is 1.5 standard deviations of the difference, which is √2 of an arm's separate component.
#[test]
fn an_effect_of_one_and_a_half_deviations_is_found_with_ten_seeds() {
    let effect = 1.5 * 2f64.sqrt();
    for (sign, verdict) in [(-1.0, Verdict::Better), (1.0, Verdict::Worse)] {
        let found = ablations(3, 10, &[sign * effect]);
        let right = share(found.iter().filter(|c| c[0].verdict == verdict).count());
        let promised = paired_power(1.5, 10, 0.05).unwrap();
        assert!(
            right > 0.95 && (right - promised).abs() < 0.015,
            "{right} {promised}"
        );
    }
}

/// The number of seeds that would settle a difference always exceeds the existing number; an unsettled arm is never called
/// equal.
#[test]
fn more_seeds_are_needed_than_there_are() {
    for n in [2, 3, 5, 12] {
        for c in ablations(4, n, &[0.3, 1.0, 0.0]).iter().take(300).flatten() {
            if let Verdict::NotSettled {
                needed: Some(needed),
            } = c.verdict
            {
                assert!(needed > n && needed <= 1000, "{c:?}");
            }
        }
    }
}

#[test]
fn t_intervals_cover_the_truth_and_bootstrap_intervals_of_many_do_nearly() {
    let mut random = Random(5);
    let mut covered = [0; 3];
    for _ in 0..1000 {
        let five: Vec<f64> = (0..5).map(|_| random.normal()).collect();
        let interval = summarize(five, 0.95).unwrap().interval.unwrap();
        covered[0] += usize::from(interval.low < 0.0 && 0.0 < interval.high);
        let many: Vec<f64> = (0..30).map(|_| random.normal()).collect();
        let found = bootstrap(&many, 0.95, 1000, |n| random.below(n)).unwrap();
        for (i, interval) in [found.percentile, found.bca].into_iter().enumerate() {
            covered[1 + i] += usize::from(interval.low < 0.0 && 0.0 < interval.high);
        }
    }
    assert!((930..=970).contains(&covered[0]), "{covered:?}");
    assert!(
        covered[1..].iter().all(|c| (910..=965).contains(c)),
        "{covered:?}"
    );
}

/// Without common seeds, Welch's test keeps the same promise.
#[test]
fn different_seeds_are_tested_unpaired() {
    let mut random = Random(6);
    let mut false_verdicts = 0;
    for _ in 0..TIMES {
        let baseline: Vec<(u32, f64)> = (0..5).map(|seed| (seed, random.normal())).collect();
        let arm: Vec<(u32, f64)> = (10..16).map(|seed| (seed, random.normal())).collect();
        let found = compare_arms(&baseline, &[arm.as_slice()], CRITERIA);
        assert!(found[0].pairs == 0 && matches!(found[0].test, Test::Unpaired(_)));
        false_verdicts += usize::from(settled(&found[0]));
    }
    assert!(
        (share(false_verdicts) - 0.05).abs() < 0.015,
        "{false_verdicts}"
    );
}
