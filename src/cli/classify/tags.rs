//! Tags of the words of a text, which are separated by whitespace.

use super::output;
use crate::data::batch::TextBatch;
use crate::data::tagged::words;
use crate::error::{Error, Result};
use crate::evaluate::tags;
use crate::experiment::open::OpenedRun;
use crate::nn::pass::Pass;
use crate::task::TokenClassification;
use burn::tensor::activation;
use serde_json::json;

/// A word's tag with its probability; none for a word that was not read.
type TagWithProbability = Option<(String, f64)>;

/// Prints each word with its tag on a line, or all as one JSON object with the entities that the tags mark.
///
/// # Errors
/// If there is a second text, the run has no tokenizer, or it cannot read the words.
pub(super) fn show(
    model: &TokenClassification,
    opened: &OpenedRun,
    text: &str,
    pair: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let tagged = tag_words(model, opened, &words, pair).map_err(Error::into_usage_error)?;
    let unread = tagged.iter().filter(|tag| tag.is_none()).count();
    if unread > 0 {
        output::note(format!(
            "{unread} word(s) have no tag: they are beyond the {} tokens that the model was trained on, or the tokenizer \
             produces no tokens from them",
            opened.shape.context
        ));
    }
    if as_json {
        return output::line(object(opened, text, &words, &tagged).to_string());
    }
    for (word, tag) in words.iter().zip(&tagged) {
        let tag = tag.as_ref().map_or("_", |(tag, _)| tag.as_str());
        output::line(format!("{word}\t{tag}"))?;
    }
    output::line(String::new())
}

fn tag_words(
    model: &TokenClassification,
    opened: &OpenedRun,
    words: &[&str],
    pair: Option<&str>,
) -> Result<Vec<TagWithProbability>> {
    if pair.is_some() {
        return Err(Error::usage("the run reads single texts; remove --pair"));
    }
    if words.is_empty() {
        return Err(Error::usage("the text has no words"));
    }
    let Some(tokenizer) = &opened.tokenizers.text else {
        return Err(Error::usage(
            "the run has no tokenizer, so it cannot read text",
        ));
    };
    let (item, firsts) = words::read(words, opened.shape.context, tokenizer)?;
    let places: Vec<i32> = firsts.iter().flatten().map(|at| *at as i32).collect();
    if places.is_empty() {
        return Ok(vec![None; words.len()]);
    }
    let scores = model.scores(&TextBatch::single(item), &places, &Pass::evaluation());
    let width = scores.dims()[1];
    let probabilities: Vec<f64> = activation::softmax(scores, 1).into_data().iter().collect();
    let mut rows = probabilities.chunks(width.max(1));
    let likeliest = |row: &[f64]| {
        let best = row
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        best.map(|(tag, probability)| (name(opened, tag), *probability))
    };
    let tag = |first: &Option<usize>| first.and_then(|_| rows.next()).and_then(likeliest);
    Ok(firsts.iter().map(tag).collect())
}

fn name(opened: &OpenedRun, tag: usize) -> String {
    let known = opened.shape.classes.get(tag);
    known.map_or_else(|| tag.to_string(), Clone::clone)
}

fn object(
    opened: &OpenedRun,
    text: &str,
    words: &[&str],
    tagged: &[TagWithProbability],
) -> serde_json::Value {
    let list: Vec<serde_json::Value> = words
        .iter()
        .zip(tagged)
        .map(|(word, tag)| match tag {
            Some((tag, probability)) => {
                json!({ "word": word, "tag": tag, "probability": probability })
            }
            None => json!({ "word": word, "tag": null }),
        })
        .collect();
    let mut object = json!({ "input": text, "words": list });
    if tags::are_entity_tags(&opened.shape.classes) {
        let tags = tagged
            .iter()
            .map(|tag| tag.as_ref().map_or("O", |(tag, _)| tag.as_str()));
        let found = tags::entities(&tags.collect::<Vec<_>>());
        let found = found.into_iter().map(|one| {
            json!({ "type": one.kind, "first_word": one.from, "last_word": one.to - 1, "text": words[one.from..one.to].join(" ") })
        });
        object["entities"] = found.collect();
    }
    object
}
