//! Conversations, and the texts that templates make of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::ops::Range;

/// The role whose messages are answers.
pub const ASSISTANT: &str = "assistant";

/// The keys under which messages hold the reasoning before an answer; templates know the first two.
const REASONING_KEYS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The messages of a conversation, each an object with `role` and `content`, and the tools that the assistant may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The messages, in order.
    pub messages: Vec<Value>,
    /// Descriptions of functions, as a template writes them.
    pub tools: Option<Value>,
    /// Indices of messages of the assistant that are read but not learnt.
    pub untrained: BTreeSet<usize>,
}

impl Conversation {
    /// Adds a message.
    pub fn push(&mut self, role: &str, content: &str) {
        self.messages
            .push(serde_json::json!({"role": role, "content": content}));
    }
}

/// The answers of a conversation that a model learns.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// Every message of the assistant.
    #[default]
    All,
    /// The last message of the assistant.
    Last,
}

/// A conversation written as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedConversation {
    /// The whole text.
    pub text: String,
    /// The byte ranges of the answers.
    pub answers: Vec<Range<usize>>,
}

/// A message as templates see it: without null keys, and with its reasoning under both keys that templates know.
pub(super) fn for_templates(message: &Value) -> Value {
    let Value::Object(fields) = message else {
        return message.clone();
    };
    let mut plain: Map<String, Value> = fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let thoughts = REASONING_KEYS
        .iter()
        .find_map(|name| plain.get(*name))
        .cloned();
    if let Some(thoughts) = thoughts {
        let [first, second, _] = REASONING_KEYS;
        if !plain.contains_key(second) {
            plain.insert(second.into(), thoughts.clone());
        }
        plain.insert(first.into(), thoughts);
    }
    Value::Object(plain)
}
