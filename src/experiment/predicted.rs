//! What a run says of each example of a split, beside the right answer: `formwork eval --predictions`.

use super::open::Opened;
use crate::data::Source;
use crate::data::batch::Item;
use crate::error::{Error, Result};
use crate::nn::pass::Pass;
use crate::task::infer::Given;
use serde_json::{Value, json};

/// One JSON object a line for each example, in the order of the split: its number, its right answer, what is predicted, and the
/// scores that say so.
///
/// # Errors
/// A run that tells neither classes nor numbers of whole examples; an example that cannot be read.
pub fn lines(opened: &Opened, source: &dyn Source, batch_size: usize) -> Result<String> {
    let networks = opened.model.networks();
    let tells = networks.text_classifier.is_some()
        || networks.multi_label.is_some()
        || networks.text_regression.is_some()
        || networks.image_classifier.is_some();
    let Some(infers) = networks.infers.filter(|_| tells) else {
        return Err(Error::usage(format!(
            "--predictions is for classes and numbers of texts and images that are read as one; a run of {} tells none",
            opened.experiment.task.kind()
        )));
    };
    let least = networks.multi_label.map(|model| model.least_score());
    let count = source.len() as u64;
    let mut text = String::new();
    for first in (0..count).step_by(batch_size.max(1)) {
        let samples = first..count.min(first + batch_size.max(1) as u64);
        let items = samples.clone().map(|sample| source.get(sample, sample));
        let items = items.collect::<Result<Vec<Item>>>()?;
        let inferred = infers.infer(&Given::of(&items), &Pass::evaluation());
        let Some(scores) = inferred.scores.into_iter().next() else {
            continue;
        };
        let [_, width] = scores.values.dims();
        let values: Vec<f32> = scores.values.into_data().iter::<f32>().collect();
        let rows = values.chunks(width.max(1)).zip(&items).zip(samples);
        for ((scores, item), number) in rows {
            let mut line = json!({ "example": number });
            let answers = [
                ("label", answer(opened, item)),
                ("predicted", predicted(opened, scores, least)),
                ("scores", json!(scores)),
            ];
            for (key, value) in answers {
                line[key] = value;
            }
            text.push_str(&line.to_string());
            text.push('\n');
        }
    }
    Ok(text)
}

/// The name of a class.
fn class(opened: &Opened, number: usize) -> Value {
    match opened.shape.classes.get(number) {
        Some(name) => json!(name),
        None => json!(number),
    }
}

/// The right answer of an example; null where it has none.
fn answer(opened: &Opened, item: &Item) -> Value {
    let of = |number: i32| match usize::try_from(number) {
        Ok(number) => class(opened, number),
        Err(_) => Value::Null,
    };
    match item {
        Item::Image(image) => of(image.label),
        Item::Text(text) => match (&text.classes, text.label, text.number) {
            (Some(classes), ..) => classes.iter().map(|class| of(*class)).collect(),
            (None, Some(label), _) => of(label),
            (None, None, number) => json!(number),
        },
        Item::Pair(_) | Item::Captioned(_) => Value::Null,
    }
}

/// What scores say: the classes above a threshold, the class with the highest score, or the number itself where there is one.
fn predicted(opened: &Opened, scores: &[f32], least: Option<f32>) -> Value {
    if let Some(least) = least {
        let above = scores
            .iter()
            .enumerate()
            .filter(|(_, score)| **score >= least);
        return above.map(|(number, _)| class(opened, number)).collect();
    }
    if opened.shape.classes.is_empty() {
        return json!(scores.first());
    }
    let best = scores
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    best.map_or(Value::Null, |(number, _)| class(opened, number))
}
