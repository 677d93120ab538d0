//! Writes a run's prediction for each example of a split beside the right answer: `formwork eval --predictions`.

mod answers;

use super::open::OpenedRun;
use crate::data::batch::{Content, Item};
use crate::data::{ExampleForm, Source, Texts};
use crate::error::{Error, Result};
use crate::nn::pass::Pass;
use crate::task::infer::InputArrays;
use crate::task::{Reward, TokenClassification};
use burn::tensor::Tensor;
use serde_json::{Value, json};

/// Returns one JSON object per line for each example, in the order of the split: its number, right answer, prediction, scores,
/// and where it was read from. Tagged texts give their words and tags, questions their ids and answers, preferences the rewards
/// of both texts.
///
/// # Errors
/// If the run predicts no classes, numbers, tags or answers; if an example cannot be read.
pub fn lines(opened: &OpenedRun, source: &dyn Source, batch_size: usize) -> Result<String> {
    let networks = opened.model.networks();
    if let Some(model) = networks.token_classifier {
        return tag_lines(opened, model, source, batch_size);
    }
    if let Some(model) = networks.answerer {
        return answers::lines(model, source, batch_size);
    }
    if let Some(model) = networks.reward {
        return reward_lines(model, source, batch_size);
    }
    let tells = networks.text_classifier.is_some()
        || networks.multi_label.is_some()
        || networks.text_regression.is_some()
        || networks.image_classifier.is_some();
    let task = &opened.experiment.task;
    if !tells && task.compares_texts() && task.example_form() == ExampleForm::Pairs {
        return Err(Error::usage(
            "--predictions of a run that generates texts from texts needs --split valid or test: only the tokens of training \
             texts are kept",
        ));
    }
    if !tells {
        return Err(Error::usage(format!(
            "--predictions supports classes and numbers of texts and images, rewards, tags of words, answers to questions, and \
             texts generated from texts; a run of {} predicts none of these",
            task.kind()
        )));
    }
    let least = networks.multi_label.map(|model| model.min_logit());
    let mut text = String::new();
    for_each_batch(source, batch_size, |first, items| {
        let scores = scores_of(opened, items);
        for ((scores, item), number) in scores.iter().zip(items).zip(first..) {
            let mut line = json!({ "example": number });
            let answers = [
                ("label", answer(opened, item)),
                ("predicted", prediction(opened, scores, least)),
                ("scores", json!(scores)),
            ];
            let all = answers.into_iter().chain(origin(source, number));
            for (key, value) in all {
                line[key] = value;
            }
            text.push_str(&line.to_string());
            text.push('\n');
        }
    })?;
    Ok(text)
}

/// Where an example was read from: its texts if they are kept, its file, and its line or row there.
fn origin(source: &dyn Source, number: u64) -> Vec<(&'static str, Value)> {
    let Some(origin) = source.origin(number) else {
        return Vec::new();
    };
    let texts = ["text", "pair"].into_iter().zip(&origin.texts);
    let mut told: Vec<(&'static str, Value)> =
        texts.map(|(key, text)| (key, json!(text))).collect();
    told.push(("file", json!(origin.file.display().to_string())));
    told.extend(origin.line.map(|line| ("line", json!(line))));
    told
}

/// Reads a split batch by batch; `tell` gets the number of the batch's first example and the examples.
fn for_each_batch(
    source: &dyn Source,
    batch_size: usize,
    mut tell: impl FnMut(u64, &[Item]),
) -> Result<()> {
    let (count, size) = (source.len() as u64, batch_size.max(1));
    for first in (0..count).step_by(size) {
        let samples = first..count.min(first + size as u64);
        let items = samples.map(|sample| source.get(sample, sample));
        tell(first, &items.collect::<Result<Vec<Item>>>()?);
    }
    Ok(())
}

/// The scores of some examples, one row each.
fn scores_of(opened: &OpenedRun, items: &[Item]) -> Vec<Vec<f32>> {
    let Some(infers) = opened.model.networks().infers else {
        // With `towers`, an array of whole rows would not say where the second texts begin.
        return pair_scores(opened, items);
    };
    let inferred = infers.infer(&InputArrays::of(items), &Pass::evaluation());
    let scores = inferred.scores.into_iter().next();
    scores.map_or_else(Vec::new, |scores| rows(scores.values))
}

/// Converts a `[rows, width]` tensor of scores to vectors.
fn rows(scores: Tensor<2>) -> Vec<Vec<f32>> {
    let [_, width] = scores.dims();
    let values: Vec<f32> = scores.into_data().iter::<f32>().collect();
    values.chunks(width.max(1)).map(<[f32]>::to_vec).collect()
}

/// Scores of examples whose two texts are encoded separately, one row each; empty for a network without such examples.
fn pair_scores(opened: &OpenedRun, items: &[Item]) -> Vec<Vec<f32>> {
    let Content::Text(texts) = Content::of(items) else {
        return Vec::new();
    };
    let (networks, pass) = (opened.model.networks(), Pass::evaluation());
    match (networks.text_classifier, networks.text_regression) {
        (Some(model), _) => rows(model.scores(&texts, &model.device(), &pass)),
        (None, Some(model)) => rows(model.numbers(&texts, &model.device(), &pass)),
        (None, None) => Vec::new(),
    }
}

/// Lines of preference pairs: the rewards of the chosen and of the rejected text.
fn reward_lines(model: &Reward, source: &dyn Source, batch_size: usize) -> Result<String> {
    let mut text = String::new();
    for_each_batch(source, batch_size, |first, items| {
        let Content::Text(texts) = Content::of(items) else {
            return;
        };
        let both = model.pair_rewards(&texts, &Pass::evaluation());
        let [better, worse] = both.map(|rewards| rewards.into_data());
        let both = better.iter::<f32>().zip(worse.iter::<f32>());
        for ((chosen, rejected), number) in both.zip(first..) {
            let line = json!({ "example": number, "chosen": chosen, "rejected": rejected });
            text.push_str(&line.to_string());
            text.push('\n');
        }
    })?;
    Ok(text)
}

/// Lines of tagged texts: each word with its right and its predicted tag, which is null for a word that was not read.
fn tag_lines(
    opened: &OpenedRun,
    model: &TokenClassification,
    source: &dyn Source,
    batch_size: usize,
) -> Result<String> {
    let mut text = String::new();
    for_each_batch(source, batch_size, |first, items| {
        let mut found = tags(opened, model, items).into_iter();
        for (item, number) in items.iter().zip(first..) {
            let Item::Text(item) = item else {
                continue;
            };
            let read = tagged_places(&item.targets).count();
            let mut predicted = found.by_ref().take(read).collect::<Vec<_>>().into_iter();
            let Some(sentence) = source.tagged_words(number) else {
                continue;
            };
            let label = sentence.tags.iter();
            let label: Vec<Value> = label.map(|tag| class(opened, *tag as usize)).collect();
            let predicted = sentence.read.iter().map(|read| match read {
                true => predicted.next().unwrap_or_default(),
                false => Value::Null,
            });
            let predicted: Vec<Value> = predicted.collect();
            let line = json!({
                "example": number, "words": sentence.words, "label": label, "predicted": predicted,
            });
            text.push_str(&line.to_string());
            text.push('\n');
        }
    })?;
    Ok(text)
}

/// The positions that have a tag: the first token of each word.
fn tagged_places(targets: &[i32]) -> impl Iterator<Item = usize> {
    (0..targets.len()).filter(move |place| targets[*place] >= 0)
}

/// The most likely tag of each word of some texts, concatenated over the texts.
fn tags(opened: &OpenedRun, model: &TokenClassification, items: &[Item]) -> Vec<Value> {
    let Content::Text(texts) = Content::of(items) else {
        return Vec::new();
    };
    let places: Vec<i32> = tagged_places(&texts.targets).map(|at| at as i32).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let scores = rows(model.scores(&texts, &places, &Pass::evaluation()));
    let best = scores.iter().map(|row| prediction(opened, row, None));
    best.collect()
}

/// Returns the lines of texts generated for a split's sources, with the references they are compared with.
pub fn generated_lines(texts: &Texts, hypotheses: &[String]) -> String {
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

/// The name of a class, or its number if it has no name.
fn class(opened: &OpenedRun, number: usize) -> Value {
    match opened.shape.classes.get(number) {
        Some(name) => json!(name),
        None => json!(number),
    }
}

/// The right answer of an example; null if it has none.
fn answer(opened: &OpenedRun, item: &Item) -> Value {
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
        Item::Pair(_) | Item::Captioned(_) | Item::Spoken(_) => Value::Null,
    }
}

/// The prediction that scores amount to: the classes above a threshold, the class with the highest score, or, without classes,
/// the number itself.
fn prediction(opened: &OpenedRun, scores: &[f32], least: Option<f32>) -> Value {
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
