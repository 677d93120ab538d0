//! The note of a command for single experiments about a file with `[ablation]`: that it uses the base, and how to specify an
//! arm.

use crate::ablation::arms::arms;
use crate::cli::output;
use crate::error::shell_word;
use crate::experiment::LoadedExperiment;
use std::path::Path;

/// Maximum number of settings of the arm that is shown as an example.
const SHOWN: usize = 4;

/// Prints the note if a checked experiment is the base of a sweep.
pub(in crate::cli) fn note_base(loaded: &LoadedExperiment) {
    let Some(config) = &loaded.experiment.ablation else {
        return;
    };
    let all = arms(config);
    let few = |n: usize| (1..=SHOWN).contains(&n);
    let example = all.iter().find(|arm| few(arm.sets.len()));
    let example = example.map_or(String::new(), |arm| {
        let sets = arm.overrides();
        let sets = sets.iter().map(|set| shell_word(Path::new(set)));
        let sets: Vec<String> = sets.map(|set| format!("--set {set}")).collect();
        format!("; arm `{}` adds: {}", arm.name, sets.join(" "))
    });
    output::note(format!(
        "{} has [ablation]; this command uses its base, without the settings of its {}{example}; list all arms with: formwork \
         sweep {} --dry-run",
        loaded.path.display(),
        output::count_of(all.len(), "arm"),
        shell_word(&loaded.path)
    ));
}
