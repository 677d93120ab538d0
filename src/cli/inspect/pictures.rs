//! Pictures of attention weights and of images.

use crate::data::Shape;
use crate::data::batch::ImageItem;
use crate::inspect::weights::{Layout, Weights};
use crate::report::render::figure::panels::Picture;

/// Opacity of the colours in an overlay over the image.
const COLOUR: f64 = 0.65;

/// The weights of a head, with a row of pixels for each query.
pub(super) fn matrix(weights: &Weights, head: usize) -> Picture {
    let values: Vec<f64> = weights
        .rows(head)
        .flatten()
        .map(|w| f64::from(*w))
        .collect();
    Picture::of_values(&values, weights.keys, (0.0, 1.0))
}

/// An image that values of its patches are drawn over.
pub(super) struct Overlay {
    image: Picture,
    grid: [usize; 2],
}

impl Overlay {
    /// Prepares an image as a network reads it, with the grid of its patches.
    pub fn of(image: &ImageItem, shape: &Shape, layout: Layout) -> Self {
        let grid = match layout {
            Layout::Grid { rows, cols, .. } => [rows, cols],
            Layout::Sequence => [1, 1],
        };
        Self {
            image: denormalized(image, shape),
            grid,
        }
    }

    /// The image without an overlay.
    pub fn image(&self) -> Picture {
        self.image.clone()
    }

    /// Draws values of the patches, row by row, as colours over the image: the largest is the brightest.
    pub fn on(&self, values: &[f64]) -> Picture {
        let [rows, cols] = self.grid;
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let colors = Picture::of_values(values, cols.max(1), (0.0, most));
        let (height, width) = (self.image.height, self.image.width);
        let mut rgb = Vec::with_capacity(self.image.rgb.len());
        for y in 0..height {
            for x in 0..width {
                let patch = (y * rows / height.max(1)) * cols + x * cols / width.max(1);
                for channel in 0..3 {
                    let color = colors.rgb.get(patch * 3 + channel).copied().unwrap_or(0);
                    let own = self.image.rgb[(y * width + x) * 3 + channel];
                    let mixed = COLOUR * f64::from(color) + (1.0 - COLOUR) * f64::from(own);
                    rgb.push(mixed.round() as u8);
                }
            }
        }
        Picture { width, height, rgb }
    }
}

/// Undoes the normalisation of an image's pixels.
fn denormalized(image: &ImageItem, shape: &Shape) -> Picture {
    let area = image.shape[1] * image.shape[2];
    to_picture(image.shape, |channel, at| {
        let mean = shape.mean.get(channel).copied().unwrap_or(0.0);
        let std = shape.std.get(channel).copied().unwrap_or(1.0);
        f64::from(image.pixels[channel * area + at] * std + mean)
    })
}

/// A filter as a picture, scaled from its smallest to its largest value.
pub(super) fn tile(values: &[f64], shape: [usize; 3]) -> Picture {
    let area = shape[1] * shape[2];
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = (most - least).max(f64::MIN_POSITIVE);
    to_picture(shape, |channel, at| {
        (values[channel * area + at] - least) / range
    })
}

/// Converts values from 0 to 1, by channel and pixel, to a picture: three channels are red, green and blue, otherwise the first
/// one is grey.
fn to_picture(
    [channels, height, width]: [usize; 3],
    value: impl Fn(usize, usize) -> f64,
) -> Picture {
    let planes = if channels == 3 { [0, 1, 2] } else { [0; 3] };
    let byte =
        |channel: usize, at: usize| (value(channel, at) * 255.0).round().clamp(0.0, 255.0) as u8;
    let places = 0..height * width;
    let rgb = places.flat_map(|at| planes.map(|channel| byte(channel, at)));
    Picture {
        width,
        height,
        rgb: rgb.collect(),
    }
}
