//! Checks layers with a memory of earlier segments: rows must continue from step to step, and positions must distinguish
//! earlier segments from the current one.

use super::Checker;
use crate::model::{Transformer, Use};
use crate::nn::attention::AttentionConfig;

/// Checks attention with a memory of earlier segments.
pub(super) fn check(sense: &mut Checker, model: &Transformer) {
    let mut found = Vec::new();
    let mut own = false;
    for depth in model.depths() {
        for (i, group) in depth.groups.iter().enumerate() {
            if let Some(attention) = &group.attention {
                let table = format!("model.{}.{i}.attention", depth.groups_key);
                found.push((table, attention, depth.causal));
            }
        }
        own |= depth.groups.is_empty();
    }
    if own {
        let causal = model.depths().all(|depth| depth.causal);
        found.push(("model.attention".into(), &model.stack.attention, causal));
    }
    let remembers = |c: &AttentionConfig| c.segments().is_some();
    found.retain(|(_, attention, _)| remembers(attention));
    for (table, _, causal) in &found {
        let keys = [
            format!("{table}.memory"),
            format!("{table}.memory_at_evaluation"),
        ];
        check_attention(sense, &keys, *causal);
    }
    for (table, attention, causal) in &found {
        if attention.heads().same_length && !causal {
            let rule = "same_length counts the keys before a query, but this stack reads both ways and each query sees the \
                        whole memory; remove it";
            sense.fault(&[&format!("{table}.same_length"), "task.kind"], rule);
        }
    }
    if let Some(reused) = sense.loaded.experiment.task.facts().reuse_len() {
        check_row_memory(sense, reused, found.is_empty());
    }
    let position = model.stack.position.facts();
    if found.is_empty() || !position.encodes_absolute_position() {
        return;
    }
    let kind = position.kind().kind;
    let rule = format!(
        "kind = \"{kind}\" has the same positions in every segment, so memory cannot be distinguished from the segment that \
         reads it; use positions by distance, for example transformer_xl, shaw, rotary, alibi or relative_bias, or remove memory"
    );
    let table = &found[0].0;
    sense.fault(&["model.position.kind", &format!("{table}.memory")], rule);
}

/// Checks one such attention layer.
fn check_attention(sense: &mut Checker, [memory, at_evaluation]: &[String; 2], causal: bool) {
    let experiment = &sense.loaded.experiment;
    let task = experiment.task.kind();
    let demand = experiment.task.facts().demand();
    if !causal && demand.has_query_stream {
        if demand.segments {
            let rule = "memory has no effect with pairs: segments that are drawn do not continue those of the step before; \
                        remove one of them";
            sense.fault(&[memory, at_evaluation, "task.pairs"], rule);
        }
    } else if !causal {
        let rule = "memory has no effect: the stack reads both ways, and earlier segments need a text that is read from left to \
                    right; remove it";
        sense.fault(&[memory, at_evaluation], rule);
        return;
    } else if experiment.task.network_use() != Use::NextTokens {
        let rule = format!(
            "memory has no effect: the examples of [task] kind = \"{task}\" are independent of each other; remove it"
        );
        sense.fault(&[memory, at_evaluation, "task.kind"], rule);
        return;
    }
    if !sense.loaded.experiment.train.carry_state {
        let rule = "memory has no effect: the rows of a step do not continue those of the step before; set [train] carry_state \
                    = true, or remove memory";
        sense.fault(&[memory, at_evaluation, "train.carry_state"], rule);
    }
}

/// Checks how much of a row is kept in memory.
fn check_row_memory(sense: &mut Checker, reused: usize, nothing_remembers: bool) {
    let context = sense.loaded.experiment.data.context();
    if nothing_remembers {
        let rule = "reuse_len has no effect without a memory; set memory of [model.attention], or remove it";
        sense.fault(&["task.reuse_len", "model.attention.memory"], rule);
    } else if reused > context && context > 0 {
        let rule = format!(
            "reuse_len = {reused} is longer than the rows of data.context = {context}; remove it to keep the text of a row"
        );
        sense.fault(&["task.reuse_len", "data.context"], rule);
    }
}
