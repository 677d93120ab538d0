//! Generated inputs with a text about each: images with captions, recordings with transcripts.
//!
//! A text belongs to training or is held out according to its hash. Training draws without end; the texts of
//! a held-out set are all different, and the set is the same for every seed.

use super::held_out::{FIXED_SEED, HeldOut, PASS, key, too_few};
use crate::data::captions::Captions;
use crate::data::{Data, Item, PerSplit, Request, Shape, Source, Split, Tokenizers};
use crate::error::Result;
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;
use std::hash::Hash;
use std::sync::Arc;

/// A generator of inputs of one form that also makes examples of them.
pub(super) trait Described: Send + Sync + 'static {
    /// Separates its random draws from those of other generators.
    const SITE: u64;
    /// Name of the things that are held out, for messages.
    const HELD_OUT: &'static str;
    /// Whether an example is expensive to make.
    const COSTLY: bool;
    /// The content that an input shows and its text tells.
    type Subject: Clone + Eq + Hash + Send + Sync;

    /// Returns the sizes of the held-out sets.
    fn sizes(&self) -> HeldOut;

    /// Draws the next subject.
    fn draw(&self, stream: &mut Stream) -> Self::Subject;

    /// Returns the text about a subject.
    fn text(&self, subject: &Self::Subject) -> String;

    /// Returns the length of its text in tokens, for batches by tokens.
    fn size(&self, _subject: &Self::Subject) -> usize {
        1
    }

    /// Builds an example from the tokens of its text; the input takes further numbers from the stream.
    fn item(
        &self,
        subject: &Self::Subject,
        ids: &[i32],
        taken: &ExampleKey,
        stream: &mut Stream,
    ) -> Item;
}

/// Which example is made, and for which split.
pub(super) struct ExampleKey {
    pub split: Split,
    /// Seed, draw and sample.
    pub key: (u64, u64, u64),
}

/// Prepares the data of a generator.
///
/// # Errors
/// If hardly any text belongs to a split, or the tokenizer cannot encode a text.
pub(super) fn prepare<D: Described>(
    described: D,
    tokenizer: &Tokenizer,
    shape: Shape,
    request: &Request,
) -> Result<Data> {
    let described = Arc::new(described);
    let drawn = |split, subjects, seed| SubjectSource {
        described: Arc::clone(&described),
        tokenizer: tokenizer.clone(),
        subjects,
        split,
        seed,
    };
    let train = drawn(Split::Train, Vec::new(), request.seed);
    train.get(0, 0)?;
    let mut held_out = PerSplit::<Option<Arc<dyn Source>>>::default();
    let mut texts = PerSplit::<Vec<Vec<String>>>::default();
    for split in [Split::Valid, Split::Test] {
        if !described.sizes().has(split) {
            continue;
        }
        let subjects = fixed(described.as_ref(), split);
        if subjects.is_empty() {
            return Err(too_few(D::HELD_OUT, split));
        }
        let text = |subject| vec![described.text(subject)];
        *texts.get_mut(split) = subjects.iter().map(text).collect();
        *held_out.get_mut(split) = Some(Arc::new(drawn(split, subjects, FIXED_SEED)));
    }
    let mut data = Data {
        valid: held_out.valid,
        test: held_out.test,
        tokenizers: Tokenizers::single(tokenizer.clone()),
        ..Data::new(Arc::new(train), shape)
    };
    Captions::attach(&mut data, request, |split| texts.get(split).clone());
    Ok(data)
}

/// Returns the different subjects of a held-out split.
fn fixed<D: Described>(described: &D, split: Split) -> Vec<D::Subject> {
    described.sizes().fixed(
        (split, D::SITE),
        |stream| described.draw(stream),
        |subject| key(&described.text(subject)),
        Clone::clone,
    )
}

/// The inputs of a split: those of `subjects`, or drawn without end.
struct SubjectSource<D: Described> {
    described: Arc<D>,
    tokenizer: Tokenizer,
    subjects: Vec<D::Subject>,
    split: Split,
    seed: u64,
}

impl<D: Described> SubjectSource<D> {
    /// Returns the random stream of an example, which is distinct from those that draw held-out subjects.
    fn stream(&self, sample: u64) -> Stream {
        let place = Split::ALL.len() as u64 + self.split as u64;
        Stream::new(self.seed, Purpose::Synthetic, (sample, place, D::SITE))
    }

    fn subject(&self, sample: u64, stream: &mut Stream) -> Result<D::Subject> {
        if self.split != Split::Train {
            return Ok(self.subjects[sample as usize].clone());
        }
        let found = self.described.sizes().first_of_training(
            stream,
            |stream| self.described.draw(stream),
            |subject| key(&self.described.text(subject)),
        );
        found.ok_or_else(|| too_few(D::HELD_OUT, Split::Train))
    }
}

impl<D: Described> Source for SubjectSource<D> {
    fn len(&self) -> usize {
        match self.split {
            Split::Train => PASS,
            Split::Valid | Split::Test => self.subjects.len(),
        }
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let mut stream = self.stream(sample);
        let subject = self.subject(sample, &mut stream)?;
        let ids = self.tokenizer.encode(&self.described.text(&subject))?;
        let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
        let taken = ExampleKey {
            split: self.split,
            key: (self.seed, draw, sample),
        };
        Ok(self.described.item(&subject, &ids, &taken, &mut stream))
    }

    fn size(&self, sample: u64) -> usize {
        // If nothing can be drawn, `get` returns the error.
        let subject = self.subject(sample, &mut self.stream(sample));
        subject.map_or(1, |subject| self.described.size(&subject))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_costly(&self) -> bool {
        D::COSTLY
    }

    fn is_endless(&self) -> bool {
        self.split == Split::Train
    }
}
