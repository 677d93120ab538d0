//! How an image of any size is brought to the size that a model reads, as other programs do it: Hugging
//! Face's image processors resize as PIL does, and some of them cut out the middle afterwards.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pictures::{shaped, with_channels};
use super::resize::{Filter, resize_in_bytes};
use crate::error::{Error, Result};

/// Maximum number of pixels of a resized image before its middle is cut out: four times the largest image
/// that a network of this kind reads.
const MOST_PIXELS: usize = 1 << 26;

/// How images are resized and cropped. Without `stretched` and `shorter` an image is stretched to the size
/// that the model reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fit {
    /// Resampling filter.
    pub filter: Filter,
    /// Length to which the shorter side is resized, the other one in proportion; then the middle is cut out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shorter: Option<usize>,
    /// Height and width to which the image is stretched; then the middle is cut out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretched: Option<[usize; 2]>,
}

/// Returns an image `[channels, height, width]` in the wanted shape, fitted according to `fit`, or stretched
/// without one.
///
/// # Errors
/// As for [`Fit::apply`].
pub fn fitted(
    image: &[u8],
    from: [usize; 3],
    wanted: [usize; 3],
    fit: Option<Fit>,
) -> Result<Vec<u8>> {
    match fit {
        Some(fit) => fit.apply(image, from, wanted),
        None => Ok(shaped(image, from, wanted)),
    }
}

impl Fit {
    /// Describes how images were brought to one size, in words that follow "images".
    pub fn describe(fit: Option<Self>) -> String {
        match fit {
            None => "stretched to their size".into(),
            Some(Self {
                shorter: Some(side),
                ..
            }) => format!("resized to a shorter side of {side} and cropped at the centre"),
            Some(Self {
                stretched: Some([height, width]),
                ..
            }) => format!("stretched to {height} × {width} and cropped at the centre"),
            Some(Self { filter, .. }) => format!("stretched to their size ({filter:?})"),
        }
    }

    /// Returns the fit that shows, at the size `wanted` (height and width), the same part of an image as this
    /// one at the size `from`.
    #[must_use]
    pub fn scaled_to(self, from: [usize; 2], wanted: [usize; 2]) -> Self {
        let scaled = |length: usize, side: usize| {
            length
                .saturating_mul(wanted[side])
                .div_ceil(from[side].max(1))
        };
        Self {
            shorter: self.shorter.map(|n| scaled(n, 0).max(scaled(n, 1))),
            stretched: self.stretched.map(|[h, w]| [scaled(h, 0), scaled(w, 1)]),
            ..self
        }
    }

    /// Returns an image `[channels, height, width]` in the wanted shape.
    ///
    /// # Errors
    /// If the wanted shape is larger than the resized image, or the image is so elongated that resizing it in
    /// proportion would fill the memory.
    pub fn apply(&self, image: &[u8], from: [usize; 3], wanted: [usize; 3]) -> Result<Vec<u8>> {
        let [channels, height, width] = wanted;
        let size = self.size([from[1], from[2]], [height, width]);
        if size[0] < height || size[1] < width {
            return Err(Error::usage(format!(
                "data.json: `fit` resizes images to {} x {}, but {height} x {width} are cut out of them",
                size[0], size[1]
            )));
        }
        if size[0].saturating_mul(size[1]) > MOST_PIXELS {
            return Err(Error::usage(format!(
                "the image is {} x {}; resized in proportion it would be {} x {}, more than {MOST_PIXELS} pixels",
                from[1], from[2], size[0], size[1]
            )));
        }
        let image = with_channels(image, from[0], channels);
        let resized = if [from[1], from[2]] == size {
            image
        } else {
            resize_in_bytes(&image, [channels, from[1], from[2]], size, self.filter)
        };
        Ok(middle(
            &resized,
            [channels, size[0], size[1]],
            [height, width],
        ))
    }

    /// Returns the size before the middle is cut out.
    fn size(&self, from: [usize; 2], wanted: [usize; 2]) -> [usize; 2] {
        let Some(shorter) = self.shorter else {
            return self.stretched.unwrap_or(wanted);
        };
        let [height, width] = from;
        let in_proportion = |long: usize, short: usize| shorter.saturating_mul(long) / short.max(1);
        match width <= height {
            true => [in_proportion(height, width), shorter],
            false => [shorter, in_proportion(width, height)],
        }
    }
}

/// Cuts out the middle of an image; an image of that size is returned unchanged.
fn middle(image: &[u8], from: [usize; 3], [height, width]: [usize; 2]) -> Vec<u8> {
    let [_, rows, columns] = from;
    if [rows, columns] == [height, width] {
        return image.to_vec();
    }
    let (top, left) = (
        rows.saturating_sub(height) / 2,
        columns.saturating_sub(width) / 2,
    );
    let planes = image.chunks_exact((rows * columns).max(1));
    let lines = planes.flat_map(|plane| plane.chunks_exact(columns).skip(top).take(height));
    lines
        .flat_map(|line| line[left..left + width].iter().copied())
        .collect()
}
