//! `kind = "people"`: letters about invented people, whose facts are listed in a register that is not part of
//! the letters.
//!
//! Only the register tells where a person was born or what they play. A model of letters about people that it
//! has not read about can only learn which towns exist; one that retrieves the register's entry can read the
//! town there. Letters and entries tell the same facts, each in its own order. A held-out letter is about a
//! person whom no training letter names.
//!
//! `dear friend , mara tolven came to see me today . mara tolven plays the flute . mara tolven was born in
//! harnby . … write soon .`

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::held_out::FIXED_SEED;
use super::invented::{self, FIRST, LAST};
use crate::data::data_set::{pairs_unsupported, speech_unsupported};
use crate::data::retrieval::{Database, DatabaseConfig, NeighbourLists};
use crate::data::text::ids::InMemoryIds;
use crate::data::text::windows::{Layout, TextSource};
use crate::data::{Data, DataSet, Request, Shape, Source, Split, Tokenizers, View};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;

/// `kind = "people"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PeopleConfig {
    /// Number of training letters, each about a different person.
    pub letters: usize,
    /// Length of an example in tokens.
    pub context: usize,
    /// Number of validation letters; 0 for none.
    pub valid_items: usize,
    /// Number of test letters; 0 for no test split.
    pub test_items: usize,
    /// The register as a database, for a model with `[model.retrieval]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<DatabaseConfig>,
}

impl Default for PeopleConfig {
    fn default() -> Self {
        Self {
            letters: 6000,
            context: 64,
            valid_items: 300,
            test_items: 0,
            retrieval: None,
        }
    }
}

/// Number of people with different names.
const MOST: usize = FIRST * LAST;
/// Separates these random draws from those of other generators.
const SITE: u64 = 7;
/// Number of draws per person: the facts, their order in the letter and their order in the register.
const DRAWS: u64 = 3;

impl PeopleConfig {
    fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.letters,
            Split::Valid => self.valid_items,
            Split::Test => self.test_items,
        }
    }

    /// Returns the number of a person among all names: training counts from the first name on, held-out
    /// splits from the last one backwards.
    fn number(&self, person: usize, split: Split) -> usize {
        match split {
            Split::Train => person,
            Split::Valid => MOST - 1 - person,
            Split::Test => MOST - 1 - self.valid_items - person,
        }
    }

    /// Returns the random stream of a person for one of the [`DRAWS`].
    fn stream(&self, person: usize, split: Split, seed: u64, what: u64) -> Stream {
        let seed = match split {
            Split::Train => seed,
            Split::Valid | Split::Test => FIXED_SEED,
        };
        let at = (person as u64, DRAWS * split as u64 + what, SITE);
        Stream::new(seed, Purpose::Synthetic, at)
    }

    /// Returns a person's sentences, in the order of the letter or in that of the register.
    fn sentences(&self, person: usize, split: Split, seed: u64, register: bool) -> Vec<String> {
        let name = invented::name(self.number(person, split));
        let mut facts = invented::facts(&name, &mut self.stream(person, split, seed, 0));
        let mut order = self.stream(person, split, seed, 1 + u64::from(register));
        for left in (1..facts.len()).rev() {
            facts.swap(left, order.below(left as u64 + 1) as usize);
        }
        facts
    }

    /// Returns the beginning of a letter.
    fn greeting(&self, person: usize, split: Split) -> String {
        let name = invented::name(self.number(person, split));
        format!("dear friend , {name} came to see me today .")
    }

    fn letter(&self, person: usize, split: Split, seed: u64) -> String {
        let facts = self.sentences(person, split, seed, false).join(" ");
        format!("{} {facts} write soon .", self.greeting(person, split))
    }

    /// Returns the encoded letters of a split.
    fn letters(&self, tokenizer: &Tokenizer, split: Split, seed: u64) -> Result<InMemoryIds> {
        let people = 0..self.count(split);
        encoded(
            tokenizer,
            people.map(|person| self.letter(person, split, seed)),
        )
    }

    /// Returns the encoded entries of all people.
    fn register(&self, tokenizer: &Tokenizer, seed: u64) -> Result<InMemoryIds> {
        let all = Split::ALL.into_iter().flat_map(|split| {
            let people = 0..self.count(split);
            people.map(move |person| self.sentences(person, split, seed, true).join(" "))
        });
        encoded(tokenizer, all)
    }
}

/// Encodes documents one after the other, each with an end token.
fn encoded(tokenizer: &Tokenizer, documents: impl Iterator<Item = String>) -> Result<InMemoryIds> {
    let end = tokenizer.frame().map(|frame| frame.end as i32);
    let mut held = InMemoryIds::default();
    for document in documents {
        held.starts.push(held.ids.len());
        let ids = tokenizer.encode(&document)?;
        held.ids
            .extend(ids.into_iter().map(|id| id as i32).chain(end));
    }
    Ok(held)
}

impl DataSet for PeopleConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.letters == 0 {
            faults.push("[data] letters = 0 leaves nothing to train on".into());
        }
        let all = [self.letters, self.valid_items, self.test_items].into_iter();
        let all = all.fold(0, usize::saturating_add);
        if all > MOST {
            faults.push(format!(
                "[data] letters, valid_items and test_items need {all} people, but there are names for {MOST}; use fewer"
            ));
        }
        if self.context == 0 {
            faults.push("[data] context = 0 must be at least 1".into());
        }
        if let Some(database) = &self.retrieval {
            faults.extend(database.faults());
            if database.path.is_some() {
                faults.push(
                    "[data.retrieval] path has no effect: the database is the register; remove it"
                        .into(),
                );
            }
        }
        faults
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        self.count(split) > 0
    }

    fn has_next_token(&self) -> bool {
        true
    }

    fn retrieval(&self) -> Option<&DatabaseConfig> {
        self.retrieval.as_ref()
    }

    fn view_faults(&self, view: &View) -> Vec<String> {
        match view {
            View::Plain => Vec::new(),
            View::EncodedSeparately => pairs_unsupported(),
            View::Ctc => speech_unsupported(),
            View::Masked(_) | View::Corrupted(_) => vec![
                "[data] letters about people work only with next-token prediction; use kind = \"grammar\" or \"text\"".into(),
            ],
        }
    }

    fn prompt(&self) -> Option<String> {
        let split = match self.valid_items {
            0 => Split::Train,
            _ => Split::Valid,
        };
        let name = invented::name(self.number(0, split));
        Some(format!("{} {name} was born", self.greeting(0, split)))
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let words = invented::words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let tokenizer = Tokenizer::of_words(&words)?;
        let database = match (&self.retrieval, &request.retrieval) {
            (Some(config), Some(chunking)) => {
                let register = self.register(&tokenizer, request.seed)?;
                let found = Database::new(&register, config, chunking, &tokenizer)?;
                found.require_same(request.run_shape)?;
                Some(Arc::new(found))
            }
            (Some(_), None) | (None, _) => None,
        };
        let source = |split| -> Result<(Arc<dyn Source>, u64)> {
            let held = self.letters(&tokenizer, split, request.seed)?;
            let tokens = held.ids.len();
            if tokens < self.context + 1 {
                return Err(Error::usage(format!(
                    "[data] the {} split has {tokens} tokens, fewer than context = {} plus one; use more letters",
                    split.name(),
                    self.context
                )));
            }
            let layout = match split {
                Split::Train => Layout::Whole,
                Split::Valid | Split::Test => Layout::Covering,
            };
            let cache = request.places.cache();
            let retrieving = database.as_ref();
            let retrieving = retrieving.map(|database| NeighbourLists::of(database, &held, cache));
            let retrieving = retrieving.transpose()?;
            let source = TextSource::new(Arc::new(held), self.context, layout, false, split);
            Ok((Arc::new(source.with_neighbours(retrieving)), tokens as u64))
        };
        let (train, tokens) = source(Split::Train)?;
        let shape = Shape {
            database: database.as_ref().map(|database| database.checksum()),
            ..Shape::of_text(self.context, tokenizer.vocab_size())
        };
        let mut data = Data::new(train, shape);
        data.tokens.train = tokens;
        if self.valid_items > 0 {
            let (valid, tokens) = source(Split::Valid)?;
            (data.valid, data.tokens.valid) = (Some(valid), tokens);
        }
        if self.test_items > 0 {
            let (test, tokens) = source(Split::Test)?;
            (data.test, data.tokens.test) = (Some(test), tokens);
        }
        data.database = database;
        data.tokenizers = Tokenizers::single(tokenizer);
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_tells_what_letters_tell_and_people_differ() {
        let config = PeopleConfig::default();
        let words = invented::words();
        for person in 0..50 {
            let of = |register| config.sentences(person, Split::Valid, 3, register);
            let (mut letter, mut entry) = (of(false), of(true));
            let text = config.letter(person, Split::Valid, 3);
            assert!(
                text.split(' ')
                    .all(|word| words.contains(&word.to_string())),
                "{text}"
            );
            letter.sort();
            entry.sort();
            assert_eq!(letter, entry);
        }
        let mut names: Vec<String> = (0..MOST).map(invented::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), MOST);
        // Held-out letters do not change with the seed, training letters do.
        let letter = |split, seed| config.letter(1, split, seed);
        assert_eq!(letter(Split::Valid, 1), letter(Split::Valid, 2));
        assert_ne!(letter(Split::Train, 1), letter(Split::Train, 2));
    }
}
