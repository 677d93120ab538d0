//! Resizing with antialiasing: rows, then columns, each a weighted mean of its neighbours.
//!
//! The weight of a pixel falls to 0 over one or two steps of the coarser grid. The filter widens when an
//! image shrinks, so that no pixel is skipped. [`resize`] equals torchvision's `resize(antialias=True)` on
//! float tensors and PIL's BILINEAR, up to rounding. [`resize_in_bytes`] rounds between rows and columns as
//! PIL does, and as torchvision does on bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The weight of a pixel as a function of its distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// A triangle over one step.
    #[default]
    Bilinear,
    /// Keys' cubic with a = -1/2 over two steps (IEEE Trans. ASSP 29(6), 1981).
    Bicubic,
}

impl Filter {
    /// Distance in steps beyond which the weight is 0.
    fn support(self) -> f32 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    fn weight(self, distance: f32) -> f32 {
        let x = distance.abs();
        match self {
            Self::Bilinear => (1.0 - x).max(0.0),
            Self::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            Self::Bicubic => 0.0,
        }
    }
}

/// Resizes an image `[channels, height, width]` to `[height, width]`, rounded to the nearest.
pub fn resize(image: &[u8], from: [usize; 3], to: [usize; 2]) -> Vec<u8> {
    resample(image, from, to, Filter::Bilinear, |value| value)
}

/// Like [`resize`], but rounds rows to bytes before the columns are computed from them.
pub fn resize_in_bytes(image: &[u8], from: [usize; 3], to: [usize; 2], filter: Filter) -> Vec<u8> {
    let byte = |value: f32| (value + 0.5).floor().clamp(0.0, 255.0);
    resample(image, from, to, filter, byte)
}

fn resample(
    image: &[u8],
    from: [usize; 3],
    to: [usize; 2],
    filter: Filter,
    between: impl Fn(f32) -> f32,
) -> Vec<u8> {
    let [channels, height, width] = from;
    let [rows, columns] = to;
    let (across, down) = (taps(width, columns, filter), taps(height, rows, filter));
    let mut out = Vec::with_capacity(channels * rows * columns);
    let mut narrow = vec![0.0f32; height * columns];
    for plane in image.chunks_exact((height * width).max(1)) {
        let lines = plane.chunks_exact(width);
        for (line, narrow) in lines.zip(narrow.chunks_exact_mut(columns)) {
            for (value, (first, weights)) in narrow.iter_mut().zip(&across) {
                let pixels = line[*first..].iter().zip(weights);
                *value = between(pixels.map(|(p, w)| f32::from(*p) * w).sum());
            }
        }
        for (first, weights) in &down {
            for column in 0..columns {
                let lines = weights.iter().enumerate();
                let value: f32 = lines
                    .map(|(line, w)| narrow[(first + line) * columns + column] * w)
                    .sum();
                out.push(between(value).round_ties_even() as u8);
            }
        }
    }
    out
}

/// Returns, for each position of the new line, the first position of the old line that contributes to it, and
/// the weights from there on.
fn taps(from: usize, to: usize, filter: Filter) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f32 / to as f32;
    let step = scale.max(1.0);
    let reach = step * filter.support();
    let of = |place: usize| {
        let centre = scale * (place as f32 + 0.5);
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let end = ((centre + reach + 0.5) as usize).min(from);
        let weight = |at: usize| filter.weight((at as f32 - centre + 0.5) / step);
        let weights: Vec<f32> = (first..end).map(weight).collect();
        let sum: f32 = weights.iter().sum();
        (first, weights.into_iter().map(|w| w / sum).collect())
    };
    (0..to).map(of).collect()
}
