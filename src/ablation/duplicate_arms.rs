//! Arms with the same settings, whose runs of one seed are the same run.

use crate::ablation::prepared::PreparedArm;
use crate::ablation::settings::ArmSettings;
use std::collections::btree_map::{BTreeMap, Entry};

/// Number of arms that are named one by one in notes.
const NAMED: usize = 5;

/// Returns notes, one sentence each, about arms that have the settings of an earlier arm.
pub(super) fn notes(arms: &[PreparedArm]) -> Vec<String> {
    let mut seen: BTreeMap<ArmSettings, &str> = BTreeMap::new();
    let mut notes = Vec::new();
    for arm in arms {
        // A fault of the arm's paths is reported when the arm is planned.
        let Ok(settings) = ArmSettings::of(&arm.loaded) else {
            continue;
        };
        let name = arm.name.as_str();
        match seen.entry(settings) {
            Entry::Occupied(known) => {
                let known = known.get();
                notes.push(format!(
                    "arm `{name}` has the same settings as arm `{known}`, so both train the same runs; change its settings or \
                     remove it"
                ));
            }
            Entry::Vacant(free) => {
                free.insert(name);
            }
        }
    }
    if let more @ 1.. = notes.len().saturating_sub(NAMED) {
        notes.truncate(NAMED);
        notes.push(format!(
            "{more} more arms have the same settings as earlier arms"
        ));
    }
    notes
}
