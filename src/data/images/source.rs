//! Sources of pictures: unchanged, or augmented according to `[data] augment`.

use std::sync::Arc;

use super::augment::AugmentConfig;
use super::mix::Mixing;
use super::normalise::Normalise;
use super::{Pictures, augment};
use crate::data::batch::ImageItem;
use crate::data::{Item, Origin, Shape, Source, Split};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// Number of values from which a picture takes long to normalise: 74 x 74 in colour.
const LARGE: usize = 1 << 14;

/// A source of some of the pictures in order, normalised.
pub struct PictureSource {
    pictures: Arc<Pictures>,
    indices: Vec<u32>,
    split: Split,
    normalise: Normalise,
}

impl PictureSource {
    /// Selects the `chosen` pictures and normalises them according to `shape`.
    pub fn new(pictures: Arc<Pictures>, chosen: Vec<u32>, split: Split, shape: &Shape) -> Self {
        let normalise = Normalise::new(&shape.mean, &shape.std, pictures.shape[0]);
        Self {
            pictures,
            indices: chosen,
            split,
            normalise,
        }
    }

    /// Returns the channels, height and width.
    pub(super) fn shape(&self) -> [usize; 3] {
        self.pictures.shape
    }

    /// Returns the pixels and the label of an example.
    pub(super) fn picture(&self, sample: u64) -> (&[u8], i32) {
        let index = self.indices[sample as usize] as usize;
        (self.pictures.get(index), self.pictures.labels[index])
    }

    fn item(&self, pixels: Vec<f32>, label: i32, mixed: Option<(i32, f32)>) -> Item {
        Item::Image(ImageItem {
            pixels,
            shape: self.pictures.shape,
            label,
            mixed,
            views: None,
        })
    }
}

impl Source for PictureSource {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let (pixels, label) = self.picture(sample);
        Ok(self.item(self.normalise.apply(pixels), label, None))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn label(&self, sample: u64) -> Option<i32> {
        Some(self.picture(sample).1)
    }

    fn origin(&self, sample: u64) -> Option<&Origin> {
        let index = self.indices[sample as usize] as usize;
        self.pictures.origins.get(index)
    }

    fn is_costly(&self) -> bool {
        self.pictures.shape.iter().product::<usize>() >= LARGE
    }
}

/// A source of pictures that are augmented anew for each draw.
pub struct Augmented {
    plain: PictureSource,
    config: AugmentConfig,
    mixing: Option<Mixing>,
    seed: u64,
}

impl Augmented {
    /// Builds the source of the pictures, augmented if the configuration asks for it.
    pub fn source(plain: PictureSource, config: &AugmentConfig, seed: u64) -> Arc<dyn Source> {
        if *config == AugmentConfig::default() {
            return Arc::new(plain);
        }
        Arc::new(Self {
            plain,
            config: config.clone(),
            mixing: config.mixing(),
            seed,
        })
    }

    /// Returns the `part`th random stream of a draw: for the image (0), its partner (1), and their mixing
    /// (2).
    fn stream(&self, draw: u64, part: u64) -> Stream {
        Stream::new(self.seed, Purpose::Augment, (draw, part, 0))
    }

    /// Returns an augmented image, with random numbers from `stream`.
    fn augmented(&self, sample: u64, stream: &mut Stream) -> (Vec<f32>, i32) {
        let shape = self.plain.pictures.shape;
        let (pixels, label) = self.plain.picture(sample);
        let bytes = augment::augment_image(pixels, shape, &self.config, stream);
        let mut pixels = self.plain.normalise.apply(&bytes);
        augment::erase(&mut pixels, shape, self.config.erase, stream);
        (pixels, label)
    }
}

impl Source for Augmented {
    fn len(&self) -> usize {
        self.plain.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let (mut pixels, label) = self.augmented(sample, &mut self.stream(draw, 0));
        let Some(mixing) = &self.mixing else {
            return Ok(self.plain.item(pixels, label, None));
        };
        let mut how = self.stream(draw, 2);
        let partner = how.below(self.len() as u64);
        let (other, other_label) = self.augmented(partner, &mut self.stream(draw, 1));
        let share = mixing.mix(&mut pixels, &other, self.plain.pictures.shape, &mut how);
        Ok(self.plain.item(pixels, label, Some((other_label, share))))
    }

    fn label(&self, sample: u64) -> Option<i32> {
        self.plain.label(sample)
    }

    fn origin(&self, sample: u64) -> Option<&Origin> {
        self.plain.origin(sample)
    }

    fn is_costly(&self) -> bool {
        true
    }
}
