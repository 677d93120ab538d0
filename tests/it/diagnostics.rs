//! Messages about wrong experiments and command lines: exact texts, and no panic for any file.

mod bounds;
mod commands;
mod form;
mod fuzz;
mod groups;
mod heads;
mod kinds;
mod layers;
mod lists;
mod long_data;
mod of_images;
mod overrides;
mod recurrent;
mod sense_of_models;
mod sense_of_runs;
mod sinks;
mod vocabularies;

use formwork::error::Error;
use formwork::experiment::{LoadedExperiment, check, load_text};
use std::path::Path;

/// A correct experiment, which every case breaks in its own way.
pub const RIGHT: &str = include_str!("diagnostics/right.toml");

/// One way in which an experiment is wrong.
pub struct Case {
    /// Describes the fault, for the test's output.
    title: &'static str,
    /// Replacements (old, new) in the correct text.
    edits: &'static [(&'static str, &'static str)],
    /// Values of `--set`.
    sets: &'static [&'static str],
    /// The expected message.
    says: &'static str,
}

/// Loads and checks an experiment without looking for its data.
pub fn judged(text: &str, sets: &[String]) -> Result<LoadedExperiment, Error> {
    judged_at(Path::new("x.toml"), text, sets)
}

/// Does what [`judged`] does, for a text in place of the file at `path`.
pub fn judged_at(path: &Path, text: &str, sets: &[String]) -> Result<LoadedExperiment, Error> {
    let loaded = load_text(path, text.into(), sets)?;
    check::check_without_files(&loaded)?;
    Ok(loaded)
}

/// Checks that an experiment is refused and that the message contains this rule.
pub fn says(text: &str, rule: &str) {
    match judged(text, &[]) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(error) => {
            let found = error.to_string();
            assert!(found.contains(rule), "{found}\n  wanted {rule}");
            assert_eq!(error.exit_status(), 2);
        }
    }
}

impl Case {
    fn text(&self) -> String {
        self.edits
            .iter()
            .fold(RIGHT.to_string(), |text, (from, to)| {
                assert!(
                    text.contains(from),
                    "{}: `{from}` is not in the file",
                    self.title
                );
                text.replacen(from, to, 1)
            })
    }

    /// Returns nothing if the message is as the case expects; otherwise both texts.
    fn wrong(&self) -> Option<String> {
        let sets: Vec<String> = self.sets.iter().map(|s| s.to_string()).collect();
        let says = match judged(&self.text(), &sets) {
            Ok(_) => "nothing".to_string(),
            Err(error) => {
                assert_eq!(error.exit_status(), 2, "{}", self.title);
                error.to_string()
            }
        };
        (says != self.says)
            .then(|| format!("{}\n  says   {says}\n  wanted {}\n", self.title, self.says))
    }
}

/// Panics with all cases whose message differs.
pub fn all_say(cases: &[Case]) {
    let wrong: Vec<String> = cases.iter().filter_map(Case::wrong).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn there_are_enough_wrong_files() {
    assert!(judged(RIGHT, &[]).is_ok());
    let cases = [
        form::CASES,
        overrides::CASES,
        sense_of_models::CASES,
        sense_of_runs::CASES,
    ];
    assert!(cases.iter().map(|c| c.len()).sum::<usize>() >= 100);
}
