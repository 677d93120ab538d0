//! Checks `[model.mup]`: the learning rates and initial weights that scale with the width, and layers whose scaling is unknown.

use super::Checker;
use crate::faults::MAX_WIDTH;
use crate::model::{Demand, Transformer};
use crate::nn::attention::{big_bird, fixed, local, multi_head, sliding_window, strided};
use crate::nn::feed_forward::{dense, gated};
use crate::stack::BlockConfig;

const TABLE: &str = "model.mup";

/// Attention kinds whose only learned parameters are the projections of heads.
const ATTENTIONS: [&str; 6] = [
    multi_head::KIND.kind,
    sliding_window::KIND.kind,
    local::KIND.kind,
    big_bird::KIND.kind,
    strided::KIND.kind,
    fixed::KIND.kind,
];

/// Feed-forward kinds that consist only of matrices.
const FEED_FORWARDS: [&str; 2] = [dense::KIND.kind, gated::KIND.kind];

/// Checks a model that takes over the learning rates and initial weights of a narrower one.
pub(super) fn check(sense: &mut Checker, model: &Transformer, demand: &Demand) {
    let Some(mup) = model.stack.mup else { return };
    sense.collect_faults(TABLE, |at| {
        at.count("d_model", mup.d_model, MAX_WIDTH);
        if let Some(d_head) = mup.d_head {
            at.count("d_head", d_head, MAX_WIDTH);
        }
        at.positive("output_multiplier", mup.output_multiplier);
    });
    if sense.current_part.is_some() {
        let rule = "mup is for models with one network; remove it";
        sense.fault(&[TABLE, "model.kind"], rule);
        return;
    }
    if mup.scales_logits() && !demand.used_for.scores_tokens() {
        let rule = format!(
            "output_multiplier = {:?} has no effect: it multiplies scores of the vocabulary, and the task uses none; remove it",
            mup.output_multiplier
        );
        sense.fault(&["model.mup.output_multiplier", "task.kind"], rule);
    }
    training(sense, demand);
    layers(sense, model);
    let scheme = model.stack.init_settings().scheme;
    if !scheme.suits_width() {
        let rule = "mup scales the deviations of the initial weights, but kind = \"t5\" has its own for every width; use \
                    \"gpt2\", \"truncated_normal\" or \"xavier\"";
        sense.fault(&["model.init.kind", TABLE], rule);
    }
    let vocabulary = sense.model().facts().vocabulary();
    if vocabulary.is_some_and(|vocabulary| !vocabulary.is_full()) {
        let rule = "mup does not support vocabulary tables of several widths; use vocabulary = { kind = \"full\" }, or remove mup";
        sense.fault(&["model.vocabulary.kind", TABLE], rule);
    }
}

/// Checks the settings of its training.
fn training(sense: &mut Checker, demand: &Demand) {
    let experiment = &sense.loaded.experiment;
    let optimizer = &experiment.optimizer;
    let by_width = experiment.schedule.depends_on_width();
    let lora = experiment.lora.is_some();
    let retrieves = experiment.model.retrieval().is_some();
    let decayed = optimizer.has_rate_bound_steps()
        && !optimizer.has_decoupled_decay()
        && optimizer.has_weight_decay();
    if !optimizer.has_rate_bound_steps() {
        let rule = "mup scales learning rates, so it needs steps whose length does not depend on the size of the gradient: use \
                    \"adamw\", \"adam\", \"radam\", \"nadam\", \"adopt\", \"ademamix\", \"schedule_free\" or \"lion\", or \
                    remove [model.mup]";
        sense.fault(&["optimizer.kind", TABLE], rule);
    }
    if by_width {
        let rule = "kind = \"noam\" depends on the width of the model, and so does mup: use another schedule, or remove [model.mup]";
        sense.fault(&["schedule.kind", TABLE], rule);
    }
    if lora {
        let rule =
            "[lora] trains adapters and freezes the weights that mup scales; remove one of them";
        sense.fault(&["lora", TABLE], rule);
    }
    if retrieves {
        let rule = "mup does not support the encoder of neighbours; remove it or [model.retrieval]";
        sense.fault(&["model.retrieval", TABLE], rule);
    }
    if decayed {
        let rule = "weight_decay of \"adam\" is part of the moments, where the learning rates of mup do not scale it: use \
                    \"adamw\", or set weight_decay = 0";
        sense.fault(&["optimizer.weight_decay", "optimizer.kind", TABLE], rule);
    }
    if demand.generator.is_some() || demand.masked_patches.is_some() || demand.local_views.is_some()
    {
        let rule = "mup does not support the second network of this task; remove it";
        sense.fault(&[TABLE, "task.kind"], rule);
    }
}

/// Reports layers whose parameters have no known scaling, each at its key.
fn layers(sense: &mut Checker, model: &Transformer) {
    let depths: Vec<_> = model.depths().collect();
    for depth in depths {
        if depth.groups.is_empty() {
            layer(sense, "model", &model.stack.block(&depth, 0));
        }
        for (number, group) in depth.groups.iter().enumerate() {
            let table = format!("model.{}.{number}", depth.groups_key);
            layer(sense, &table, &BlockConfig::from_group(group));
        }
    }
}

/// Checks the layers of a block whose keys are in this table.
fn layer(sense: &mut Checker, table: &str, block: &BlockConfig) {
    let other = |kind: Option<&'static str>, suited: &[&str]| kind.filter(|k| !suited.contains(k));
    let attention = other(block.attention.map(|a| a.kind()), &ATTENTIONS);
    let cross = other(block.cross.map(|a| a.kind()), &ATTENTIONS);
    let feed_forward = other(block.feed_forward.map(|f| f.kind()), &FEED_FORWARDS);
    let mixer = block.mixer.map(|mixer| mixer.kind());
    for (key, kind, remedy) in [
        ("attention.kind", attention, join_with_or(&ATTENTIONS)),
        ("cross.kind", cross, join_with_or(&ATTENTIONS)),
        (
            "mixer.kind",
            mixer,
            format!("attention of kind {} instead", join_with_or(&ATTENTIONS)),
        ),
        (
            "feed_forward.kind",
            feed_forward,
            join_with_or(&FEED_FORWARDS),
        ),
    ] {
        if let Some(kind) = kind {
            let rule = format!(
                "mup has no rule for how the parameters of \"{kind}\" scale with the width; use {remedy}, or remove mup"
            );
            sense.fault(&[&format!("{table}.{key}"), TABLE], rule);
        }
    }
}

/// Joins names in quotation marks with "or".
fn join_with_or(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(" or ")
}
