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
            true => "has both layers read one stream",
            false => "normalises sums",
        };
        let rule = format!(
            "reversible adds what a layer makes of one stream to the other one, and norm_placement = \"{}\" {reason}; set it \
             to \"pre\" or \"sandwich\", or leave reversible out",
            placement.name()
        );
        sense.fault(&[REVERSIBLE, "model.norm_placement"], rule);
    }
    if model.distinct_blocks().any(|block| block.cross.is_some()) {
        let rule = "reversible is defined for blocks of two layers, and a decoder with a memory has cross-attention, too; \
                    leave it out, or use [model] kind = \"decoder\" or \"encoder\"";
        sense.fault(&[REVERSIBLE, "model.kind"], rule);
    }
    if model
        .distinct_blocks()
        .all(|block| block.feed_forward.is_none())
    {
        let rule = "reversible needs feed-forward layers, which change the second stream; give the layers one, or leave it \
                    out";
        sense.fault(&[REVERSIBLE, "model.layers"], rule);
    }
    let mut mixers = model.distinct_blocks().filter_map(|block| block.mixer);
    if let Some(mixer) = mixers.find(|mixer| mixer.has_value_residual()) {
        let rule = format!(
            "reversible computes a layer by its own stream alone, and mixer = {{ kind = \"{}\" }} reads the values of an earlier \
             layer; give it value_residual = false, or leave reversible out",
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
            "reversible keeps two streams, and memory is of one; leave memory or reversible out";
        sense.fault(&[REVERSIBLE, "model.attention.memory"], rule);
    }
    let position = c.position.facts();
    if position.acts_on() == ActsOn::Layers {
        let rule = format!(
            "reversible has two streams, and position = \"{}\" changes the one before every layer; use positions of the \
             embeddings or of attention, or leave reversible out",
            position.kind().kind
        );
        sense.fault(&[REVERSIBLE, "model.position.kind"], rule);
    }
    if demand.inner_layers {
        let rule = "reversible does not keep the streams between layers, which intermediate_layers = true reads; leave one \
                    of them out";
        sense.fault(&[REVERSIBLE, "task.intermediate_layers"], rule);
    }
    let experiment = &sense.loaded.experiment;
    let guessing = sense.model().masked_lm_encoder();
    if guessing.is_some_and(|c| c.mask_decoder.is_some()) {
        let rule = "reversible has no one stream that mask_decoder could give to the last block; leave one of them out";
        sense.fault(&[REVERSIBLE, "model.mask_decoder"], rule);
    }
    if experiment.train.recompute {
        let rule = "recompute = true has no effect: a reversible stack computes all of its activations anew; leave it out";
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
            "recompute = true has no effect: it is about the blocks of a transformer, and kind = \"{}\" has none; leave it out",
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
                 smaller or leave it out"
            );
            sense.fault(&[&format!("{table}.chunk")], rule);
        }
    }
}
