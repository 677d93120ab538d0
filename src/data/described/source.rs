//! A source of inputs with one of their texts each: training draws a text, an evaluation reads the first.

use super::Example;
use crate::data::{Item, Source, Split};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;
use std::sync::Arc;

/// Stream of the draws of texts, apart from those of images, their partners and their mixing.
const TEXT_DRAWS: u64 = 3;

/// The inputs of a split, as training or an evaluation sees them.
pub(in crate::data) trait Inputs: Send + Sync + 'static {
    /// Facts of a text that its tokens do not tell.
    type Text: Send + Sync;

    /// Returns the facts of a text with these words.
    fn text(words: &str) -> Self::Text;

    /// Returns an input as the run's draw number `draw` sees it, together with a text.
    ///
    /// # Errors
    /// If a file has changed or cannot be read.
    fn item(&self, sample: u64, draw: u64, ids: &[i32], text: &Self::Text) -> Result<Item>;

    /// Whether an input is expensive to make.
    fn is_costly(&self) -> bool;
}

/// Builds the source of these inputs with the texts of the examples; `marked` adds the special tokens to the
/// ids of a text.
///
/// # Errors
/// If a text cannot be encoded.
pub(in crate::data) fn source<I: Inputs>(
    inputs: I,
    examples: &[Example],
    tokenizer: &Tokenizer,
    marked: impl Fn(Vec<i32>) -> Result<Vec<i32>>,
    (split, seed): (Split, u64),
) -> Result<Arc<dyn Source>> {
    let encode = |words: &String| -> Result<(Vec<i32>, I::Text)> {
        let ids = tokenizer.encode(words)?.into_iter().map(|id| id as i32);
        Ok((marked(ids.collect())?, I::text(words)))
    };
    let all = |example: &Example| {
        let texts = example.texts.iter().map(encode).collect::<Result<_>>();
        texts.map_err(|error: Error| Error::run(format!("{}: {error}", example.place)))
    };
    let texts = examples.iter().map(all).collect::<Result<_>>()?;
    Ok(Arc::new(DescribedSource {
        inputs,
        texts,
        split,
        seed,
    }))
}

/// Inputs, each with one of its texts.
struct DescribedSource<I: Inputs> {
    inputs: I,
    /// All texts of each input, with their special tokens.
    texts: Vec<Vec<(Vec<i32>, I::Text)>>,
    split: Split,
    seed: u64,
}

impl<I: Inputs> Source for DescribedSource<I> {
    fn len(&self) -> usize {
        self.texts.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let texts = &self.texts[sample as usize];
        let taken = match self.split {
            Split::Train => {
                let mut stream = Stream::new(self.seed, Purpose::Augment, (draw, TEXT_DRAWS, 0));
                stream.below(texts.len() as u64) as usize
            }
            Split::Valid | Split::Test => 0,
        };
        let (ids, text) = &texts[taken];
        self.inputs.item(sample, draw, ids, text)
    }

    fn size(&self, sample: u64) -> usize {
        let texts = self.texts[sample as usize].iter();
        texts.map(|(ids, _)| ids.len()).max().unwrap_or(0)
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_costly(&self) -> bool {
        self.inputs.is_costly()
    }
}
