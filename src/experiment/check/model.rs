//! Checks `[model]`.

use super::{
    Checker, Purpose, activation_memory, group_positions, images, layers, mup, segments, sharing,
};
use crate::experiment::Experiment;
use crate::faults::MAX_WIDTH;
use crate::model::{Demand, ModelConfig, ThroughputUnit, Transformer};
use crate::nn::position::KnownSizes;
use crate::stack::Depth;

/// Checks all of `[model]`, for inputs of `context` tokens if that is known.
pub(super) fn check(sense: &mut Checker, context: Option<usize>, what: Purpose) {
    let experiment = &sense.loaded.experiment;
    let (model, data) = (&experiment.model, experiment.data.data_set());
    let demand = Demand {
        two_vocabularies: data.separates_vocabularies(),
        context,
        image: data.image(),
        speech: data.speech(),
        max_generated: max_generated_length(experiment, context),
        ..experiment.task.facts().demand()
    };
    let (Some(parts), Some(demands)) = (model.parts(), model.split_demand(&demand)) else {
        return network(sense, &demand, what);
    };
    sense.collect_faults("model", |at| model.faults(&demand, at));
    for (part, demand) in parts.into_iter().zip(demands) {
        sense.current_part = Some(part);
        network(sense, &demand, what);
    }
    sense.current_part = None;
    if what.is_new_run() {
        profiles(sense, parts);
    }
}

/// Reports residual scales of both networks that would be measured on different examples: a run sends the same ones through
/// both.
fn profiles(sense: &mut Checker, parts: [(&'static str, &ModelConfig); 2]) {
    let measured = parts.map(|(_, part)| {
        part.transformer()?
            .stack
            .residual_scale
            .measurement_examples()
    });
    let ([Some(first), Some(second)], [(one, _), (other, _)]) = (measured, parts) else {
        return;
    };
    if first != second {
        let [of_one, of_other] =
            [one, other].map(|part| format!("model.{part}.residual_scale.examples"));
        let rule = format!(
            "examples = {second} differs from examples = {first} of [model.{one}.residual_scale], but the same examples of the \
             first step pass through both networks; use one number for both"
        );
        sense.fault(&[&of_other, &of_one], rule);
    }
}

/// Checks the current network.
fn network(sense: &mut Checker, demand: &Demand, what: Purpose) {
    let model = sense.model();
    let positions = sense.collect_faults("model", |at| model.faults(demand, at));
    if let Some(model) = model.transformer() {
        transformer(sense, &model, positions);
        if what.is_new_run() {
            weights(sense, &model);
        }
        mup::check(sense, &model, demand);
        segments::check(sense, &model);
        activation_memory::check(sense, &model, demand, positions);
        layers::without_attention(sense, &model, demand.bidirectional_source);
    }
}

/// Maximum length in tokens of the generated text, if the data determines it.
fn max_generated_length(experiment: &Experiment, context: Option<usize>) -> Option<usize> {
    let data = &experiment.data;
    let said = data.data_set().longest_target();
    let by_task = || experiment.task.facts().longest_written(context?);
    said.or_else(|| (!data.is_imported()).then(by_task).flatten())
}

/// Checks the keys that all transformers have.
fn transformer(sense: &mut Checker, model: &Transformer, context: Option<usize>) {
    let c = model.stack;
    for depth in model.depths() {
        layers::check(sense, model, &depth);
    }
    sharing::check(sense, model);
    let width = sense.count("model.d_model", c.d_model, MAX_WIDTH);
    sense.collect_faults("model.norm", |at| c.norm.faults(at));
    placement(sense, model);
    sense.collect_faults("model.residual_scale", |at| c.residual_scale.faults(at));
    skips(sense, model);
    dropouts(sense, model);
    sense.collect_faults("model.init", |at| c.init_settings().scheme.faults(at));
    let width = width.then_some(c.d_model);
    let heads = layers::check_blocks(sense, model, width, context);
    let unplaced = sense.model().facts().tokens_without_position();
    let known = KnownSizes {
        d_model: width,
        d_head: heads,
        context: context.map(|positions| positions.saturating_sub(unplaced)),
        is_image: sense.model().throughput_unit() == ThroughputUnit::Image,
    };
    sense.collect_faults("model.position", |at| c.position.facts().faults(&known, at));
    images::positions(sense, &c.position, c.d_model);
    group_positions::check(sense, model);
}

/// Reports initial weights that would be scaled with the depth twice.
fn weights(sense: &mut Checker, model: &Transformer) {
    let c = model.stack;
    if c.norm_placement.scales_weights() && c.init_settings().scheme.scales_with_depth() {
        sense.fault(
            &[
                "model.init.depth_scaled",
                "model.init.kind",
                "model.norm_placement",
            ],
            format!(
                "depth_scaled = true has no effect: norm_placement = \"{}\" has its own scaling with the depth; set it to \
                 false, or remove init to use the weights of its paper",
                c.norm_placement.name()
            ),
        );
    }
}

/// Checks norms against their placement.
fn placement(sense: &mut Checker, model: &Transformer) {
    let c = model.stack;
    let placement = c.norm_placement;
    if c.norm.is_none() {
        if placement.needs_norm() {
            let name = placement.name();
            sense.fault(
                &["model.norm_placement", "model.norm.kind"],
                format!("norm_placement = \"{name}\" places norms, but norm is \"none\"; use \"pre\" or another norm"),
            );
        }
        for (key, set) in [
            ("model.final_norm", c.final_norm == Some(true)),
            ("model.embedding_norm", model.embedding_norm),
        ] {
            if set {
                let name = super::last(key);
                sense.fault(
                    &[key],
                    format!("{name} = true has no effect: norm is \"none\""),
                );
            }
        }
    } else if c.final_norm == Some(true) && !placement.wants_final_norm() {
        sense.fault(
            &["model.final_norm", "model.norm_placement"],
            format!(
                "final_norm = true repeats a norm: with norm_placement = \"{}\" the last block already ends in a norm; remove it",
                placement.name()
            ),
        );
    }
    first_norm(sense, model);
    if let Some(shared) = c.shared_parallel_norm
        && !placement.is_parallel()
    {
        sense.fault(
            &["model.shared_parallel_norm", "model.norm_placement"],
            format!("shared_parallel_norm = {shared} has no effect: norm_placement is not \"parallel\"; remove it"),
        );
    }
}

/// Reports residual scales of kind "admin" if no norm follows the sum, or if layers that share parameters would need different
/// scales.
fn skips(sense: &mut Checker, model: &Transformer) {
    let (c, kind) = (model.stack, "model.residual_scale.kind");
    if !c.residual_scale.scales_skips() {
        return;
    }
    let placement = c.norm_placement;
    if !placement.normalises_plain_sums() {
        let rule = format!(
            "kind = \"admin\" scales the residual sums before a norm, but norm_placement is \"{}\"; set it to \"post\", or use \
             \"layer_scale\" or \"rezero\"",
            placement.name()
        );
        sense.fault(
            &[kind, "model.residual_scale", "model.norm_placement"],
            rule,
        );
    }
    if !c.share_layers.is_none() {
        let rule = "kind = \"admin\" measures a scale for each layer, but layers that share parameters (share_layers) have one \
                    scale; remove one of them";
        sense.fault(&[kind, "model.residual_scale", "model.share_layers"], rule);
    }
}

/// Checks `first_norm`: there must be norms, with one before each layer's input, and the first layer must not share its norm.
fn first_norm(sense: &mut Checker, model: &Transformer) {
    let c = model.stack;
    let Some(first) = c.first_norm else { return };
    let rule = if c.norm.is_none() {
        Some(("model.norm.kind", "norm is \"none\"; remove it".to_owned()))
    } else if !c.norm_placement.norms_each_input() {
        let name = c.norm_placement.name();
        let rule = format!(
            "norm_placement = \"{name}\" puts no separate norm before the first layer; remove it, or use \"pre\" or \"sandwich\""
        );
        Some(("model.norm_placement", rule))
    } else {
        None
    };
    if let Some((key, why)) = rule {
        let rule = format!("first_norm = {first} has no effect: {why}");
        sense.fault(&["model.first_norm", key], rule);
        return;
    }
    let shares = |depth: Depth| {
        let owners = c.share_layers.owners(depth.blocks());
        (1..depth.blocks()).any(|layer| owners.mixer_owner(layer) == 0)
    };
    if !first && model.depths().any(shares) {
        let rule = "first_norm = false removes the norm of the first layer, which other layers share through share_layers; \
                    remove one of them";
        sense.fault(&["model.first_norm", "model.share_layers"], rule);
    }
}

fn dropouts(sense: &mut Checker, model: &Transformer) {
    let c = model.stack;
    let own = [
        ("model.dropout_embedding", c.dropout_embedding),
        ("model.dropout_attention", c.dropout_attention),
        ("model.dropout_residual", c.dropout_residual),
    ];
    for (key, value) in [
        ("model.dropout_feed_forward", c.dropout_feed_forward),
        ("model.dropout_output", c.dropout_output),
    ] {
        sense.probability(key, value.unwrap_or(0.0));
    }
    sense.probability("model.dropout", c.dropout);
    sense.probability("model.drop_path", c.drop_path);
    let single = model.depths().find(|depth| depth.blocks() == 1);
    if let Some(Depth { key, .. }) = single.filter(|_| c.drop_path > 0.0) {
        let rule = format!(
            "drop_path = {:?} has no effect: it rises from 0 at the first layer, and there is only one layer; remove it",
            c.drop_path
        );
        sense.fault(&["model.drop_path", &format!("model.{key}")], rule);
    }
    for (key, value) in own {
        sense.probability(key, value.unwrap_or(0.0));
    }
    if c.dropout != 0.0 && own.iter().all(|(_, value)| value.is_some()) {
        sense.fault(
            &["model.dropout"],
            format!(
                "dropout = {:?} has no effect: each of its places has its own key; remove it",
                c.dropout
            ),
        );
    }
}
