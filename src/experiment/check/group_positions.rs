//! Checks position schemes that groups of blocks use in place of the model's.

use super::Checker;
use crate::model::{ThroughputUnit, Transformer};
use crate::stack::LayerGroup;

/// Checks the schemes of all groups, except for their own keys.
pub(super) fn check(sense: &mut Checker, model: &Transformer) {
    let mut own = Vec::new();
    for depth in model.depths() {
        for (i, group) in depth.groups.iter().enumerate() {
            let table = format!("model.{}.{i}.position", depth.groups_key);
            if group.position.is_some() {
                of_group(sense, model, &table, group);
                own.push(table);
            }
        }
    }
    let Some(first) = own.first() else {
        return;
    };
    if model.stack.reversible.is_some() {
        let rule = "a reversible stack has one position scheme for all blocks; remove position or reversible";
        sense.fault(&[first, "model.reversible"], rule);
    }
    let mut attending = model
        .distinct_blocks()
        .filter(|block| block.attention.is_some());
    if model.stack.position.has_heads() && attending.all(|block| block.position.is_some()) {
        let rule = "position has no effect: every group with attention has its own position; remove one of them";
        sense.fault(&["model.position.kind"], rule);
    }
}

fn of_group(sense: &mut Checker, model: &Transformer, table: &str, group: &LayerGroup) {
    let Some(position) = &group.position else {
        return;
    };
    let (facts, of_model) = (position.facts(), &model.stack.position);
    let (kind, key) = (facts.kind().kind, format!("{table}.kind"));
    if group.attention.is_none() {
        let rule =
            format!("kind = \"{kind}\" has no effect: the group has no attention; remove position");
        sense.fault(&[&key], rule);
    } else if !facts.allowed_per_block() {
        let rule = format!(
            "kind = \"{kind}\" cannot be the scheme of only some blocks; allowed: `none`, `rotary`, `alibi`; set it as the \
             [model] position"
        );
        sense.fault(&[&key], rule);
    } else if !position.has_heads() && !of_model.has_heads() {
        let rule = format!(
            "kind = \"{kind}\" has no effect: the model's position = \"{}\" does not act in attention; remove it",
            of_model.facts().kind().kind
        );
        sense.fault(&[&key, "model.position.kind"], rule);
    } else if sense.model().throughput_unit() == ThroughputUnit::Image
        && sense.model().facts().tokens_without_position() == 0
        && facts.image_counterpart().is_some()
    {
        let rule = format!(
            "kind = \"{kind}\" uses distances along a line, but patches are in rows and columns"
        );
        sense.fault(&[&key], rule);
    }
}
