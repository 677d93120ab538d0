//! Adds views to images of any data: a source around the source of the images.
//!
//! Views are cut from bytes, which are recovered from the normalised pixels: exactly for images from files,
//! rounded to 256 values for generated ones. Evaluations see the same views of an image each time.

use super::normalise::Normalise;
use super::views::ViewsConfig;
use crate::data::{Item, Shape, Source};
use crate::error::Result;
use std::sync::Arc;

/// Mean and standard deviation assumed for data without its own normalisation.
const DEFAULT_MOMENTS: (f32, f32) = (0.5, 0.25);

/// A source of images, each with its views.
pub struct WithViews {
    images: Arc<dyn Source>,
    config: ViewsConfig,
    normalise: Normalise,
    mean: Vec<f32>,
    std: Vec<f32>,
    seed: u64,
}

impl WithViews {
    /// Adds views to the images of a source whose data has this shape.
    pub fn of(
        images: Arc<dyn Source>,
        config: &ViewsConfig,
        shape: &Shape,
        seed: u64,
    ) -> Arc<dyn Source> {
        let channels = shape.image.map_or(0, |[channels, ..]| channels);
        let (mean, std) = match shape.mean.is_empty() {
            true => (
                vec![DEFAULT_MOMENTS.0; channels],
                vec![DEFAULT_MOMENTS.1; channels],
            ),
            false => (shape.mean.clone(), shape.std.clone()),
        };
        Arc::new(Self {
            images,
            config: config.clone(),
            normalise: Normalise::new(&mean, &std, channels),
            mean,
            std,
            seed,
        })
    }

    /// Converts normalised pixels back to bytes.
    fn bytes(&self, pixels: &[f32], [_, height, width]: [usize; 3]) -> Vec<u8> {
        let planes = pixels.chunks_exact((height * width).max(1));
        let planes = planes.zip(self.mean.iter().zip(&self.std));
        planes
            .flat_map(|(plane, (mean, std))| {
                plane
                    .iter()
                    .map(move |x| ((x * std + mean) * 255.0).round_ties_even() as u8)
            })
            .collect()
    }
}

impl Source for WithViews {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let mut item = self.images.get(sample, draw)?;
        if let Item::Image(image) = &mut item {
            let bytes = self.bytes(&image.pixels, image.shape);
            let of = (self.seed, draw);
            image.views = Some(self.config.of(&bytes, image.shape, &self.normalise, of));
        }
        Ok(item)
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(self.images.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_normalised_pixels_are_those_that_they_were_made_of() {
        struct Nothing;
        impl Source for Nothing {
            fn len(&self) -> usize {
                0
            }
            fn get(&self, _: u64, _: u64) -> Result<Item> {
                unreachable!("it has no example")
            }
        }
        let (mean, std) = (vec![0.2860, 0.4914, 0.73], vec![0.3530, 0.2023, 0.01]);
        let image: Vec<u8> = (0..3).flat_map(|_| 0..=255).collect();
        let pixels = Normalise::new(&mean, &std, 3).apply(&image);
        let viewed = WithViews {
            images: Arc::new(Nothing),
            config: ViewsConfig::default(),
            normalise: Normalise::new(&mean, &std, 3),
            mean,
            std,
            seed: 1,
        };
        assert_eq!(viewed.bytes(&pixels, [3, 16, 16]), image);
    }
}
