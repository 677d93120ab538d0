//! Checks settings about which activations are kept for the backward pass: reversible stacks, `[train] recompute`, chunked
//! feed-forward layers.

use super::Checker;
use crate::model::{Demand, Transformer};
use crate::nn::position::ActsOn;

const REVERSIBLE: &str = "model.reversible";

/// Checks a transformer for inputs of `context` positions, if that is known.
pub(super) fn check(
    sense: &mut Checker,
    model: &Transformer,
    demand: &Demand,
    context: Option<usize>,
) {
    if model.stack.reversible.is_some() {
        reversible(sense, model);
        surroundings(sense, model, demand);
    }
    chunks(sense, model, context);
}

/// Checks a reversible stack's own keys.
fn reversible(sense: &mut Checker, model: &Transformer) {
    let c = model.stack;
    let placement = c.norm_placement;
    if !placement.reads_through_norm() || placement.is_parallel() {
        let reason = match placement.is_parallel() {
            true => "feeds one stream to both layers",
            false => "normalises the sums",
        };
        let rule = format!(
            "reversible adds the output of a layer on one stream to the other stream, but norm_placement = \"{}\" {reason}; set \
             it to \"pre\" or \"sandwich\", or remove reversible",
            placement.name()
        );
        sense.fault(&[REVERSIBLE, "model.norm_placement"], rule);
    }
    if model.distinct_blocks().any(|block| block.cross.is_some()) {
        let rule = "reversible needs blocks of two layers, but a decoder with a memory also has cross-attention; remove it, or \
                    use [model] kind = \"decoder\" or \"encoder\"";
        sense.fault(&[REVERSIBLE, "model.kind"], rule);
    }
    if model
        .distinct_blocks()
        .all(|block| block.feed_forward.is_none())
    {
        let rule = "reversible needs feed-forward layers, which change the second stream; add one to the layers, or remove it";
        sense.fault(&[REVERSIBLE, "model.layers"], rule);
    }
    let mut mixers = model.distinct_blocks().filter_map(|block| block.mixer);
    if let Some(mixer) = mixers.find(|mixer| mixer.has_value_residual()) {
        let rule = format!(
            "reversible computes a layer from its own stream alone, but mixer = {{ kind = \"{}\" }} reads the values of an \
             earlier layer; give it value_residual = false, or remove reversible",
            mixer.kind()
        );
        sense.fault(&[REVERSIBLE, "model.layers"], rule);
    }
}

/// Checks the settings around a reversible stack.
fn surroundings(sense: &mut Checker, model: &Transformer, demand: &Demand) {
    let c = model.stack;
    let attentions = model.distinct_blocks().filter_map(|block| block.attention);
    if attentions.filter_map(|a| a.segments()).next().is_some() {
        let rule =
            "reversible keeps two streams, but memory is for one; remove memory or reversible";
        sense.fault(&[REVERSIBLE, "model.attention.memory"], rule);
    }
    let position = c.position.facts();
    if position.acts_on() == ActsOn::Layers {
        let rule = format!(
            "reversible has two streams, but position = \"{}\" changes one stream before every layer; use positions of the \
             embeddings or of attention, or remove reversible",
            position.kind().kind
        );
        sense.fault(&[REVERSIBLE, "model.position.kind"], rule);
    }
    if demand.inner_layers {
        let rule = "reversible does not keep the streams between layers, but intermediate_layers = true reads them; remove one of them";
        sense.fault(&[REVERSIBLE, "task.intermediate_layers"], rule);
    }
    let experiment = &sense.loaded.experiment;
    let guessing = sense.model().masked_lm_encoder();
    if guessing.is_some_and(|c| c.mask_decoder.is_some()) {
        let rule = "reversible has no single stream that mask_decoder could pass to the last block; remove one of them";
        sense.fault(&[REVERSIBLE, "model.mask_decoder"], rule);
    }
    if experiment.train.recompute {
        let rule = "recompute = true has no effect: a reversible stack recomputes all of its activations anyway; remove it";
        sense.fault(&["train.recompute", REVERSIBLE], rule);
    }
}

/// Reports `[train] recompute` for a network without blocks.
pub(super) fn recompute(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let c = &experiment.train;
    let mut networks = experiment.model.networks().into_iter();
    if c.recompute && networks.all(|network| !network.facts().has_attention()) {
        let rule = format!(
            "recompute = true has no effect: it applies to the blocks of a transformer, and kind = \"{}\" has none; remove it",
            experiment.model.kind()
        );
        sense.fault(&["train.recompute", "model.kind"], rule);
    }
}

/// Reports a feed-forward chunk that is not smaller than the context.
fn chunks(sense: &mut Checker, model: &Transformer, context: Option<usize>) {
    let Some(context) = context else { return };
    let mut found = Vec::new();
    let mut own = false;
    for depth in model.depths() {
        for (i, group) in depth.groups.iter().enumerate() {
            let table = format!("model.{}.{i}.feed_forward", depth.groups_key);
            found.push((table, group.feed_forward.as_ref().and_then(|f| f.chunk())));
        }
        own |= depth.groups.is_empty();
    }
    if own {
        found.push((
            "model.feed_forward".into(),
            model.stack.feed_forward.chunk(),
        ));
    }
    for (table, chunk) in found {
        if let Some(chunk) = chunk.filter(|chunk| *chunk >= context) {
            let rule = format!(
                "chunk = {chunk} has no effect: inputs have at most {context} positions, which are computed at once; make it \
                 smaller or remove it"
            );
            sense.fault(&[&format!("{table}.chunk")], rule);
        }
    }
}
