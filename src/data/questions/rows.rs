//! Reads questions in rows, as data sets of the Hub have SQuAD's: JSON lines, Parquet and Arrow.
//!
//! ```json
//! {"id": …, "title": …, "context": …, "question": …, "answers": {"text": ["Paris"], "answer_start": [17]}}
//! ```
//!
//! A list of answers, each with its `text` and `answer_start`, is equivalent. A row without an answer is a
//! question that has none, as in version 2.0. Rows with the same title form an article; without titles, rows
//! with the same context do.

use super::squad::{Answer, Question, SquadQuestion, question};
use crate::data::files::{json_line, records};
use crate::error::Result;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The answers of a row as parallel lists.
#[derive(Deserialize)]
struct Columns {
    text: Vec<String>,
    answer_start: Vec<usize>,
}

/// Reads the questions of a file, grouped by article.
///
/// # Errors
/// As for [`records::read`]; also if a row has no question, context or list of answers, or an answer is not
/// at its stated position.
pub(super) fn read(path: &Path) -> Result<Vec<Vec<Question>>> {
    let mut articles: Vec<Vec<Question>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut contexts: HashMap<String, Arc<str>> = HashMap::new();
    for record in records::read(path, &[])? {
        let row = &record.fields;
        let fault = |why: String| record.fault(path, &why);
        let context = text(row, "context").map_err(fault)?;
        let article = match row.get("title") {
            Some(Value::String(title)) => title.clone(),
            Some(_) | None => context.to_owned(),
        };
        let shared = contexts
            .entry(context.to_owned())
            .or_insert_with(|| context.into());
        let asked = squad_question(row).and_then(|asked| question(asked, shared));
        let asked = asked.map_err(fault)?;
        let number = *known.entry(article).or_insert(articles.len());
        if number == articles.len() {
            articles.push(Vec::new());
        }
        articles[number].push(asked);
    }
    Ok(articles)
}

/// Converts a row to a question in SQuAD's form.
fn squad_question(row: &Map<String, Value>) -> std::result::Result<SquadQuestion, String> {
    let answers = answers(row)?;
    let is_impossible = row.get("is_impossible").and_then(Value::as_bool);
    Ok(SquadQuestion {
        id: row.get("id").cloned().unwrap_or_default(),
        question: text(row, "question")?.to_owned(),
        is_impossible: is_impossible.unwrap_or(answers.is_empty()),
        answers,
    })
}

fn answers(row: &Map<String, Value>) -> std::result::Result<Vec<Answer>, String> {
    let found = row.get("answers");
    let found = found.ok_or_else(|| json_line::missing_field(row, "answers"))?;
    let wrong = |why: serde_json::Error| {
        format!(
            "`answers` is neither an object with the lists `text` and `answer_start` nor a list of objects with both: {why}"
        )
    };
    if found.is_array() {
        return serde_json::from_value(found.clone()).map_err(wrong);
    }
    let Columns { text, answer_start } = serde_json::from_value(found.clone()).map_err(wrong)?;
    if text.len() != answer_start.len() {
        return Err(format!(
            "`answers` has {} entries in `text`, but {} in `answer_start`",
            text.len(),
            answer_start.len()
        ));
    }
    let both = text.into_iter().zip(answer_start);
    let answer = |(text, answer_start)| Answer { text, answer_start };
    Ok(both.map(answer).collect())
}

/// Returns the text in a column.
fn text<'r>(row: &'r Map<String, Value>, name: &str) -> std::result::Result<&'r str, String> {
    match row.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Null) => Err(format!("`{name}` is empty")),
        Some(_) => Err(format!("`{name}` is not a text")),
        None => Err(json_line::missing_field(row, name)),
    }
}
