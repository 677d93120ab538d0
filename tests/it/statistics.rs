//! The statistics of ablations against scipy and statsmodels (tests/goldens/make_statistics.py).

mod chance;
mod edges;
mod random;
mod untested;
mod worst;

use std::collections::BTreeMap;

use formwork::report::analyse::statistics::bootstrap::bootstrap;
use formwork::report::analyse::statistics::curve::{common_range, mean_height, steps_to_reach};
use formwork::report::analyse::statistics::holm::holm;
use formwork::report::analyse::statistics::independent::welch_t;
use formwork::report::analyse::statistics::paired::paired_t;
use formwork::report::analyse::statistics::power::{
    independent_power, paired_power, pairs_needed, runs_needed,
};
use formwork::report::analyse::statistics::rates::{Rate, compare_rates, fisher_exact};
use formwork::report::analyse::statistics::summary::summarize;
use formwork::report::analyse::statistics::{Direction, Interval};
use serde_json::Value;

use random::Random;
use worst::Worst;

fn golden(part: &str) -> Vec<Value> {
    let text = include_str!("../goldens/statistics.json");
    let all: Value = serde_json::from_str(text).unwrap();
    all[part].as_array().unwrap().clone()
}

fn floats(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap();
    list.iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn samples_as_scipy() {
    let mut worst = Worst::default();
    let samples = golden("samples");
    assert!(samples.len() >= 40);
    for case in &samples {
        let values = floats(&case["values"]);
        let level = case["level"].as_f64().unwrap();
        summary(case, &values, level, &mut worst);
        paired(case, &values, level, &mut worst);
        welch(case, &values, level, &mut worst);
    }
    worst.check();
}

fn summary(case: &Value, values: &[f64], level: f64, worst: &mut Worst) {
    let (got, expected) = (
        summarize(values.iter().copied(), level).unwrap(),
        &case["summary"],
    );
    assert_eq!(got.n as u64, expected["n"].as_u64().unwrap());
    worst.number("mean", case, Some(got.mean), &expected["mean"], None);
    worst.number("sd", case, got.sd, &expected["sd"], None);
    worst.number("median", case, Some(got.median), &expected["median"], None);
    worst.number("min", case, Some(got.min), &expected["min"], None);
    worst.number("max", case, Some(got.max), &expected["max"], None);
    worst.number(
        "standard error",
        case,
        got.standard_error,
        &expected["standard_error"],
        None,
    );
    worst.interval(
        "mean interval",
        case,
        got.interval,
        &expected["low"],
        &expected["high"],
    );
}

fn paired(case: &Value, values: &[f64], level: f64, worst: &mut Worst) {
    let (got, expected) = (paired_t(values, level), &case["paired"]);
    worst.interval(
        "paired interval",
        case,
        got.map(|g| g.interval),
        &expected["low"],
        &expected["high"],
    );
    worst.number(
        "paired t",
        case,
        got.and_then(|g| g.t),
        &expected["t"],
        None,
    );
    worst.number(
        "paired p",
        case,
        got.and_then(|g| g.p),
        &expected["p"],
        None,
    );
    worst.number("d_z", case, got.and_then(|g| g.d_z), &expected["d_z"], None);
    worst.number("g_z", case, got.and_then(|g| g.g_z), &expected["g_z"], None);
}

fn welch(case: &Value, values: &[f64], level: f64, worst: &mut Worst) {
    let (got, expected) = (
        welch_t(&floats(&case["other"]), values, level),
        &case["welch"],
    );
    worst.interval(
        "welch interval",
        case,
        got.map(|g| g.interval),
        &expected["low"],
        &expected["high"],
    );
    worst.number("welch t", case, got.and_then(|g| g.t), &expected["t"], None);
    worst.number("welch df", case, got.map(|g| g.df), &expected["df"], None);
    worst.number("welch p", case, got.and_then(|g| g.p), &expected["p"], None);
    worst.number("welch d", case, got.and_then(|g| g.d), &expected["d"], None);
    worst.number("welch g", case, got.and_then(|g| g.g), &expected["g"], None);
}

/// Over all resamples, and over the same random resamples.
#[test]
fn bootstrap_as_scipy() {
    let mut worst = Worst::default();
    let mut ways: BTreeMap<String, usize> = BTreeMap::new();
    for (i, case) in golden("samples").iter().enumerate() {
        let (values, expected) = (floats(&case["values"]), &case["bootstrap"]);
        let level = case["level"].as_f64().unwrap();
        let mut random = Random(i as u64);
        let got = bootstrap(&values, level, 2000, |n| random.below(n));
        let Some(how) = expected["how"].as_str() else {
            let point = |i: Interval| i.low == values[0] && i.high == values[0];
            assert!(got.is_none_or(|g| point(g.bca) && point(g.percentile)));
            continue;
        };
        *ways.entry(how.into()).or_default() += 1;
        let got = got.unwrap();
        assert_eq!(got.drawn, (how == "drawn").then_some(2000));
        let (percentile, bca) = (&expected["percentile"], &expected["bca"]);
        worst.interval(
            "percentile",
            case,
            Some(got.percentile),
            &percentile[0],
            &percentile[1],
        );
        worst.interval("bca", case, Some(got.bca), &bca[0], &bca[1]);
    }
    assert!(ways["all"] >= 20 && ways["drawn"] >= 10, "{ways:?}");
    worst.check();
}

#[test]
fn power_as_its_definition() {
    let mut worst = Worst::default();
    for case in golden("power") {
        let effect = case["effect"].as_f64().unwrap();
        let alpha = case["alpha"].as_f64().unwrap();
        let n = case["n"].as_u64().unwrap() as usize;
        for sign in [1.0, -1.0] {
            worst.number(
                "paired power",
                &case,
                paired_power(sign * effect, n, alpha),
                &case["paired"],
                None,
            );
            let power = independent_power(sign * effect, n, alpha);
            worst.number(
                "independent power",
                &case,
                power,
                &case["independent"],
                None,
            );
        }
    }
    worst.check();
}

#[test]
fn seeds_needed_as_statsmodels() {
    for case in golden("needed") {
        let effect = case["effect"].as_f64().unwrap();
        let alpha = case["alpha"].as_f64().unwrap();
        let pairs = pairs_needed(effect, alpha, 0.8, 10_000).unwrap();
        let runs = runs_needed(-effect, alpha, 0.8, 10_000).unwrap();
        assert_eq!(pairs as u64, case["pairs"].as_u64().unwrap(), "{case}");
        assert_eq!(runs as u64, case["runs"].as_u64().unwrap(), "{case}");
        assert!(paired_power(effect, pairs, alpha).unwrap() >= 0.8);
        assert!(paired_power(effect, pairs - 1, alpha).is_none_or(|p| p < 0.8));
        assert_eq!(pairs_needed(effect, alpha, 0.8, pairs - 1), None);
        assert_eq!(pairs_needed(effect, alpha, 0.8, pairs), Some(pairs));
    }
}

#[test]
fn holm_as_statsmodels() {
    for case in golden("holm") {
        let (p, expected) = (floats(&case["p"]), floats(&case["holm"]));
        let mut given: Vec<Option<f64>> = p.into_iter().map(Some).collect();
        given.insert(1, None);
        given.push(Some(f64::NAN));
        let mut got = holm(&given);
        assert_eq!(got.pop(), Some(None));
        assert_eq!(got.remove(1), None);
        for (got, expected) in got.iter().zip(expected) {
            assert!((got.unwrap() - expected).abs() <= 1e-15, "{case}");
        }
    }
}

#[test]
fn rates_as_statsmodels() {
    let mut worst = Worst::default();
    for case in golden("rates") {
        let rate = |key: &str, i: usize| case[key][i].as_u64().unwrap() as usize;
        let [first, second] = ["first", "second"].map(|key| Rate {
            events: rate(key, 0),
            n: rate(key, 1),
        });
        let interval = first.wilson(case["level"].as_f64().unwrap());
        worst.interval("wilson", &case, interval, &case["low"], &case["high"]);
        for p in [fisher_exact(first, second), fisher_exact(second, first)] {
            worst.number("fisher", &case, Some(p), &case["fisher"], None);
        }
        let compared = compare_rates(first, second).unwrap();
        assert_eq!(
            compared.difference,
            second.value().unwrap() - first.value().unwrap()
        );
    }
    worst.check();
}

#[test]
fn curves_as_numpy() {
    let mut worst = Worst::default();
    for case in golden("curves") {
        let point = |p: &Value| (p[0].as_u64().unwrap(), p[1].as_f64().unwrap());
        let curve = |c: &Value| c.as_array().unwrap().iter().map(point).collect::<Vec<_>>();
        let curves: Vec<Vec<(u64, f64)>> = case["curves"]
            .as_array()
            .unwrap()
            .iter()
            .map(curve)
            .collect();
        let range = common_range(curves.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(Some(range.0), case["low"].as_f64());
        assert_eq!(Some(range.1), case["high"].as_f64());
        let target = case["target"].as_f64().unwrap();
        for (i, curve) in curves.iter().enumerate() {
            worst.number(
                "mean height",
                &case,
                mean_height(curve, range),
                &case["heights"][i],
                None,
            );
            let reached = steps_to_reach(curve, target, Direction::Lower);
            worst.number("steps to reach", &case, reached, &case["reached"][i], None);
            let mirrored: Vec<(u64, f64)> = curve.iter().map(|&(s, v)| (s, -v)).collect();
            assert_eq!(
                steps_to_reach(&mirrored, -target, Direction::Higher),
                reached
            );
        }
    }
    worst.check();
}
