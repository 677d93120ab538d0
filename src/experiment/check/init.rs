//! Checks `[init]` and `[lora]`: the initial weights, and which parameters are trained.

use super::Checker;
use regex::Regex;

/// Checks both tables.
pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    for fault in experiment.init.faults() {
        sense.add_worded("init", &fault);
    }
    if let Some(lora) = &experiment.lora {
        sense.collect_faults("lora", |at| lora.faults(at));
        let gate = experiment.model.facts().closed_gate();
        if let Some(gate) = gate.filter(|_| experiment.init.from.is_none()) {
            let mut learns = lora
                .in_full
                .iter()
                .filter_map(|pattern| Regex::new(pattern).ok());
            if !learns.any(|pattern| pattern.is_match(gate)) {
                sense.fault(
                    &["lora.in_full", "lora.rank"],
                    "the gates of new blocks that attend to an image begin closed, and [lora] would freeze them closed: add \
                     \"^model\\\\.cross\\\\.\" and \"^model\\\\.resampler\\\\.\" to in_full",
                );
            }
        }
        if !experiment.init.freeze.is_empty() {
            sense.fault(
                &["init.freeze", "lora.rank"],
                "freeze has no effect with [lora], which freezes every parameter except adapters and [lora] in_full; remove it",
            );
        }
    }
    for (name, key, part) in experiment.init.parts() {
        if part.is_some() && experiment.model.parts().is_none() {
            let rule = format!(
                "{} has no effect: [model] kind = \"{}\" is one network, which begins from [init] from",
                name.key(),
                experiment.model.kind()
            );
            sense.fault(&[&format!("init.{}", name.key()), key, "model.kind"], rule);
        }
    }
    if experiment.init.layer_lr_decay.is_some() && experiment.model.parts().is_some() {
        sense.fault(
            &["init.layer_lr_decay", "model.kind"],
            "layer_lr_decay depends on the depth of one stack, but the model has several networks; remove it",
        );
    } else if experiment.init.layer_lr_decay.is_some() && experiment.model.stack_depths().is_none()
    {
        sense.fault(
            &["init.layer_lr_decay", "model.kind"],
            "layer_lr_decay has no effect: the model has no transformer blocks; remove it",
        );
    }
}
