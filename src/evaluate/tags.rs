//! Metrics of tagged words: entities as in seqeval and conlleval, and single tags.
//!
//! A tag `B-X` begins an entity of the type X, `I-X` continues it, `E-X` ends it, `S-X` is a whole entity, and `O` is
//! none. If a sequence breaks these rules (an `I-X` after `O`, or after another type), an entity begins all the same,
//! as in conlleval (Tjong Kim Sang and Buchholz 2000). An entity is found if its type and both of its ends are right.

use super::PrecisionRecall;
use super::classification::Confusion;
use serde::{Deserialize, Serialize};

/// An entity: the words `from..to`, with a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity {
    /// Index of the first word.
    pub from: usize,
    /// Index after the last word.
    pub to: usize,
    /// Type of the entity.
    pub kind: String,
}

/// Counts of predicted against true tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagCounts {
    confusion: Confusion,
    /// Number of entities that were found, predicted, and present; `None` if tags do not mark entities.
    entities: Option<[u64; 3]>,
}

/// Splits a tag into its position in an entity and its type.
fn split_tag(tag: &str) -> Option<(char, &str)> {
    if tag == "O" {
        return Some(('O', ""));
    }
    let (place, kind) = tag.split_once('-')?;
    let place = ["B", "I", "E", "S"]
        .contains(&place)
        .then(|| place.chars().next())??;
    (!kind.is_empty()).then_some((place, kind))
}

/// Returns whether tags mark entities: every tag is `O` or has the form `B-X`, and at least one is not `O`.
pub fn are_entity_tags(names: &[String]) -> bool {
    let all = || names.iter().map(|name| split_tag(name));
    all().all(|part| part.is_some()) && all().flatten().any(|(place, _)| place != 'O')
}

/// Returns the entities of a text's tags, in order. Tags of other forms are treated as `O`.
pub fn entities(tags: &[&str]) -> Vec<Entity> {
    let (mut found, mut begun) = (Vec::new(), 0);
    let mut before = ('O', "");
    let tags = tags.iter().map(|tag| split_tag(tag).unwrap_or(('O', "")));
    for (word, tag) in tags.chain([('O', "")]).enumerate() {
        let (differs, closed) = (tag.1 != before.1, matches!(before.0, 'E' | 'S'));
        let ends = closed || matches!(tag.0, 'B' | 'S' | 'O') || differs;
        if before.0 != 'O' && ends {
            found.push(Entity {
                from: begun,
                to: word,
                kind: before.1.to_owned(),
            });
        }
        let free = closed || before.0 == 'O';
        if tag.0 != 'O' && (matches!(tag.0, 'B' | 'S') || free || differs) {
            begun = word;
        }
        before = tag;
    }
    found
}

impl TagCounts {
    /// Builds an accumulator without texts; `names` has one name per tag, in the order of tag numbers.
    pub fn new(names: Vec<String>) -> Self {
        Self {
            entities: are_entity_tags(&names).then_some([0; 3]),
            confusion: Confusion::new(names),
        }
    }

    /// Counts the words of one text. Tag numbers must be below the number of names.
    pub fn add(&mut self, truth: &[usize], predicted: &[usize]) {
        for (truth, predicted) in truth.iter().zip(predicted) {
            self.confusion.add(*truth, *predicted);
        }
        let Some(counts) = &mut self.entities else {
            return;
        };
        let names = self.confusion.names();
        let of = |tags: &[usize]| {
            let tags: Vec<&str> = tags.iter().map(|tag| names[*tag].as_str()).collect();
            entities(&tags)
        };
        let (truth, predicted) = (of(truth), of(predicted));
        let hits = predicted.iter().filter(|one| truth.contains(one)).count();
        for (sum, more) in counts.iter_mut().zip([hits, predicted.len(), truth.len()]) {
            *sum += more as u64;
        }
    }

    /// Adds the counts of another part of the split, over the same tags.
    pub fn merge(&mut self, other: &Self) {
        self.confusion.merge(&other.confusion);
        if let (Some(sums), Some(more)) = (&mut self.entities, other.entities) {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        }
    }

    /// Returns the confusion matrix of the tags.
    pub fn confusion(&self) -> &Confusion {
        &self.confusion
    }

    /// Returns precision, recall and F1 over the entities of all types; `None` if tags do not mark entities.
    pub fn entities(&self) -> Option<PrecisionRecall> {
        let [hits, predicted, actual] = self.entities?;
        Some(PrecisionRecall::of_counts(hits, predicted, actual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tags: &str) -> Vec<(usize, usize, String)> {
        let tags: Vec<&str> = tags.split(' ').collect();
        let all = entities(&tags).into_iter();
        all.map(|one| (one.from, one.to, one.kind)).collect()
    }

    #[test]
    fn entities_begin_and_end_where_the_rules_say() {
        let of = |all: &[(usize, usize, &str)]| -> Vec<(usize, usize, String)> {
            all.iter()
                .map(|(a, b, kind)| (*a, *b, (*kind).into()))
                .collect()
        };
        assert_eq!(
            found("O B-PER I-PER O B-geo-loc"),
            of(&[(1, 3, "PER"), (4, 5, "geo-loc")])
        );
        assert_eq!(
            found("I-PER I-PER B-PER"),
            of(&[(0, 2, "PER"), (2, 3, "PER")])
        );
        assert_eq!(found("B-PER I-LOC O"), of(&[(0, 1, "PER"), (1, 2, "LOC")]));
        assert_eq!(
            found("S-A B-A E-A I-A"),
            of(&[(0, 1, "A"), (1, 3, "A"), (3, 4, "A")])
        );
        assert_eq!(found("O O"), of(&[]));
    }

    #[test]
    fn parts_of_speech_mark_no_entities() {
        let names = |all: &[&str]| -> Vec<String> { all.iter().map(|n| (*n).into()).collect() };
        assert!(are_entity_tags(&names(&["O", "B-PER", "I-PER"])));
        assert!(!are_entity_tags(&names(&["NOUN", "VERB", "O"])));
        assert!(!are_entity_tags(&names(&["O"])) && !are_entity_tags(&names(&["B-", "O"])));
        let mut tags = TagCounts::new(names(&["NOUN", "VERB"]));
        tags.add(&[0, 1, 0], &[0, 0, 0]);
        assert_eq!((tags.entities(), tags.confusion().total()), (None, 3));
    }
}
