//! Which messages of the assistant are trained on, as stated by the rows: `weight`, 0 or 1, in OpenAI's
//! files, and `train`, true or false, in axolotl's.

use super::{ConversationsConfig, LocatedConversation, Split};
use crate::data::PerSplit;
use crate::data::blank::{self, BlankExamples};
use crate::error::{Error, suggestion};
use crate::tokenizer::chat::{ASSISTANT, Answers, Conversation};
use serde_json::Value;
use std::collections::BTreeSet;

/// The fields, with the values for a message that is trained on and for one that is only read.
const FIELDS: [(&str, &str); 2] = [("weight", "1 or 0"), ("train", "true or false")];

/// Describes what a conversation without any message to train on lacks.
pub(super) const NOTHING_TO_LEARN: &str =
    "no message to train on, since `weight` is 0 or `train` is false (see `answers`)";

/// Whether a conversation has a message to train on; `None` if the assistant says nothing in it.
pub(super) fn has_trained_message(conversation: &Conversation, answers: Answers) -> Option<bool> {
    let messages = conversation.messages.iter().enumerate();
    let of_assistant = messages.filter(|(_, message)| message["role"] == ASSISTANT);
    let mut learnt = of_assistant.map(|(at, _)| !conversation.untrained.contains(&at));
    match answers {
        Answers::All => learnt.reduce(|one, other| one || other),
        Answers::Last => learnt.next_back(),
    }
}

/// Returns a message without these fields, for whole texts that are trained on.
pub(in crate::data) fn without_training_fields(mut message: Value) -> Value {
    if let Value::Object(fields) = &mut message {
        for (name, _) in FIELDS {
            fields.remove(name);
        }
    }
    message
}

/// Removes the fields from a message, since templates do not use them, and returns whether the message is
/// trained on.
///
/// # Errors
/// As a clause of a message: if a value is not allowed, two fields contradict each other, or a message of
/// another role is marked to be trained on.
pub(super) fn remove_training_fields(message: &mut Value) -> Result<bool, String> {
    let Value::Object(fields) = message else {
        return Ok(true);
    };
    let mut said: Option<(&str, bool)> = None;
    for (name, allowed) in FIELDS {
        let Some(value) = fields.remove(name) else {
            continue;
        };
        let is_learnt = read_flag(name, &value).ok_or_else(|| {
            format!(
                "has `{name}` = {value}; it must be {allowed}: the first means train on the message, the second means only read it"
            )
        })?;
        if let Some((other, of_other)) = said.filter(|(_, of_other)| *of_other != is_learnt) {
            let word = |learnt: bool| {
                if learnt {
                    "train on it"
                } else {
                    "only read it"
                }
            };
            return Err(format!(
                "has `{other}`, which says to {}, but also `{name}`, which says to {}; remove one of them",
                word(of_other),
                word(is_learnt)
            ));
        }
        said = Some((name, is_learnt));
    }
    match (said, fields.get("role").and_then(Value::as_str)) {
        (Some((name, true)), Some(role)) if role != ASSISTANT => Err(format!(
            "has `{name}`, which says to train on it, but the role `{role}`; the model is trained only on messages of the role \
             `{ASSISTANT}`: remove `{name}`"
        )),
        (Some((_, is_learnt)), _) => Ok(is_learnt),
        (None, _) => Ok(true),
    }
}

/// Reads the value of a field. Columns of tables may hold numbers with a decimal point.
fn read_flag(name: &str, value: &Value) -> Option<bool> {
    let number = value.as_f64().filter(|_| name == "weight");
    match (number, value.as_bool().filter(|_| name == "train")) {
        (Some(0.0), _) => Some(false),
        (Some(1.0), _) => Some(true),
        (_, learnt) => learnt,
    }
}

/// Returns the message about conversations that have an empty message.
pub(super) fn empty_message_note(filed: &PerSplit<Vec<LocatedConversation>>) -> Option<String> {
    let says_nothing = |message: &Value| {
        let text = message.get("content").and_then(Value::as_str);
        text.is_some_and(|text| text.trim().is_empty()) && message.get("tool_calls").is_none()
    };
    let blank = |all: &Vec<LocatedConversation>| {
        let empty = all
            .iter()
            .filter(|one| one.conversation.messages.iter().any(says_nothing));
        BlankExamples::count_at(empty.map(|one| format!("{}:{}", one.path.display(), one.line)))
    };
    let names = [
        "conversation with an empty message",
        "conversations with an empty message",
    ];
    let all = PerSplit {
        train: blank(&filed.train),
        valid: blank(&filed.valid),
        test: blank(&filed.test),
    };
    blank::note(names, &all, "the model also learns empty answers")
}

/// Returns the error of a split without answers.
pub(super) fn no_answers_error(
    all: &[LocatedConversation],
    config: &ConversationsConfig,
    split: Split,
) -> Error {
    let messages = all.iter().flat_map(|one| &one.conversation.messages);
    let roles: BTreeSet<&str> = messages
        .filter_map(|message| message["role"].as_str())
        .collect();
    let split = split.name();
    let mut conversations = all.iter().map(|one| &one.conversation);
    let learns = conversations.any(|one| has_trained_message(one, config.answers) == Some(true));
    let which = match config.answers {
        Answers::All => "every message",
        Answers::Last => "the last message of each conversation",
    };
    Error::usage(match roles.contains(ASSISTANT) {
        true if !learns => format!(
            "[data] {which} of the assistant in the {split} split has `weight` 0 or `train` false, so there is nothing to \
             train on; set some of them to 1 or true"
        ),
        true => format!(
            "[data] no conversation of the {split} split has a token of an answer within context = {} (a whole answer, \
             if rewards compare answers); raise it",
            config.context
        ),
        false => {
            let near = suggestion(ASSISTANT, roles.iter().copied());
            format!("[data] no message of the {split} split has the role `{ASSISTANT}`{near}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversation_is_learnt_where_one_of_its_answers_is() {
        let mut one = Conversation::default();
        assert_eq!(has_trained_message(&one, Answers::All), None);
        for (role, content) in [("user", "a"), (ASSISTANT, "b"), (ASSISTANT, "c")] {
            one.push(role, content);
        }
        assert_eq!(has_trained_message(&one, Answers::Last), Some(true));
        one.untrained.insert(2);
        assert_eq!(has_trained_message(&one, Answers::All), Some(true));
        assert_eq!(has_trained_message(&one, Answers::Last), Some(false));
        one.untrained.insert(1);
        assert_eq!(has_trained_message(&one, Answers::All), Some(false));
    }

    #[test]
    fn a_message_says_whether_it_is_learnt() {
        let read = |mut message: Value| {
            let learnt = remove_training_fields(&mut message);
            let left = message.as_object().unwrap().len();
            learnt.inspect(|_| assert_eq!(left, 1))
        };
        let of = |role: &str, name: &str, value: Value| json!({ "role": role, name: value });
        assert_eq!(read(json!({ "role": "assistant" })), Ok(true));
        for (name, yes, no) in [
            ("weight", json!(1), json!(0)),
            ("weight", json!(1.0), json!(0.0)),
            ("train", json!(true), json!(false)),
        ] {
            assert_eq!(read(of("assistant", name, yes.clone())), Ok(true));
            assert_eq!(read(of("assistant", name, no.clone())), Ok(false));
            assert_eq!(read(of("user", name, no)), Ok(false));
            let why = read(of("user", name, yes)).unwrap_err();
            assert!(
                why.contains("the role `user`") && why.contains(name),
                "{why}"
            );
        }
        for (name, value, allowed) in [
            ("weight", json!(0.5), "1 or 0"),
            ("weight", json!(true), "1 or 0"),
            ("train", json!(1), "true or false"),
            ("train", json!("yes"), "true or false"),
        ] {
            let why = read(of("assistant", name, value)).unwrap_err();
            assert!(why.contains(allowed), "{why}");
        }
        let both = json!({ "role": "assistant", "weight": 0, "train": true });
        let why = read(both).unwrap_err();
        assert!(why.contains("remove one of them"), "{why}");
    }
}
