//! Reads files of questions in SQuAD's format, version 1.1 and 2.0 (Rajpurkar et al., arXiv:1606.05250,
//! arXiv:1806.03822).
//!
//! ```json
//! {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [
//!     {"id": …, "question": …, "is_impossible": false, "answers": [{"text": …, "answer_start": 17}]}]}]}]}
//! ```
//!
//! `answer_start` counts characters. A question without an answer, in version 2.0, has `is_impossible` set.

use crate::data::files::packed;
use crate::error::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// A question about a context.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Id of the question in the file, if there is one.
    pub(super) id: Option<String>,
    pub(super) question: String,
    pub(super) context: Arc<str>,
    /// Byte range of the first answer in the context; `None` if there is no answer.
    pub(super) answer_bytes: Option<[usize; 2]>,
    /// All accepted answers.
    pub(super) accepted_answers: Arc<[String]>,
}

impl Question {
    /// Returns the id, or the question itself, for messages.
    pub(super) fn name(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.question)
    }
}

#[derive(Deserialize)]
struct File {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<SquadQuestion>,
}

#[derive(Deserialize)]
pub(super) struct SquadQuestion {
    /// Id as a string or a number; some files have none.
    #[serde(default)]
    pub(super) id: Value,
    pub(super) question: String,
    #[serde(default)]
    pub(super) is_impossible: bool,
    #[serde(default)]
    pub(super) answers: Vec<Answer>,
}

#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) answer_start: usize,
}

/// Reads the questions of a file, grouped by article.
///
/// # Errors
/// If the file cannot be read or has another form, an answer is not at its stated position, a question has
/// neither an answer nor `is_impossible`, or the file has no questions.
pub(super) fn read(path: &Path) -> Result<Vec<Vec<Question>>> {
    let wrong = |why: String| Error::run(format!("{}: {why}", path.display()));
    let content = packed::content(path)?;
    let content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&content);
    let file: File = serde_json::from_slice(content)
        .map_err(|e| wrong(format!("is not in SQuAD's format: {e}")))?;
    let articles = file.data.into_iter().map(|article| {
        let paragraphs = article.paragraphs.into_iter();
        let all = paragraphs.map(|paragraph| {
            let context: Arc<str> = paragraph.context.into();
            let asked = paragraph.qas.into_iter();
            asked
                .map(|asked| question(asked, &context).map_err(&wrong))
                .collect::<Result<Vec<_>>>()
        });
        let all = all.collect::<Result<Vec<Vec<_>>>>()?;
        Ok(all.into_iter().flatten().collect())
    });
    let mut articles = articles.collect::<Result<Vec<Vec<Question>>>>()?;
    articles.retain(|questions| !questions.is_empty());
    match articles.is_empty() {
        true => Err(wrong("has no questions".into())),
        false => Ok(articles),
    }
}

/// Converts a question about a context; an error is a clause about it.
pub(super) fn question(
    asked: SquadQuestion,
    context: &Arc<str>,
) -> std::result::Result<Question, String> {
    let SquadQuestion { id, question, .. } = asked;
    let id = match id {
        Value::Null => None,
        Value::String(id) => Some(id),
        id => Some(id.to_string()),
    };
    let name = id.as_deref().unwrap_or(&question);
    let first = asked.answers.first().filter(|_| !asked.is_impossible);
    let at = match first {
        None if asked.is_impossible => None,
        None => {
            return Err(format!(
                "question `{name}` has no answer, but is not marked with is_impossible"
            ));
        }
        Some(answer) => {
            let starts = context.char_indices().map(|(at, _)| at);
            let from = starts.chain([context.len()]).nth(answer.answer_start);
            let there = |from: &usize| context[*from..].starts_with(&answer.text);
            let from = from.filter(there).filter(|_| !answer.text.is_empty());
            let from = from.ok_or_else(|| {
                format!(
                    "the answer `{}` of question `{name}` is not at character {} of its context",
                    answer.text, answer.answer_start
                )
            })?;
            Some([from, from + answer.text.len()])
        }
    };
    let right = match at {
        Some(_) => asked
            .answers
            .into_iter()
            .map(|answer| answer.text)
            .collect(),
        None => Arc::from([]),
    };
    Ok(Question {
        id,
        question,
        context: context.clone(),
        answer_bytes: at,
        accepted_answers: right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, answer_start: usize, is_impossible: bool) -> SquadQuestion {
        SquadQuestion {
            id: "q".into(),
            question: "?".into(),
            is_impossible,
            answers: vec![Answer {
                text: text.into(),
                answer_start,
            }],
        }
    }

    #[test]
    fn answers_are_counted_in_characters() {
        let context: Arc<str> = "Die Größe ist 7.".into();
        let found = question(asked("ist", 10, false), &context).unwrap();
        let [from, to] = found.answer_bytes.unwrap();
        assert_eq!(
            (&context[from..to], found.accepted_answers.len()),
            ("ist", 1)
        );
        let found = question(asked("ist", 10, true), &context).unwrap();
        assert!(found.answer_bytes.is_none() && found.accepted_answers.is_empty());
        for (text, at) in [("ist", 11), ("ist", 99), ("", 3)] {
            assert!(
                question(asked(text, at, false), &context).is_err(),
                "{text} {at}"
            );
        }
    }
}
