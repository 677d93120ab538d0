//! What a run says of each example of a split, beside the right answer: `formwork eval --predictions`.

use super::open::Opened;
use crate::data::batch::{Item, TextBatch, TextItem};
use crate::data::{Source, Texts};
use crate::error::{Error, Result};
use crate::nn::pass::Pass;
use crate::task::TokenClassification;
use crate::task::infer::Given;
use serde_json::{Value, json};

/// One JSON object a line for each example, in the order of the split: its number, its right answer, what is predicted, and the
/// scores that say so. Of tagged texts the words that were read, and their tags.
///
/// # Errors
/// A run that tells no classes, numbers or tags; an example that cannot be read.
pub fn lines(opened: &Opened, source: &dyn Source, batch_size: usize) -> Result<String> {
    let networks = opened.model.networks();
    if let Some(model) = networks.token_classifier {
        return tagged(opened, model, source);
    }
    let tells = networks.text_classifier.is_some()
        || networks.multi_label.is_some()
        || networks.text_regression.is_some()
        || networks.image_classifier.is_some();
    if !tells {
        return Err(Error::usage(format!(
            "--predictions is for classes and numbers of texts and images, tags of words, and texts that are written for \
             texts; a run of {} tells none of them",
            opened.experiment.task.kind()
        )));
    }
    let least = networks.multi_label.map(|model| model.least_score());
    let count = source.len() as u64;
    let mut text = String::new();
    for first in (0..count).step_by(batch_size.max(1)) {
        let samples = first..count.min(first + batch_size.max(1) as u64);
        let items = samples.clone().map(|sample| source.get(sample, sample));
        let items = items.collect::<Result<Vec<Item>>>()?;
        let scores = scores_of(opened, &items);
        let rows = scores.iter().zip(&items).zip(samples);
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

/// The scores of some examples, a row each.
fn scores_of(opened: &Opened, items: &[Item]) -> Vec<Vec<f32>> {
    let Some(infers) = opened.model.networks().infers else {
        // With `towers` an array of whole rows would not say where the second texts begin.
        return items.iter().map(|item| alone(opened, item)).collect();
    };
    let inferred = infers.infer(&Given::of(items), &Pass::evaluation());
    let Some(scores) = inferred.scores.into_iter().next() else {
        return Vec::new();
    };
    let [_, width] = scores.values.dims();
    let values: Vec<f32> = scores.values.into_data().iter::<f32>().collect();
    values.chunks(width.max(1)).map(<[f32]>::to_vec).collect()
}

/// The scores of an example that is read by itself; none of a network without such examples.
fn alone(opened: &Opened, item: &Item) -> Vec<f32> {
    let Item::Text(item) = item else {
        return Vec::new();
    };
    let (networks, pass) = (opened.model.networks(), Pass::evaluation());
    let texts = TextBatch::alone(item.clone());
    let scores = match (networks.text_classifier, networks.text_regression) {
        (Some(model), _) => model.scores(&texts, &model.device(), &pass),
        (None, Some(model)) => model.numbers(&texts, &model.device(), &pass),
        (None, None) => return Vec::new(),
    };
    scores.into_data().iter::<f32>().collect()
}

/// Lines of tagged texts: each word that was read with its right tag and the predicted one.
fn tagged(opened: &Opened, model: &TokenClassification, source: &dyn Source) -> Result<String> {
    let mut text = String::new();
    for number in 0..source.len() as u64 {
        let Item::Text(item) = source.get(number, number)? else {
            continue;
        };
        // Only the first token of a word has a tag.
        let firsts: Vec<usize> = (0..item.targets.len())
            .filter(|place| item.targets[*place] >= 0)
            .collect();
        let words = words(opened, &item, &firsts);
        let label = firsts
            .iter()
            .map(|place| class(opened, item.targets[*place] as usize));
        let label: Vec<Value> = label.collect();
        let predicted = tags(opened, model, item, &firsts);
        let line =
            json!({ "example": number, "words": words, "label": label, "predicted": predicted });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    Ok(text)
}

/// The words of a text, each with the tokens up to the next.
fn words(opened: &Opened, item: &TextItem, firsts: &[usize]) -> Vec<String> {
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Vec::new();
    };
    let ends = firsts.iter().skip(1).copied().chain([item.inputs.len()]);
    let word = |(from, to): (&usize, usize)| {
        let ids = item.inputs[*from..to].iter().map(|id| *id as u32);
        let ids: Vec<u32> = ids.filter(|id| !tokenizer.is_special(*id)).collect();
        tokenizer.decode(&ids).trim().to_string()
    };
    firsts.iter().zip(ends).map(word).collect()
}

/// The likeliest tag at each of these positions of a text.
fn tags(
    opened: &Opened,
    model: &TokenClassification,
    item: TextItem,
    firsts: &[usize],
) -> Vec<Value> {
    if firsts.is_empty() {
        return Vec::new();
    }
    let places: Vec<i32> = firsts.iter().map(|place| *place as i32).collect();
    let scores = model.scores(&TextBatch::alone(item), &places, &Pass::evaluation());
    let [_, width] = scores.dims();
    let scores: Vec<f32> = scores.into_data().iter::<f32>().collect();
    let rows = scores.chunks(width.max(1));
    rows.map(|row| predicted(opened, row, None)).collect()
}

/// Lines of texts that were written for a split's sources, beside what they are compared with.
pub fn written(texts: &Texts, hypotheses: &[String]) -> String {
    let mut text = String::new();
    for (number, hypothesis) in hypotheses.iter().enumerate() {
        let (source, references) = texts.pair(number);
        let line = json!({
            "example": number, "source": source, "references": references, "hypothesis": hypothesis,
        });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text
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
