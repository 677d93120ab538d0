//! Finds the answers in the text of a template without tags, and how the template ends an answer.

use super::{ASSISTANT, Answers, ChatTemplate, Conversation, RenderedConversation, tags};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::ops::Range;

/// How a template ends an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a special token.
    Token(u32),
    /// With a text that contains no special token.
    Text(String),
    /// With nothing: the template writes nothing after the content.
    NoEnd,
}

/// A date for templates that ask for one when none is set; the text after an answer does not depend on it.
const SOME_DATE: &str = "2024-01-01";

impl ChatTemplate {
    /// The byte range of message `number` in the whole text: the text that it adds after the generation prompt. Some templates
    /// begin an answer differently when they ask for it and when it is given (`<think>`); the range then starts where the two
    /// differ.
    ///
    /// # Errors
    /// If the template writes earlier messages differently once others follow.
    pub(super) fn message_range(
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
            // Templates may read the first message, so the text before it cannot be found by rendering no messages.
            0 => {
                let mut other = messages[..1].to_vec();
                other[0]["content"] = json!("\u{1}");
                common_prefix(&self.run(&other, tools, false)?, &after)
            }
            _ => self
                .start(&messages[..number], tools, &after)?
                .ok_or_else(|| position_error(number, answers))?,
        };
        match whole.starts_with(&after) && start < after.len() {
            true => Ok(start..after.len()),
            false => Err(position_error(number, answers)),
        }
    }

    /// The text of the messages `prompt` with `said` after them, which together are its only answer.
    ///
    /// # Errors
    /// The errors of [`Self::render`]; and if the template writes the earlier messages differently once others follow.
    pub fn render_continuation(
        &self,
        prompt: &[Value],
        said: &[Value],
        tools: Option<&Value>,
    ) -> std::result::Result<RenderedConversation, String> {
        let whole = self.run(&[prompt, said].concat(), tools, false)?;
        let start = self.start(prompt, tools, &whole)?;
        let start = start.ok_or(
            "the chat template formats the prompt differently when an answer follows, so the position of the answer is unknown; name another \
             template with [data] template",
        )?;
        // Tags write no text, so their characters before the answer do not count.
        let start = tags::parts(&whole[..start]).text.len();
        let text = tags::parts(&whole).text;
        let answer = start..text.len();
        Ok(RenderedConversation {
            answers: Vec::from_iter([answer]),
            text,
        })
    }

    /// The byte at which `after` departs from the prompt for an answer to `before`; `None` if it departs within these messages.
    fn start(
        &self,
        before: &[Value],
        tools: Option<&Value>,
        after: &str,
    ) -> std::result::Result<Option<usize>, String> {
        let asked = self.run(before, tools, true)?;
        let start = common_prefix(&asked, after);
        if start == asked.len() {
            return Ok(Some(start));
        }
        let earlier = self.run(before, tools, false)?;
        Ok((start >= common_prefix(&earlier, &asked)).then_some(start))
    }

    /// How the template ends an answer: the first special token after the content, else the text there.
    ///
    /// # Errors
    /// The errors of [`Self::render_with_answers`]; and if the tokenizer cannot encode the text.
    pub fn ending(&self, tokenizer: &Tokenizer) -> Result<Ending> {
        let text = self.text_after_content().map_err(Error::usage)?;
        let specials = tokenizer.specials();
        let mut written = tokenizer.encode(&text)?.into_iter();
        Ok(match written.find(|id| specials.contains(id)) {
            Some(id) => Ending::Token(id),
            None if text.is_empty() => Ending::NoEnd,
            None => Ending::Text(text),
        })
    }

    /// The tokens that the template writes after an answer, from the first special token on; empty if there is none.
    ///
    /// # Errors
    /// The errors of [`Self::ending`].
    pub fn closing(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        let text = self.text_after_content().map_err(Error::usage)?;
        let specials = tokenizer.specials();
        let written = tokenizer.encode(&text)?.into_iter();
        Ok(written.skip_while(|id| !specials.contains(id)).collect())
    }

    /// The text that the template writes after the content of an answer.
    pub(super) fn text_after_content(&self) -> std::result::Result<String, String> {
        const CONTENT: &str = "content";
        let mut conversation = Conversation::default();
        conversation.push("user", "question");
        conversation.push(ASSISTANT, CONTENT);
        let template = match self.file.date {
            None => self.with_date(SOME_DATE)?,
            Some(_) => self.clone(),
        };
        let written = template.render_with_answers(&conversation, Answers::Last)?;
        let answer = written.answers.last();
        let answer = answer.map(|range| &written.text[range.clone()]);
        let behind = answer.and_then(|answer| Some(answer.rsplit_once(CONTENT)?.1));
        Ok(behind.unwrap_or_default().to_owned())
    }
}

/// Checks that tags mark each message of the assistant once; called if some messages are not learnt.
///
/// # Errors
/// If the numbers of marked parts and of messages differ.
pub(super) fn require_each_marked(
    marked: usize,
    messages: usize,
) -> std::result::Result<(), String> {
    match marked == messages {
        true => Ok(()),
        false => Err(format!(
            "the chat template marks {marked} parts with {{% generation %}}, but there are {messages} messages of the assistant, so `weight` and \
             `train` cannot exclude single messages; mark each message once"
        )),
    }
}

/// The error message for a message whose position in the text cannot be found.
fn position_error(number: usize, answers: Answers) -> String {
    let last = match answers {
        Answers::All => ", or set answers = \"last\"",
        Answers::Last => "",
    };
    format!(
        "the chat template formats message {} differently when others follow, so its position in the text is unknown; mark answers in the template \
         with {{% generation %}} and {{% endgeneration %}}{last}",
        number + 1
    )
}

/// The length in bytes of the common prefix of two texts, in whole characters.
pub fn common_prefix(one: &str, other: &str) -> usize {
    let both = one.char_indices().zip(other.chars());
    let same = both.take_while(|((_, a), b)| a == b).last();
    same.map_or(0, |((at, c), _)| at + c.len_utf8())
}

/// Replaces the characters that tags write by U+FFFD.
pub(super) fn replace_marks(value: &mut Value, marks: &[char]) {
    match value {
        Value::String(text) if text.contains(marks) => *text = text.replace(marks, "\u{FFFD}"),
        Value::Array(all) => all.iter_mut().for_each(|one| replace_marks(one, marks)),
        Value::Object(all) => all.values_mut().for_each(|one| replace_marks(one, marks)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
