//! Images with their captions as examples.

use super::CaptionedImagesConfig;
use super::read::Example;
use crate::data::batch::CaptionedItem;
use crate::data::images::Pictures;
use crate::data::images::source::{Augmented, Plain};
use crate::data::{Item, Request, Shape, Source, Split, View};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::Tokenizer;
use std::sync::Arc;

/// The draws of captions stand beside those of images, their partners and their mixing.
const PART: u64 = 3;

impl CaptionedImagesConfig {
    /// The examples of a split, changed in training.
    pub(super) fn source(
        &self,
        examples: &[Example],
        pictures: Arc<Pictures>,
        shape: &Shape,
        tokenizer: &Tokenizer,
        split: Split,
        request: &Request,
    ) -> Result<Arc<dyn Source>> {
        let seed = request.seed;
        let chosen = (0..pictures.len() as u32).collect();
        let plain = Plain::new(pictures, chosen, split, shape);
        let images: Arc<dyn Source> = match split {
            Split::Train => Augmented::source(plain, &self.augment, seed),
            Split::Valid | Split::Test => Arc::new(plain),
        };
        let written = *request.view == View::AsItIs;
        let captions = examples.iter().map(|e| self.encoded(e, tokenizer, written));
        Ok(Arc::new(Captioned {
            images,
            captions: captions.collect::<Result<_>>()?,
            texts: examples.iter().map(|e| numbers(&e.captions)).collect(),
            split,
            seed,
            written,
        }))
    }
}

fn numbers(captions: &[String]) -> Vec<u64> {
    captions
        .iter()
        .map(|text| CaptionedItem::number(text))
        .collect()
}

/// Images, each with one of its captions.
struct Captioned {
    images: Arc<dyn Source>,
    /// Of each image all captions.
    captions: Vec<Vec<Vec<i32>>>,
    /// The numbers of the same texts.
    texts: Vec<Vec<u64>>,
    split: Split,
    seed: u64,
    /// Whether captions are to be written, and are not read.
    written: bool,
}

impl Source for Captioned {
    fn len(&self) -> usize {
        self.captions.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let Item::Image(image) = self.images.get(sample, draw)? else {
            return Err(Error::run("an image has become something else"));
        };
        let captions = &self.captions[sample as usize];
        let taken = match self.split {
            Split::Train => {
                let mut stream = Stream::new(self.seed, Purpose::Augment, (draw, PART, 0));
                stream.below(captions.len() as u64) as usize
            }
            Split::Valid | Split::Test => 0,
        };
        Ok(Item::Captioned(CaptionedItem::new(
            image,
            captions[taken].clone(),
            self.texts[sample as usize][taken],
            self.written,
        )))
    }

    fn size(&self, sample: u64) -> usize {
        let captions = self.captions[sample as usize].iter();
        captions.map(Vec::len).max().unwrap_or(0)
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_costly(&self) -> bool {
        self.images.is_costly()
    }
}
