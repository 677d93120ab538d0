//! Checks that task, model and data fit together.

use super::Checker;
use crate::data::{DataConfig, ExampleForm};
use crate::model::Use;

/// The remedy if a table of labelled texts has its answers under the key of another task.
fn other_column(wanted: ExampleForm, data: &DataConfig) -> String {
    if data.kind() != "labelled_text" {
        return String::new();
    }
    let key = |gives: ExampleForm| match gives {
        ExampleForm::Labelled => Some("label"),
        ExampleForm::ManyLabelled => Some("labels"),
        ExampleForm::Numbered => Some("score"),
        ExampleForm::Text
        | ExampleForm::Tagged
        | ExampleForm::Questions
        | ExampleForm::Pairs
        | ExampleForm::Images
        | ExampleForm::Captioned
        | ExampleForm::Spoken
        | ExampleForm::Preferences => None,
    };
    match (key(wanted), key(data.data_set().example_form())) {
        (Some(wanted), Some(given)) => format!("; set `{wanted}` instead of `{given}`"),
        (None, _) | (_, None) => String::new(),
    }
}

pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let (task, model, data) = (&experiment.task, &experiment.model, &experiment.data);
    let quoted = |kinds: &[&str]| {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
        kinds.join(" or ")
    };
    let models = task.models();
    let fits = models.contains(&model.kind());
    let reads = task.example_form() == data.data_set().example_form();
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
            "kind = \"{}\" reads {}, but [data] kind = \"{}\" provides {}{}",
            task.kind(),
            task.example_form(),
            data.kind(),
            data.data_set().example_form(),
            other_column(task.example_form(), data)
        );
        sense.fault(&["task.kind", "data.kind"], rule);
    }
    if task.facts().has_towers() && reads && !data.data_set().has_two_texts() && !data.is_imported()
    {
        let rule = format!(
            "towers = true compares the two texts of an example, but examples of [data] kind = \"{}\" have one; remove it, or \
             use kind = \"article_halves\", or \"labelled_text\" with `pair`",
            data.kind()
        );
        sense.fault(&["task.towers", "data.kind"], rule);
    }
    let alone = !data.data_set().has_two_texts() && !data.is_imported();
    if task.facts().needs_two_texts() && reads && alone {
        let rule = format!(
            "kind = \"{}\" compares the two texts of an example, but examples of [data] kind = \"{}\" have one; name the second \
             as `pair`",
            task.kind(),
            data.kind()
        );
        sense.fault(&["task.kind", "data.kind"], rule);
    }
    if !data.data_set().has_transcripts() && task.network_use() != Use::MaskedFrames && reads {
        let rule = format!(
            "transcripts = false leaves out the transcripts that [task] kind = \"{}\" reads; remove it",
            task.kind()
        );
        sense.fault(&["data.transcripts", "task.kind"], rule);
    }
    if let Some(rule) = task.facts().untrainable()
        && !data.is_imported()
    {
        sense.fault(&["task.generator.size", "task.kind"], rule);
    }
    if task.facts().targets().has_single_second_target() && !data.data_set().has_next_token() {
        let rule = format!(
            "second_target has no effect with positions = \"last\": a text of [data] kind = \"{}\" ends with its last target; \
             remove it, or score more positions",
            data.kind()
        );
        sense.fault(&["task.second_target", "task.positions"], rule);
    }
    mixed_classes(sense);
    views(sense);
    compared_rows(sense);
}

/// Reports mixed classes of images for a task that reads no classes.
fn mixed_classes(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let task = &experiment.task;
    if task.facts().reads_classes() || task.example_form() != ExampleForm::Images {
        return;
    }
    for (key, alpha) in experiment.data.data_set().mixing_augmentations() {
        let rule = format!(
            "{key} = {alpha:?} mixes the classes of two images, but [task] kind = \"{}\" reads no classes; remove it",
            task.kind()
        );
        sense.fault(&[&format!("data.augment.{key}"), "task.kind"], rule);
    }
}

/// Checks the images of a task that augments views of them itself.
fn views(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let (task, data) = (&experiment.task, experiment.data.data_set());
    let Some(views) = task.facts().views() else {
        return;
    };
    let (views, channels) = (views.clone(), data.image().map(|[channels, ..]| channels));
    // Mixed classes have a fault of their own.
    if data.is_augmented() && data.mixing_augmentations().is_empty() {
        let rule = format!(
            "augment changes images before their views are cut, but [task] kind = \"{}\" changes the views by task.views; remove it",
            task.kind()
        );
        sense.fault(&["data.augment", "task.views"], rule);
    }
    if channels == Some(1) {
        sense.collect_faults("task.views", |at| views.grey_faults(at));
    }
}

/// Checks a loss that compares rows with each other. All compared rows must be in one batch, and their number must be the same
/// in training and evaluation: a loss among few rows is not comparable with one among many.
fn compared_rows(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let (c, imported) = (&experiment.train, experiment.data.is_imported());
    let Some(group) = experiment
        .task
        .facts()
        .compared_rows()
        .filter(|_| !imported)
    else {
        return;
    };
    let mut faults: Vec<(&str, String)> = Vec::new();
    if let Some(tokens) = c.batch_tokens {
        let rule = format!(
            "batch_tokens = {tokens} makes steps with different numbers of rows, but the loss compares the rows of a step with \
             each other; set batch_size"
        );
        faults.push(("train.batch_tokens", rule));
    }
    let whole = c.batch_size;
    if whole < 2 {
        let rule = format!(
            "batch_size = {whole} is too small: the loss distinguishes each pair from the other pairs of a step; set 2 or more"
        );
        faults.push(("train.batch_size", rule));
    }
    match group {
        Some(group) if group >= whole && whole >= 2 => {
            let rule = format!(
                "group = {group} has no effect: it is the whole batch_size = {whole}; remove it"
            );
            faults.push(("task.group", rule));
        }
        Some(group) if !whole.is_multiple_of(group) => {
            let rule = format!("group = {group} does not divide batch_size = {whole}");
            faults.push(("task.group", rule));
        }
        Some(_) | None => {}
    }
    let micro = c.micro_batch_size.map(|n| ("micro_batch_size", n));
    let evaluated = c.eval_batch_size.map(|n| ("eval_batch_size", n));
    for (key, rows) in micro.into_iter().chain(evaluated) {
        let rule = match group {
            Some(group) if !rows.is_multiple_of(group) => {
                format!(
                    "{key} = {rows} splits groups of {group} rows, which the loss compares with each other; set a multiple of {group}"
                )
            }
            None if rows != whole => format!(
                "{key} = {rows}, but the loss compares all {whole} rows of a step with each other; remove it, or set [task] \
                 group to compare fewer"
            ),
            Some(_) | None => continue,
        };
        let name = match key {
            "micro_batch_size" => "train.micro_batch_size",
            _ => "train.eval_batch_size",
        };
        faults.push((name, rule));
    }
    for (key, rule) in faults {
        sense.fault(&[key], rule);
    }
}
