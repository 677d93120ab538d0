//! Contrasts of every arm with the first one, and the reasons why some are not tested.

use super::arms::Arm;
use super::lengths;
use super::measures;
use super::metrics::direction;
use super::origins::{self, ComparedRuns};
use super::results::RunResult;
use super::statistics::LEVEL;
use super::statistics::contrast::{Contrast, Criteria, Reason, compare_arms};

/// Returns for each arm the reason why its difference from the first arm is not tested, if there is one: different input
/// contents, values of a different measure or on different examples, or a different number of steps.
pub fn untested_reasons(compared: ComparedRuns, metric: &str) -> Vec<Option<Reason>> {
    let Some(first) = compared.arms.first() else {
        return Vec::new();
    };
    let contents = origins::content_differs(compared);
    let measured = measures::measure_differs(compared, metric);
    let reason = |((arm, contents), measured): ((&Arm, bool), bool)| match (contents, measured) {
        (true, _) => Some(Reason::OtherContents),
        (false, true) => Some(Reason::OtherMeasure),
        (false, false) => {
            lengths::differ(first, arm, compared.runs, compared.plan).then_some(Reason::OtherSteps)
        }
    };
    let all = compared.arms.iter().zip(contents).zip(measured);
    all.map(reason).collect()
}

/// Contrasts every other arm with the first one. A run without a seed pairs with no other run. Arms with different input contents
/// or a different measure get no difference at all.
pub fn contrasts(
    compared: ComparedRuns,
    (metric, apart): (&str, &[Option<Reason>]),
    outcomes: &[RunResult],
    pick: fn(&RunResult) -> Option<f64>,
) -> Vec<Contrast> {
    let values = |arm: &Arm| -> Vec<(String, f64)> {
        let seed = |m: usize| match &compared.runs[m].seed {
            Some(seed) => format!("seed {seed}"),
            None => format!("run {m}"),
        };
        let counted = arm.counted.iter();
        counted
            .filter_map(|&m| Some((seed(m), pick(&outcomes[m])?)))
            .collect()
    };
    let Some((first, others)) = compared.arms.split_first() else {
        return Vec::new();
    };
    let (baseline, all) = (values(first), others.iter().map(values));
    let all: Vec<Vec<(String, f64)>> = all.collect();
    let apart = || apart.iter().copied().skip(1);
    let criteria = Criteria {
        alpha: 1.0 - LEVEL,
        better: direction(metric),
    };
    // Untested arms do not count in the multiple-testing correction of the others.
    let of = |which: bool| {
        let these = all.iter().zip(apart());
        let these = these.filter(|(_, apart)| apart.is_some() == which);
        let these: Vec<&[(String, f64)]> = these.map(|(values, _)| values.as_slice()).collect();
        compare_arms(&baseline, &these, criteria).into_iter()
    };
    let (mut tested, mut untested) = (of(false), of(true));
    let next = |apart: Option<Reason>| match apart {
        None => tested.next(),
        Some(reason) => untested.next().map(|gap| match (gap.difference, reason) {
            (None, _) => gap,
            (Some(_), Reason::OtherContents | Reason::OtherMeasure) => Contrast {
                difference: None,
                ..gap.untested(reason)
            },
            (Some(_), _) => gap.untested(reason),
        }),
    };
    apart().filter_map(next).collect()
}
