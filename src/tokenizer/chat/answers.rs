//! Where answers are in what a template without tags writes, and what ends them.

use super::{ASSISTANT, Answers, ChatTemplate, Conversation};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::ops::Range;

/// A date for templates that ask for one where none is said: no answer depends on it.
const SOME_DATE: &str = "2024-01-01";

impl ChatTemplate {
    /// The place of message `number` in the whole text: what the text grows by with it, behind what asks for it. Where a template
    /// begins an answer that it asks for otherwise than one that it is given (`<think>`), the place begins where both part.
    ///
    /// # Errors
    /// A clause: a template that writes earlier messages otherwise once others follow.
    pub(super) fn grown_by(
        &self,
        number: usize,
        whole: &str,
        conversation: &Conversation,
        answers: Answers,
    ) -> std::result::Result<Range<usize>, String> {
        let (messages, tools) = (&conversation.messages, conversation.tools.as_ref());
        let after = match number + 1 == messages.len() {
            true => whole.to_owned(),
            false => self.run(&messages[..=number], tools, false)?,
        };
        let start = match number {
            // Programs look at the first message, so that none is written without one.
            0 => {
                let mut other = messages[..1].to_vec();
                other[0]["content"] = json!("\u{1}");
                alike(&self.run(&other, tools, false)?, &after)
            }
            _ => {
                let earlier = self.run(&messages[..number], tools, false)?;
                let asked = self.run(&messages[..number], tools, true)?;
                let start = alike(&asked, &after);
                // Earlier messages stand before it as they stood.
                match start >= alike(&earlier, &asked) {
                    true => start,
                    false => return Err(rewritten(number, answers)),
                }
            }
        };
        match whole.starts_with(&after) && start < after.len() {
            true => Ok(start..after.len()),
            false => Err(rewritten(number, answers)),
        }
    }

    /// What the template writes behind the content of an answer: tokens of which one ends it.
    ///
    /// # Errors
    /// As [`Self::written`].
    pub fn ending(&self) -> std::result::Result<String, String> {
        const CONTENT: &str = "content";
        let mut conversation = Conversation::default();
        conversation.push("user", "question");
        conversation.push(ASSISTANT, CONTENT);
        let template = match self.file.date {
            None => self.dated(SOME_DATE)?,
            Some(_) => self.clone(),
        };
        let written = template.written(&conversation, Answers::Last)?;
        let answer = written.answers.last();
        let answer = answer.map(|range| &written.text[range.clone()]);
        let behind = answer.and_then(|answer| Some(answer.rsplit_once(CONTENT)?.1));
        Ok(behind.unwrap_or_default().to_owned())
    }

    /// The special token that ends an answer, where the template writes one behind it.
    ///
    /// # Errors
    /// As [`Self::ending`]; a text that the tokenizer cannot encode.
    pub fn end_of_answer(&self, tokenizer: &Tokenizer) -> Result<Option<u32>> {
        let ending = self.ending().map_err(Error::usage)?;
        let specials = tokenizer.specials();
        let mut written = tokenizer.encode(&ending)?.into_iter();
        Ok(written.find(|id| specials.contains(id)))
    }
}

/// The clause for a message whose place is not known.
fn rewritten(number: usize, answers: Answers) -> String {
    let last = match answers {
        Answers::All => ", or set answers = \"last\"",
        Answers::Last => "",
    };
    format!(
        "the chat template writes message {} otherwise once others follow, so that its place in the text is not known; mark \
         answers in the template with {{% generation %}} and {{% endgeneration %}}{last}",
        number + 1
    )
}

/// Bytes that two texts have in common at their beginnings, whole characters.
fn alike(one: &str, other: &str) -> usize {
    let both = one.char_indices().zip(other.chars());
    let same = both.take_while(|((_, a), b)| a == b).last();
    same.map_or(0, |((at, c), _)| at + c.len_utf8())
}

/// Puts U+FFFD in the place of the characters that tags write.
pub(super) fn replace_marks(value: &mut Value, marks: &[char]) {
    match value {
        Value::String(text) if text.contains(marks) => *text = text.replace(marks, "\u{FFFD}"),
        Value::Array(all) => all.iter_mut().for_each(|one| replace_marks(one, marks)),
        Value::Object(all) => all.values_mut().for_each(|one| replace_marks(one, marks)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
