//! Checks `[schedule]`: its own keys, and whether the run is long enough for its warmup and decay.

use super::Checker;
use crate::experiment::{Origin, epochs};

pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    // If the length is given in epochs, the steps are 0 until the data is read.
    let (steps, lr) = (experiment.train.steps, experiment.optimizer.lr());
    if steps == 0 || !(lr > 0.0 && lr.is_finite()) {
        return;
    }
    for fault in experiment.schedule.faults(lr) {
        sense.add_worded("schedule", &fault);
    }
    check_duration(sense, steps);
}

/// Reports a warmup and decay that do not fit into this number of steps, with the locations of the other keys involved and the
/// settings that would fit.
fn check_duration(sense: &mut Checker, steps: u64) {
    let loaded = sense.loaded;
    let schedule = &loaded.experiment.schedule;
    let Some(rule) = schedule.length_fault(steps) else {
        return;
    };
    let length = match epochs::source_epochs(loaded) {
        Some(_) => "train.epochs",
        None => "train.steps",
    };
    let mut keys = match rule.starts_with("cycles") {
        true => vec!["schedule.cycles", "schedule.warmup_steps"],
        false => vec!["schedule.warmup_steps"],
    };
    for (word, key) in [("decay_steps", "schedule.decay_steps"), ("[train]", length)] {
        if rule.contains(word) {
            keys.push(key);
        }
    }
    let at = sense.origin_of(&keys);
    let other = keys.iter();
    let other = other.map(|key| (super::last(key), loaded.origin(key)));
    let places = other.filter_map(|(name, origin)| match origin {
        Origin::File { path, line } if *origin != at => {
            Some(format!("{name} at {}:{line}", path.display()))
        }
        Origin::Default if name == "warmup_steps" => Some(format!("{name} by default")),
        Origin::File { .. } | Origin::Set(_) | Origin::Preset { .. } | Origin::Default => None,
    });
    let places: Vec<String> = places.collect();
    let places = match places.is_empty() {
        true => String::new(),
        false => format!(" ({})", places.join(", ")),
    };
    let sets = schedule.fitting_values(steps).into_iter();
    let sets = sets.map(|(key, value)| format!("--set schedule.{key}={value}"));
    let sets: Vec<String> = sets.collect();
    let rule = format!("{rule}{places}; it fits with: {}", sets.join(" "));
    sense.fault(&keys, rule);
}
