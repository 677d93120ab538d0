//! Images of noise: nothing to learn, any shape to measure. The loss of a model that knows this is
//! ln(classes).
//!
//! A GPU consumes images faster than normal numbers can be drawn: 64 images of 3 × 224 × 224 took 0.4 s
//! beside steps of 0.03 s. Therefore 65,536 numbers are drawn once. An image is a run of them that begins at
//! a random position, wraps around at the end and has a random sign.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::batch::ImageItem;
use crate::data::{Data, DataSet, ExampleForm, Item, Request, Shape, Source, Split};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// `kind = "random_images"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomImagesConfig {
    /// Channels of an image.
    pub channels: usize,
    /// Height of an image.
    pub height: usize,
    /// Width of an image.
    pub width: usize,
    /// Number of classes; labels are below this.
    pub classes: usize,
    /// Images in the validation split; 0 for none.
    pub valid_items: usize,
}

impl Default for RandomImagesConfig {
    fn default() -> Self {
        Self {
            channels: 1,
            height: 28,
            width: 28,
            classes: 10,
            valid_items: 16,
        }
    }
}

impl RandomImagesConfig {
    fn shape(&self) -> [usize; 3] {
        [self.channels, self.height, self.width]
    }
}

impl DataSet for RandomImagesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, value, most) in [
            ("channels", self.channels, 16),
            ("height", self.height, 4096),
            ("width", self.width, 4096),
            ("classes", self.classes, 1 << 20),
        ] {
            if !(1..=most).contains(&value) {
                faults.push(format!(
                    "[data] {key} = {value} must be between 1 and {most}"
                ));
            }
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Images
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some(self.shape())
    }

    fn context(&self) -> usize {
        0
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_items > 0,
            Split::Test => false,
        }
    }

    fn is_text(&self) -> bool {
        false
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let noise: Arc<[f32]> = noise(request.seed).into();
        let source = |split| {
            Arc::new(Random {
                config: self.clone(),
                split,
                seed: request.seed,
                noise: noise.clone(),
            })
        };
        let valid: Arc<dyn Source> = source(Split::Valid);
        let shape = Shape {
            image: Some(self.shape()),
            classes: (0..self.classes).map(|n| n.to_string()).collect(),
            ..Shape::default()
        };
        Ok(Data {
            valid: (self.valid_items > 0).then_some(valid),
            ..Data::new(source(Split::Train), shape)
        })
    }
}

/// Number of random values that are drawn.
const NOISE: u64 = 1 << 16;

fn noise(seed: u64) -> Vec<f32> {
    let mut stream = Stream::new(seed, Purpose::Synthetic, (u64::MAX, 0, 0));
    (0..NOISE).map(|_| stream.normal()).collect()
}

struct Random {
    config: RandomImagesConfig,
    split: Split,
    seed: u64,
    noise: Arc<[f32]>,
}

impl Source for Random {
    fn len(&self) -> usize {
        match self.split {
            Split::Train => 1 << 16,
            Split::Valid | Split::Test => self.config.valid_items,
        }
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let place = (sample, self.split as u64, 0);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, place);
        let shape = self.config.shape();
        let size: usize = shape.iter().product();
        let label = stream.below(self.config.classes as u64) as i32;
        let begin = stream.below(NOISE) as usize;
        let sign = if stream.below(2) == 0 { 1.0 } else { -1.0 };
        let endless = self.noise.iter().cycle().skip(begin);
        Ok(Item::Image(ImageItem {
            pixels: endless.take(size).map(|value| sign * value).collect(),
            shape,
            label,
            mixed: None,
            views: None,
        }))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_endless(&self) -> bool {
        self.split == Split::Train
    }
}
