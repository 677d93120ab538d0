//! What a person reads when an experiment or a command line is wrong: exact texts, and no panic whatever the file.

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
use formwork::experiment::{Loaded, check, load_text};
use std::path::Path;

/// A right experiment, which every case breaks in its own way.
pub const RIGHT: &str = include_str!("diagnostics/right.toml");

/// One way to be wrong.
pub struct Case {
    /// What is wrong, in the test's own words.
    title: &'static str,
    /// What is written instead of what.
    edits: &'static [(&'static str, &'static str)],
    /// Given with `--set`.
    sets: &'static [&'static str],
    /// What the person reads.
    says: &'static str,
}

/// Loads and checks without looking for data.
pub fn judged(text: &str, sets: &[String]) -> Result<Loaded, Error> {
    judged_at(Path::new("x.toml"), text, sets)
}

/// [`judged`], for a text in the place of a file.
pub fn judged_at(path: &Path, text: &str, sets: &[String]) -> Result<Loaded, Error> {
    let loaded = load_text(path, text.into(), sets)?;
    check::check_without_files(&loaded)?;
    Ok(loaded)
}

/// Holds that an experiment is refused with this rule.
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

    /// Whether the person reads what the case says; else both texts.
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

/// Fails with every case that says something else.
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
