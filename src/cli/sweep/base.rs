//! What a command that takes one experiment says of a file with `[ablation]`: that it takes the base, and how an arm is named.

use crate::ablation::arms::arms;
use crate::cli::output;
use crate::error::shell_word;
use crate::experiment::Loaded;
use std::path::Path;

/// Settings of an arm that are shown; an arm with more of them is not taken as the example.
const SHOWN: usize = 4;

/// One line on standard error, where a checked experiment is the base of a sweep.
pub(in crate::cli) fn tell(loaded: &Loaded) {
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
        format!("; arm `{}` is: {}", arm.name, sets.join(" "))
    });
    output::note(format!(
        "{} has [ablation]: this is its base, without the settings of its {}{example}; all arms: formwork sweep {} --dry-run",
        loaded.path.display(),
        output::many(all.len(), "arm"),
        shell_word(&loaded.path)
    ));
}
