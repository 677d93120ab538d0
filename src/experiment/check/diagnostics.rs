//! Checks `[diagnostics]`: something must be measured within the run's steps, and the model must have what is measured.

use super::Checker;

pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let Some(c) = experiment.diagnostics else {
        return;
    };
    let steps = experiment.train.steps;
    if c.every == 0 {
        sense.fault(&["diagnostics.every"], "every = 0 must be 1 or more");
    } else if c.every > steps && steps > 0 {
        let rule = format!(
            "every = {} is more than [train] steps = {steps}: nothing would be measured",
            c.every
        );
        sense.fault(&["diagnostics.every", "train.steps"], rule);
    }
    let any = c.gradient_norms || c.update_norms || c.activation_norms || c.attention_entropy;
    if !any {
        sense.fault(
            &["diagnostics.every"],
            "every has no effect: gradient_norms, update_norms, activation_norms and attention_entropy are all false; remove \
             [diagnostics] to disable it",
        );
    }
    let mut networks = experiment.model.networks().into_iter();
    if c.attention_entropy && networks.all(|network| network.transformer().is_none()) {
        let mut networks = experiment.model.networks().into_iter();
        let has = match networks.any(|network| network.facts().has_attention()) {
            true => "has attention in windows, whose entropy is not measured",
            false => "has no attention",
        };
        let rule = format!(
            "attention_entropy = true has no effect: [model] kind = \"{}\" {has}; set it to false",
            experiment.model.kind()
        );
        sense.fault(&["diagnostics.attention_entropy"], rule);
    }
    if c.attention_entropy && !experiment.model.has_attention_weights() {
        let rule = "attention_entropy = true has no effect: the attention of [model] computes no weights of queries and keys; \
                    set it to false";
        sense.fault(&["diagnostics.attention_entropy", "model.attention"], rule);
    }
}
