//! Whether task, model and data belong together.

use super::Sense;

pub(super) fn check(sense: &mut Sense) {
    let experiment = &sense.loaded.experiment;
    let (task, model, data) = (&experiment.task, &experiment.model, &experiment.data);
    let quoted = |kinds: &[&str]| {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
        kinds.join(" or ")
    };
    let models = task.models();
    let fits = models.contains(&model.kind());
    let reads = task.reads() == data.set().gives();
    if !fits {
        let rule = format!(
            "kind = \"{}\" is not for [model] kind = \"{}\"; use {}",
            task.kind(),
            model.kind(),
            quoted(&models)
        );
        sense.fault(&["task.kind", "model.kind"], rule);
    }
    if !reads {
        let rule = format!(
            "kind = \"{}\" reads {}, but [data] kind = \"{}\" gives {}",
            task.kind(),
            task.reads(),
            data.kind(),
            data.set().gives()
        );
        sense.fault(&["task.kind", "data.kind"], rule);
    }
    if task.facts().has_towers() && reads && !data.set().has_two_texts() && !data.is_imported() {
        let rule = format!(
            "towers = true compares the two texts of an example, and those of [data] kind = \"{}\" have one; leave it out, \
             or use kind = \"article_halves\", or \"labelled_text\" with `pair`",
            data.kind()
        );
        sense.fault(&["task.towers", "data.kind"], rule);
    }
    if let Some(rule) = task.facts().untrainable()
        && !data.is_imported()
    {
        sense.fault(&["task.generator.size", "task.kind"], rule);
    }
    if task.facts().targets().ends_beyond() && !data.set().is_cut() {
        let rule = format!(
            "second_target has no effect with positions = \"last\": a text of [data] kind = \"{}\" ends with its last \
             target; leave it out, or score more positions",
            data.kind()
        );
        sense.fault(&["task.second_target", "task.positions"], rule);
    }
}
