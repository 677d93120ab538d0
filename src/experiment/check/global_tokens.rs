//! Checks global tokens: the task must mark them, and an attention layer must use them.

use super::Checker;
use crate::model::{GlobalTokens, Use};
use crate::task::facts::GlobalTokenSupport;

/// Reports a task that marks global tokens for a model that does not use them, and a model that uses them without marks.
pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let task = &experiment.task;
    let (marks, kind) = (task.facts().global_tokens(), task.kind());
    let transformers = experiment.model.networks().into_iter();
    let mut transformers = transformers.filter_map(|network| network.transformer());
    let sees = transformers.any(|model| {
        let mut blocks = model.distinct_blocks();
        blocks.any(|block| block.attention.is_some_and(|a| a.facts().sees_globals()))
    });
    match (sees, marks) {
        (true, GlobalTokenSupport::Unsupported) => {
            let rule = format!(
                "kind = \"{kind}\" marks no token as global, but [model] has attention with global; remove global, or use \
                 masked_lm, text_classification, token_classification, regression, text_embedding, question_answering or translation"
            );
            sense.fault(&["task.kind", "model.attention.global"], rule);
        }
        (true, GlobalTokenSupport::Supported(None)) => {
            let rule = "global_tokens is missing: attention with global needs the tokens that the task marks; set \"first\", \
                        \"special\" or \"first_segment\" (or \"none\" if tokens are marked only in use)";
            sense.fault(&["task.global_tokens", "model.attention.global"], rule);
        }
        (false, GlobalTokenSupport::Supported(Some(_))) => {
            let rule = "global_tokens has no effect: no attention of [model] sees global tokens; remove it, or set global = \
                        \"own\" for sliding_window";
            sense.fault(&["task.global_tokens", "model.attention"], rule);
        }
        (true, GlobalTokenSupport::Supported(Some(_)))
        | (false, GlobalTokenSupport::Unsupported | GlobalTokenSupport::Supported(None)) => {}
    }
    let of_segment = matches!(
        marks,
        GlobalTokenSupport::Supported(Some(GlobalTokens::FirstSegment))
    );
    let data = &experiment.data;
    let one = !data.data_set().has_two_texts() && !data.is_imported();
    let of_texts = [
        Use::TextClasses,
        Use::TextRegression,
        Use::TokenClasses,
        Use::Spans,
    ];
    if of_segment && of_texts.contains(&task.network_use()) && one {
        let rule = "global_tokens = \"first_segment\" makes every token global: [data] has one text per row; add a pair, or use \
                    \"first\"";
        sense.fault(&["task.global_tokens", "data.pair"], rule);
    }
}
