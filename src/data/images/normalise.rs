//! (byte / 255 − mean) / std, channel by channel.
//!
//! Mean and standard deviation are those of all pixels of the training images: sums of whole numbers, so that no
//! order of adding changes them.

use rayon::prelude::*;

use super::Pictures;

/// Mean and standard deviation of each channel over some of the pictures; 1 for a channel that is constant.
pub fn statistics(pictures: &Pictures, chosen: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let [channels, height, width] = pictures.shape;
    let area = height * width;
    let none = || vec![(0u64, 0u64); channels];
    let sums = chosen
        .par_iter()
        .fold(none, |mut sums, index| {
            let planes = pictures.get(*index as usize).chunks_exact(area.max(1));
            for ((sum, squares), plane) in sums.iter_mut().zip(planes) {
                *sum += plane.iter().map(|p| u64::from(*p)).sum::<u64>();
                *squares += plane.iter().map(|p| u64::from(*p).pow(2)).sum::<u64>();
            }
            sums
        })
        .reduce(none, |a, b| {
            let both = a.into_iter().zip(b);
            both.map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect()
        });
    let count = (chosen.len() * area).max(1) as f64;
    let of = |(sum, squares): (u64, u64)| {
        let mean = sum as f64 / count;
        let variance = (squares as f64 / count - mean * mean).max(0.0);
        let std = if variance > 1e-9 {
            variance.sqrt() / 255.0
        } else {
            1.0
        };
        ((mean / 255.0) as f32, std as f32)
    };
    sums.into_iter().map(of).unzip()
}

/// The normalised value of each byte, for each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalise {
    tables: Vec<[f32; 256]>,
}

impl Normalise {
    /// With these means and deviations; a channel that has none keeps mean 0 and deviation 1.
    pub fn new(mean: &[f32], std: &[f32], channels: usize) -> Self {
        let table = |channel: usize| {
            let mean = mean.get(channel).copied().unwrap_or(0.0);
            let std = std.get(channel).copied().unwrap_or(1.0);
            std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / std)
        };
        Self {
            tables: (0..channels).map(table).collect(),
        }
    }

    /// An image `[channels, height, width]`, normalised.
    pub fn apply(&self, image: &[u8]) -> Vec<f32> {
        let area = image.len() / self.tables.len().max(1);
        let planes = image.chunks_exact(area.max(1)).zip(&self.tables);
        let mut out = Vec::with_capacity(image.len());
        for (plane, table) in planes {
            out.extend(plane.iter().map(|p| table[usize::from(*p)]));
        }
        out
    }
}
