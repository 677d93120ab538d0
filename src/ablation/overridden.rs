//! Keys of `--set` that arms give another value: an arm is laid over what `--set` says of the base.

use crate::ablation::arms::Arm;
use crate::error::{Error, Result};
use crate::experiment::ablation::AblationConfig;
use crate::report::analyse::examples::is_within;
use toml::Value;

/// What is said of the keys that some arms give themselves, a sentence each.
///
/// # Errors
/// A key that every arm gives, so that its `--set` has no effect.
pub(super) fn notes(config: &AblationConfig, arms: &[Arm], sets: &[String]) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for set in sets {
        let Some((key, _)) = set.split_once('=') else {
            continue;
        };
        let key = key.trim();
        let own = arms.iter().filter(|arm| gives(arm, key));
        match own.count() {
            0 => {}
            n if n == arms.len() => {
                return Err(Error::usage(format!(
                    "--set {set} has no effect: {} gives `{key}` in every arm; leave --set out{}",
                    giver(config, key),
                    remedy(config, key)
                )));
            }
            n => notes.push(format!(
                "--set {set} has no effect in {n} of {} arms, which give `{key}` themselves",
                arms.len()
            )),
        }
    }
    Ok(notes)
}

/// Whether an arm gives a key: by itself, or in a table that it gives.
fn gives(arm: &Arm, key: &str) -> bool {
    arm.sets.iter().any(|(own, value)| {
        let below = key.strip_prefix(own.as_str());
        match below.map(|below| below.strip_prefix('.')) {
            Some(Some(below)) => at(value, below).is_some(),
            Some(None) => own == key,
            None => false,
        }
    })
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

/// The list that gives a key in every arm.
fn giver(config: &AblationConfig, key: &str) -> String {
    let mut drawn = config.random.iter().flat_map(|random| random.ranges.keys());
    if let Some(axis) = config.axes.keys().find(|axis| is_within(key, axis)) {
        format!("the axis `{axis}`")
    } else if let Some(range) = drawn.find(|range| is_within(key, range)) {
        format!("the range `{range}`")
    } else {
        "each of [[ablation.arms]]".into()
    }
}

/// The way to other values of an axis.
fn remedy(config: &AblationConfig, key: &str) -> String {
    match config.axes.keys().find(|axis| is_within(key, axis)) {
        Some(axis) => {
            format!(", or give the axis other values: --set 'ablation.axes={{ \"{axis}\" = […] }}'")
        }
        None => String::new(),
    }
}
