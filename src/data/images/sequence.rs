//! `[data] sequence = true`: an image as a text, one token for each pixel.
//!
//! Tay et al., "Long Range Arena", arXiv:2011.04006, section 2.2: a model reads the grey values 0 to 255 of
//! an image row by row as ids of a vocabulary of 256, and has to find out by itself which of them are
//! vertical neighbours. 28 × 28 pixels are 784 tokens, 32 × 32 are 1,024. Images are cropped, mirrored and
//! changed by operations according to `augment`; augmentations of normalised images do not apply.

use std::path::Path;
use std::sync::Arc;

use super::augment::{self, AugmentConfig};
use super::decode;
use super::source::PictureSource;
use crate::data::files::packed;
use crate::data::{Item, Origin, Shape, Source, Split, TextItem};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// Number of grey values, which is the size of the vocabulary.
pub const VALUES: usize = 256;

/// Builds an example of grey values, row by row, with the class of the image.
pub fn item(pixels: &[u8], label: i32) -> Item {
    Item::Text(TextItem {
        label: Some(label),
        ..values(pixels)
    })
}

fn values(pixels: &[u8]) -> TextItem {
    TextItem {
        inputs: pixels.iter().map(|value| i32::from(*value)).collect(),
        ..TextItem::default()
    }
}

/// Returns the shape of sequences of images with this number of pixels.
pub fn shape(pixels: usize, classes: Vec<String>) -> Shape {
    Shape {
        classes,
        ..Shape::of_text(pixels, VALUES)
    }
}

/// Reads a PNG or JPEG file as a sequence of `height` × `width` grey values.
///
/// # Errors
/// If the file cannot be read or decoded.
pub fn read(path: &Path, [height, width]: [usize; 2]) -> Result<TextItem> {
    let bytes = packed::content(path)?;
    let name = path.display().to_string();
    let pixels = decode::decode(&bytes, &name, [1, height, width], None)?;
    Ok(values(&pixels))
}

/// A source of pictures as sequences, augmented anew for each draw.
pub(super) struct Sequences {
    plain: PictureSource,
    augment: AugmentConfig,
    seed: u64,
}

impl Sequences {
    /// Builds the source with these augmentations, drawn from `seed`.
    pub(super) fn source(
        plain: PictureSource,
        augment: AugmentConfig,
        seed: u64,
    ) -> Arc<dyn Source> {
        Arc::new(Self {
            plain,
            augment,
            seed,
        })
    }
}

impl Source for Sequences {
    fn len(&self) -> usize {
        self.plain.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let (pixels, label) = self.plain.picture(sample);
        let mut stream = Stream::new(self.seed, Purpose::Augment, (draw, 0, 0));
        let shape = self.plain.shape();
        let pixels = augment::augment_image(pixels, shape, &self.augment, &mut stream);
        Ok(item(&pixels, label))
    }

    fn label(&self, sample: u64) -> Option<i32> {
        self.plain.label(sample)
    }

    fn origin(&self, sample: u64) -> Option<&Origin> {
        self.plain.origin(sample)
    }

    fn size(&self, _sample: u64) -> usize {
        self.plain.shape().iter().product()
    }

    fn split(&self) -> Split {
        self.plain.split()
    }
}
