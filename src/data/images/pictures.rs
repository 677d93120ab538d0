//! Decoded images in memory: bytes in one common shape, with their classes.

use rayon::prelude::*;

use super::fit::{Fit, fitted};
use super::resize::resize;
use crate::data::Origin;
use crate::error::Result;

/// Images of one shape with their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pictures {
    /// Channels, height, width.
    pub shape: [usize; 3],
    /// Pixels of all images in sequence, each `[channels, height, width]`.
    pub pixels: Vec<u8>,
    /// Class of each image.
    pub labels: Vec<i32>,
    /// Origin of each image; empty for images that lie in one file without names.
    pub origins: Vec<Origin>,
}

impl Pictures {
    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the pixels of an image.
    pub fn get(&self, index: usize) -> &[u8] {
        let size: usize = self.shape.iter().product();
        &self.pixels[index * size..(index + 1) * size]
    }

    /// Converts the images to another shape, fitted according to `fit`.
    ///
    /// # Errors
    /// As for [`Fit::apply`].
    pub fn shaped(self, shape: [usize; 3], fit: Option<Fit>) -> Result<Self> {
        if (self.shape == shape && fit.is_none()) || self.is_empty() {
            return Ok(Self { shape, ..self });
        }
        let size: usize = self.shape.iter().product();
        let images: Vec<Vec<u8>> = self
            .pixels
            .par_chunks(size)
            .map(|image| fitted(image, self.shape, shape, fit))
            .collect::<Result<_>>()?;
        Ok(Self {
            shape,
            pixels: images.concat(),
            ..self
        })
    }
}

/// Converts an image `[channels, height, width]` to another shape: first the channels, then the size.
pub fn shaped(image: &[u8], from: [usize; 3], to: [usize; 3]) -> Vec<u8> {
    let image = with_channels(image, from[0], to[0]);
    if from[1..] == to[1..] {
        return image;
    }
    resize(&image, [to[0], from[1], from[2]], [to[1], to[2]])
}

/// Converts an image to one channel or three. Grey is the luma of ITU-R BT.601 in integers, as in PIL's
/// `convert("L")`: (19595 R + 38470 G + 7471 B + 2¹⁵) / 2¹⁶.
pub(super) fn with_channels(image: &[u8], from: usize, to: usize) -> Vec<u8> {
    match (from, to) {
        (1, 3) => image.repeat(3),
        (3, 1) => {
            let area = image.len() / 3;
            let (red, rest) = image.split_at(area);
            let (green, blue) = rest.split_at(area);
            let luma = |((r, g), b): ((&u8, &u8), &u8)| {
                let sum = 19595 * u32::from(*r) + 38470 * u32::from(*g) + 7471 * u32::from(*b);
                ((sum + (1 << 15)) >> 16) as u8
            };
            red.iter().zip(green).zip(blue).map(luma).collect()
        }
        _ => image.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_and_colour() {
        assert_eq!(shaped(&[1, 2], [1, 1, 2], [3, 1, 2]), [1, 2, 1, 2, 1, 2]);
        // In PIL, (255, 0, 0) is 76, (0, 255, 0) is 150, (0, 0, 255) is 29, and white stays white.
        let image = [255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255];
        assert_eq!(shaped(&image, [3, 1, 4], [1, 1, 4]), [76, 150, 29, 255]);
    }
}
