//! Predicts the answers to the questions of a split, one for all windows of a context.

use super::for_each_batch;
use crate::data::Source;
use crate::data::batch::{Content, ContextWindow, Item, QuestionAnswer};
use crate::error::Result;
use crate::nn::pass::Pass;
use crate::task::QuestionAnswering;
use crate::task::question_answering::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns one JSON object per line for each question: its number and id, all right answers, the predicted answer (empty for
/// "no answer"), and the scores of the best span and of no answer.
///
/// # Errors
/// If a question cannot be read.
pub(super) fn lines(
    model: &QuestionAnswering,
    source: &dyn Source,
    batch_size: usize,
) -> Result<String> {
    let mut best: BTreeMap<u64, (Arc<ContextWindow>, Span)> = BTreeMap::new();
    for_each_batch(source, batch_size, |_, items| {
        for (window, span) in spans(model, items) {
            let of_question = best.entry(window.question);
            of_question
                .and_modify(|(_, found)| *found = found.better_of(span))
                .or_insert((window, span));
        }
    })?;
    let lines = best
        .values()
        .map(|(window, span)| format!("{}\n", line(window, *span)));
    Ok(lines.collect())
}

/// The best answer span in each of some windows.
fn spans(model: &QuestionAnswering, items: &[Item]) -> Vec<(Arc<ContextWindow>, Span)> {
    let Content::Text(texts) = Content::of(items) else {
        return Vec::new();
    };
    let asked: &[QuestionAnswer] = texts.asked.as_deref().unwrap_or_default();
    let windows: Vec<&ContextWindow> = asked.iter().map(|asked| asked.window.as_ref()).collect();
    let spans = model.spans(&texts, &windows, &Pass::evaluation());
    let windows = asked.iter().map(|asked| asked.window.clone());
    windows.zip(spans).collect()
}

/// The line of a question. As in scoring, "no answer" is predicted if the question may have none and that has the higher score.
fn line(window: &ContextWindow, span: Span) -> Value {
    let none = window.may_have_no_answer && span.none > span.score;
    let [from, to] = span.bytes;
    let answer = if none { "" } else { &window.context[from..to] };
    json!({
        "example": window.question, "id": &*window.id, "label": &*window.accepted_answers, "predicted": answer,
        "score": span.score, "no_answer_score": span.none,
    })
}
