//! Turns a question and its context into rows that a model reads: one row for each window of the context.

use crate::data::TextItem;
use crate::data::batch::{ContextWindow, QuestionAnswer};
use crate::error::{Error, Result};
use crate::tokenizer::offsets::Offsets;
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};
use std::sync::Arc;

/// A question with its context and answers.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// Number of the question in its split.
    pub number: u64,
    /// Id of the question in its file.
    pub id: Arc<str>,
    /// Text of the question.
    pub question: &'a str,
    /// Text in which the answer is looked for.
    pub context: Arc<str>,
    /// Byte range of the answer in the context.
    pub answer_bytes: Option<[usize; 2]>,
    /// All accepted answers.
    pub accepted_answers: Arc<[String]>,
    /// Whether questions of this data set may have no answer.
    pub may_have_no_answer: bool,
}

/// How contexts are divided into windows.
#[derive(Clone, Copy, Debug)]
pub struct Windowing {
    /// Maximum length of a row in tokens.
    pub context: usize,
    /// Number of tokens that a window shares with the one before it.
    pub overlap: usize,
}

impl Windowing {
    /// The default division into rows of `context` tokens: windows overlap by a quarter.
    pub fn with_default_overlap(context: usize) -> Self {
        Self {
            context,
            overlap: context / 4,
        }
    }
}

/// Returns the rows of a question: `[CLS] question [SEP] window [SEP]`, with the question cut to half of a
/// row; in XLNet's frame `question [SEP] window [SEP] [CLS]`. In a window without the whole answer, the
/// answer is `[CLS]`, as for a question without one.
///
/// # Errors
/// If the vocabulary has no tokens around texts, or the tokenizer cannot encode a text or makes no token of
/// it.
pub fn read(
    query: &Query<'_>,
    cut: Windowing,
    tokenizer: &Tokenizer,
    offsets: &Offsets,
) -> Result<Vec<TextItem>> {
    let frame = require_frame(tokenizer)?;
    let ids = |ids: Vec<u32>| -> Vec<i32> { ids.into_iter().map(|id| id as i32).collect() };
    let room = cut.context.saturating_sub(frame.len(true));
    let mut question = ids(tokenizer.encode(query.question)?);
    question.truncate(room / 2);
    let (tokens, places) = offsets.encode(&query.context)?;
    let tokens = ids(tokens);
    if question.is_empty() || tokens.is_empty() {
        return Err(Error::run(
            "the question or its context is empty, or `context` leaves no room for them",
        ));
    }
    let room = room - question.len();
    let step = room.saturating_sub(cut.overlap).max(1);
    // White space at the ends of an answer belongs to no token.
    let at = query.answer_bytes.map(|[from, to]| {
        let text = &query.context[from..to];
        let from = from + text.len() - text.trim_start().len();
        [from, from + text.trim().len()]
    });
    let mut rows = Vec::new();
    for from in (0..tokens.len()).step_by(step) {
        let to = (from + room).min(tokens.len());
        let (inputs, segments) = frame.around_both(&question, &tokens[from..to]);
        let first = inputs.len() - frame.len_after_both() - (to - from);
        let none = match frame.has_trailing_class_token() {
            true => inputs.len() - 1,
            false => 0,
        };
        let places = &places[from..to];
        let answer = at.and_then(|at| span(places, at));
        let answer = answer.map_or([none as i32; 2], |span| {
            span.map(|place| (first + place) as i32)
        });
        rows.push(TextItem {
            inputs,
            segments: Some(segments),
            asked: Some(QuestionAnswer {
                answer,
                window: Arc::new(ContextWindow {
                    question: query.number,
                    id: query.id.clone(),
                    context: query.context.clone(),
                    byte_ranges: places.to_vec(),
                    first,
                    no_answer_position: none,
                    accepted_answers: query.accepted_answers.clone(),
                    may_have_no_answer: query.may_have_no_answer,
                }),
            }),
            ..TextItem::default()
        });
        if to == tokens.len() {
            break;
        }
    }
    Ok(rows)
}

/// Returns the special tokens around texts.
///
/// # Errors
/// If the vocabulary has none.
pub(super) fn require_frame(tokenizer: &Tokenizer) -> Result<SpecialTokenLayout> {
    tokenizer.question_layout().ok_or_else(|| {
        Error::usage(
            "[data] kind = \"questions\" needs a vocabulary with special tokens for the ends of a text ([CLS] and [SEP], or <s> and </s>)",
        )
    })
}

/// Returns the first and the last token of a byte range; `None` if the tokens do not cover all of it.
fn span(places: &[[usize; 2]], [from, to]: [usize; 2]) -> Option<[usize; 2]> {
    let whole = places.first()?[0] <= from && places.last()?[1] >= to;
    let first = places.iter().position(|place| place[1] > from)?;
    let last = places.iter().rposition(|place| place[0] < to)?;
    (whole && first <= last).then_some([first, last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_tokens_that_hold_it() {
        let places = [[0, 3], [4, 6], [6, 9], [10, 12]];
        assert_eq!(span(&places, [4, 9]), Some([1, 2]));
        assert_eq!(span(&places, [5, 6]), Some([1, 1]));
        assert_eq!(span(&places[1..], [0, 6]), None);
        assert_eq!(span(&places[..2], [4, 9]), None);
    }
}
