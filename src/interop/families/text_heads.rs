//! The heads of encoder classes for whole texts and for the tokens of a text, for import and export.
//!
//! `ForSequenceClassification` predicts one class; any number of classes if `problem_type` is "multi_label_classification";
//! or one number if it is "regression" or there is only one class. `ForTokenClassification` has a projection of the last
//! hidden states, which every family names `classifier`. `ForQuestionAnswering` has a projection to scores of an answer's
//! first and last token, named `qa_outputs`. The body by itself, `Model`, has no head, and gives text embeddings.

use super::{HfShape, add_classes};
use crate::data::Shape;
use crate::interop::HfConfig;
use crate::interop::rename::{Orientation, Table};
use crate::model::EncoderConfig;
use crate::task::whole_text::Pooling;
use crate::task::{
    MultiLabelConfig, QuestionAnsweringConfig, RegressionConfig, TaskConfig,
    TextClassificationConfig, TextEmbeddingConfig, TokenClassificationConfig,
};
use serde_json::{Value, json};

/// The endings of class names.
pub(super) const SEQUENCE_ENDING: &str = "ForSequenceClassification";
pub(super) const TOKEN_ENDING: &str = "ForTokenClassification";
pub(super) const SPAN_ENDING: &str = "ForQuestionAnswering";
pub(super) const BODY: &str = "Model";

/// The values of `problem_type`.
pub(super) const REGRESSION: &str = "regression";
pub(super) const CLASSES: &str = "single_label_classification";
pub(super) const MULTI_LABEL: &str = "multi_label_classification";

/// The ending of a class in the family whose classes begin with `name`; a body may be named only by its ending.
pub(super) fn ending_of<'c>(class: &'c str, name: &str) -> &'c str {
    match class {
        BODY => BODY,
        class => class.strip_prefix(name).unwrap_or_default(),
    }
}

/// The task of a class with this ending, which sets the pooler and the classes that it needs; `None` for other endings.
/// `dropout` is applied before the head.
pub(super) fn task(
    hf: &HfConfig,
    ending: &str,
    dropout: f64,
    config: &mut EncoderConfig,
    shape: &mut Shape,
) -> Option<TaskConfig> {
    match ending {
        SEQUENCE_ENDING => {
            config.pooler = true;
            Some(sequence_task(hf, dropout, shape))
        }
        TOKEN_ENDING => {
            // Other classes also write this key; this one does not read it.
            hf.get("problem_type");
            shape.classes = hf.classes();
            Some(TaskConfig::TokenClassification(TokenClassificationConfig {
                dropout,
                ..TokenClassificationConfig::default()
            }))
        }
        SPAN_ENDING => {
            hf.get("problem_type");
            if hf.classes().len() != 2 {
                hf.fault("a question answering class has 2 labels, for the first and the last token of an answer; `id2label` has another number");
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

/// The task of a class that predicts classes or a number for whole texts; `dropout` is applied before the head.
pub(super) fn sequence_task(hf: &HfConfig, dropout: f64, shape: &mut Shape) -> TaskConfig {
    let classes = hf.classes();
    let task = match hf.get("problem_type").and_then(Value::as_str) {
        Some(REGRESSION) => REGRESSION,
        None if classes.len() == 1 && hf.get("problem_type").is_none() => REGRESSION,
        _ => CLASSES,
    };
    if task == REGRESSION {
        if classes.len() != 1 {
            hf.fault(format!(
                "`problem_type` = \"{REGRESSION}\" with {} numbers per text is not supported; it must be one number",
                classes.len()
            ));
        }
        return TaskConfig::Regression(RegressionConfig {
            dropout,
            ..RegressionConfig::default()
        });
    }
    shape.classes = classes;
    if hf.get("problem_type").and_then(Value::as_str) == Some(MULTI_LABEL) {
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

/// The class ending of a task with one of these heads; heads for whole texts must read the first position, with a bias.
pub(super) fn ending(task: &TaskConfig) -> Option<&'static str> {
    match task {
        TaskConfig::TextClassification(c) => {
            let whole = matches!(c.pooling, None | Some(Pooling::First));
            (whole && c.head_bias != Some(false)).then_some(SEQUENCE_ENDING)
        }
        TaskConfig::MultiLabel(c) => {
            let whole = matches!(c.pooling, None | Some(Pooling::First));
            (whole && c.head_bias != Some(false)).then_some(SEQUENCE_ENDING)
        }
        TaskConfig::Regression(c) => {
            let whole = matches!(c.pooling, None | Some(Pooling::First));
            (whole && c.head_bias != Some(false)).then_some(SEQUENCE_ENDING)
        }
        TaskConfig::TokenClassification(_) => Some(TOKEN_ENDING),
        TaskConfig::QuestionAnswering(_) => Some(SPAN_ENDING),
        TaskConfig::TextEmbedding(_) => Some(BODY),
        _ => None,
    }
}

/// Reports a fault if the class is one for questions, in a family whose class differs too much from the task here.
pub(super) fn refuse_spans(hf: &HfConfig, task: &TaskConfig, why: &str) {
    if ending(task) == Some(SPAN_ENDING) {
        let class = hf.architecture().unwrap_or_default();
        hf.fault(format!(
            "`architectures` = [\"{class}\"] cannot be imported: {why}"
        ));
    }
}

/// Whether the task is that of a body without a head.
pub(super) fn is_body(task: &TaskConfig) -> bool {
    ending(task) == Some(BODY)
}

/// Whether the task reads the vector of a whole text.
pub(super) fn is_sequence_task(task: &TaskConfig) -> bool {
    ending(task) == Some(SEQUENCE_ENDING)
}

/// The dropout before the head, if the task has one of these heads.
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

/// Writes the classes and the `problem_type` of the head.
pub(super) fn write(written: &mut Value, of: &HfShape) {
    if let TaskConfig::Regression(_) = &of.task {
        written["problem_type"] = json!(REGRESSION);
        add_classes(written, &["LABEL_0".into()]);
    }
    if !of.shape.classes.is_empty() {
        add_classes(written, &of.shape.classes);
    }
    if let TaskConfig::MultiLabel(_) = &of.task {
        written["problem_type"] = json!(MULTI_LABEL);
    }
    if let (TaskConfig::TextClassification(_), [_]) = (&of.task, of.shape.classes.as_slice()) {
        written["problem_type"] = json!(CLASSES);
    }
}

/// Adds the head of a task that has one of these heads, and returns whether it has. For whole texts, `whole` names the first
/// layer (our pooler) and the head.
pub(super) fn add(table: &mut Table, task: &TaskConfig, whole: [&str; 2]) -> bool {
    let [first, head] = whole;
    match ending(task) {
        Some(SEQUENCE_ENDING) => {
            table.linear(first, "model.pooler", Orientation::OutIn);
            table.linear(head, "head", Orientation::OutIn);
            true
        }
        Some(SPAN_ENDING) => {
            table.linear("qa_outputs", "head", Orientation::OutIn);
            true
        }
        Some(BODY) => true,
        Some(_) => {
            table.linear("classifier", "head", Orientation::OutIn);
            true
        }
        None => false,
    }
}
