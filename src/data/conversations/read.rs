//! Reads rows of tables as conversations.

use super::{ConversationsConfig, LocatedConversation, training_fields};
use crate::data::files::json_line;
use crate::data::files::records::{self, Record};
use crate::error::{Error, Result, suggestion};
use crate::tokenizer::chat::{ASSISTANT, Conversation, OTHER_NAMES, Program};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The usual names of the field that holds the messages.
const FIELDS: [&str; 2] = ["messages", "conversations"];

/// Turns rows into conversations.
pub(super) struct Reader<'a> {
    config: &'a ConversationsConfig,
    /// The role and the content of each turn.
    turns: Vec<(String, Program)>,
}

impl<'a> Reader<'a> {
    /// Builds the reader of a configuration.
    ///
    /// # Errors
    /// If the content of a turn is not valid Jinja.
    pub(super) fn new(config: &'a ConversationsConfig) -> Result<Self> {
        let turns = config.turns.iter().map(|turn| {
            let content = Program::new(turn.content.as_str());
            let content =
                content.map_err(|why| Error::usage(format!("[data] turns: content: {why}")))?;
            Ok((turn.role.clone(), content))
        });
        Ok(Self {
            config,
            turns: turns.collect::<Result<_>>()?,
        })
    }

    /// Reads the conversations of a file.
    ///
    /// # Errors
    /// As for [`records::read`]; also if a row has no messages or holds something else in their place.
    pub(super) fn read(&self, path: &Path) -> Result<Vec<LocatedConversation>> {
        let shared: Arc<Path> = path.into();
        let records = records::read(path, &self.config.columns)?;
        self.require_columns(&records, path)?;
        let filed = records.into_iter().map(|record| {
            let conversation = match self.turns.is_empty() {
                true => self.stored_messages(&record.fields),
                false => self.messages_from_turns(&record.fields),
            };
            let conversation = conversation.map_err(|why| record.fault(path, &why))?;
            Ok(LocatedConversation {
                path: shared.clone(),
                line: record.line,
                conversation,
            })
        });
        filed.collect()
    }

    /// Returns an error if a turn reads a column that no row has.
    fn require_columns(&self, records: &[Record], path: &Path) -> Result<()> {
        if self.turns.is_empty() {
            return Ok(());
        }
        let all = records.iter().flat_map(|record| record.fields.keys());
        let known: BTreeSet<&str> = all.map(String::as_str).collect();
        let mut read = self
            .turns
            .iter()
            .flat_map(|(_, content)| content.free_variables());
        match read.find(|name| !known.contains(name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::usage(format!(
                "[data] turns: content uses the column `{name}`, which {} does not have{}",
                path.display(),
                suggestion(&name, known.iter().copied())
            ))),
        }
    }

    /// Returns the messages that a row holds.
    fn stored_messages(
        &self,
        row: &Map<String, Value>,
    ) -> std::result::Result<Conversation, String> {
        let found = match &self.config.messages {
            Some(name) => json_line::nested_field(row, name).ok_or_else(|| json_line::missing_field(row, name)),
            None => FIELDS
                .iter()
                .find_map(|name| row.get(*name))
                .ok_or_else(|| {
                    let there: Vec<String> = row.keys().map(|key| format!("`{key}`")).collect();
                    format!(
                        "no field `messages` or `conversations`; the fields are {}; set [data] messages, or build messages from columns \
                         with [[data.turns]]",
                        there.join(", ")
                    )
                }),
        }?;
        // Some tables hold lists as JSON in a string.
        let found = parse_json_string("the field of messages", found)?;
        let Value::Array(all) = found else {
            return Err("the messages are not a list".into());
        };
        let mut conversation = Conversation {
            tools: row.get("tools").map(tools).transpose()?.flatten(),
            ..Conversation::default()
        };
        for (number, message) in all.iter().enumerate() {
            let at = |why: String| format!("message {} {why}", number + 1);
            let mut message = without_null_fields(message).map_err(at)?;
            let learnt = training_fields::remove_training_fields(&mut message).map_err(at)?;
            // Messages of other roles are never trained on.
            if !learnt && message["role"] == ASSISTANT {
                conversation.untrained.insert(number);
            }
            conversation.messages.push(message);
        }
        Ok(conversation)
    }

    /// Builds the messages of a row from `turns`.
    fn messages_from_turns(
        &self,
        row: &Map<String, Value>,
    ) -> std::result::Result<Conversation, String> {
        let mut conversation = Conversation::default();
        let mut row = row.clone();
        for cell in row.values_mut().filter(|cell| cell.is_null()) {
            *cell = Value::from("");
        }
        for (role, content) in &self.turns {
            let content = content
                .render(&row)
                .map_err(|why| format!("the content of a turn: {why}"))?;
            if !content.is_empty() {
                conversation.push(role, &content);
            }
        }
        Ok(conversation)
    }
}

/// Parses a value that some tables hold as JSON in a string.
fn parse_json_string(what: &str, value: &Value) -> std::result::Result<Value, String> {
    match value {
        Value::String(text) => {
            serde_json::from_str(text).map_err(|e| format!("{what} is not JSON: {e}"))
        }
        other => Ok(other.clone()),
    }
}

/// Returns the list of tools that a field holds; `None` if it is empty.
pub(in crate::data) fn tools(field: &Value) -> std::result::Result<Option<Value>, String> {
    let none = field.is_null() || field.as_str().is_some_and(|text| text.trim().is_empty());
    let tools = match none {
        true => return Ok(None),
        false => parse_json_string("`tools`", field)?,
    };
    match tools {
        Value::Array(all) => Ok((!all.is_empty()).then_some(Value::Array(all))),
        Value::Null => Ok(None),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err("`tools` is not a list of function descriptions".into())
        }
    }
}

/// Returns a message with `role`, `content` and its other fields. Null fields, with which columnar tables
/// fill up missing ones, are left out.
///
/// # Errors
/// As a clause of a message: if the value is not a message.
pub(in crate::data) fn without_null_fields(message: &Value) -> std::result::Result<Value, String> {
    let Value::Object(fields) = message else {
        return Err("is not an object".into());
    };
    let mut fields: Map<String, Value> = fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let (false, Some(role)) = (fields.contains_key("role"), fields.remove("from")) {
        let named = OTHER_NAMES.into_iter().find(|(theirs, _)| role == *theirs);
        let role = named.map_or(role, |(_, ours)| json!(ours));
        fields.insert("role".into(), role);
        if let Some(content) = fields.remove("value") {
            fields.insert("content".into(), content);
        }
    }
    match fields.get("role") {
        Some(Value::String(_)) => {}
        _ => return Err("has no `role` (or `from`) that is a string".into()),
    }
    if !fields.contains_key("content") && !fields.contains_key("tool_calls") {
        return Err("has neither `content` (or `value`) nor `tool_calls`".into());
    }
    Ok(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_assistant_alone_are_left_out_of_what_is_learnt() {
        let config = ConversationsConfig::default();
        let reader = Reader::new(&config).unwrap();
        let row = json!({ "messages": [
            { "role": "system", "content": "a", "train": false },
            { "role": "user", "content": "b", "weight": 0 },
            { "role": "assistant", "content": "c", "weight": 0 },
            { "role": "user", "content": "d", "weight": 0 },
            { "role": "assistant", "content": "e", "weight": 1 },
        ] });
        let read = reader.stored_messages(row.as_object().unwrap()).unwrap();
        assert_eq!(read.untrained, BTreeSet::from([2]));
        for message in &read.messages {
            assert_eq!(message.as_object().unwrap().len(), 2, "{message}");
        }
    }
}
