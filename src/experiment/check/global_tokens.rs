//! The sense of global tokens: a task marks them, and attention sees them.

use super::Sense;
use crate::data::DataConfig;
use crate::model::GlobalTokens;
use crate::task::TaskConfig;
use crate::task::facts::Marks;

/// Faults of a task that marks tokens for a model without attention to them, and of such attention without marks.
pub(super) fn check(sense: &mut Sense) {
    let experiment = &sense.loaded.experiment;
    let task = &experiment.task;
    let (marks, kind) = (task.facts().global_tokens(), task.kind());
    let model = experiment.model.transformer();
    let mut blocks = model
        .iter()
        .flat_map(|model| model.blocks().collect::<Vec<_>>());
    let sees = blocks.any(|block| block.attention.is_some_and(|a| a.facts().sees_globals()));
    match (sees, marks) {
        (true, Marks::Cannot) => {
            let rule = format!(
                "kind = \"{kind}\" marks no token as global, and [model] has attention with global; leave global out, or use \
                 masked_lm, text_classification or translation"
            );
            sense.fault(&["task.kind", "model.attention.global"], rule);
        }
        (true, Marks::May(None)) => {
            let rule = "global_tokens is missing: attention with global sees the tokens that the task marks; set \"first\", \
                        \"special\" or \"first_segment\" (or \"none\", where tokens are marked in use alone)";
            sense.fault(&["task.global_tokens", "model.attention.global"], rule);
        }
        (false, Marks::May(Some(_))) => {
            let rule = "global_tokens has no effect: no attention of [model] sees global tokens; leave it out, or give \
                        sliding_window global = \"own\"";
            sense.fault(&["task.global_tokens", "model.attention"], rule);
        }
        (true, Marks::May(Some(_))) | (false, Marks::Cannot | Marks::May(None)) => {}
    }
    if let (Marks::May(Some(GlobalTokens::FirstSegment)), TaskConfig::TextClassification(_)) =
        (marks, task)
    {
        let one = match &experiment.data {
            DataConfig::LabelledText(data) => data.pair.is_none(),
            other => !other.is_imported(),
        };
        if one {
            let rule = "global_tokens = \"first_segment\" makes every token global: [data] has one text a row; give it a pair, or \
                        use \"first\"";
            sense.fault(&["task.global_tokens", "data.pair"], rule);
        }
    }
}
