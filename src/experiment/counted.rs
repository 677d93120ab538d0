//! What is said before training: the size of the data that was read, in one line, and messages about it.

use super::Experiment;
use crate::data::{Data, Split};
use crate::report::render::terminal::count;
use crate::tokenizer::Around;

/// What was read: `60 documents, 1,234 tokens to train on, 300 to validate on` of a text, `1,000 examples to train on, 200
/// to validate on` of other data. A generator that draws examples without end has none to count, and data of such alone
/// has no line.
pub fn counted(data: &Data) -> Option<String> {
    let (unit, begun) = match data.documents {
        0 => ("example", String::new()),
        documents => ("token", format!("{}, ", plural(documents, "document"))),
    };
    let mut parts = Vec::new();
    for (split, used) in [
        (Split::Train, "train"),
        (Split::Valid, "validate"),
        (Split::Test, "test"),
    ] {
        if let Some(number) = number(data, split) {
            parts.push(match parts.is_empty() {
                true => format!("{} to {used} on", plural(number, unit)),
                false => format!("{} to {used} on", count(number)),
            });
        }
    }
    (!parts.is_empty()).then(|| format!("{begun}{}", parts.join(", ")))
}

/// What `check` says of an experiment and its data: the messages about them, and the size of the data.
pub fn said(experiment: &Experiment, data: &Data) -> Vec<String> {
    let mut all = notes(experiment, data);
    all.extend(counted(data));
    all
}

/// Messages about files of the data, and about adapters of weights that were never trained.
pub fn notes(experiment: &Experiment, data: &Data) -> Vec<String> {
    let mut all = data.notes.clone();
    if experiment.lora.is_some() && experiment.init.beginnings().is_empty() {
        all.push(
            "[lora] without [init] from: the adapters learn beside random weights that never change; name the run to begin from"
                .into(),
        );
    }
    all.extend(forced(experiment, data));
    all
}

/// The message about a token that every written text begins with and no target of training does.
fn forced(experiment: &Experiment, data: &Data) -> Option<String> {
    let first = experiment.decode.search.first?;
    let around = experiment.data.set().around(&experiment.task.view());
    let writes = data.tokenizers.of_targets()?;
    let opening = writes.target_opening().ok()?;
    if around != Around::End || opening.get(1) == Some(&first) {
        return None;
    }
    let name = |id: &u32| writes.token(*id).unwrap_or_else(|| id.to_string());
    let begun: Vec<String> = opening.iter().map(name).collect();
    Some(format!(
        "[decode.search] first = {first} begins every text that is written with {}, and targets of training begin with {} and their \
         text: leave it out",
        name(&first),
        begun.join(" ")
    ))
}

/// Tokens of a text, or examples of other data, in a split that ends.
fn number(data: &Data, split: Split) -> Option<u64> {
    if data.documents > 0 {
        return Some(*data.tokens.get(split)).filter(|tokens| *tokens > 0);
    }
    let source = match split {
        Split::Train => Some(&data.train),
        Split::Valid => data.valid.as_ref(),
        Split::Test => data.test.as_ref(),
    };
    let ends = source.filter(|source| !source.drawn());
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
