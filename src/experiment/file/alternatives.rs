//! Alternative keys for one setting, such as a fraction or a file for validation text. A setting in one form replaces an
//! extended file's setting in another form. Two forms in one file are kept, so that the check refuses them.

use super::tree::{Node, Table};

/// Tables with the alternative forms of a setting, each form with its keys.
const ALTERNATIVES: &[(&str, &[&[&str]])] = &[
    (
        "data",
        &[
            &["valid_fraction"],
            &["valid_path", "valid_labels", "valid_source", "valid_target"],
        ],
    ),
    (
        "data",
        &[
            &["test_fraction"],
            &["test_path", "test_labels", "test_source", "test_target"],
        ],
    ),
    (
        "data",
        &[&["field"], &["document_separator"], &["documents"]],
    ),
    ("schedule", &[&["min_lr"], &["final_fraction"]]),
    ("schedule", &[&["decay_steps"], &["decay_fraction"]]),
];

/// Removes from `below` the settings that `layer`, which is merged over it, states in another form.
pub(super) fn remove_alternatives(below: &mut Table, layer: &Table) {
    for (table, ways) in ALTERNATIVES {
        let over = layer.get(table).and_then(Node::table);
        let under = below.get_mut(table).and_then(Node::table_mut);
        let (Some(over), Some(under)) = (over, under) else {
            continue;
        };
        let says = |way: &[&str]| way.iter().any(|key| over.get(key).is_some());
        if ways.iter().filter(|way| says(way)).count() != 1 {
            continue;
        }
        let others = ways.iter().filter(|way| !says(way));
        for key in others.flat_map(|way| way.iter()) {
            under.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::{Experiment, load_text};
    use crate::train::schedule::ScheduleConfig;
    use std::path::Path;

    const BASE: &str = include_str!("../../../experiments/quickstart.toml");

    /// The quickstart experiment, whose schedule has `final_fraction`.
    fn loaded(sets: &[&str]) -> Experiment {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let loaded = load_text(Path::new("quickstart.toml"), BASE.into(), &sets);
        loaded.unwrap().experiment
    }

    fn ends(experiment: &Experiment) -> [Option<f64>; 2] {
        match &experiment.schedule {
            ScheduleConfig::Cosine(c) => [c.min_lr, c.final_fraction],
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn the_later_way_to_say_it_counts() {
        assert_eq!(ends(&loaded(&[])), [None, Some(0.1)]);
        assert_eq!(ends(&loaded(&["schedule.min_lr=1e-5"])), [Some(1e-5), None]);
        let both = loaded(&["schedule.min_lr=1e-5", "schedule.final_fraction=0.2"]);
        assert_eq!(ends(&both), [Some(1e-5), Some(0.2)]);
    }
}
