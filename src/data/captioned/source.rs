//! The source of images with their captions.

use super::CaptionedImagesConfig;
use crate::data::batch::CaptionedItem;
use crate::data::described::Example;
use crate::data::described::source::{Inputs, source};
use crate::data::images::Pictures;
use crate::data::images::source::{Augmented, PictureSource};
use crate::data::{Item, Request, Shape, Source, Split, View};
use crate::error::{Error, Result};
use crate::tokenizer::{SpecialTokenLayout, Tokenizer};
use std::sync::Arc;

impl CaptionedImagesConfig {
    /// Builds the source of a split; training images are augmented.
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
        let plain = PictureSource::new(pictures, chosen, split, shape);
        let images: Arc<dyn Source> = match split {
            Split::Train => Augmented::source(plain, &self.augment, seed),
            Split::Valid | Split::Test => Arc::new(plain),
        };
        let written = *request.view == View::Plain;
        let marks = match written {
            true => tokenizer.frame().map(SpecialTokenLayout::from),
            false => tokenizer.special_token_layout(),
        };
        let marked = |ids| self.caption_tokens(ids, marks.as_ref(), written);
        let images = Images { images, written };
        source(images, examples, tokenizer, marked, (split, seed))
    }
}

/// Images, augmented in training.
struct Images {
    images: Arc<dyn Source>,
    /// Whether captions are to be generated rather than read.
    written: bool,
}

impl Inputs for Images {
    /// Hash of the caption.
    type Text = u64;

    fn text(words: &str) -> u64 {
        CaptionedItem::hash_text(words)
    }

    fn item(&self, sample: u64, draw: u64, ids: &[i32], number: &u64) -> Result<Item> {
        let Item::Image(image) = self.images.get(sample, draw)? else {
            return Err(Error::run("the source did not return an image"));
        };
        let captioned = CaptionedItem::new(image, ids.to_vec(), *number, self.written);
        Ok(Item::Captioned(captioned))
    }

    fn is_costly(&self) -> bool {
        self.images.is_costly()
    }
}
