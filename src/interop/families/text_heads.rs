//! The heads that classes of encoders have for whole texts and for the tokens of a text, in both directions.
//!
//! `ForSequenceClassification` tells a class, any number of them where `problem_type` is "multi_label_classification", or one
//! number where it is "regression" or there is one class;
//! `ForTokenClassification` has a product behind the last hidden states, which every family names `classifier`;
//! `ForQuestionAnswering` one for the first and one for the last token of an answer, named `qa_outputs`; the body alone,
//! `Model`, has none, and gives vectors of texts.

use super::{HfShape, add_classes};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Stored, Table};
use crate::model::EncoderConfig;
use crate::task::whole_text::Pooling;
use crate::task::{
    MultiLabelConfig, QuestionAnsweringConfig, RegressionConfig, TaskConfig,
    TextClassificationConfig, TextEmbeddingConfig, TokenClassificationConfig,
};
use serde_json::{Value, json};

/// The endings of the classes.
pub(super) const WHOLE: &str = "ForSequenceClassification";
pub(super) const TOKENS: &str = "ForTokenClassification";
pub(super) const SPANS: &str = "ForQuestionAnswering";
pub(super) const BODY: &str = "Model";

/// The values of `problem_type`.
pub(super) const REGRESSION: &str = "regression";
pub(super) const CLASSES: &str = "single_label_classification";
pub(super) const SEVERAL: &str = "multi_label_classification";

/// The ending of a class of the family whose classes begin with `name`; a body may be named by its ending alone.
pub(super) fn ending_of<'c>(class: &'c str, name: &str) -> &'c str {
    match class {
        BODY => BODY,
        class => class.strip_prefix(name).unwrap_or_default(),
    }
}

/// The task of a class with this ending, which asks for the pooler or for classes; `None` of another ending. `dropout` is
/// that before the head.
pub(super) fn task(
    hf: &HfConfig,
    ending: &str,
    dropout: f64,
    config: &mut EncoderConfig,
    shape: &mut Shape,
) -> Option<TaskConfig> {
    match ending {
        WHOLE => {
            config.pooler = true;
            Some(whole(hf, dropout, shape))
        }
        TOKENS => {
            // Other classes write it too; this one does not read it.
            hf.get("problem_type");
            shape.classes = hf.classes();
            Some(TaskConfig::TokenClassification(TokenClassificationConfig {
                dropout,
                ..TokenClassificationConfig::default()
            }))
        }
        SPANS => {
            hf.get("problem_type");
            if hf.classes().len() != 2 {
                hf.fault("a class for questions has 2 scores a token, of an answer's first and last one; `id2label` has others");
            }
            Some(TaskConfig::QuestionAnswering(
                QuestionAnsweringConfig::default(),
            ))
        }
        BODY => {
            hf.get("problem_type");
            Some(TaskConfig::TextEmbedding(TextEmbeddingConfig::default()))
        }
        _ => None,
    }
}

/// The task of a class that tells classes of whole texts, or numbers of them; `dropout` is that before the head.
pub(super) fn whole(hf: &HfConfig, dropout: f64, shape: &mut Shape) -> TaskConfig {
    let classes = hf.classes();
    let task = match hf.get("problem_type").and_then(Value::as_str) {
        Some(REGRESSION) => REGRESSION,
        None if classes.len() == 1 && hf.get("problem_type").is_none() => REGRESSION,
        _ => CLASSES,
    };
    if task == REGRESSION {
        if classes.len() != 1 {
            hf.fault(format!(
                "`problem_type` = \"{REGRESSION}\" with {} numbers a text is not supported; it must be one",
                classes.len()
            ));
        }
        return TaskConfig::Regression(RegressionConfig {
            dropout,
            ..RegressionConfig::default()
        });
    }
    shape.classes = classes;
    if hf.get("problem_type").and_then(Value::as_str) == Some(SEVERAL) {
        return TaskConfig::MultiLabel(MultiLabelConfig {
            dropout,
            ..MultiLabelConfig::default()
        });
    }
    hf.only("problem_type", CLASSES);
    TaskConfig::TextClassification(TextClassificationConfig {
        dropout,
        ..TextClassificationConfig::default()
    })
}

/// The ending of the class of a task with one of these heads, which read whole texts at their first position.
pub(super) fn ending(task: &TaskConfig) -> Option<&'static str> {
    match task {
        TaskConfig::TextClassification(c) => {
            let whole = matches!(c.pooling, None | Some(Pooling::First));
            (whole && c.head_bias != Some(false)).then_some(WHOLE)
        }
        TaskConfig::MultiLabel(c) => {
            let whole = matches!(c.pooling, None | Some(Pooling::First));
            (whole && c.head_bias != Some(false)).then_some(WHOLE)
        }
        TaskConfig::Regression(c) => {
            let whole = matches!(c.pooling, None | Some(Pooling::First));
            (whole && c.head_bias != Some(false)).then_some(WHOLE)
        }
        TaskConfig::TokenClassification(_) => Some(TOKENS),
        TaskConfig::QuestionAnswering(_) => Some(SPANS),
        TaskConfig::TextEmbedding(_) => Some(BODY),
        _ => None,
    }
}

/// Notes a fault where a class is one for questions, in a family whose network or head is another one there.
pub(super) fn refuse_spans(hf: &HfConfig, task: &TaskConfig, why: &str) {
    if ending(task) == Some(SPANS) {
        let class = hf.architecture().unwrap_or_default();
        hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported: {why}"
        ));
    }
}

/// Whether a task is that of a body without a head.
pub(super) fn is_body(task: &TaskConfig) -> bool {
    ending(task) == Some(BODY)
}

/// Whether a task reads the vector of a whole text.
pub(super) fn reads_whole(task: &TaskConfig) -> bool {
    ending(task) == Some(WHOLE)
}

/// The dropout before the head, where a task has one of these.
pub(super) fn dropout(task: &TaskConfig) -> Option<f64> {
    match task {
        TaskConfig::TextClassification(c) => Some(c.dropout),
        TaskConfig::MultiLabel(c) => Some(c.dropout),
        TaskConfig::Regression(c) => Some(c.dropout),
        TaskConfig::TokenClassification(c) => Some(c.dropout),
        TaskConfig::QuestionAnswering(c) => Some(c.dropout),
        _ => None,
    }
}

/// Writes what the head gives.
pub(super) fn write(written: &mut Value, of: &HfShape) {
    if let TaskConfig::Regression(_) = &of.task {
        written["problem_type"] = json!(REGRESSION);
        add_classes(written, &["LABEL_0".into()]);
    }
    if !of.shape.classes.is_empty() {
        add_classes(written, &of.shape.classes);
    }
    if let TaskConfig::MultiLabel(_) = &of.task {
        written["problem_type"] = json!(SEVERAL);
    }
    if let (TaskConfig::TextClassification(_), [_]) = (&of.task, of.shape.classes.as_slice()) {
        written["problem_type"] = json!(CLASSES);
    }
}

/// Adds the head of a task that has one of these; `whole` are the names of the first layer, our pooler, and of the head of
/// whole texts. Whether it has one.
pub(super) fn add(table: &mut Table, task: &TaskConfig, whole: [&str; 2]) -> bool {
    let [first, head] = whole;
    match ending(task) {
        Some(WHOLE) => {
            table.linear(first, "model.pooler", Stored::OutIn);
            table.linear(head, "head", Stored::OutIn);
            true
        }
        Some(SPANS) => {
            table.linear("qa_outputs", "head", Stored::OutIn);
            true
        }
        Some(BODY) => true,
        Some(_) => {
            table.linear("classifier", "head", Stored::OutIn);
            true
        }
        None => false,
    }
}
