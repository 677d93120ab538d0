//! Encodes an answer for a reward model in the same way as the texts of its training pairs.

use super::encoded::Encoder;
use crate::data::conversations::read::without_null_fields;
use crate::data::{DataConfig, Shape, TextItem, Tokenizers};
use crate::error::{Error, Result};
use crate::tokenizer::ChatTemplate;
use crate::tokenizer::chat::ASSISTANT;
use serde_json::{Value, json};

/// An answer with its prompt.
#[derive(Clone, Copy, Debug)]
pub enum RewardInput<'a> {
    /// A prompt, and the answer to it.
    Answer {
        /// Prompt; the user's message if a template writes conversations.
        prompt: &'a str,
        /// The answer.
        answer: &'a str,
    },
    /// Messages of a conversation, the last of which is the answer.
    Messages(&'a [Value]),
}

impl DataConfig {
    /// Returns the chat template that wrote the texts of a run with these tokenizers, if one did.
    pub fn template<'t>(
        &self,
        shape: &Shape,
        tokenizers: &'t Tokenizers,
    ) -> Option<&'t ChatTemplate> {
        let written = shape.templated || self.is_imported();
        tokenizers.chat.as_ref().filter(|_| written)
    }

    /// Encodes an answer as a reward model with this data reads it.
    ///
    /// # Errors
    /// If the run has no tokenizer or, for messages, no template; if a message is not valid or the template
    /// refuses it; if the tokenizer cannot encode a text, it is empty, or it is longer than the training
    /// texts may be.
    pub fn encode_answer(
        &self,
        said: &RewardInput,
        shape: &Shape,
        tokenizers: &Tokenizers,
    ) -> Result<TextItem> {
        let Some(tokenizer) = &tokenizers.text else {
            return Err(Error::usage("the run has no tokenizer that reads texts"));
        };
        let template = self.template(shape, tokenizers);
        let encoder = Encoder::new(tokenizer, template, usize::MAX, true)?;
        let message = |role: &str, content: &str| json!({ "role": role, "content": content });
        let encoded = match (said, template) {
            (RewardInput::Answer { prompt, answer }, None) => {
                // Generated texts have no end token.
                let ends = !matches!(self, Self::RightAndWrong(_));
                encoder.text(prompt, answer, ends)
            }
            (RewardInput::Answer { prompt, answer }, Some(_)) => {
                let (asked, said) = (message("user", prompt), message(ASSISTANT, answer));
                encoder.chat(&[asked], &[said], None)
            }
            (RewardInput::Messages(_), None) => Err(
                "the run reads texts, not messages: it was trained without a chat template".into(),
            ),
            (RewardInput::Messages(messages), Some(_)) => {
                messages_of(messages).and_then(|messages| {
                    let (said, prompt) = messages.split_last().ok_or("there are no messages")?;
                    encoder.chat(prompt, std::slice::from_ref(said), None)
                })
            }
        };
        let ids = encoded.map_err(Error::usage)?.ids;
        match (ids.len(), self.context()) {
            (0, _) => Err(Error::usage("the text is empty")),
            (length, context) if length > context => Err(Error::usage(format!(
                "the text has {length} tokens, but the run reads at most {context}; a reward needs the whole text"
            ))),
            (_, _) => Ok(TextItem {
                inputs: ids,
                ..TextItem::default()
            }),
        }
    }
}

/// Checks that values are messages; an error is a clause.
fn messages_of(values: &[Value]) -> std::result::Result<Vec<Value>, String> {
    let all = values.iter().enumerate().map(|(number, value)| {
        without_null_fields(value).map_err(|why| format!("message {} {why}", number + 1))
    });
    all.collect()
}
