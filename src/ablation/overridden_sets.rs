//! Keys of `--set` that arms override: an arm's settings are applied after those of `--set`.

use crate::ablation::arms::Arm;
use crate::error::{Error, Result};
use crate::experiment::ablation::AblationConfig;
use crate::report::analyse::examples::is_within;
use toml::Value;

/// Returns notes, one sentence each, about keys of `--set` that some arms set themselves.
///
/// # Errors
/// If every arm sets a key, so that its `--set` has no effect.
pub(super) fn notes(config: &AblationConfig, arms: &[Arm], sets: &[String]) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for set in sets {
        let Some((key, _)) = set.split_once('=') else {
            continue;
        };
        let key = key.trim();
        let own = arms.iter().filter(|arm| sets_key(arm, key));
        match own.count() {
            0 => {}
            n if n == arms.len() => {
                return Err(Error::usage(format!(
                    "--set {set} has no effect: {} sets `{key}` in every arm; remove --set{}",
                    setting_list(config, key),
                    remedy(config, key)
                )));
            }
            n => notes.push(format!(
                "--set {set} has no effect in {n} of {} arms, which set `{key}` themselves",
                arms.len()
            )),
        }
    }
    Ok(notes)
}

/// Returns whether an arm sets a key: by itself, or in a table that it sets.
fn sets_key(arm: &Arm, key: &str) -> bool {
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

/// Names the list that sets a key in every arm.
fn setting_list(config: &AblationConfig, key: &str) -> String {
    let mut drawn = config.random.iter().flat_map(|random| random.ranges.keys());
    if let Some(axis) = config.axes.keys().find(|axis| is_within(key, axis)) {
        format!("the axis `{axis}`")
    } else if let Some(range) = drawn.find(|range| is_within(key, range)) {
        format!("the range `{range}`")
    } else {
        "each of [[ablation.arms]]".into()
    }
}

/// Suggests how to give an axis other values.
fn remedy(config: &AblationConfig, key: &str) -> String {
    match config.axes.keys().find(|axis| is_within(key, axis)) {
        Some(axis) => {
            format!(", or give the axis other values: --set 'ablation.axes={{ \"{axis}\" = […] }}'")
        }
        None => String::new(),
    }
}
