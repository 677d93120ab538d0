//! Messages printed before training: one line about the size of the data, and notes about it.

use super::Experiment;
use crate::data::{Data, Split, weighted_source};
use crate::report::render::terminal::count;
use crate::tokenizer::TokenFraming;

/// What each split is used for.
const USES: [(Split, &str); 3] = [
    (Split::Train, "train"),
    (Split::Valid, "validate"),
    (Split::Test, "test"),
];

/// Describes the size of the data: `60 documents, 1,234 tokens to train on, 300 to validate on` for text, `1,000 examples to
/// train on, 200 to validate on` for other data. A generator that draws examples without end has no size; if all data is of
/// this kind, there is no line.
fn size_text(data: &Data) -> Option<String> {
    let (unit, begun) = match data.documents {
        0 => ("example", String::new()),
        documents => ("token", format!("{}, ", plural(documents, "document"))),
    };
    let mut parts = Vec::new();
    for (split, used) in USES {
        if let Some(number) = split_size(data, split) {
            parts.push(match parts.is_empty() {
                true => format!("{} to {used} on", plural(number, unit)),
                false => format!("{} to {used} on", count(number)),
            });
        }
    }
    (!parts.is_empty()).then(|| format!("{begun}{}", parts.join(", ")))
}

/// All messages of `check` about an experiment and its data: notes, the size of the data, its classes, and the parts that are
/// not read.
pub fn messages(experiment: &Experiment, data: &Data) -> Vec<String> {
    let mut all = notes(experiment, data);
    all.extend(sizes(data));
    all.extend(unread_messages(data));
    all
}

/// The lines about the size of the data and its classes.
pub fn sizes(data: &Data) -> Vec<String> {
    size_text(data).into_iter().chain(classes(data)).collect()
}

/// The messages about examples, or parts of them, that are not read.
pub fn unread_messages(data: &Data) -> Vec<String> {
    let all = data.unread.iter().cloned().chain(truncation_text(data));
    all.chain(unread_words(data)).collect()
}

/// Describes the texts that are truncated: `12 of 320 texts to train on, 3 of 80 to validate on have more tokens than …`.
fn truncation_text(data: &Data) -> Option<String> {
    let mut parts = Vec::new();
    for (split, used) in USES {
        let (cut, all) = (*data.cut.get(split) as u64, split_size(data, split));
        if let (1.., Some(all)) = (cut, all) {
            let unit = if parts.is_empty() { " texts" } else { "" };
            let (cut, all) = (count(cut), count(all));
            parts.push(format!("{cut} of {all}{unit} to {used} on"));
        }
    }
    (!parts.is_empty()).then(|| {
        format!(
            "{} have more tokens than [data] context = {} and are truncated",
            parts.join(", "),
            data.shape.context
        )
    })
}

/// Describes the tagged words that the model does not read, over all splits.
fn unread_words(data: &Data) -> Option<String> {
    let (mut all, mut unread) = (0, 0);
    let held_out = [data.valid.as_ref(), data.test.as_ref()];
    for source in held_out.into_iter().flatten().chain([&data.train]) {
        let sentences = (0..source.len() as u64).map_while(|sample| source.tagged_words(sample));
        for sentence in sentences {
            all += sentence.words.len() as u64;
            unread += sentence.read.iter().filter(|read| !**read).count() as u64;
        }
    }
    (unread > 0).then(|| {
        format!(
            "{} of {} words are neither read nor scored: they are beyond the {} tokens of a text ([data] context), or the \
             tokenizer produces no tokens from them",
            count(unread),
            count(all),
            data.shape.context
        )
    })
}

/// Maximum number of classes that the line about classes names.
const NAMED_CLASSES: usize = 10;
/// Maximum number of characters of a class name in that line.
const SHOWN_CHARACTERS: usize = 40;

/// Describes the classes and the number of training examples of each (of words, if words have tags): `2 classes: neg 30, pos
/// 18`. None if examples are generated, or show their class only once they are made.
fn classes(data: &Data) -> Option<String> {
    let names = &data.shape.classes;
    if names.is_empty() {
        return None;
    }
    let counts = weighted_source::class_counts(data.train.as_ref(), names.len());
    let counts = counts.ok()?.ok()?;
    if counts.iter().all(|count| *count == 0) {
        return None;
    }
    let each = names.iter().zip(&counts).take(NAMED_CLASSES);
    let mut shown: Vec<String> = each
        .map(|(name, number)| format!("{} {}", brief(name), count(*number)))
        .collect();
    if let more @ 1.. = names.len().saturating_sub(NAMED_CLASSES) {
        shown.push(format!("and {} more", count(more as u64)));
    }
    let unit = if names.len() == 1 { "class" } else { "classes" };
    let number = count(names.len() as u64);
    Some(format!("{number} {unit}: {}", shown.join(", ")))
}

/// Shortens a class name and makes it printable.
fn brief(name: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut brief: String = name.chars().map(plain).take(SHOWN_CHARACTERS).collect();
    if name.chars().count() > SHOWN_CHARACTERS {
        brief.push('…');
    }
    match brief.contains([' ', ',']) || brief.is_empty() {
        true => format!("`{brief}`"),
        false => brief,
    }
}

/// Notes about files of the data, about adapters of untrained weights, and about a forced first token.
pub fn notes(experiment: &Experiment, data: &Data) -> Vec<String> {
    let mut all = data.notes.clone();
    if experiment.lora.is_some() && experiment.init.initial_runs().is_empty() {
        all.push(
            "[lora] without [init] from: the adapters are trained on random weights that never change; name the run to begin from"
                .into(),
        );
    }
    all.extend(forced(experiment, data));
    all
}

/// The note about a first token that decoding forces and that training targets do not begin with.
fn forced(experiment: &Experiment, data: &Data) -> Option<String> {
    let first = experiment.decode.search.first?;
    let around = experiment.data.data_set().framing(&experiment.task.view());
    let writes = data.tokenizers.target_tokenizer()?;
    let opening = writes.target_prefix().ok()?;
    if around != TokenFraming::End || opening.get(1) == Some(&first) {
        return None;
    }
    let name = |id: &u32| writes.token(*id).unwrap_or_else(|| id.to_string());
    let begun: Vec<String> = opening.iter().map(name).collect();
    Some(format!(
        "[decode.search] first = {first} makes every generated text begin with {}, but training targets begin with {} and their \
         text; remove it",
        name(&first),
        begun.join(" ")
    ))
}

/// Number of tokens (text) or examples (other data) of a split; none for endless generators.
fn split_size(data: &Data, split: Split) -> Option<u64> {
    if data.documents > 0 {
        return Some(*data.tokens.get(split)).filter(|tokens| *tokens > 0);
    }
    let source = match split {
        Split::Train => Some(&data.train),
        Split::Valid => data.valid.as_ref(),
        Split::Test => data.test.as_ref(),
    };
    let ends = source.filter(|source| !source.is_endless());
    ends.map(|source| source.len() as u64)
}

fn plural(number: u64, unit: &str) -> String {
    match number {
        1 => format!("1 {unit}"),
        _ => format!("{} {unit}s", count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn a_number_has_its_unit() {
        assert_eq!(plural(1, "document"), "1 document");
        assert_eq!(plural(1234, "token"), "1,234 tokens");
    }
}
