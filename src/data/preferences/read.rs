//! Reads rows of tables as pairs: a prompt with two continuations.

use super::PreferencesConfig;
use crate::data::conversations::read::{tools, without_null_fields};
use crate::data::conversations::training_fields;
use crate::data::files::{json_line, records};
use crate::error::Result;
use crate::tokenizer::chat::common_prefix;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

/// A pair with the file and line it was read from.
pub(super) struct LocatedPair {
    pub(super) path: Arc<Path>,
    pub(super) line: u64,
    pub(super) pair: Pair,
    /// Margin by which the better text is better; 0 if no field states it.
    pub(super) margin: f32,
}

/// A prompt with the better and the worse continuation.
#[derive(Debug, PartialEq)]
pub(super) enum Pair {
    /// As texts.
    Texts {
        prompt: String,
        better: String,
        worse: String,
    },
    /// As messages, with the tools that the assistant may call.
    Messages {
        prompt: Vec<Value>,
        better: Vec<Value>,
        worse: Vec<Value>,
        tools: Option<Value>,
    },
}

impl Pair {
    /// Whether a chat template writes the pair.
    pub(super) fn has_messages(&self) -> bool {
        matches!(self, Self::Messages { .. })
    }
}

/// The content of a field.
enum FieldContent {
    Text(String),
    Messages(Vec<Value>),
}

/// The result of a row; an error is a clause.
type RowResult<T> = std::result::Result<T, String>;

/// Turns rows into pairs.
pub(super) struct Reader<'a>(pub(super) &'a PreferencesConfig);

impl Reader<'_> {
    /// Reads the pairs of a file.
    ///
    /// # Errors
    /// As for [`records::read`]; also if a row lacks a field, its fields are of different types, or both
    /// continuations are equal.
    pub(super) fn read(&self, path: &Path) -> Result<Vec<LocatedPair>> {
        let shared: Arc<Path> = path.into();
        let records = records::read(path, &self.0.columns)?;
        let filed = records.into_iter().map(|record| {
            let pair = self.pair(&record.fields);
            let read = pair.and_then(|pair| Ok((pair, self.margin(&record.fields)?)));
            let (pair, margin) = read.map_err(|why| record.fault(path, &why))?;
            Ok(LocatedPair {
                path: shared.clone(),
                line: record.line,
                pair,
                margin,
            })
        });
        filed.collect()
    }

    /// Returns the pair of a row.
    fn pair(&self, row: &Map<String, Value>) -> RowResult<Pair> {
        let (chosen, rejected) = (self.0.chosen.as_str(), self.0.rejected.as_str());
        let both = (required_field(row, chosen)?, required_field(row, rejected)?);
        let prompt = self.prompt(row)?;
        let pair = match both {
            (FieldContent::Text(better), FieldContent::Text(worse)) => {
                self.texts(prompt, better, worse)?
            }
            (FieldContent::Messages(better), FieldContent::Messages(worse)) => {
                let tools = row.get("tools").map(tools).transpose()?.flatten();
                self.messages(prompt, better, worse, tools)?
            }
            (FieldContent::Text(_), FieldContent::Messages(_))
            | (FieldContent::Messages(_), FieldContent::Text(_)) => {
                return Err(format!(
                    "one of `{chosen}` and `{rejected}` is a text, but the other is a list of messages; use the same form for both"
                ));
            }
        };
        let same = match &pair {
            Pair::Texts { better, worse, .. } => better == worse,
            Pair::Messages { better, worse, .. } => better == worse,
        };
        match same {
            true => Err(format!(
                "`{chosen}` and `{rejected}` are the same, so neither is better; remove the row"
            )),
            false => Ok(pair),
        }
    }

    /// Returns the margin of a row, if a field is to state it, otherwise 0.
    fn margin(&self, row: &Map<String, Value>) -> RowResult<f32> {
        let Some(name) = &self.0.margin else {
            return Ok(0.0);
        };
        let value = json_line::nested_field(row, name)
            .ok_or_else(|| json_line::missing_field(row, name))?;
        let number = match value {
            Value::Number(number) => number.as_f64(),
            // Cells of TSV and CSV are strings.
            Value::String(text) => text.trim().parse::<f64>().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let number = number.filter(|number| (*number as f32).is_finite());
        let number = number.ok_or_else(|| format!("`{name}` is not a number: {value}"))?;
        Ok(number as f32)
    }

    /// Returns the prompt of a row, if it has one.
    fn prompt(&self, row: &Map<String, Value>) -> RowResult<Option<FieldContent>> {
        match &self.0.prompt {
            Some(name) => required_field(row, name).map(Some),
            None => row
                .get(PROMPT)
                .filter(|value| !value.is_null())
                .map(|value| field_content(PROMPT, value))
                .transpose(),
        }
    }

    fn texts(
        &self,
        prompt: Option<FieldContent>,
        better: String,
        worse: String,
    ) -> RowResult<Pair> {
        match prompt {
            Some(FieldContent::Text(prompt)) => Ok(Pair::Texts {
                prompt,
                better,
                worse,
            }),
            Some(FieldContent::Messages(_)) => Err(format!(
                "the prompt is a list of messages, but `{}` is a text; use the same form for both",
                self.0.chosen
            )),
            None => match common_prefix_len(&better, &worse) {
                0 => Err(self.no_common_prompt("characters")),
                at => Ok(Pair::Texts {
                    prompt: better[..at].to_owned(),
                    better: better[at..].to_owned(),
                    worse: worse[at..].to_owned(),
                }),
            },
        }
    }

    fn messages(
        &self,
        prompt: Option<FieldContent>,
        mut better: Vec<Value>,
        mut worse: Vec<Value>,
        tools: Option<Value>,
    ) -> RowResult<Pair> {
        let both = better.iter().zip(&worse);
        let same = both.take_while(|(one, other)| one == other).count();
        // Neither continuation may be empty.
        let alike = same.min(better.len() - 1).min(worse.len() - 1);
        let is_given = prompt.is_some();
        let prompt = match prompt {
            Some(FieldContent::Messages(prompt)) => prompt,
            Some(FieldContent::Text(asked)) => {
                let asked = json!({ "role": "user", "content": asked });
                // Whole conversations contain the question, possibly after a system message.
                match better[..alike].contains(&asked) {
                    true => better[..alike].to_vec(),
                    false => vec![asked],
                }
            }
            None if alike == 0 && same > 0 => {
                return Err(format!(
                    "one of `{}` and `{}` is the beginning of the other, so it contains no answer",
                    self.0.chosen, self.0.rejected
                ));
            }
            None if alike == 0 => return Err(self.no_common_prompt("messages")),
            None => better[..alike].to_vec(),
        };
        // Whole conversations begin with the prompt.
        let begins = |all: &[Value]| all.len() > prompt.len() && all.starts_with(&prompt);
        if begins(&better) && begins(&worse) {
            better.drain(..prompt.len());
            worse.drain(..prompt.len());
        }
        let repeats = |all: &[Value]| prompt.last().is_some_and(|last| all.contains(last));
        // Without a prompt field, a user may say the same thing again.
        if is_given && (repeats(&better) || repeats(&worse)) {
            return Err(format!(
                "the last message of the prompt is also in `{}` or `{}`, but not at the same place in both; remove it there",
                self.0.chosen, self.0.rejected
            ));
        }
        Ok(Pair::Messages {
            prompt,
            better,
            worse,
            tools,
        })
    }

    /// The clause for two continuations without a common prompt.
    fn no_common_prompt(&self, what: &str) -> String {
        format!(
            "there is no field `{PROMPT}`, and the first {what} of `{}` and `{}` differ, so they have no common prompt; name the field of the \
             prompt with [data] prompt",
            self.0.chosen, self.0.rejected
        )
    }
}

/// Default field of the prompt.
const PROMPT: &str = "prompt";

/// Returns the content of a field that a row must have.
fn required_field(row: &Map<String, Value>, name: &str) -> RowResult<FieldContent> {
    let value =
        json_line::nested_field(row, name).ok_or_else(|| json_line::missing_field(row, name))?;
    field_content(name, value)
}

/// Returns the content of a field.
fn field_content(name: &str, value: &Value) -> RowResult<FieldContent> {
    match value {
        Value::String(text) => Ok(FieldContent::Text(text.clone())),
        Value::Array(all) if all.is_empty() => Err(format!("`{name}` has no messages")),
        Value::Array(all) => {
            let messages = all.iter().enumerate().map(|(number, message)| {
                let message = without_null_fields(message)
                    .map_err(|why| format!("`{name}`: message {} {why}", number + 1))?;
                // Both continuations are trained on, and templates do not use such fields.
                Ok(training_fields::without_training_fields(message))
            });
            messages
                .collect::<RowResult<_>>()
                .map(FieldContent::Messages)
        }
        Value::Null => Err(format!("`{name}` is empty")),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Err(format!("`{name}` is neither a text nor a list of messages"))
        }
    }
}

/// Returns the number of bytes at the beginning that two texts share; a blank before the first difference
/// belongs to the continuation.
fn common_prefix_len(one: &str, other: &str) -> usize {
    let end = common_prefix(one, other);
    end - usize::from(one[..end].ends_with(' '))
}

#[cfg(test)]
mod tests;
