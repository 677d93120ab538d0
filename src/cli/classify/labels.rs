//! The classes of texts that may have several: those that reach the run's threshold, or the K most likely ones.

use super::{ScoresTexts, input_json};
use crate::cli::output;
use crate::data::batch::TextBatch;
use crate::error::Result;
use crate::nn::pass::Pass;
use crate::task::MultiLabel;
use burn::tensor::{Tensor, activation};
use serde_json::json;

impl ScoresTexts for MultiLabel {
    fn class_scores(&self, texts: &TextBatch) -> Tensor<2> {
        self.scores(texts, &self.device(), &Pass::evaluation())
    }
}

/// Prints the classes of one text, or of a pair, from their logits `[1, classes]`.
///
/// # Errors
/// If standard output cannot be written to.
pub(super) fn show(
    (input, pair): (&str, Option<&str>),
    names: &[String],
    scores: Tensor<2>,
    threshold: f64,
    top: Option<usize>,
    as_json: bool,
) -> Result<()> {
    let probabilities = activation::sigmoid(scores).into_data();
    let mut classes: Vec<(&str, f64)> = names
        .iter()
        .map(String::as_str)
        .zip(probabilities.iter::<f64>())
        .collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    if as_json {
        classes.truncate(top.unwrap_or(classes.len()));
        let list = classes.iter().map(|(class, probability)| {
            json!({ "class": class, "probability": probability, "predicted": *probability >= threshold })
        });
        let list: Vec<serde_json::Value> = list.collect();
        let mut line = input_json((input, pair));
        line["classes"] = list.into();
        return output::line(line.to_string());
    }
    match top {
        Some(top) => classes.truncate(top),
        None => classes.retain(|(_, probability)| *probability >= threshold),
    }
    if classes.is_empty() {
        return output::line(format!("{input}: no class"));
    }
    let shown = classes
        .iter()
        .map(|(class, p)| format!("{class} {:.2} %", 100.0 * p));
    let shown: Vec<String> = shown.collect();
    output::line(format!("{input}: {}", shown.join(", ")))
}
